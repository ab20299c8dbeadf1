#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# --execute-timeout ends what a device executes for too long, with its worker, whether a client
# waits for it or not; the time in a queue does not count.
. "$srcdir/tests/lib.sh"
mount_pjrtfs faulty --execute-timeout 2
b=$mnt/buffers
put_add
run add 'x y -> z'
why='an execution took longer than the time of --execute-timeout'

# overran RESTARTS: the worker was restarted so often, and the mount serves
overran()
{
	faults
	restarted "$1" faulty
	cmp "$data/x.npy" "$b/x.npy" || fail "an array is lost"
}

# -- run: the client waits, and gets the sentence
faults 'execute=hang'
bounded bash -c "echo 'x y -> late' >$mnt/executables/add/run" 2>err &&
	fail "an endless execution ended"
grep -q 'Input/output error' err || fail "it failed with: $(cat err)"
tells "$mnt/error" "$why"
eventually tells "$mnt/plugins/faulty/log" "$why"
overran 1
test ! -e "$b/late.npy" || fail "the execution that was ended has a result"

# -- what waits for a slot for longer than the limit succeeds (another program than the one that
# is refused now)
sed 's/@main/@main /' "$data/add.mlir" >"$mnt/programs/other.mlir"
# real time: each takes far less than the limit, and the last ones wait for longer than it
faults execute=slow:300
# queues N: that many succeed, and the last one waited for longer than the limit
queues()
{
	local i
	for ((i = 0; i < $1; i++)); do
		echo '{"op":"execute","executable":"other","inputs":["x","y"],"outputs":["w'"$i"'"],"async":true}'
	done >commands
	ask "$(cat commands)" | jq .job >numbers
	equal "jobs" "$(wc -l <numbers)" "$1"
	while read -r job; do
		ask '{"op":"wait","job":'"$job"'}' >reply
		jq -e '.state == "done"' reply >/dev/null || fail "execution $job failed: $(cat reply)"
	done <numbers
	job=$(tail -n 1 numbers)
	jq -e '.result.queue_seconds > 2' "$mnt/jobs/$job/result.json" >/dev/null
}
# a daemon that takes the commands slowly has a shorter queue
queues 60 || queues 120 || queues 240 || fail "the last one did not wait"
overran 1

# -- a job that no client waits for
faults 'execute=hang'
echo '{"op":"execute","executable":"other","inputs":["x","y"],"outputs":["late"],"async":true}' \
	>"$mnt/control"
eventually grep -rqs '"failed"' "$mnt/jobs"
tells "$mnt/jobs/$((job + 1))/result.json" "$why"
overran 2
