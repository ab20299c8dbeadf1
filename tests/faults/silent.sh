#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 1 CPU-s in 25 s
# A worker that does not answer: reading a file that only it can fill ends nevertheless, so that programs
# that read the whole mount end.  After ten seconds without a heartbeat the mount says so, and takes it
# back when the worker goes on; after --worker-timeout pjrtfs ends it, and the next one serves.
. "$srcdir/tests/lib.sh"
p=${plugin:-cpu}
# begin SECONDS: mount with that --worker-timeout
begin()
{
	mount_pjrtfs --no-cache --worker-timeout "$1"
	put_add
	run add 'x y -> z'
	pid=$(cat "$mnt/plugins/$p/pid")
	state=$mnt/plugins/$p/state
}

# -- files that only it can fill
begin 600
bounded cp "$data/add.mlir" "$mnt/programs/b.mlir"
bounded cat "$mnt/executables/add/optimized.hlo.pb" >before
[ -s before ] || fail "there is no optimized program"
stats=$mnt/devices/$p/0/memory_stats.json
no_answer="\"unavailable\":\"the worker of plugin $p did not answer within 1000 ms\""

halt "$pid"
tells "$stats" "$no_answer"
fails_with 'timed out' cat "$mnt/executables/add/optimized.hlo.pb"
fails_with 'timed out' cat "$mnt/executables/add/serialized"
# everything, in any order; tar and grep name the files that they could not open
status=0
bounded tar -C "$mnt" -cf all.tar . 2>err || status=$?
[ "$status" -le 2 ] || fail "tar ended with $status: $(tail -n 3 err)"
tar -tf all.tar >list
grep -qx './devices/'"$p"'/0/memory_stats.json' list || fail "tar passed over memory_stats.json"
grep -qx './buffers/x.npy' list || fail "tar passed over x.npy"
status=0
bounded grep -r 'did not answer' "$mnt/devices" >found 2>err || status=$?
[ "$status" -le 2 ] || fail "grep ended with $status: $(tail -n 3 err)"
grep -q "memory_stats.json:.*$no_answer" found || fail "grep found nothing"

# the files are filled again once it answers
kill -CONT "$pid"
answers()
{
	! grep -q 'did not answer' "$stats" &&
		cat "$mnt/executables/add/optimized.hlo.pb" >after && [ -s after ]
}
eventually answers
eventually test -s "$mnt/executables/add/state"
run add 'x y -> z'
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
shows "$mnt/plugins/$p/restarts" 0

# the first call takes longer; its late reply is dropped
halt "$pid"
fails_with 'timed out' cat "$mnt/executables/b/optimized.hlo.pb"
kill -CONT "$pid"
eventually answers
halt "$pid"
fails_with 'timed out' cat "$mnt/executables/b/serialized"
kill -CONT "$pid"
eventually answers

# -- silent, and back
began=$SECONDS
halt "$pid"
eventually grep -qx silent "$state"
[ $((SECONDS - began)) -ge 5 ] || fail "it is silent after $((SECONDS - began)) s"
shows "$mnt/health" "plugin $p is silent"
grep -qE "^process $pid has given no heartbeat for [1-9][0-9]+ s\$" "$mnt/plugins/$p/error" ||
	fail "error: $(cat "$mnt/plugins/$p/error")"
grep -qx "pjrtfs_worker_up{plugin=\"$p\"} 0" "$mnt/metrics.prom" || fail "metrics say it is up"
grep -qE "^pjrtfs_worker_silent_seconds\{plugin=\"$p\"\} [1-9][0-9]+\$" "$mnt/metrics.prom" ||
	fail "metrics do not count its silence"
eventually jq -es "any(.event == \"worker.silent\" and .pid == $pid)" "$mnt/events"
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

# -- silent for too long: an execution under way fails, later ones run
begin 14
halt "$pid"
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
