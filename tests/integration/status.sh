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

mount_pjrtfs "$name" --devices 9
put_add
run add 'x y -> z'
ask '{"op":"stat","buffer":"z","async":true}' >out
eventually grep -qx "done" "$mnt/jobs/1/state"
status 0 "$mnt: pjrtfs [0-9].*, process $(bounded cat "$mnt/pid")" 'health  ok' \
	'memory  [0-9.]+[BKMGT] of 1?[0-9.]+[MGT]' \
	"plugin  $name: ready, process $(bounded cat "$mnt/plugins/$name/pid"), restarts 0" \
	"device  $name:0: .+, arrays 3, programs 1, running 0, waiting 0" "device  $name:7: .+, arrays 0, programs 0, running 0, waiting 0" \
	'device  and 1 more' 'jobs    0 running, 0 queued, 1 ended'
[ "$(wc -l <out)" -le 14 ] || fail "too many lines: $(cat out)"

# -- standard output is full
got=0
bounded "$pjrtfs" --status "$mnt" >/dev/full 2>err || got=$?
equal "status with a full output" "$got" 2
shows err 'pjrtfs: error: standard output cannot be written to'

# -- what runs; between two repetitions nothing does
ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["x"],"repeat":1000000000,"async":true}' >out
runs()
{
	"$pjrtfs" --status "$mnt" >out
	grep -Eqx "runs    $name:0: add, user $(id -u), [0-9.]+ s, [0-9]+/1000000000" out &&
		grep -Eqx "device  $name:0: .*, running 1, waiting 0" out
}
eventually runs
say "$mnt/jobs/2/cancel" 1

# -- the daemon is stopped
halt "$daemon"
within=2 status 2 ".*: error: $mnt: pjrtfs does not answer within 2 s"
kill -CONT "$daemon"
status 0
unmount_pjrtfs

# -- a plugin has failed
mount_pjrtfs "none,$name"
status 1 'health  plugin none has failed' 'plugin  none: failed, not found: looked for none/.*' \
	"plugin  $name: ready, .*"

# -- the daemon is dead
kill -KILL "$daemon"
wait "$daemon" || true
# shellcheck disable=SC2034 # lib.sh reads it
lib_daemons=('' '')
status 2 ".*: error: $mnt: its daemon has ended"
fusermount3 -u "$mnt"

# -- no mount
status 2 ".*: error: $mnt: expected a pjrtfs mount, found no file version"
mnt=$work/none
status 2 ".*: error: $mnt: No such file or directory"
