#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# Quotas of two ordinary users: what each has is counted, a refusal names the file of the maximum,
# and the other user goes on.
. "$srcdir/tests/words.sh"
requires test "$(id -u)" = 0
cpu=${plugin:-cpu}
mount_pjrtfs -o allow_other,mode=1777 --memory-limit 256M --quota memory=32M \
	--quota 1002:buffers=100 --quota "1002:$cpu:1/memory=1K"
b=$mnt/buffers
u=$mnt/users
why() # UID REGEX: the last refused call of the user
{
	as "$1" cat "$mnt/error" >why || :
	tells why "$2"
}
has() # UID RESOURCE NUMBER
{
	bounded grep -qx "$3" "$u/$1/$2.current"
}
put_add
own_data

# -- a user has a directory once there is something to show; no other user reads it
gone "$u/1001"
shows "$u/1002/buffers.max" 100
shows "$u/1002/$cpu:1/memory.max" 1024
as 1001 cp x.npy "$b/a.npy"
equal "one buffer" "$(as 1001 cat "$u/1001/buffers.current")" 1
equal "the default" "$(as 1001 cat "$u/1001/memory.max")" 33554432
shows "$u/0/memory.max" max
for file in memory.max memory.current; do
	fails_with 'ermission denied' as 1002 cat "$u/1001/$file"
done
fails_with 'ermission denied' as 1002 ls "$u/1001"
fails_with 'ermission denied' as_write 1001 "$u/1001/memory.max" max
fails_with 'ermission denied' as 1001 mkdir "$u/1003"
# members of the owner's group are not the owner
fails_with 'ermission denied' setpriv --reuid 1003 --regid 0 --clear-groups \
	bash -c 'echo 1 >"$1"' - "$u/1001/memory.max"

# -- maxima are set while the mount serves; for users that have not come yet, too
fails_with 'nvalid argument' say "$u/1001/jobs.max" 1.5 # check_quota.c has more words
bounded mkdir "$u/1009"
echo 1K >"$u/1009/programs.max"
shows "$u/1009/programs.max" 1024
fails_with 'nvalid argument' mkdir "$u/01"
fails_with 'not empty' rmdir "$u/1009"

# -- memory: arrays and the heap of files; removing gives it back
head -c 16777216 /dev/zero >16M
as 1001 cp 16M "$b/one.raw"
fails_with 'quota exceeded' as 1001 cp 16M "$b/two.raw"
why 1001 '^(write|close) buffers/two.raw: user 1001 has [0-9]+ of 33554432 bytes and wants [0-9]+ more: users/1001/memory.max$'
as 1002 cp 16M "$b/theirs.raw"
as 1001 rm "$b/one.raw" "$b/two.raw"
settle # a transfer that still ends has the bytes
as 1001 cp 16M "$b/two.raw"
as 1001 rm "$b/two.raw"
settle

# -- files of no size meet the same limit, and the number of files another one
many() # UID: make files until one is refused
{
	as "$1" bash -c 'for ((i = 0; i < 100000; i++)); do : >"$1/tiny$2.$i" || exit 1; done' \
		- "$b" "$1" 2>/dev/null || return 0
	fail "user $1 has 100000 files"
}
echo 1M >"$u/1001/memory.max"
many 1001
why 1001 '1048576 bytes and wants [0-9]+ more: users/1001/memory.max$'
n=$(as 1001 cat "$u/1001/buffers.current")
if [ "$n" -lt 200 ] || [ "$n" -gt 600 ]; then fail "1 MiB has room for $n files"; fi
many 1002
why 1002 '^create buffers/tiny1002.99: user 1002 has 100 of 100 buffers: users/1002/buffers.max$'
fails_with 'quota exceeded' as 1001 mkdir "$b/dir1" "$b/dir2" "$b/dir3" "$b/dir4" "$b/dir5" "$b/dir6"
echo 32M >"$u/1001/memory.max"
as 1002 find "$b" -maxdepth 1 -name 'tiny1002.*' -delete
as 1001 find "$b" -maxdepth 1 -name 'tiny1001.*' -delete
eventually has 1002 buffers 1
eventually has 1001 buffers 1

# -- a result that replaces a buffer adds none; a new one does
as 1002 cp x.npy "$b/r.npy"
echo 2 >"$u/1002/buffers.max"
as_run 1002 add 'x y -> r'
as_run 1002 add 'x y -> r'
fails_with 'quota exceeded' as_run 1002 add 'x y -> r2'
why 1002 'users/1002/buffers.max$'

# -- the owner of a file is charged, chown moves the charge
settle # what was replaced and removed is charged to nobody
before=$(cat "$u/1001/memory.current")
bounded chown 1001 "$b/theirs.raw"
has 1001 buffers 2
has 1002 buffers 1
[ "$(cat "$u/1001/memory.current")" -ge $((before + 16777216)) ] || fail "the bytes stay 1002's"
bounded chown 1002 "$b/theirs.raw"
equal "moved back" "$(cat "$u/1001/memory.current")" "$before"

# -- a copy of another user's array is charged to the user who copies
as 1001 cp "$b/theirs.raw" "$b/copy.raw"
[ "$(cat "$u/1001/memory.current")" -ge $((before + 16777216)) ] || fail "the copy is 1002's"
as 1002 rm "$b/theirs.raw"
eventually bash -c '[ "$(cat "$1")" -lt 100000 ]' - "$u/1002/memory.current"
same "$b/copy.raw" 16M
echo 1 >"$u/1002/buffers.max"
fails_with 'quota exceeded' as_write 1002 "$mnt/control" '{"op":"copy","buffer":"a","as":"b"}'
why 1002 'users/1002/buffers.max$'
echo max >"$u/1002/buffers.max"
settle
before=$(cat "$u/1001/memory.current")
as_write 1002 "$mnt/control" '{"op":"copy","buffer":"copy","as":"b"}'
[ "$(cat "$u/1002/memory.current")" -ge 16777216 ] || fail "the copy is 1001's"
equal "what 1001 has" "$(cat "$u/1001/memory.current")" "$before"
same "$b/b.raw" 16M

# -- the memory of one device
head -c 2048 /dev/zero >2K
fails_with 'quota exceeded' as 1002 cp 2K "$mnt/devices/$cpu/1/buffers/big.raw"
why 1002 "user 1002 has 0 of 1024 bytes and wants 2048 more: users/1002/$cpu:1/memory.max\$"
as 1002 rm "$mnt/devices/$cpu/1/buffers/big.raw"
head -c 1024 2K | as 1002 tee "$mnt/devices/$cpu/1/buffers/small.raw" >/dev/null
shows "$u/1002/$cpu:1/memory.current" 1024
as 1002 rm "$mnt/devices/$cpu/1/buffers/small.raw"
eventually has 1002 "$cpu:1/memory" 0

# -- results that the mount's memory is too small for take none of the device's
cat "$u/1001/memory.current" >"$u/1001/memory.max"
fails_with 'quota exceeded' as_run 1001 add 'x y -> more'
why 1001 'its results: user 1001 has [0-9]+ of [0-9]+ bytes .*: users/1001/memory.max$'
echo 32M >"$u/1001/memory.max"

# -- programs
echo 1 >"$u/1001/programs.max"
as 1001 cp add.mlir "$mnt/programs/mine.mlir"
fails_with 'quota exceeded' as 1001 cp add.mlir "$mnt/programs/second.mlir"
why 1001 '^create programs/second.mlir: user 1001 has 1 of 1 programs: users/1001/programs.max$'
fails_with 'quota exceeded' as_write 1001 "$mnt/control" '{"op":"compile","program":"mine","as":"other"}'
bounded chown 1002 "$mnt/programs/mine.mlir"
as 1001 cp add.mlir "$mnt/programs/second.mlir"
as 1001 rm "$mnt/programs/second.mlir"
eventually has 1001 programs 0

# -- everything removed, nothing is charged
as 1001 find "$b" -user 1001 -delete
as 1002 find "$b" "$mnt/programs" -user 1002 -delete
for uid in 1001 1002; do
	for what in memory buffers programs jobs executions "$cpu:0/memory" "$cpu:0/executions"; do
		eventually has $uid "$what" 0
	done
done

# -- the configuration in force shows them; what is wrong is refused
"$pjrtfs" --dump-config --quota memory=1G --quota 5:jobs=3 --quota memory=2G >dumped
equal "in force" "$(jq -c .quota dumped)" '["memory=2G","5:jobs=3"]'
fails_with 'RESOURCE is memory, buffers' "$pjrtfs" --dump-config --quota symbols=5
fails_with 'quota gpu:0/memory: the mount has no such device' "$pjrtfs" \
	--plugin-dir "$plugins" cpu "$mnt" -f --quota gpu:0/memory=5
