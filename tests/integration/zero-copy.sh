#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# Large arrays are not copied on their way to the plugin and back, where its memory is ours.
. "$srcdir/tests/words.sh"
mount_pjrtfs
b=$mnt/buffers

head -c 1048576 /dev/urandom >data.raw
npy '<i4' '(262144,)' <data.raw >data.npy
for op in negate add; do
	args='%x'
	[ "$op" = negate ] || args='%x, %x'
	echo "func.func @main(%x: tensor<262144xi32>) -> tensor<262144xi32> {
%0 = stablehlo.$op $args : tensor<262144xi32>
return %0 : tensor<262144xi32> }" >$op.mlir
	bounded cp $op.mlir "$mnt/programs/"
done

# zero_copy NAME: the plugin works on the very bytes that readers of NAME get.
zero_copy()
{
	# With sanitizers the worker leaves the plugin its own allocator, and copies.
	sanitized || equal "zero_copy of $1" "$(bounded jq .zero_copy "$b/$1.json")" true
}
bounded cp data.npy "$b/data.npy"
zero_copy data
same "$b/data.npy" data.npy

# Also written in pieces of odd lengths.
bounded dd if=data.npy of="$b/pieces.npy" bs=4097 status=none
zero_copy pieces
same "$b/pieces.npy" data.npy

run negate 'data -> minus'
zero_copy minus
run negate 'minus -> plus'
zero_copy plus
same "$b/plus.npy" data.npy
zero_copy data

# Overwriting what is an argument does not change the result that was made of it.
bounded cat "$b/minus.npy" >minus.npy
head -c 1048576 /dev/zero | npy '<i4' '(262144,)' >zeros.npy
bounded cp zeros.npy "$b/data.npy"
same "$b/minus.npy" minus.npy
run add 'data -> nought'
same "$b/nought.npy" zeros.npy

# Nor does writing into an output change what was read or made of it.
run negate 'minus -> plus'
printf '\x01\x02\x03\x04' | bounded dd of="$b/minus.raw" bs=4 seek=7 conv=notrunc status=none
same "$b/plus.npy" data.npy
run negate 'minus -> changed'
equal "elements that differ" "$(bounded cmp -l "$b/changed.raw" data.raw | awk '{ n[int(($1 - 1) / 4)] }
	END { for (i in n) print i }')" 7

# The memory is used again: a hundred results of 1 MiB under one name are not a hundred MiB.
before=$(used)
for _ in {1..100}; do
	echo 'data -> again'
done >lines
bounded dd if=lines of="$mnt/executables/negate/run" bs=1M status=none
settle
uses_less $((before + 33554432)) || fail "$(used) bytes instead of $before"
