#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pjrtfs --status: mounts that are well, not well, stopped, dead, and directories that are no mount.
. "$srcdir/tests/words.sh"
name=${plugin:-cpu}

# status WANT PATTERN...: of $mnt, which has $within seconds; each pattern is that of a line.
within=$patience
status()
{
	local got=0 want=$1
	shift
	bounded "$pjrtfs" --status "$mnt" --timeout "$within" >out 2>&1 || got=$?
	equal "status ($(cat out))" "$got" "$want"
	while [ $# -gt 0 ]; do
		grep -Eqx -e "$1" out || fail "no line '$1' in: $(cat out)"
		shift
	done
}

# as_json WANT FILTER: of $mnt, a line of JSON of which jq's filter is true.
as_json()
{
	local got=0
	bounded "$pjrtfs" --status "$mnt" --json --timeout "$within" >out.json 2>err || got=$?
	equal "status ($(cat out.json err))" "$got" "$1"
	equal "lines" "$(wc -l <out.json)" 1
	jq -e --arg mnt "$mnt" "$2" out.json >said || fail "not so: $2: $(cat out.json)"
}

mount_pjrtfs "$name" --devices 11
put_add
run add 'x y -> z'
ask '{"op":"stat","buffer":"z","async":true}' >out
eventually grep -qx "done" "$mnt/jobs/1/state"
status 0 "$mnt: pjrtfs [0-9].*, process $(bounded cat "$mnt/pid")" 'health  ok' \
	'memory  [0-9.]+[BKMGT] of 1?[0-9.]+[MGT]' \
	"plugin  $name: ready, process $(bounded cat "$mnt/plugins/$name/pid"), restarts 0" \
	"device  $name:0: .+, arrays 3, programs 1, running 0, waiting 0" "device  $name:7: .+, arrays 0, programs 0, running 0, waiting 0" \
	'device  and 3 more, idle' 'jobs    0 running, 0 queued, 1 ended'
[ "$(wc -l <out)" -le 14 ] || fail "too many lines: $(cat out)"
as_json 0 '.mount == $mnt and .health == "ok" and .restarts == 0 and .last_death == null and
	.memory_used > 0 and .memory_limit > .memory_used and
	(.plugins[0] | .state == "ready" and .restarts == 0 and .error == null and (.devices | length) == 11) and
	(.plugins[0].devices[0] | .buffers == 3 and .programs == 1 and .running == 0 and .runs == null) and
	.jobs == {running: 0, queued: 0, ended: 1}'
equal "the daemon" "$(jq .pid out.json)" "$(bounded cat "$mnt/pid")"
equal "the worker" "$(jq ".plugins[0].pid" out.json)" "$(bounded cat "$mnt/plugins/$name/pid")"

# -- standard output is full
got=0
bounded "$pjrtfs" --status "$mnt" >/dev/full 2>err || got=$?
equal "status with a full output" "$got" 2
shows err 'pjrtfs: error: standard output cannot be written to'

# -- a device that works stands first, wherever it is; between two repetitions nothing runs
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/devices/$name/10/buffers/"
ask '{"op":"compile","program":"add","as":"far","options":{"device":10}}
{"op":"execute","executable":"far","inputs":["x","y"],"outputs":["x"],"repeat":1000000000,"async":true}' >out
runs()
{
	"$pjrtfs" --status "$mnt" >out
	grep -Eqx "runs    $name:10: far, user $(id -un), [0-9.]+ s, [0-9]+/1000000000" out &&
		[ "$(grep -m 1 ^device out | cut -d, -f1)" = "device  $name:10: cpu" ] &&
		grep -Eqx "device  $name:10: .*, running 1, waiting 0" out
}
eventually runs
equal "devices" "$(grep -c ^device out)" 9
grep -qx 'device  and 3 more, idle' out
runs_json()
{
	as_json 0 '.plugins[0].devices[10] | .device == "'"$name"':10" and .running == 1 and .runs.executable == "far" and
		.runs.user == '"$(id -u)"' and .runs.of == 1000000000'
}
eventually runs_json
say "$mnt/jobs/2/cancel" 1

# -- the daemon is stopped
halt "$daemon"
within=2 status 2 ".*: error: $mnt: pjrtfs does not answer within 2 s"
within=2 as_json 2 '.mount == $mnt and (.error | endswith("pjrtfs does not answer within 2 s"))'
kill -CONT "$daemon"
status 0
unmount_pjrtfs

# -- a plugin has failed
mount_pjrtfs "none,$name"
status 1 'health  plugin none has failed' 'plugin  none: failed, not found: looked for none/.*' \
	"plugin  $name: ready, .*"
as_json 1 '.health == "plugin none has failed" and (.plugins[1] | .state == "failed" and .pid == null and
	.devices == [] and (.error | startswith("not found: ")))'

# -- the daemon is dead
kill -KILL "$daemon"
wait "$daemon" || true
# shellcheck disable=SC2034 # lib.sh reads it
lib_daemons=('' '')
status 2 ".*: error: $mnt: its daemon has ended"
fusermount3 -u "$mnt"

# -- no mount
status 2 ".*: error: $mnt: expected a pjrtfs mount, found no file version; .findmnt -t fuse.pjrtfs. lists the mounts"
mnt=$work/none
as_json 2 '.error == "\($mnt): No such file or directory"'
status 2 ".*: error: $mnt: No such file or directory"
