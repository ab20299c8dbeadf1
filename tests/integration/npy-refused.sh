#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Files that are not arrays of a device's types are refused, with a sentence, without other changes.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
requires jq --version
requires python3 --version
mount_pjrtfs
b=$mnt/buffers
cp "$data/x.npy" "$b/x.npy"
cp "$data/add.mlir" "$mnt/programs/"

# refused FILE PATTERN [ERRNO-TEXT]: cp fails, x.json has the sentence, and x cannot be an input.
refused()
{
	bounded rm -f "$b/bad.npy"
	fails_with "${3:-Invalid argument}" cp "$1" "$b/bad.npy"
	# A file that is too short may still be extended.
	bounded jq -r .state "$b/bad.json" | grep -qxE 'error|incomplete' ||
		fail "$1: state"
	bounded jq -r .error "$b/bad.json" >why
	grep -Eq -e "$2" why || fail "$1: '$(cat why)' instead of '$2'"
	fails_with 'write error' run add 'x bad -> z'
	tells "$mnt/executables/add/run" "^error: E[A-Z]*: add: input 1: bad: "
	gone "$b/z.npy"
}
header() # TEXT [VERSION]: a version 1 header of that text, then 24 bytes
{
	printf '\x93NUMPY%b\x00' "\\x${2:-01}"
	packed 'v' "${#1}"
	printf %s "$1"
	packed 'f<*' 1 2 3 4 5 6
}

# -- types that no device has
for descr in '>f4' '>i8' '>c16'; do
	packed 'f<*' 1 2 | npy "$descr" '(2,)' >t.npy
	refused t.npy 'big-endian'
done
npy '|O' '(2,)' </dev/null >t.npy
refused t.npy '[Oo]bject'
header "{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (3,), }" >t.npy
refused t.npy 'structured'
for descr in '<U3' '|S4' '<M8[s]' '<m8[ns]' '<f16' '|V3' 'f4' 'junk' ''; do
	packed 'f<*' 1 2 | npy "$descr" '(2,)' >t.npy
	refused t.npy "descr"
done
# '|V2' and '<V1' name no type: it must have been declared
packed 'S<*' 16256 1 | npy '|V2' '(2,)' >t.npy
refused t.npy 'dtype'
packed 'C*' 60 1 | npy '<V1' '(2,)' >t.npy
refused t.npy "'\|V1' and names no type: .* -n user.pjrtfs.dtype -v S4 .*1 byte\).*\.safetensors"
# numpy.save writes through a second descriptor, ignores what its close says, and hears the first's
packed 'C*' 7 250 | npy '<V1' '(2,)' >t.npy
cat >save.py <<'END'
import os, sys
data = open(sys.argv[1], "rb").read()
f = open(sys.argv[2], "wb")
second = os.dup(f.fileno())
os.write(second, data)
try:
    os.close(second)
    sys.exit("the first close says nothing")
except OSError:
    pass
f.close()
END
fails_with 'OSError: [Errno 22]' python3 save.py t.npy "$b/saved.npy"
bounded cat "$mnt/error" | grep -q '^close buffers/saved.npy: .* names no type' ||
	fail "error: $(bounded cat "$mnt/error")"
for p in python3 /usr/bin/python3; do
	"$p" -c 'import numpy' 2>/dev/null || continue
	fails_with 'OSError: [Errno 22]' "$p" -c 'import numpy, sys
numpy.save(sys.argv[1], numpy.zeros(3, "V1"))' "$b/numpy.npy"
	break
done
# setting the type afterwards cures it, too
requires setfattr --version
packed 'C*' 7 250 | npy '<V1' '(2,)' >t.npy
fails_with 'Invalid argument' cp t.npy "$b/late.npy"
bounded setfattr -n user.pjrtfs.dtype -v S4 "$b/late.npy"
shows "$b/late.txt" '7 -6'

# -- headers that are none
good="'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)"
header "{$good, 'more': 1}" >t.npy
refused t.npy "more"
header "{$good, 'descr': '<f4'}" >t.npy
refused t.npy 'twice'
header "{'descr': '<f4', 'fortran_order': False}" >t.npy
refused t.npy 'shape'
header "{'descr': '<f4', 'shape': (2, 3)}" >t.npy
refused t.npy 'fortran_order'
header "{'fortran_order': False, 'shape': (2, 3)}" >t.npy
refused t.npy 'descr'
header "{$good" >t.npy
refused t.npy 'end|expected'
header "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3)}" >t.npy
refused t.npy 'shape|extent|expected'
header "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 3)}" >t.npy
refused t.npy 'shape|extent|expected'
header "{'descr': '<f4', 'fortran_order': False, 'shape': (6)}" >t.npy
refused t.npy 'tuple'
header "{'descr': '<f4', 'fortran_order': 1, 'shape': (6,)}" >t.npy
refused t.npy 'fortran|expected'
header "{$good}" 04 >t.npy
refused t.npy 'version 4.*: expected 1.0, 2.0 or 3.0'
header "" >t.npy
refused t.npy 'header'

# -- sizes that overflow, or are beyond any memory
for shape in '(9223372036854775807, 9223372036854775807)' '(18446744073709551616,)' \
	'(4294967296, 4294967296, 4)' '(4611686018427387904, 4)'; do
	packed 'f<*' 1 2 | npy '<f4' "$shape" >t.npy
	refused t.npy 'header|bytes|extent|2\^' 'cp: error writing'
done

# -- a header without end, and one that is longer than anyone's
printf "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fort" >t.npy
refused t.npy 'header'
printf '\x93NUMPY\x02\x00\xff\xff\xff\x7f' >t.npy
head -c 100000 /dev/zero >>t.npy
refused t.npy 'header'
printf '\x93NUM' >t.npy
refused t.npy 'header|begin'

# -- too few and too many bytes: how many are wanted and how many came
head -c 151 "$data/x.npy" >t.npy
refused t.npy 'F32\[2,3\] takes 24 bytes of data, 23 came'
head -c 128 "$data/x.npy" >t.npy
refused t.npy '24 bytes of data, 0 came'
{
	cat "$data/x.npy"
	echo
} >t.npy
refused t.npy '152 .*153'

# -- no .npy at all
head -c 5000 /dev/urandom >t.npy; refused t.npy 'not a .npy file'
printf 'PK\x03\x04 a zip' >t.npy; refused t.npy 'not a .npy file'
printf 'x' >t.npy; refused t.npy 'header|npy'

# -- empty: no failure, a shell's > makes one; but no array
: >"$b/empty.npy"
equal "empty's state" "$(bounded jq -r .state "$b/empty.json")" empty
fails_with '' run add 'x empty -> z'
tells "$mnt/executables/add/run" 'input 1: empty: it is empty'

# -- errors in other tools, for failures found at the header and for failures found at the end
packed 'f<*' 1 2 | npy '>f4' '(2,)' >big.npy
head -c 140 "$data/x.npy" >half.npy
for f in big half; do
	fails_with 'Invalid argument' bash -c 'cat "$1.npy" >"$2/cat.npy"' - "$f" "$b"
	fails_with 'Invalid argument' dd if="$f.npy" of="$b/dd.npy" status=none
	fails_with 'Invalid argument' bash -c 'tee "$2/tee.npy" <"$1.npy" >/dev/null' - "$f" "$b"
	tar cf "$f.tar" "$f.npy"
	fails_with 'Invalid argument' tar -C "$b" -xf "$f.tar"
	fails_with 'Invalid argument' mv "$f.npy" "$b/mv.npy"
	[ -e "$f.npy" ] || fail "mv removed what it could not move"
	fails_with 'OSError: [Errno 22]' python3 -c 'import sys
with open(sys.argv[2], "wb") as f:
    f.write(open(sys.argv[1] + ".npy", "rb").read())' "$f" "$b/python.npy"
done
# even a shell's own echo gets the error, since the header suffices
fails_with 'rror' bash -c 'echo "no array at all" >"$1/echo.npy"' - "$b"

# -- a refused upload keeps its bytes and frees the value before
bounded cp "$data/x.npy" "$b/over.npy"
fails_with 'Invalid argument' cp half.npy "$b/over.npy"
same "$b/over.npy" half.npy
fails_with 'Invalid argument' run add 'x over -> z'
bounded cp "$data/x.npy" "$b/over.npy"
run add 'x over -> z'

# -- formats of other tools: the sentence has a command that converts them
for name in a.npz a.pt a.gguf a.onnx; do
	fails_with 'Invalid argument' cp "$data/x.npy" "$b/$name"
	gone "$b/$name"
done

# -- a directory where a file belongs
mkdir dir
fails_with 'cp: ' cp dir "$b/dir.npy"
fails_with 'directory' bash -c 'echo x >"$1"' - "$b"
fails_with '' cat "$b"
fails_with '' say "$mnt/executables" x

# Nothing else has changed.
same "$b/x.npy" "$data/x.npy"
shows "$mnt/health" ok
shows "$mnt/plugins/${plugin:-cpu}/restarts" 0
