#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Cancelling a job: what is compiled for it is given up; force ends the worker that is at it, of
# whichever plugin, and no other.
. "$srcdir/tests/lib.sh"
first=${plugin:-cpu}
mount_pjrtfs "$first" "${faulty_options[@]}" --compile-jobs 1
pid=$(bounded cat "$mnt/plugins/$first/pid")
f=$mnt/devices/faulty/0/buffers
put_add
bounded cp "$data/x.npy" "$data/y.npy" "$f/"
# restarts PLUGIN: how often it was started again
restarts()
{
	bounded cat "$mnt/plugins/$1/restarts"
}
# job COMMAND: start it as a job; its number
job()
{
	ask "$(jq -c '. + {"async":true}' <<<"$1")" | jq -e .job
}
# state JOB STATE
state()
{
	eventually grep -qx "$2" "$mnt/jobs/$1/state"
}
# force JOB [WHICH]: cancel it with force, which ends the worker of WHICH
force()
{
	local reply want=${2:-null}
	reply=$(ask "{\"op\":\"cancel\",\"job\":$1,\"force\":true}")
	equal "what force ended" "$(jq -r .restarted <<<"$reply")" "$want"
}
# hangs N: wait until it does for the Nth time
hangs()
{
	eventually hung "$1"
}
hung()
{
	[ "$(grep -c 'here it hangs' "$mnt/plugins/faulty/log")" -ge "$1" ]
}
# the other plugin's worker was not ended
others_go_on()
{
	shows "$mnt/plugins/$first/pid" "$pid"
	run add 'x y -> z'
}

# -- an execution that hangs on the second plugin
ask '{"op":"compile","program":"add","as":"far","options":{"plugin":"faulty"}}' |
	jq -e .ok >reply || fail "$(cat reply)"
faults 'execute=hang:here it hangs'
j=$(job '{"op":"execute","executable":"far","inputs":["x","y"],"outputs":["z"]}')
hangs 1
shows "$mnt/jobs/$j/state" running
others_go_on
force "$j" faulty
state "$j" cancelled
tells "$mnt/jobs/$j/result.json" '"errno":"ECANCELED".*cancelled: its worker was ended'
eventually grep -qx 1 "$mnt/plugins/faulty/restarts"
others_go_on
# the file does the same
faults
run far 'x y -> z'
faults 'execute=hang:here it hangs'
j=$(job '{"op":"execute","executable":"far","inputs":["x","y"],"outputs":["z"]}')
hangs 2
say "$mnt/jobs/$j/cancel" force
state "$j" cancelled
eventually grep -qx 2 "$mnt/plugins/faulty/restarts"

# -- the second step of a batch: the first one's plugin is not to blame
faults
run far 'x y -> z'
faults 'execute=hang:here it hangs'
j=$(job '{"op":"batch","steps":[
	{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["b"]},
	{"op":"execute","executable":"far","inputs":["x","y"],"outputs":["b"]}]}')
hangs 3
eventually test -e "$mnt/buffers/b.npy"
force "$j" faulty
state "$j" cancelled
eventually grep -qx 3 "$mnt/plugins/faulty/restarts"
others_go_on

# -- a compile that hangs: without force it is given up, with it it is ended
faults 'compile=when:@stuck:hang:here it hangs'
put_like_add stuck
compile='{"op":"compile","program":"stuck","as":"far2","options":{"plugin":"faulty"}}'
j=$(job "$compile")
eventually grep -qx compiling "$mnt/executables/far2/state"
hangs 4
# one that waits for a slot has begun nowhere
queued=$(job "$(jq -c '.as = "far3"' <<<"$compile")")
eventually grep -q '"program.queued".*far3' "$mnt/events"
force "$queued"
state "$queued" cancelled
gone "$mnt/executables/far3"
equal "restarts" "$(restarts faulty)" 3
others_go_on
say "$mnt/jobs/$j/cancel" x
state "$j" cancelled
gone "$mnt/executables/far2"
equal "restarts" "$(restarts faulty)" 3
tells "$mnt/jobs/$j/result.json" '"errno":"ECANCELED".*far2: its compile was cancelled'
kill -KILL "$(cat "$mnt/plugins/faulty/pid")" # rid of it
eventually grep -qx 4 "$mnt/plugins/faulty/restarts"
j=$(job "$compile")
eventually grep -qx compiling "$mnt/executables/far2/state"
others_go_on
hangs 5
force "$j" faulty
state "$j" cancelled
eventually grep -qx 5 "$mnt/plugins/faulty/restarts"
gone "$mnt/executables/far2"
others_go_on

# -- an execution that waits for such a compile
touch "$mnt/programs/stuck2.mlir"
say "$mnt/executables/stuck2/options.json" '{"plugin":"faulty"}'
like_add stuck2
bounded cp stuck2.mlir "$mnt/programs/" &
writer=$!
eventually grep -qx compiling "$mnt/executables/stuck2/state"
hangs 6
j=$(job '{"op":"execute","executable":"stuck2","inputs":["x","y"],"outputs":["z"]}')
force "$j" # cancelling needs no force: it had not begun
state "$j" cancelled
equal "restarts" "$(restarts faulty)" 5
shows "$mnt/executables/stuck2/state" compiling
kill -KILL "$(cat "$mnt/plugins/faulty/pid")"
wait "$writer" || true
tells "$mnt/executables/stuck2/error" "plugin faulty died"
eventually grep -qx 6 "$mnt/plugins/faulty/restarts"
faults
others_go_on
bounded cp "$data/x.npy" "$f/x.npy"
run far 'x y -> z'
equal "restarts" "$(restarts "$first")" 0
