#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# What ends late: time limits of commands, each with its sentence; steps of a batch by their time limits, by
# the worker's death, by output names that became impossible, where the batch reports the first failure.
. "$srcdir/tests/lib.sh"
mount_pjrtfs faulty --compile-jobs 1
b=$mnt/buffers
put_add
# late SENTENCE COMMAND: its time is over before it has ended
late()
{
	ask "$(jq -c '. + {"timeout_ms":500}' <<<"$2")" >told
	equal "$2" "$(jq -r .error.errno told)" ETIMEDOUT
	tells told "did not end within 500 ms; $1"
}
# ended: the executions that a time limit left have ended, and what they gave has its name or is dropped
ended()
{
	faults
	eventually grep -qx 0 "$mnt/users/0/executions.current"
	run add 'x y -> later' # the answer of a later one
}
execute='{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["z"]}'

# -- results are dropped
faults execute=held:dropped
late 'what had begun goes on; its results are dropped' "$execute"
bounded bash -c 'echo "x y -> z timeout_ms=500" >"$1"' - "$mnt/executables/add/run" 2>told || true
tells told 'Connection timed out'
reached dropped 2
ended
gone "$b/z.npy"
# -- unless their source is lost
faults execute=held:donates
late 'what had begun goes on; its results are dropped, unless it consumes' \
	"$(jq -c '.donate = ["x"] | .outputs = ["kept"]' <<<"$execute")"
faults
eventually test -e "$b/kept.npy"
bounded cp "$data/x.npy" "$b/"

# -- in a batch the step that had begun has its effect, later ones have none
faults execute=held:step
late 'the steps that had begun go on, the others do not begin' \
	"$(jq -c '{"op":"batch","steps":[.,(.outputs = ["z2"])]}' <<<"$execute")"
ended
bounded test -e "$b/z.npy"
gone "$b/z2.npy"

# -- arrays that commands make are dropped, too
settle # what was dropped is charged to nobody
memory=$(bounded cat "$mnt/users/0/memory.current")
faults upload=held:array
late 'what it would have made is dropped' \
	'{"op":"create","buffer":"c","dtype":"F32","shape":[3],"fill":1}'
reached array
[ "$(bounded cat "$mnt/users/0/memory.current")" -gt "$memory" ] || fail "the array does not count"
faults
eventually grep -qx "$memory" "$mnt/users/0/memory.current"
gone "$b/c.npy"

# -- a compile continues; an execution that waits for it does not begin
faults compile=held
late 'the compile goes on' '{"op":"compile","program":"add","as":"later"}'
later=$(jq -c '.executable = "later"' <<<"$execute")
late 'its program is being compiled, and it does not begin' "$later"
j=$(ask "$(jq -c '.async = true' <<<"$later")" | jq -r .job)
say "$mnt/jobs/$j/cancel" now
shows "$mnt/jobs/$j/state" cancelled
shows "$mnt/executables/later/state" compiling
faults
eventually grep -qx ready "$mnt/executables/later/state"
run add 'x y -> z'

# step OUTPUT [MORE]
step()
{
	echo '{"op":"execute","executable":"add","inputs":["'"${3-x}"'","y"],"outputs":["'"$1"'"]'"${2-}"'}'
}
# batch STEPS [MORE]
batch()
{
	ask '{"op":"batch","steps":['"$1"']'"${2-}"'}' >told
}
create='{"op":"create","buffer":"made","dtype":"F32","shape":[2],"fill":1}'

# -- a result that gets no name is a failure: the step after it does not begin
faults execute=held:p
bounded mkdir "$b/d"
batch "$(step d/p),$(step q),$create" &
pid=$!
reached p
bounded rmdir "$b/d"
faults
wait "$pid"
equal "the batch" "$(jq -r '.ok, .error.errno' told | xargs)" 'false ENOENT'
tells told 'batch: step 0: .*d/p: its directory is gone'
equal "the steps" "$(jq -c '[.replies[].ok]' told)" '[false]'
gone "$b/q.npy" "$b/made.npy"

# -- a step that exceeds its time limit ends the batch, whether or not it finishes later
faults execute=held:late
batch "$(step p ',"timeout_ms":100'),$(step q '' p),$create"
equal "the batch" "$(jq -r .error.errno told)" ETIMEDOUT
equal "the steps" "$(jq -c '[.replies[].ok]' told)" '[false]'
reached late
ended
gone "$b/p.npy" "$b/q.npy" "$b/made.npy"
faults execute=hang
batch "$(step p ',"timeout_ms":100'),$(step q '' p)" ',"async":true'
job=$(jq -r .job told)
eventually grep -qx failed "$mnt/jobs/$job/state"
faults
kill_worker faulty
shows "$mnt/plugins/faulty/restarts" 1
gone "$b/p.npy" "$b/q.npy"
run add 'x y -> z'

# -- run also reports a job's time limit
faults execute=held:job
bounded bash -c 'exec 3<>"$1"; echo "async timeout_ms=100 x y -> late" >&3; cat <&3' - \
	"$mnt/executables/add/run" >told
job=$(sed -n 's/^ok: job //p' told)
eventually grep -qx failed "$mnt/jobs/$job/state"
equal "its end" "$(jq -r .result.error.errno "$mnt/jobs/$job/result.json")" ETIMEDOUT
reached job
ended
gone "$b/late.npy"

shows "$mnt/health" ok
