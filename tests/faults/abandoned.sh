#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 1 CPU-s in 12 s
# The daemon ends the worker of an execution that no process awaits, after --abandoned-timeout; awaited
# executions go on.  Before, health and queue name it.
. "$srcdir/tests/lib.sh"
requires test "$(id -u)" = 0
requires setpriv --reuid 12345 --clear-groups true
# begin SECONDS: mount with that --abandoned-timeout
begin()
{
	faults
	mount_pjrtfs faulty -o allow_other --abandoned-timeout "$1"
	put_add
	bounded mkdir -m 0777 "$mnt/buffers/all"
}
chmod 0755 "$work"
begin 1
cp "$data/x.npy" "$data/y.npy" .
chmod 644 ./*.npy

# start UID COMMAND...: run it in the background, as $client, until it executes
start()
{
	local uid=$1 before
	shift
	before=$(hung)
	setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@" 2>/dev/null &
	client=$!
	eventually hangs "$((before + 1))"
}
# timed UID: a command of the user executes when its time is over (it is sent again if it has not begun by then)
timed()
{
	local uid=$1 before
	before=$(hung)
	eventually time_is_over
	eventually hangs "$((before + 1))"
}
time_is_over()
{
	setpriv --reuid "$uid" --regid "$uid" --clear-groups bash -c "$control" - "$mnt/control" ',"timeout_ms":100' >reply
	tells reply ETIMEDOUT
	! grep -q 'does not begin' reply
}
hung() # how many executions hang, over all instances of the worker
{
	grep -c 'here it hangs' "$mnt/plugins/faulty/log" || :
}
hangs() # COUNT
{
	[ "$(hung)" -ge "$1" ]
}
lose() # what start started is killed
{
	kill -KILL "$client"
	wait "$client" 2>/dev/null || :
}
# told UID COUNT: there are COUNT events of that user's abandoned executions
told()
{
	jq -s --argjson u "$1" '[.[] | select(.event == "execution.abandoned" and .user == $u and
		.object == "executables/add" and .error.errno == "ECANCELED" and
		(.error.message | test("for 1 s: the worker of plugin faulty is ended")))] | length' \
		"$mnt/events" | grep -qx "$2"
}
# later: a time limit that began after --abandoned-timeout is over, of a wait for a job that hangs
later()
{
	local job
	ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["later"],"async":true}' >reply
	job=$(jq .job reply)
	ask '{"op":"wait","job":'"$job"',"timeout_ms":1500}' >reply
	tells reply ETIMEDOUT
}
run='printf "x y -> all/z\n" >"$1"'
control='exec 3<>"$1"; echo "{\"op\":\"execute\",\"executable\":\"add\",\"inputs\":[\"x\",\"y\"],
	\"outputs\":[\"all/z\"]$2}" >&3; cat <&3'
call='exec 3<>"$1"; cat x.npy y.npy >&3; exec cat <&3'
faults 'execute=hang:here it hangs'

# -- the waiting process is killed: at run, at control, at call
start 12345 bash -c "$run" - "$mnt/executables/add/run"
lose
restarted 1 faulty
told 12345 1 || fail "no event of run"
start 12345 bash -c "$control" - "$mnt/control" ''
lose
restarted 2 faulty
told 12345 2 || fail "no event of control"
start 12345 bash -c "$call" - "$mnt/executables/add/call"
lose
restarted 3 faulty
told 12345 3 || fail "no event of call"

# -- a time that is over, a job that is cancelled: their executions go on, too
timed 12345
restarted 4 faulty
told 12345 4 || fail "no event of a command whose time was over"
start 12345 bash -c "$control" - "$mnt/control" ',"async":true'
wait "$client"
later # a job is waited for, however long
told 12345 4 || fail "a job was abandoned"
shows "$mnt/plugins/faulty/restarts" 4
shows "$mnt/jobs/1/state" running
ask '{"op":"cancel","job":1}' >reply
restarted 5 faulty
told 12345 5 || fail "no event of a job"

# -- the owner's end, too
timed 0
restarted 6 faulty
told 0 1 || fail "no event of the owner"

# -- awaited executions go on
start 12345 bash -c "$run" - "$mnt/executables/add/run"
waiting=$client
shows "$mnt/plugins/faulty/restarts" 6
later
told 12345 5 || fail "an awaited execution was abandoned"
kill -0 "$waiting" || fail "a client that waits was ended"
kill -KILL "$(bounded cat "$mnt/plugins/faulty/pid")"
wait "$waiting" 2>/dev/null && fail "what hung succeeded"
restarted 7 faulty

# -- an execution that ends in time ends no worker
begin 600
faults 'execute=held'
as 12345 bash -c "$control" - "$mnt/control" ',"async":true' >/dev/null
eventually grep -qx running "$mnt/jobs/1/state"
ask '{"op":"cancel","job":1}' >reply
shows "$mnt/jobs/1/state" running
faults
eventually grep -Eqx 'done|cancelled' "$mnt/jobs/1/state"
shows "$mnt/plugins/faulty/restarts" 0
told 12345 0 || fail "an event of an execution that ended"

# -- health names it after a sixtieth of the time, and queue keeps the name of a removed program
begin 60
like_add call
bounded cp call.mlir "$mnt/programs/"
for lost in add call; do
	faults execute=held:"$lost"
	if [ "$lost" = add ]; then
		bash -c "$run" - "$mnt/executables/add/run" 2>/dev/null &
	else
		bash -c "$call" - "$mnt/executables/call/call" >/dev/null 2>&1 &
	fi
	client=$!
	reached "$lost"
	bounded rm "$mnt/programs/$lost.mlir"
	tells "$mnt/devices/faulty/0/queue" "^0 running .* 0 0/1 $lost\$"
	equal "queue of another" "$(as 12345 cat "$mnt/devices/faulty/0/queue" | cut -d ' ' -f 6)" -
	shows "$mnt/health" ok
	lose
	eventually grep -q "^executable $lost: no client has waited for [0-9]* s for an execution of user 0, which runs on faulty:0; after 60 s" \
		"$mnt/health"
	faults
	eventually grep -qx ok "$mnt/health"
done
shows "$mnt/plugins/faulty/restarts" 0

# -- 0: never
begin 0
faults 'execute=hang:here it hangs'
start 12345 bash -c "$run" - "$mnt/executables/add/run"
lose
later
! grep -q execution.abandoned "$mnt/events" || fail "an execution was abandoned"
shows "$mnt/plugins/faulty/restarts" 0
