#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 1 CPU-s in 25 s
# A worker that gives no heartbeat: the mount says so after ten seconds, and takes it back when the
# worker goes on; after --worker-timeout pjrtfs ends it, and the next one serves.
. "$srcdir/tests/lib.sh"
p=${plugin:-cpu}
# begin SECONDS: mount with that --worker-timeout
begin()
{
	mount_pjrtfs --worker-timeout "$1"
	cp "$data/add.mlir" "$mnt/programs/"
	cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
	run add 'x y -> z'
	pid=$(cat "$mnt/plugins/$p/pid")
	state=$mnt/plugins/$p/state
}

# The kernel stops each thread when it next runs it.
stopped()
{
	! grep -h '^State:' "/proc/$pid/task/"*/status | grep -qv 'T (stopped)'
}

# -- silent, and back -------------------------------------------------------------------------
begin 600
began=$SECONDS
kill -STOP "$pid"
eventually grep -qx silent "$state"
[ $((SECONDS - began)) -ge 5 ] || fail "it is silent after $((SECONDS - began)) s"
shows "$mnt/health" "plugin $p is silent"
grep -qE "^process $pid has given no heartbeat for [1-9][0-9]+ s\$" "$mnt/plugins/$p/error" ||
	fail "error: $(cat "$mnt/plugins/$p/error")"
grep -qx "pjrtfs_worker_up{plugin=\"$p\"} 0" "$mnt/metrics.prom" || fail "metrics say it is up"
grep -qE "^pjrtfs_worker_silent_seconds\{plugin=\"$p\"\} [1-9][0-9]+\$" "$mnt/metrics.prom" ||
	fail "metrics do not count its silence"
jq -es "any(.event == \"worker.silent\" and .pid == $pid)" "$mnt/events" >/dev/null ||
	fail "no event worker.silent"
eventually grep -q "the worker of plugin $p, process $pid, has been silent for 10 s" "$mnt.log"
kill -CONT "$pid"
eventually grep -qx ready "$state"
shows "$mnt/health" ok
[ ! -s "$mnt/plugins/$p/error" ] || fail "error: $(cat "$mnt/plugins/$p/error")"
eventually grep -q '"event":"worker.answers"' "$mnt/events"
eventually grep -q "the worker of plugin $p answers again" "$mnt.log"
shows "$mnt/plugins/$p/restarts" 0
run add 'x y -> z'
unmount_pjrtfs

# -- silent for too long: an execution under way fails, later ones run -------------------------
begin 14
kill -STOP "$pid"
eventually stopped
bounded bash -c "echo 'x y -> late' >$mnt/executables/add/run" 2>err &&
	fail "a stopped worker executed"
grep -q 'Input/output error' err || fail "it failed with: $(cat err)"
tells "$mnt/error" 'it gave no heartbeat within the time of --worker-timeout'
eventually grep -qx ready "$state"
shows "$mnt/plugins/$p/restarts" 1
eventually grep -q 'no heartbeat' "$mnt/plugins/$p/log"
run add 'x y -> again'
shows "$mnt/buffers/again.txt" $'11 22 33\n44 55 66'
cmp "$data/x.npy" "$mnt/buffers/x.npy" || fail "an array is lost"
