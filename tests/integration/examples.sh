#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 27 CPU-s
# The examples in docs/examples do what they say, also when they cannot.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
examples=$top/docs/examples
bounded cp "$data/add.mlir" "$mnt/programs/"
call=$mnt/executables/add/call
# One that takes other arrays: calls of it fail.
echo 'func.func @main(%x: tensor<2x4xf64>) -> tensor<2x4xf64> {
return %x : tensor<2x4xf64> }' >other.mlir
bounded cp other.mlir "$mnt/programs/"
other=$mnt/executables/other/call
why='other: input 0 (x): F32[2,3] came, the program wants F64[2,4]'

# -- each language: a client of call.raw and one of control
requires cc --version
left_out=
# numbers FILE: those in its first lines, whatever is between them
numbers()
{
	tr -cs '0-9.' ' ' <"$1" | sed 's/\.0\b//g; s/^ *//; s/ *$//'
}
# language NAME EXTENSION TOOL COMMAND...: COMMAND FILE ARGUMENT runs an example, if TOOL is there
language()
{
	local name=$1 extension=$2 tool=$3
	shift 3
	if ! command -v "$tool" >/dev/null; then
		left_out+=" $name"
		return
	fi
	bounded "$@" "$examples/call.$extension" "$call.raw" >out
	equal "$name" "$(numbers out)" '11 22 33 44 55 66'
	fails_with '' "$@" "$examples/call.$extension" "$other.raw"
	fails_with '' "$@" "$examples/call.$extension" "$mnt/executables/none/call.raw"
	bounded rm -f "$mnt"/buffers/[xyz].*
	bounded "$@" "$examples/control.$extension" "$mnt" >out
	shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
	[ -s out ] || fail "$name: control prints nothing"
}
# build COMPILER... FILE ARGUMENT: compile FILE, once, and run it
build()
{
	local program
	program=$work/$(basename "${*: -2:1}").out
	[ -e "$program" ] || "${@:1:$#-2}" -o "$program" "${*: -2:1}" || return
	bounded "$program" "${*: -1}"
}
export GOCACHE=$work/go
language C c cc build cc -Wall -Wextra -Werror
language Go go go build go build
language Java java java java
language Lua lua lua5.4 lua5.4
language Node js node node
language Perl pl perl perl
language Python py python3 python3
language Rust rs rustc build rustc
echo "without a toolchain here:${left_out:- none}"
# .ci/run names the languages that its machine has.
for name in ${PJRTFS_TEST_LANGUAGES-}; do
	case "$left_out " in
	*" $name "*) fail "no toolchain of $name, which PJRTFS_TEST_LANGUAGES names" ;;
	esac
done
for file in "$examples"/c*.*; do
	[ "$(wc -l <"$file")" -le 30 ] || fail "$file has $(wc -l <"$file") lines"
done
# Where it costs a few lines, they say why.
why_raw='other: not all of the 1 inputs were written: input 0 (x): 48 of 64 bytes'
fails_with "$why_raw" build cc "$examples/call.c" "$other.raw"
fails_with "$why_raw" perl "$examples/call.pl" "$other.raw"
fails_with "$why_raw" python3 "$examples/call.py" "$other.raw"

# -- the lines of docs/languages.md
sed -n '/^## Each example/,$s/^    //p' "$top/docs/languages.md" | sed "s|/mnt/pjrt|$mnt|g" >lines
[ "$(wc -l <lines)" -ge 9 ] || fail "docs/languages.md shows $(wc -l <lines) lines"
mkdir -p tests
ln -sfn "$top/docs" docs
ln -sfn "$data" tests/data
while read -r line; do
	command -v "${line%% *}" >/dev/null || continue
	bounded bash -eu -c "$line" >out 2>&1 </dev/null || fail "$line: $(cat out)"
	case $line in
	cp*) ;;
	*) equal "$line" "$(numbers out)" '11 22 33 44 55 66' ;;
	esac
done <lines

# -- NumPy
find_numpy || fail "numpy is missing: apt install python3-numpy"
bounded "$python" "$examples/call_numpy.py" "$call" >out
cat >want <<'END'
[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
[[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]]
END
same out want
fails_with 'Invalid argument' "$python" "$examples/call_numpy.py" "$other"
bounded cat "$mnt/error" >told
grep -qF "$why" told || fail "error says $(cat told)"

# -- the shell
bounded sh "$examples/call.sh" "$call" "$data/x.npy" "$data/y.npy" z.npy
bounded cp z.npy "$mnt/buffers/"
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
fails_with 'Invalid argument' sh "$examples/call.sh" "$other" "$data/x.npy" "$data/y.npy" z2.npy
[ ! -s z2.npy ] || fail "a failed call leaves $(cat z2.npy)"
bounded rm -f "$mnt"/buffers/[xyz].*
bounded sh "$examples/control.sh" "$mnt" >out
tells out '"ok":true'
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'

# -- what the manual shows is what is there
for example in call_numpy.py call.py call.c call.pl call.sh; do
	grep -q "F<$example>" "$top"/docs/*.pod || fail "the manual does not name $example"
done
