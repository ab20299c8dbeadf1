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
create='{"op":"create","buffer":"made","dtype":"F32","shape":[2],"fill":1}'

# -- a result that gets no name is a failure: the step after it does not begin
faults execute=slow:1000
bounded mkdir "$b/d"
batch "$(step d/p),$(step q),$create" &
pid=$!
sleep 0.3
bounded rmdir "$b/d"
wait "$pid"
equal "the batch" "$(jq -r '.ok, .error.errno' told | xargs)" 'false ENOENT'
tells told 'batch: step 0: .*d/p: its directory is gone'
equal "the steps" "$(jq -c '[.replies[].ok]' told)" '[false]'
gone "$b/q.npy" "$b/made.npy"

# -- a step that exceeds its time limit ends the batch, whether or not it finishes later
faults execute=slow:800
batch "$(step p ',"timeout_ms":100'),$(step q '' p),$create"
equal "the batch" "$(jq -r .error.errno told)" ETIMEDOUT
equal "the steps" "$(jq -c '[.replies[].ok]' told)" '[false]'
sleep 1
gone "$b/p.npy" "$b/q.npy" "$b/made.npy"
faults execute=hang
batch "$(step p ',"timeout_ms":100'),$(step q '' p)" ',"async":true'
job=$(jq -r .job told)
eventually grep -qx failed "$mnt/jobs/$job/state"
kill -KILL "$(bounded cat "$mnt/plugins/faulty/pid")"
faults
eventually grep -qx 1 "$mnt/plugins/faulty/restarts"
eventually grep -qx ready "$mnt/plugins/faulty/state"
gone "$b/p.npy" "$b/q.npy"
run add 'x y -> z'

# -- run also reports a job's time limit
faults execute=slow:800
bounded bash -c 'exec 3<>"$1"; echo "async timeout_ms=100 x y -> late" >&3; cat <&3' - \
	"$mnt/executables/add/run" >told
job=$(sed -n 's/^ok: job //p' told)
eventually grep -qx failed "$mnt/jobs/$job/state"
equal "its end" "$(jq -r .result.error.errno "$mnt/jobs/$job/result.json")" ETIMEDOUT
sleep 1
gone "$b/late.npy"

shows "$mnt/health" ok
