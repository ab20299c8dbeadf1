#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# --execute-timeout ends what a device executes for too long, with its worker, whether a client
# waits for it or not; the time in a queue does not count.
. "$srcdir/tests/lib.sh"
mount_pjrtfs faulty --execute-timeout 2
b=$mnt/buffers
cp "$data/add.mlir" "$mnt/programs/"
cp "$data/x.npy" "$data/y.npy" "$b/"
run add 'x y -> z'
why='an execution took longer than the time of --execute-timeout'

# overran RESTARTS: the worker was restarted so often, and the mount serves
overran()
{
	faults
	eventually grep -qx ready "$mnt/plugins/faulty/state"
	shows "$mnt/plugins/faulty/restarts" "$1"
	cmp "$data/x.npy" "$b/x.npy" || fail "an array is lost"
}

# -- run: the client waits, and gets the sentence
faults 'execute=hang'
began=$SECONDS
bounded bash -c "echo 'x y -> late' >$mnt/executables/add/run" 2>err &&
	fail "an endless execution ended"
[ $((SECONDS - began)) -lt 60 ] || fail "it took $((SECONDS - began)) s"
grep -q 'Input/output error' err || fail "it failed with: $(cat err)"
tells "$mnt/error" "$why"
eventually tells "$mnt/plugins/faulty/log" "$why"
overran 1
test ! -e "$b/late.npy" || fail "the execution that was ended has a result"

# -- what waits for a slot for longer than the limit succeeds (another program than the one that
# is refused now)
sed 's/@main/@main /' "$data/add.mlir" >"$mnt/programs/other.mlir"
faults execute=slow:1200
for i in {1..12}; do
	bounded sh -c "echo 'x y -> w$i' >$mnt/executables/other/run" &
	pids[i]=$!
done
for i in {1..12}; do
	wait "${pids[i]}" || fail "execution $i failed: $(cat "$mnt/executables/other/run")"
done
overran 1

# -- a job that no client waits for
faults 'execute=hang'
echo '{"op":"execute","executable":"other","inputs":["x","y"],"outputs":["late"],"async":true}' \
	>"$mnt/control"
eventually grep -rqs '"failed"' "$mnt/jobs"
tells "$mnt/jobs/"*/result.json "$why"
overran 2
