#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 4 CPU-s in 27 s
# --state-dir on a disk that is full or fails: users notice nothing, health does.
. "$srcdir/tests/lib.sh"
requires isolated
mkdir disk
requires mount -t tmpfs -o size=4M,mode=700 tmpfs disk
state=$work/disk/state
mkdir -m 700 "$state"
requires setfattr -n user.try -v 1 "$state"

mkdir full
mount -t tmpfs -o size=64k,mode=700 tmpfs full
PJRTFS_CACHE_DIR=$work/full mount_pjrtfs --state-dir "$state"
b=$mnt/buffers
kept()
{
	cmp -s "$b/$1" "$state/buffers/$1"
}

cp "$data/x.npy" "$b/"
printf abcd >"$b/written.raw"
printf efgh >"$b/replaced.raw"
eventually kept x.npy
eventually kept written.raw
eventually kept replaced.raw
head -c 16M /dev/zero >"$b/big.raw"
eventually grep -q 'state-dir: write buffers/big.raw: No space left on device; not kept: 1 file$' \
	"$mnt/health"
# every trouble has a line, also that of the cache; the lost file is the first
head -c 64k /dev/zero >full/all 2>/dev/null || :
bounded cp "$data/add.mlir" "$mnt/programs/"
eventually grep -q "^cache $work/full: write entry .*: No space left on device" "$mnt/health"
eventually eval '[ "$(sed "s/:.*//; s/ .*//" "$mnt/health" | xargs)" = "state-dir cache" ]'
tells "$mnt/metrics.prom" '^pjrtfs_healthy 0$' '^pjrtfs_state_files_not_kept [1-9]' \
	'^pjrtfs_state_write_errors_total [1-9]' '^pjrtfs_cache_write_errors_total 1$'
rm full/all
# what fits is kept, and users' writes succeed
cp "$data/y.npy" "$b/"
eventually kept y.npy
eventually grep -q 'big.raw: No space left on device; what changes is not kept' "$mnt.log"
test ! -e "$state/buffers/big.raw"
# a name has its old bytes until the new ones are there
cp "$b/big.raw" "$b/written.raw"
cp "$b/big.raw" "$b/new.raw"
mv "$b/new.raw" "$b/replaced.raw"
eventually grep -q 'not kept: 3 files' "$mnt/health"
equal "written over" "$(cat "$state/buffers/written.raw")" abcd
equal "replaced" "$(cat "$state/buffers/replaced.raw")" efgh
mount -o remount,size=64M "$work/disk"
eventually kept big.raw
eventually kept written.raw
eventually kept replaced.raw
put_like_add other # which the cache can keep
eventually grep -qx ok "$mnt/health"
eventually grep -q 'all is kept again' "$mnt.log"

# -- a disk that can only be read
eventually mount -o remount,ro "$work/disk"
cp "$data/x.npy" "$b/y2.npy"
eventually grep -q 'state-dir: .*Read-only file system' "$mnt/health"
same "$b/y2.npy" "$data/x.npy"
mount -o remount,rw "$work/disk"
eventually kept y2.npy
eventually grep -qx ok "$mnt/health"

# -- what does not fit at the end is named in the log
mount -o remount,size=52M "$work/disk"
head -c 16M /dev/zero >"$b/last.raw"
unmount_pjrtfs
grep -q 'not kept at the end: 1 file; the first: write buffers/last.raw' "$mnt.log" ||
	fail "the log does not name it"
mount -o remount,size=64M "$work/disk"
mount_pjrtfs --state-dir "$state"
gone "$mnt/buffers/last.raw"
same "$mnt/buffers/y2.npy" "$data/x.npy"
unmount_pjrtfs

# -- bytes that the disk did not take replace none
NO_SYNC=$work/no-sync LD_PRELOAD=$build/tests/tools/no_sync.so mount_pjrtfs --state-dir "$state"
b=$mnt/buffers
echo 1 2 >"$b/synced.txt"
eventually kept synced.txt
touch no-sync
echo 3 4 >"$b/synced.txt"
eventually grep -q 'state-dir: write buffers/synced.txt: Input/output error; not kept: 1 file$' "$mnt/health"
shows "$state/buffers/synced.txt" '1 2'
rm no-sync
eventually kept synced.txt
unmount_pjrtfs
umount "$work/disk"
