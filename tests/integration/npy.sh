#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: asan
# .npy files of either order: what is read back is what was written, and the device has the right numbers.
# check_npy.c has the headers, dtypes.sh tries types and shapes.
. "$srcdir/tests/words.sh"
mount_pjrtfs
b=$mnt/buffers

# uploaded FILE DTYPE SHAPE TEXT: as a.npy, with its descriptions and its numbers.
uploaded()
{
	bounded cp "$1" "$b/a.npy"
	same "$b/a.npy" "$1"
	equal "$1: dtype and shape" "$(bounded jq -c '[.state, .dtype, .shape]' "$b/a.json")" \
		"[\"ready\",\"$2\",$3]"
	equal "$1: numbers" "$(bounded cat "$b/a.txt")" "$4"
	equal "$1: size" "$(bounded stat -c %s "$b/a.npy")" "$(stat -c %s "$1")"
}

# -- Fortran's order: the same bytes back, the device has rows
packed 'f<*' 1 2 3 4 5 6 | npy '<f4' '(2, 3)' True >fortran.npy
uploaded fortran.npy F32 '[2,3]' $'1 3 5\n2 4 6'
bounded cmp "$b/a.raw" <(packed 'f<*' 1 3 5 2 4 6)
packed 'C*' {0..23} | npy '|u1' '(2, 3, 4)' True >fortran3.npy
uploaded fortran3.npy U8 '[2,3,4]' $'0 6 12 18\n2 8 14 20\n4 10 16 22\n\n1 7 13 19\n3 9 15 21\n5 11 17 23'
put_add
bounded cp fortran.npy "$b/f.npy"
run add 'f x -> sum'
shows "$b/sum.txt" $'2 5 8\n6 9 12'
# one dimension is of either order
packed 'f<*' 1 2 | npy '<f4' '(2,)' True >line.npy
uploaded line.npy F32 '[2]' '1 2'

# -- outputs: version 1, C order, data at a multiple of 64
bounded cat "$b/sum.npy" >sum.npy
packed 'f<*' 2 5 8 6 9 12 | npy '<f4' '(2, 3)' >want.npy
same sum.npy want.npy

# -- F8E5M2: NumPy refuses '<f1', so '<f1' is read and not written; a file read from such a buffer
# can be written only to a buffer of that type
echo 'func.func @main(%x: tensor<2xf8E5M2>) -> tensor<2xf8E5M2> { return %x : tensor<2xf8E5M2> }' \
	>e5m2.mlir
bounded cp e5m2.mlir "$mnt/programs/"
packed 'C*' 60 188 | npy '<f1' '(2,)' >f1.npy
packed 'C*' 60 188 | npy '|V1' '(2,)' >v1.npy
bounded cp f1.npy "$b/e.npy"
run e5m2 'e -> r'
same "$b/r.npy" v1.npy
shows "$b/r.txt" '1 -1'
bounded cp "$b/r.npy" back.npy
bounded cp back.npy "$b/r.npy"
equal 'read back' "$(bounded jq -c '[.state, .dtype]' "$b/r.json")" '["ready","F8E5M2"]'
fails_with 'Invalid argument' cp back.npy "$b/new.npy"
tells "$b/new.json" "'\|V1' and names no type: tell it with setfattr"
bounded setfattr -n user.pjrtfs.dtype -v F8E5M2 "$b/new.npy"
run e5m2 'new -> r2'
same "$b/r2.npy" v1.npy
