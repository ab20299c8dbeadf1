#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Batches of executions: what is before a failure is there, what is after it has not begun, and
# a death takes no result that was there before.
. "$srcdir/tests/lib.sh"
b=
step()
{
	echo '{"op":"execute","executable":"add","inputs":["'"$1"'","y"],"outputs":["'"$2"'"]}'
}
batch='{"op":"batch","steps":['$(step x p),$(step p q),$(step q q),$(step q r)']}'

# Executions 1 to 6 precede those of the batch.
prepare()
{
	faults "execute=$1"
	mount_pjrtfs faulty
	b=$mnt/buffers
	put_add
	for _ in 1 2 3 4 5; do
		run add 'x y -> z'
	done
	run add 'x y -> q'
	cp "$b/q.npy" old-q.npy
}

# -- the third of them fails: at once, or when it is awaited
for how in error:INTERNAL:oops event-error:INTERNAL:oops; do
	prepare "nth:9:$how"
	ask "$batch" >told
	equal "which" "$(jq -r .error.message told)" 'batch: step 2: add: oops'
	equal "the replies" "$(jq -c '[.replies[].ok]' told)" '[true,true,false]'
	bounded cat "$b/p.txt" "$b/q.txt" >numbers
	gone "$b/r.npy"
	same "$b/x.npy" "$data/x.npy"
	shows "$mnt/plugins/faulty/restarts" 0
	ask "$batch" >told
	equal "once more" "$(jq -r .ok told)" true
	bounded cat "$b/r.txt" >numbers
	unmount_pjrtfs
done

# -- a step kills the worker: the results of earlier steps are kept
prepare nth:9:abort:'Check failed: 1 == 2'
ask "$batch" >told
tells told 'batch: step 2: add: while running: the worker of plugin faulty died'
tells told 'Check failed: 1 == 2'
equal "the replies" "$(jq -c '[.replies[].ok]' told)" '[true,true,false]'
gone "$b/r.npy"
restarted 1 faulty
same "$b/x.npy" "$data/x.npy"
same "$b/p.npy" old-q.npy
same "$b/q.npy" old-q.npy
faults
ask "$batch" >told
equal "after it" "$(jq -r .ok told)" true
bounded cat "$b/r.txt" >numbers
