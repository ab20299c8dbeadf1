#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: asan
# .npy files of every version, type, order and shape: what is read back is what was written,
# and the device has the right numbers.
. "$srcdir/tests/lib.sh"
requires jq --version
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

# -- versions of the format
for version in 1 2 3; do
	packed 'f<*' 1 2.5 -3 | npy '<f4' '(3,)' False "$version" >"v$version.npy"
	uploaded "v$version.npy" F32 '[3]' '1 2.5 -3'
done
# a header that other writers make: no padding, other order of keys, no last comma
{
	head="{'shape':(3,),'fortran_order':False,'descr':'<f4'}"
	printf "\x93NUMPY\x01\x00\\x$(printf %x "${#head}")\x00%s" "$head"
	packed 'f<*' 1 2 3
} >plain.npy
uploaded plain.npy F32 '[3]' '1 2 3'

# -- element types: descr, type, template of pack, values as stored, as text
while IFS='|' read -r descr dtype template stored text; do
	# shellcheck disable=SC2086 # a list of numbers
	packed "$template" $stored | npy "${descr/b1/|b1}" "($(wc -w <<<"$text"),)" >t.npy
	uploaded t.npy "$dtype" "[$(wc -w <<<"$text")]" "$text"
done <<'END'
b1|PRED|C*|1 0 1|true false true
<i1|S8|c*|-128 127|-128 127
<i2|S16|s<*|-32768 32767|-32768 32767
<i4|S32|l<*|-2147483648 2147483647|-2147483648 2147483647
<i8|S64|q<*|-9223372036854775808 9223372036854775807|-9223372036854775808 9223372036854775807
<u1|U8|C*|0 255|0 255
<u2|U16|S<*|0 65535|0 65535
<u4|U32|L<*|4294967295 1|4294967295 1
<u8|U64|Q<*|18446744073709551615 1|18446744073709551615 1
<f2|F16|S<*|15360 14336 31744|1 0.5 inf
<V2|BF16|S<*|16256 49024|1 -1
<f1|F8E5M2|C*|60 188|1 -1
<f4|F32|f<*|0.1 1e30 -0.0|0.1 1e+30 -0
<f8|F64|d<*|0.1 1e300|0.1 1e+300
<c8|C64|f<*|1 2 3 -4|1+2j 3-4j
<c16|C128|d<*|0 1 0.5 0|0+1j 0.5+0j
END

# -- shapes: scalar, zero-size, 8 dimensions
packed 'f<' 7 | npy '<f4' '()' >scalar.npy
uploaded scalar.npy F32 '[]' 7
npy '<f4' '(3, 0, 2)' </dev/null >zero.npy
uploaded zero.npy F32 '[3,0,2]' ''
npy '<i8' '(0,)' </dev/null >zero.npy
uploaded zero.npy S64 '[0]' ''
packed 'C*' {1..24} | npy '|u1' '(1, 2, 1, 3, 1, 2, 1, 2)' >eight.npy
bounded cp eight.npy "$b/a.npy"
same "$b/a.npy" eight.npy
equal "8 dimensions" "$(bounded jq -c .shape "$b/a.json")" '[1,2,1,3,1,2,1,2]'
bounded cmp "$b/a.raw" <(packed 'C*' {1..24})
packed 'C*' {1..8} | npy '|u1' '(2, 2, 2)' >cube.npy
uploaded cube.npy U8 '[2,2,2]' $'1 2\n3 4\n\n5 6\n7 8'

# -- Fortran's order: the same bytes back, the device has rows
packed 'f<*' 1 2 3 4 5 6 | npy '<f4' '(2, 3)' True >fortran.npy
uploaded fortran.npy F32 '[2,3]' $'1 3 5\n2 4 6'
bounded cmp "$b/a.raw" <(packed 'f<*' 1 3 5 2 4 6)
packed 'C*' {0..23} | npy '|u1' '(2, 3, 4)' True >fortran3.npy
uploaded fortran3.npy U8 '[2,3,4]' $'0 6 12 18\n2 8 14 20\n4 10 16 22\n\n1 7 13 19\n3 9 15 21\n5 11 17 23'
cp "$data/add.mlir" "$mnt/programs/"
bounded cp fortran.npy "$b/f.npy"
bounded cp "$data/x.npy" "$b/x.npy"
run add 'f x -> sum'
shows "$b/sum.txt" $'2 5 8\n6 9 12'
# one dimension is of either order
packed 'f<*' 1 2 | npy '<f4' '(2,)' True >line.npy
uploaded line.npy F32 '[2]' '1 2'

# -- outputs: version 1, C order, data at a multiple of 64
bounded cat "$b/sum.npy" >sum.npy
packed 'f<*' 2 5 8 6 9 12 | npy '<f4' '(2, 3)' >want.npy
same sum.npy want.npy
# and each type that a program gives back as it was given
i=0
for t in i1 i32 i64 ui8 f16 bf16 f64 'complex<f32>'; do
	i=$((i + 1))
	echo "func.func @main(%x: tensor<3x$t>) -> tensor<3x$t> { return %x : tensor<3x$t> }" >t$i.mlir
	bounded cp t$i.mlir "$mnt/programs/"
done
gives_back() # DESCR PROGRAM TEMPLATE VALUE...
{
	packed "$3" "${@:4}" | npy "$1" '(3,)' >t.npy
	bounded cp t.npy "$b/t.npy"
	run "$2" 't -> back'
	same "$b/back.npy" t.npy
}
gives_back '|b1' t1 'C*' 1 0 1
gives_back '<i8' t3 'q<*' -1 0 9223372036854775807
gives_back '|u1' t4 'C*' 1 200 255
gives_back '<f2' t5 'S<*' 15360 1 31744
gives_back '<V2' t6 'S<*' 16256 1 49024
gives_back '<f8' t7 'd<*' 0.1 -1e300 5e-324
gives_back '<c8' t8 'f<*' 1 2 3 4 5 6

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
if python3 -c 'import numpy' 2>/dev/null; then
	bounded python3 -c 'import numpy, sys
assert numpy.load(sys.argv[1]).tobytes() == b"\x3c\xbc"' "$b/r.npy"
fi
