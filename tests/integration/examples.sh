#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples in docs/examples do what they say, also when they cannot.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
examples=$top/docs/examples
bounded cp "$data/add.mlir" "$mnt/programs/"
call=$mnt/executables/add/call
# One that takes other arrays: calls of it fail.
echo 'func.func @main(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
return %x : tensor<2x3xf64> }' >other.mlir
bounded cp other.mlir "$mnt/programs/"
other=$mnt/executables/other/call
why='other: input 0 (x): F32[2,3] came, the program wants F64[2,3]'

# -- C
requires cc --version
cc -Wall -Wextra -Werror -o call "$examples/call.c"
equal "C" "$(bounded ./call "$call")" '11 22 33 44 55 66'
fails_with "$why" ./call "$other"
fails_with 'No such file' ./call "$mnt/executables/none/call"

# -- Perl, Python
equal "Perl" "$(bounded perl "$examples/call.pl" "$call")" '11 22 33 44 55 66'
fails_with "$why" perl "$examples/call.pl" "$other"
equal "Python" "$(bounded python3 "$examples/call.py" "$call")" '11.0 22.0 33.0 44.0 55.0 66.0'
fails_with "$why" python3 "$examples/call.py" "$other"

# -- NumPy
find_numpy || fail "numpy is missing: apt install python3-numpy"
bounded "$python" "$examples/call_numpy.py" "$call" >out
cat >want <<'END'
[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
[[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]]
add: input 1 (arg1): F64[5] came, the program wants F32[2,3]
END
same out want
fails_with "$why" "$python" "$examples/call_numpy.py" "$other"

# -- the shell
bounded sh "$examples/call.sh" "$call" "$data/x.npy" "$data/y.npy" z.npy
bounded cp z.npy "$mnt/buffers/"
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
fails_with 'Invalid argument' sh "$examples/call.sh" "$other" "$data/x.npy" "$data/y.npy" z2.npy
[ ! -s z2.npy ] || fail "a failed call leaves $(cat z2.npy)"

# -- what the manual shows is what is there
for example in call_numpy.py call.py call.c call.pl call.sh; do
	grep -q "F<$example>" "$top/docs/pjrtfs.5.pod" || fail "the manual does not name $example"
done
