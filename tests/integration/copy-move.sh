#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 7 CPU-s
# Copies within a device share the array, copies and moves to another stay on the devices.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs
b=$mnt/buffers
cpu=${plugin:-cpu}
b1=$mnt/devices/$cpu/1/buffers
b2=$mnt/devices/$cpu/2/buffers
put_add
used()
{
	bounded df --output=used -B1 "$mnt" | tail -n 1
}
# grown FROM: bytes more in use
grown()
{
	echo $(($(used) - $1))
}
told()
{
	bounded jq -c '[.state, .device]' "${1%.*}.json"
}
MiB=1048576

# -- within a directory: shared
head -c $((256 * MiB)) /dev/urandom >big.raw
npy '<f4' '(8192, 8192)' <big.raw >big.npy
bounded cp big.npy "$b/big.npy"
before=$(used)
bounded cp "$b/big.npy" "$b/copy.npy"
[ "$(grown "$before")" -lt $MiB ] || fail "the copy takes $(grown "$before") bytes"
equal "the copy" "$(told "$b/copy.npy")" "[\"ready\",\"$cpu:0\"]"
equal "its type" "$(bounded jq -c '[.dtype, .shape, .bytes]' "$b/copy.json")" '["F32",[8192,8192],268435456]'
[ "$(bounded stat -c %i "$b/copy.npy")" != "$(bounded stat -c %i "$b/big.npy")" ] || fail "one inode"
same "$b/copy.npy" big.npy
# in every way that copies
bounded mkdir "$b/ns"
bounded cp -a "$b/big.npy" "$b/ns/"
bounded cp --reflink=auto --sparse=never "$b/copy.npy" "$b/ns/2.npy"
bounded cp -r "$b/ns" "$b/ns2"
[ "$(grown "$before")" -lt $MiB ] || fail "the copies take $(grown "$before") bytes"
# changing one does not change the others
printf 'eight by' | bounded dd of="$b/ns/2.npy" bs=8 seek=$((100 * MiB / 8)) conv=notrunc status=none
same "$b/big.npy" big.npy
! bounded cmp -s "$b/ns/2.npy" big.npy || fail "the copy did not change"
grow=$(grown "$before")
equal "MiB of a changed copy" $((grow / MiB / 4 * 4)) 256
# the last one frees the memory
bounded rm "$b/big.npy" "$b/ns/2.npy"
eventually bash -c "[ \$((\$(df --output=used -B1 $mnt | tail -n 1) - $before)) -lt $MiB ]"
same "$b/copy.npy" big.npy
bounded rm -r "$b/ns" "$b/ns2"
same "$b/copy.npy" big.npy
bounded rm "$b/copy.npy"
eventually bash -c "[ \$(df --output=used -B1 $mnt | tail -n 1) -lt $MiB ]"

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
# over what is there: the same inode, a new value
ino=$(bounded stat -c %i "$b/e.npy")
bounded cp "$b/y.npy" "$b/e.npy"
equal "cp over" "$(bounded stat -c %i "$b/e.npy")" "$ino"
same "$b/e.npy" "$data/y.npy"
# a part, another place, into itself, from a file that is written
bounded python3 -c 'import os, sys
b, data = sys.argv[1], open(sys.argv[2], "rb").read()
src = os.open(b + "/y.npy", os.O_RDONLY)
dst = os.open(b + "/part", os.O_RDWR | os.O_CREAT)
assert os.copy_file_range(src, dst, 100, 20, 7) == 100
assert os.pread(dst, 1000, 0) == bytes(7) + data[20:120]
assert os.copy_file_range(src, dst, 1000, 100, 0) == len(data) - 100
assert os.copy_file_range(src, dst, 1000, len(data), 0) == 0
assert os.copy_file_range(dst, dst, 10, 0, 50) == 10
assert os.pread(dst, 10, 50) == os.pread(dst, 10, 0)
os.close(dst)
# all of it in small steps is still that array
dst = os.open(b + "/steps.npy", os.O_WRONLY | os.O_CREAT)
at = 0
while at < len(data):
    at += os.copy_file_range(src, dst, 50, at, at)
os.close(dst)
assert open(b + "/steps.npy", "rb").read() == data
# half of it is none
dst = os.open(b + "/half.npy", os.O_WRONLY | os.O_CREAT)
os.copy_file_range(src, dst, 140, 0, 0)
try:
    os.close(dst)
    raise SystemExit("half an array was taken")
except OSError as e:
    assert e.errno == 22, e
# bytes after a copied part are written
dst = os.open(b + "/mixed.npy", os.O_RDWR | os.O_CREAT)
os.copy_file_range(src, dst, 140, 0, 0)
assert os.pread(dst, 1000, 0) == data[:140]
os.pwrite(dst, data[140:], 140)
assert os.pread(dst, 1000, 0) == data
os.close(dst)
assert open(b + "/mixed.npy", "rb").read() == data
# to and from elsewhere the kernel copies
out = os.open("elsewhere", os.O_RDWR | os.O_CREAT)
at = 0
while at < len(data):
    n = os.sendfile(out, src, at, 1000)
    at += n
assert os.pread(out, 1000, 0) == data
' "$b" "$data/y.npy"
equal "steps" "$(told "$b/steps.npy")" "[\"ready\",\"$cpu:0\"]"
run add 'steps mixed -> sum'
shows "$b/sum.txt" $'20 40 60\n80 100 120'
fails_with '' cp --reflink=always "$b/y.npy" "$b/never.npy"
bounded rm -r "$b"/*
cp "$data/x.npy" "$data/y.npy" "$b/"

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
eventually sh -c '[ "$(jq -r "[.state, .device] | @text" "$1")" = "$2" ]' - "$b1/x.json" \
	"[\"ready\",\"$cpu:1\"]"
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
eventually sh -c '[ "$(jq -r "[.state, .device] | @text" "$1")" = "$2" ]' - "$b2/x.json" \
	"[\"ready\",\"$cpu:2\"]"
exec 5<"$b/y.npy"
renamed "$b/y.npy" "$b1/y.npy"
bounded cat <&5 >y.npy
exec 5<&-
cmp y.npy "$data/y.npy"
# refused as within one device: another format, a view, a directory in the way
fails_with '' renamed "$b1/y.npy" "$b/y.raw"
fails_with '' renamed "$b1/y.raw" "$b/y.raw"
bounded mkdir "$b/dir"
fails_with '' renamed "$b1/y.npy" "$b/dir"
fails_with '' renamed "$b1/y.npy" "$b/dir.npy"
same "$b1/y.npy" "$data/y.npy"
# directories, by mv(1)
bounded mkdir -p "$b/tree/sub"
cp "$data/x.npy" "$b/tree/"
cp "$data/y.npy" "$b/tree/sub/"
bounded mv "$b/tree" "$b2/"
gone "$b/tree"
same "$b2/tree/x.npy" "$data/x.npy"
same "$b2/tree/sub/y.npy" "$data/y.npy"
equal "its device" "$(told "$b2/tree/sub/y.npy")" "[\"ready\",\"$cpu:2\"]"
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
before=$(used)
renamed "$b/big.npy" "$b1/big.npy"
eventually grep -q '"state":"ready"' "$b1/big.json"
same "$b1/big.npy" big.npy
[ "$(grown "$before")" -lt $((16 * MiB)) ] || fail "moving takes $(grown "$before") bytes more"
bounded rm "$b1/big.npy"
eventually bash -c "[ \$(df --output=used -B1 $mnt | tail -n 1) -lt $MiB ]"
shows "$mnt/health" ok
shows "$mnt/plugins/$cpu/restarts" 0
