#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Copies within a device share the array, copies and moves to another stay on the devices.
. "$srcdir/tests/words.sh"
mount_pjrtfs
b=$mnt/buffers
cpu=${plugin:-cpu}
b1=$mnt/devices/$cpu/1/buffers
b2=$mnt/devices/$cpu/2/buffers
put_add
# grown FROM: bytes more in use
grown()
{
	echo $(($(used) - $1))
}
told()
{
	bounded jq -c '[.state, .device]' "${1%.*}.json"
}
# is_on FILE DEVICE: the array is there; a move returns before
is_on()
{
	[ "$(told "$1")" = "[\"ready\",\"$cpu:$2\"]" ]
}
MiB=1048576

# -- within a directory: shared
head -c $((16 * MiB)) /dev/urandom | npy '<f4' '(4096, 1024)' >big.npy
bounded cp big.npy "$b/big.npy"
settle
before=$(used)
bounded cp "$b/big.npy" "$b/copy.npy"
[ "$(grown "$before")" -lt $MiB ] || fail "the copy takes $(grown "$before") bytes"
# in every way that copies
bounded mkdir "$b/ns"
bounded cp -a "$b/big.npy" "$b/ns/"
bounded cp --reflink=auto "$b/copy.npy" "$b/ns/2.npy"
bounded cp -r "$b/ns" "$b/ns2"
[ "$(grown "$before")" -lt $MiB ] || fail "the copies take $(grown "$before") bytes"
# changing one does not change the others; the last one frees the memory
printf 'eight by' | bounded dd of="$b/ns/2.npy" bs=8 seek=$MiB conv=notrunc status=none
same "$b/big.npy" big.npy
! bounded cmp -s "$b/ns/2.npy" big.npy || fail "the copy did not change"
bounded rm -r "$b/ns" "$b/ns2" "$b/copy.npy"
same "$b/big.npy" big.npy
bounded rm "$b/big.npy"
eventually uses_less $MiB

# -- small ones, of each format, and of results; the copies are arrays of their own
run add 'x y -> z'
printf '1 2\n3 4\n' | bounded tee "$b/t.txt" >/dev/null
ask '{"op":"create","buffer":"w","dtype":"BF16","shape":[2,2]}' >reply
printf abcdefgh | bounded tee "$b/w.raw" >/dev/null
for name in x.npy z.npy t.txt w.raw; do
	bounded cp "$b/$name" "$b/c-$name"
	same "$b/c-$name" "$b/$name"
	equal "c-$name" "$(told "$b/c-$name")" "[\"ready\",\"$cpu:0\"]"
done
equal "text's type" "$(bounded jq -c '[.dtype, .shape]' "$b/c-t.json")" '["F32",[2,2]]'
equal "raw bytes are bytes" "$(bounded jq -c .shape "$b/c-w.json" | grep -c .)" 1
bounded cp "$b/x.npy" "$b/e.npy"
run add 'x y -> x' # the copy has the old value
run add 'e y -> sum'
same "$b/sum.npy" "$b/x.npy"
bounded rm -r "$b"/*
put_add

# -- to another device
bounded cp "$b/x.npy" "$b1/x.npy"
equal "the copy" "$(told "$b1/x.npy")" "[\"ready\",\"$cpu:1\"]"
same "$b1/x.npy" "$data/x.npy"
shows "$b1/x.txt" $'1 2 3\n4 5 6'
same "$b/x.npy" "$data/x.npy"
bounded cp "$b1/x.npy" "$b2/y.npy"
equal "the copy's copy" "$(told "$b2/y.npy")" "[\"ready\",\"$cpu:2\"]"
run add 'x y -> z'
bounded cp "$b/z.npy" "$b1/"
same "$b1/z.npy" "$b/z.npy"
bounded cp -r "$b/." "$b2/all"
same "$b2/all/z.npy" "$b/z.npy"
equal "in a directory" "$(told "$b2/all/x.npy")" "[\"ready\",\"$cpu:2\"]"
bounded rm "$b/x.npy" # the copies stay
same "$b1/x.npy" "$data/x.npy"
same "$b2/y.npy" "$data/x.npy"
# back; an array of another device cannot be an argument
bounded cp "$b1/x.npy" "$b/x.npy"
run add 'x y -> z'
shows "$b/z.txt" $'11 22 33\n44 55 66'
fails_with '' run add "$cpu:1/x y -> never"
bounded rm -r "$b1"/* "$b2"/*

# -- mv
bounded touch -d '2001-02-03 UTC' "$b/x.npy"
bounded chmod 604 "$b/x.npy"
ino=$(bounded stat -c %i "$b/x.npy")
# rename(2) itself, so that mv(1) does not copy and remove
renamed()
{
	bounded python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[2])' "$1" "$2"
}
renamed "$b/x.npy" "$b1/x.npy"
gone "$b/x.npy" "$b/x.json"
eventually is_on "$b1/x.npy" 1
equal "what stays" "$(bounded stat -c '%i %a %Y' "$b1/x.npy")" "$ino 604 981158400"
same "$b1/x.npy" "$data/x.npy"
shows "$b1/x.txt" $'1 2 3\n4 5 6'
fails_with '' run add 'x y -> never'
# and back, used at once: users wait
for _ in 1 2 3 4 5 6 7 8; do
	renamed "$b1/x.npy" "$b/x.npy"
	run add 'x y -> z'
	shows "$b/z.txt" $'11 22 33\n44 55 66'
	renamed "$b/x.npy" "$b1/x.npy"
	renamed "$b1/x.npy" "$b2/x.npy"
	same "$b2/x.npy" "$data/x.npy"
	renamed "$b2/x.npy" "$b1/x.npy"
done
# over another, under another name, into a directory there
cp "$data/y.npy" "$b1/y.npy"
renamed "$b1/x.npy" "$b/y.npy"
same "$b/y.npy" "$data/x.npy"
bounded mkdir "$b1/ns"
renamed "$b/y.npy" "$b1/ns/other.npy"
eventually grep -q '"state":"ready"' "$b1/ns/other.json"
same "$b1/ns/other.npy" "$data/x.npy"
# results, scratch files, files that are open
cp "$data/x.npy" "$b/x.npy"
cp "$data/y.npy" "$b/y.npy"
run add 'x y -> z'
renamed "$b/z.npy" "$b1/z.npy"
shows "$b1/z.txt" $'11 22 33\n44 55 66'
cp "$data/x.npy" "$b/x.part"
renamed "$b/x.part" "$b1/x.part"
same "$b1/x.part" "$data/x.npy"
renamed "$b1/x.part" "$b2/x.npy" # and commits there
eventually is_on "$b2/x.npy" 2
exec 5<"$b/y.npy"
renamed "$b/y.npy" "$b1/y.npy"
bounded cat <&5 >y.npy
exec 5<&-
cmp y.npy "$data/y.npy"
# directories, by mv(1)
bounded mkdir -p "$b/tree/sub"
cp "$data/x.npy" "$b/tree/"
cp "$data/y.npy" "$b/tree/sub/"
bounded mv "$b/tree" "$b2/"
gone "$b/tree"
same "$b2/tree/x.npy" "$data/x.npy"
same "$b2/tree/sub/y.npy" "$data/y.npy"
eventually is_on "$b2/tree/sub/y.npy" 2
# scratch files, by mv(1), to programs/ and back; an array has no place there
echo note >note
bounded cp note "$b/"
bounded mv "$b/note" "$mnt/programs/"
gone "$b/note"
bounded mv "$mnt/programs/note" "$b1/"
gone "$mnt/programs/note"
same "$b1/note" note
fails_with 'not supported' mv "$b1/y.npy" "$mnt/programs/"

# -- large: memory is what it was
bounded rm -r "$b"/* "$b1"/* "$b2"/*
bounded cp big.npy "$b/big.npy"
settle
before=$(used)
renamed "$b/big.npy" "$b1/big.npy"
eventually grep -q '"state":"ready"' "$b1/big.json"
same "$b1/big.npy" big.npy
settle # what was on the other device is freed
[ "$(grown "$before")" -lt $((2 * MiB)) ] || fail "moving takes $(grown "$before") bytes more"
bounded rm "$b1/big.npy"
eventually uses_less $MiB
shows "$mnt/health" ok
shows "$mnt/plugins/$cpu/restarts" 0
