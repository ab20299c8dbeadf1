#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Transfers that fail, are late, or find the device full: the writer gets the error, other buffers
# stay.
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs faulty
b=$mnt/buffers
put_add
state()
{
	bounded jq -c '[.state, .error]' "$b/$1.json"
}
# Not aligned: such bytes are copied, so that the upload has an event that may fail.
{
	head="{'descr':'<f4','fortran_order':False,'shape':(2,3)}"
	printf "\x93NUMPY\x01\x00\\x$(printf %x "${#head}")\x00%s" "$head"
	tail -c 24 "$data/x.npy"
} >odd.npy

# -- the event of an upload has an error, or is late
faults 'upload=event-error:DATA_LOSS:bits fell off'
fails_with 'Input/output error' cp odd.npy "$b/odd.npy"
equal "odd" "$(state odd)" '["error","bits fell off"]'
fails_with 'Input/output error' run add 'x odd -> z'
tells "$mnt/executables/add/run" 'add: input 1: odd: bits fell off'
gone "$b/z.npy"
same "$b/odd.npy" odd.npy
faults upload=held-event:fails
bounded cp odd.npy "$b/odd.npy" 2>/dev/null &
upload=$!
reached fails
equal "odd" "$(state odd)" '["transferring",null]'
faults 'upload=event-error:DATA_LOSS:lost in the end'
! wait "$upload" || fail "cp did not wait for its upload"
equal "odd" "$(state odd)" '["error","lost in the end"]'
faults upload=held-event:succeeds
bounded cp odd.npy "$b/odd.npy" &
upload=$!
reached succeeds
equal "odd" "$(state odd)" '["transferring",null]'
faults
wait "$upload"
equal "odd" "$(state odd)" '["ready",null]'
run add 'x odd -> z'

# -- a slow upload does not delay other callers
faults upload=held:slow
bounded cp "$data/x.npy" "$b/slow.npy" &
upload=$!
reached slow
equal "state meanwhile" "$(bounded jq -r .state "$b/slow.json")" transferring
bounded ls -l "$b" >/dev/null || fail "ls waits for an upload"
bounded cat "$b/x.npy" >/dev/null || fail "a reader waits for another's upload"
# users of the buffer wait for it
job=$(ask '{"op":"execute","executable":"add","inputs":["x","slow"],"outputs":["z"],"async":true}' | jq .job)
[ "$(bounded cat "$mnt/jobs/$job/state")" != 'done' ] || fail "an execution used what was not there"
faults
tells <(ask '{"op":"wait","job":'"$job"'}') '"state":"done"'
wait "$upload"
equal "slow" "$(state slow)" '["ready",null]'

# -- the device is full: what it has stays, and later calls work
full=error:RESOURCE_EXHAUSTED:full
faults upload=$full compile=$full execute=$full
fails_with 'No space left' cp "$data/x.npy" "$b/n.npy"
equal "n" "$(state n)" '["error","full"]'
fails_with 'No space left' cp "$data/add.mlir" "$mnt/programs/n.mlir"
shows "$mnt/executables/n/error" 'compile n: full'
fails_with 'No space left' run add 'x y -> n2'
shows "$mnt/executables/add/run" 'error: ENOSPC: add: full'
gone "$b/n2.npy"
faults
same "$b/x.npy" "$data/x.npy"
bounded cp "$data/x.npy" "$b/n.npy"
bounded cp "$data/add.mlir" "$mnt/programs/n.mlir"
run n 'n x -> z'

# -- renamed into place it is uploaded behind; a failure is in x.json
faults 'upload=error:UNAVAILABLE:no device'
cp "$data/x.npy" "$b/part"
bounded mv "$b/part" "$b/behind.npy"
eventually grep -q '"state":"error"' "$b/behind.json"
equal "behind" "$(state behind)" '["error","no device"]'
fails_with 'No such device' run add 'x behind -> z2'

# -- results that cannot be fetched
faults 'download=error:DATA_LOSS:parity'
bounded rm "$b/z.npy"
if run add 'x y -> z' 2>/dev/null; then
	fails_with 'Input/output error' cat "$b/z.npy"
	tells "$b/z.json" parity
else
	tells "$mnt/executables/add/run" '^error: EIO: add: .*parity'
	gone "$b/z.npy"
fi
faults
run add 'x y -> z'
shows "$b/z.txt" $'0 0 0\n0 0 0'
# without addresses they are copied; so also a slow way works
faults pointer=error:UNIMPLEMENTED:'no pointers'
run add 'x y -> copied'
same "$b/copied.npy" "$b/z.npy"

# -- an execution whose event is late, is waited for
faults execute=held-event:late
run add 'x y -> late' 2>/dev/null &
late=$!
reached late
faults 'execute=event-error:DATA_LOSS:late oops'
! wait "$late" || fail "run did not wait for its event"
tells "$mnt/executables/add/run" 'add: late oops'
faults execute=held-event:later
run add 'x y -> late' &
late=$!
reached later
gone "$b/late.npy"
faults
wait "$late"
same "$b/late.npy" "$b/z.npy"

# -- the device's own memory
faults 'stats=error:INTERNAL:no stats'
bounded jq -e '.unavailable == "no stats"' "$mnt/devices/faulty/0/memory_stats.json" >/dev/null ||
	fail "memory_stats.json: $(bounded cat "$mnt/devices/faulty/0/memory_stats.json")"
shows "$mnt/plugins/faulty/restarts" 0
