#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Repetitions that end early: by a failure, told at once or late, by a death, by who asked.  The
# state that was reached gets its name.
. "$srcdir/tests/lib.sh"
b=
# begin FAULT: executions from the second on are repetitions
begin()
{
	faults "$1"
	mount_pjrtfs faulty
	b=$mnt/buffers
	put_add
	run add 'x y -> zeros'
}
# state NAME: x is what repetitions made, which is zeros on this plugin, and of NAME
state()
{
	shows "$b/x.txt" $'0 0 0\n0 0 0'
	equal "who made it" "$(bounded jq -r '.state, .made_by' "$b/x.json" | xargs)" 'ready add'
	same "$b/y.npy" "$data/y.npy"
}

# -- if the first run fails, no buffer changes; if a later one fails, earlier runs' state is kept
for how in error:INTERNAL:oops event-error:INTERNAL:oops; do
	begin "execute=nth:2:$how"
	fails_with 'Input/output error' run add 'x y -> x repeat=9'
	shows "$mnt/executables/add/run" 'error: EIO: add: oops'
	same "$b/x.npy" "$data/x.npy"
	unmount_pjrtfs
	begin "execute=nth:5:$how"
	fails_with 'Input/output error' run add 'x y -> x repeat=9'
	shows "$mnt/executables/add/run" \
		'error: EIO: after 3 of 9 repetitions, whose state is kept under its names: add: oops'
	state
	equal "the event" "$(bounded cat "$mnt/events" |
		jq -c 'select(.event == "execution.failed") | .repeat')" 3
	equal "executions" "$(bounded sed -n \
		's/^pjrtfs_executable_executions_total{executable="add",result="\(ok\|failed\)"} //p' \
		"$mnt/metrics.prom" | xargs)" '4 1'
	run add 'x y -> x repeat=9'
	unmount_pjrtfs
done

# -- the run that fails may have consumed the state, which then is not looked at: the sentence is the run's
begin 'execute=nth:5:error:INTERNAL:x is consumed'
ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["x"],"repeat":9,"donate":[true,false]}' >reply
tells reply '"message":"after 3 of 9 repetitions, .*: add: x is consumed"'
fails_with 'Invalid argument' cat "$b/x.txt"
tells "$mnt/error" 'the buffer is deleted$'
unmount_pjrtfs

# -- a death loses the repetitions of one request only: slow runs are sent one a request
begin 'execute=nth:2:abort:bye'
fails_with 'Input/output error' run add 'x y -> x repeat=9'
tells "$mnt/executables/add/run" '^error: EIO: add: while running: the worker of plugin faulty died .*bye'
same "$b/x.npy" "$data/x.npy"
unmount_pjrtfs
begin ''
faults execute=nth:2:held:first
run add 'x y -> x repeat=50' 2>err &
pid=$!
reached first
faults execute=nth:3:held:second
reached second
kill -KILL "$(bounded cat "$mnt/plugins/faulty/pid")"
! wait "$pid" || fail "it succeeded"
tells "$mnt/executables/add/run" \
	'^error: EIO: after 1 of 50 repetitions, whose state is kept under its names: add: .*Killed'
state

# -- cancellation and time limits take effect after the run under way
faults
eventually grep -qx ready "$mnt/plugins/faulty/state"
bounded cp "$data/x.npy" "$b/"
faults execute=nth:1:held:cancelled # the new process's first
job=$(ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["x"],
	"repeat":50,"async":true}' | jq -r .job)
reached cancelled
say "$mnt/jobs/$job/cancel" now
faults
eventually grep -qx cancelled "$mnt/jobs/$job/state"
equal "its end" "$(jq -r .result.error.message "$mnt/jobs/$job/result.json")" \
	'after 1 of 50 repetitions, whose state is kept under its names: add: cancelled'
state
bounded cp "$data/x.npy" "$b/"
faults execute=nth:2:held:late
fails_with 'timed out' run add 'x y -> x repeat=50 timeout_ms=700'
reached late
tells "$mnt/executables/add/run" 'it ends with the repetition under way, and its state is kept'
faults
eventually grep -qx '0 0 0' "$b/x.txt"
state
shows "$mnt/health" ok
