#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Batches whose steps fail late: by their time limits, by the worker's death, by output names that
# became impossible.  The batch reports the first failure.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs faulty
b=$mnt/buffers
bounded cp "$data/add.mlir" "$mnt/programs/"
bounded cp "$data/x.npy" "$data/y.npy" "$b/"
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
# ended: the executions that a time limit left have ended, and what they gave is dropped
ended()
{
	faults
	eventually grep -qx 0 "$mnt/users/0/executions.current"
	run add 'x y -> z' # the answer of a later one
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
