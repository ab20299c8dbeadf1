#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 6 CPU-s
# One directory of compiled programs for several machines: filled by one and only read by others
# (--cache-readonly), or written by all, over sshfs, where no lock is common to them.
. "$srcdir/tests/lib.sh"
. "$top/tests/sshd.sh"
chmod 755 "$work"

# program NAME HIT-OR-MISS: NAME.mlir compiles, or is found in the cache
program()
{
	put_like_add "$1"
	equal "$1" "$(bounded jq -r .cache "$mnt/executables/$1/info.json")" "$2"
}
# keeps N: the cache has so many entries; a program is ready before its own is written
keeps()
{
	settle
	tells "$mnt/cache/stats.json" "\"entries\": *$1,"
}
# says PROPERTY VALUE: of cache/stats.json
says()
{
	eventually jq -e ".$1 == $2" "$mnt/cache/stats.json"
}
# state DIR: all of the directory that a write, an eviction or a hit changes
state()
{
	find "$1" -printf '%P %i %U:%G %m %s %T@ %C@\n' | sort
	find "$1" -type f -exec sha256sum {} + | sort
}

# -- CI fills it
mount_pjrtfs --cache-dir "$work/ci"
program one miss
program two miss
keeps 2
unmount_pjrtfs

# reads OPTION...: another mount finds them, and changes nothing
reads()
{
	local entry
	state "${1:-ci}" >before
	mount_pjrtfs --cache-dir "$work/${1:-ci}" --cache-readonly --cache-size 1K
	program one hit
	program three miss
	says writable false
	says entries 2
	says hits 1
	says misses 1
	entry=$(bounded ls "$mnt/cache/entries" | head -n 1)
	fails_with 'Read-only file system' rm "$mnt/cache/entries/$entry"
	fails_with 'Read-only file system' say "$mnt/cache/clear" x
	fails_with 'Read-only file system' say "$mnt/cache/max" 1K
	tells "$mnt/error" "the cache $work/${1:-ci} is read-only"
	shows "$mnt/health" ok
	! grep -q 'warning: .*cache' "$mnt.log" || fail "a warning: $(cat "$mnt.log")"
	unmount_pjrtfs
	state "${1:-ci}" >after
	same before after
}
reads
if [ -n "$others" ]; then
	mkdir bound
	at_end 'umount -q -l "$work/bound"'
	mount --bind ci bound
	mount -o remount,bind,ro bound
	reads bound
	umount bound
fi
mount_pjrtfs --cache-dir "$work/none" --cache-readonly
program one miss
gone none "$mnt/cache"
tells "$mnt.log" "warning: no cache: cache directory $work/none: .*No such file"
unmount_pjrtfs

# -- a damaged entry is not used, and stays
cp -a ci damaged
for entry in damaged/entries/*; do
	printf x | dd of="$entry" bs=1 seek=1000 conv=notrunc status=none
done
state damaged >before
mount_pjrtfs --cache-dir "$work/damaged" --cache-readonly
program one miss
says damaged 1
unmount_pjrtfs
state damaged >after
same before after

# -- a user who cannot write there: of a directory that belongs to a third user
chmod -R go+rX ci
[ -z "$others" ] || chown -R 1234:1234 ci
# ordinary_mount WANT OPTION...: the program is found, or compiled
ordinary_mount()
{
	ordinary bash -c 'cd "$HOME" && exec "$build/pjrtfs" "cpu=$so" "$@" --run sh -c "
		cp \"$work/one.mlir\" \$PJRTFS_MOUNT/programs/ && cat \$PJRTFS_MOUNT/executables/one/info.json"' - \
		--cache-dir "$work/ci" "${@:2}" >out 2>err || fail "$(cat err)"
	equal "an ordinary user, ${*:2} ($(cat err))" "$(jq -r .cache out)" "$1"
}
export TMPDIR=/tmp
state ci >before
ordinary_mount hit --cache-readonly
if [ -n "$others" ]; then
	mount_pjrtfs --cache-dir "$work/ci" --cache-readonly
	program one hit
	unmount_pjrtfs
	ordinary_mount miss
	tells err 'no cache: .* belongs to user [0-9]+ and has mode 0755'
	chmod g+w ci/entries/*
	state ci >before
	ordinary_mount miss --cache-readonly
	chmod g+w ci
	state ci >before
	ordinary_mount miss --cache-readonly
	tells err 'no cache: .* has mode 0775'
fi
state ci >after
same before after

# -- two machines of one user: both write, and a lock of one is none for the other
mkdir shared a b
sshfs_mounts+=("$work/a" "$work/b")
for machine in a b; do
	bounded sshfs "far:$work/shared" $machine
done
exec 7>a/lock
flock -n 7
bounded flock -n b/lock true || fail "a lock is common to both: this test shows nothing"
exec 7>&-
mount_pjrtfs --cache-dir "$work/a/cache"
program one miss
keeps 1
first=$mnt
mount_pjrtfs --cache-dir "$work/b/cache"
program one hit
program two miss
keeps 2
mnt=$first
program two hit
unmount_pjrtfs
mnt=${lib_mounts[-1]}
unmount_pjrtfs

stress=$build/tests/tools/cache_stress
long=$((patience * 6))
"$patient" "$long" "$stress" mixed "$work/a/stress" 1 400 300000 >one &
one=$!
"$patient" "$long" "$stress" mixed "$work/b/stress" 2 400 300000 >two
wait "$one"
"$patient" "$long" "$stress" check "$work/shared/stress" >said
tells said 'good [1-9].* damaged 0'
grep -q 'hits [1-9]' two || fail "no hit: $(cat two)"
