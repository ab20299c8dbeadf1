#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Arguments are checked before a plugin sees them: how many, which type, shape and device.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
p=${plugin:-cpu}
b=$mnt/buffers
cp "$data/add.mlir" "$mnt/programs/"
cp "$data/x.npy" "$b/"
packed 'l<*' 1 2 3 | npy '<i4' '(3,)' >s3.npy
packed 'l<*' 1 2 3 4 5 6 | npy '<i4' '(2, 3)' >s23.npy
packed 'f<*' 1 2 3 4 5 6 | npy '<f4' '(3, 2)' >f32.npy
packed 'f<*' 1 2 3 4 5 6 | npy '<f4' '(6,)' >f6.npy
packed 'f<*' 1 2 3 4 5 6 | npy '<f4' '(1, 2, 3)' >f123.npy
packed 'd<*' 1 2 3 | npy '<f8' '(3,)' >d3.npy
packed 'f<*' 1 | npy '<f4' '()' >f.npy
bounded cp s3.npy s23.npy f32.npy f6.npy f123.npy d3.npy f.npy "$b/"

# wrong LINE SENTENCE: run fails with SENTENCE and makes no buffer
wrong()
{
	fails_with 'write error: Invalid argument' run add "$1"
	# The sentence has a parameter's name in brackets, if the compiler keeps it.
	equal "the sentence" "$(bounded sed -E 's/ \([a-z]+[0-9]\):/:/' \
		"$mnt/executables/add/run")" "error: EINVAL: add: $2"
	gone "$b/z.npy" "$b/z2.npy"
}
wrong 'x s3 -> z' 'input 1: s3 is S32[3], the program wants F32[2,3]'
wrong 's3 x -> z' 'input 0: s3 is S32[3], the program wants F32[2,3]'
# the same number of bytes: a plugin would take them for what it wants
wrong 'x s23 -> z' 'input 1: s23 is S32[2,3], the program wants F32[2,3]'
wrong 'x f32 -> z' 'input 1: f32 is F32[3,2], the program wants F32[2,3]'
wrong 'x f6 -> z' 'input 1: f6 is F32[6], the program wants F32[2,3]'
wrong 'x f123 -> z' 'input 1: f123 is F32[1,2,3], the program wants F32[2,3]'
wrong 'x d3 -> z' 'input 1: d3 is F64[3], the program wants F32[2,3]'
wrong 'x f -> z' 'input 1: f is F32[], the program wants F32[2,3]'
wrong 'x -> z' 'the program takes 2 inputs, 1 was given'
wrong '-> z' 'the program takes 2 inputs, 0 were given'
wrong 'x x x -> z' 'the program takes 2 inputs, 3 were given'
wrong 'x x ->' 'the program gives 1 output, 0 names were given'
wrong 'x x -> z z2' 'the program gives 1 output, 2 names were given'
fails_with 'No such file' run add 'x nothing -> z'
shows "$mnt/executables/add/run" 'error: ENOENT: add: input 1: there is no buffer nothing'
gone "$b/z.npy"

# names that are paths, lists with commas, devices that there are not: the sentence has the remedy
fails_with 'No such file' run add "x $b/x.npy -> z"
shows "$mnt/executables/add/run" "error: ENOENT: add: input 1: $b/x.npy:\
 expected a name below buffers/, found a path: write x.npy"
fails_with 'No such file' run add "x x -> $b/z"
tells "$mnt/executables/add/run" 'output 0: .*: expected .* found a path: write z$'
fails_with 'No such file' run add 'x, x -> z'
shows "$mnt/executables/add/run" 'error: ENOENT: add: input 0: there is no buffer "x,":'"\
 names are separated by blanks, not by commas"
fails_with 'No such device' run add "x x -> z device=$p:9"
shows "$mnt/executables/add/run" "error: ENODEV: add: there is no device $p:9; there are\
 $p:0, $p:1, $p:2 and $p:3"
gone "$b/z.npy"
# but what is there has its name
bounded mkdir "$b/buffers"
bounded cp "$data/y.npy" "$b/buffers/x.npy"
bounded cp "$data/y.npy" "$b/x,"
run add 'x buffers/x.npy -> buffers/z'
shows "$b/buffers/z.txt" $'11 22 33\n44 55 66'
bounded rm -r "$b/buffers" "$b/x,"

# the same sentences, as an object
ask '{"op":"execute","executable":"add","inputs":["x","s3"],"outputs":["z"]}' >reply
tells reply '"errno":"EINVAL"' '"code":"INVALID_ARGUMENT"' \
	'"message":"(execute: )?add: input 1[^:]*: s3 is S32\[3\], the program wants F32\[2,3\]"'

# -- on another device
other=$mnt/devices/$p/1/buffers
bounded cp "$data/x.npy" "$other/x.npy"
bounded cp "$data/y.npy" "$other/only1.npy"
same "$other/only1.npy" "$data/y.npy"
tells "$other/only1.json" "\"device\":\"$p:1\""
gone "$b/only1.npy"
fails_with 'No such file' run add 'x only1 -> z'
fails_with 'Invalid argument' run add "x $p:1/only1 -> z"
tells "$mnt/executables/add/run" "input 1.*: $p:1/only1 is on device $p:1, the program runs on $p:0"
gone "$b/z.npy"
fails_with 'No such device' run add "x $p:77/x -> z"
# a buffer is not moved between devices by mv: it says so, and the buffer stays
bounded mv "$other/only1.npy" "$b/moved.npy" 2>err || true
if bounded test -e "$b/moved.npy"; then
	same "$b/moved.npy" "$data/y.npy"
	gone "$other/only1.npy"
else
	same "$other/only1.npy" "$data/y.npy"
	[ -s err ] || fail "mv failed without a word"
fi
# cp between devices copies
bounded cp "$other/x.npy" "$b/from1.npy"
run add 'x from1 -> z'

# -- files that are not arrays
bounded touch "$b/empty.npy" "$b/scratch"
fails_with '' run add 'x empty -> z2'
tells "$mnt/executables/add/run" 'input 1: empty: it is empty'
fails_with '' run add 'x scratch -> z2'
bounded mkdir "$b/dir"
fails_with '' run add 'x dir -> z2'
tells "$mnt/executables/add/run" 'takes 2 inputs, 1 was given'
gone "$b/z2.npy"

# -- the same buffer twice is two arguments
run add 'x x -> twice'
shows "$b/twice.txt" $'2 4 6\n8 10 12'
shows "$mnt/plugins/$p/restarts" 0
