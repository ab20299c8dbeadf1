#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A worker that does not answer: reading a file that only it can fill ends nevertheless, with a
# sentence or ETIMEDOUT, so that programs that read the whole mount end.
. "$srcdir/tests/lib.sh"
mount_pjrtfs --no-cache
p=${plugin:-cpu}
bounded cp "$data/add.mlir" "$mnt/programs/"
bounded cp "$data/add.mlir" "$mnt/programs/b.mlir"
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
bounded cat "$mnt/executables/add/optimized.hlo.pb" >before
[ -s before ] || fail "there is no optimized program"
stats=$mnt/devices/$p/0/memory_stats.json
no_answer="\"unavailable\":\"the worker of plugin $p did not answer within 1000 ms\""

pid=$(bounded cat "$mnt/plugins/$p/pid")
# It takes the signal when the kernel next runs it, each thread for itself.
stopped()
{
	! grep -h '^State:' "/proc/$pid/task/"*/status | grep -qv 'T (stopped)'
}
kill -STOP "$pid"
eventually stopped
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
kill -STOP "$pid"
fails_with 'timed out' cat "$mnt/executables/b/optimized.hlo.pb"
kill -CONT "$pid"
eventually answers
kill -STOP "$pid"
fails_with 'timed out' cat "$mnt/executables/b/serialized"
kill -CONT "$pid"
eventually answers
