#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A cache whose disk is full or read-only: one warning, and everything works; check_cache_directory.c has
# the directories that are refused.
. "$srcdir/tests/lib.sh"
at_end 'umount -q -l "$work/full"'
works()
{
	local n
	bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
	for n in 1 2 3; do
		put_like_add "p$n"
		run "p$n" 'x y -> z'
		shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
	done
}
# warned WORDS: exactly one line of the log is a warning, and says so
warned()
{
	equal "warnings" "$(grep -c 'warning: .*cache' "$mnt.log")" 1
	tells "$mnt.log" "$1"
}

# refused WHY: health and stats.json say that entries cannot be written
refused()
{
	settle
	tells "$mnt/health" "^cache /.*: write entry [0-9a-f]{64}: $1; programs are compiled but not kept\$"
	tells "$mnt/metrics.prom" '^pjrtfs_healthy 0$' '^pjrtfs_cache_write_errors_total [1-9]'
	tells "$mnt/cache/stats.json" '"writable":true' \
		"\"write_error\":\"write entry [0-9a-f]{64}: $1\""
}
# kept: they prove nothing once an entry has been written
kept()
{
	settle
	shows "$mnt/health" ok
	bounded jq -e 'has("write_error") | not' "$mnt/cache/stats.json" >/dev/null ||
		fail "stats.json: $(bounded cat "$mnt/cache/stats.json")"
	tells "$mnt.log" 'compiled programs are kept in the cache .* again$'
	equal "said of the cache" "$(grep -c 'warning: .*cache' "$mnt.log")" 2
}
# -- a disk that is full
if mkdir full && mount -t tmpfs -o size=64k,mode=0700 none full 2>/dev/null; then
	dd if=/dev/zero of=full/rest bs=4k count=14 status=none
	mount_pjrtfs --cache-dir "$work/full"
	shows "$mnt/health" ok
	works
	refused 'No space left on device'
	warned 'cannot be kept in the cache .*full: No space left on device'
	# -- room again: they are kept
	rm full/rest
	put_like_add more
	kept
	# and not, once more
	dd if=/dev/zero of=full/rest bs=4k status=none 2>/dev/null || :
	put_like_add evenmore
	refused 'No space left on device'
	unmount_pjrtfs || fail "it ends badly"
	# -- what was kept is found when the directory is read-only
	mount -o remount,ro full
	mount_pjrtfs --cache-dir "$work/full"
	put_like_add more
	works
	[ "$(bounded jq .hits "$mnt/cache/stats.json")" -ge 1 ] || fail "nothing is found"
	tells "$mnt/cache/stats.json" '"writable":false'
	fails_with 'Read-only' say "$mnt/cache/clear" x
	put_like_add other
	eventually grep -q 'cannot be kept in the cache .*: Read-only file system' "$mnt.log"
	shows "$mnt/health" ok # it was meant so
	unmount_pjrtfs
	umount full
	# -- one that was full from the start has not even its directories
	mount -t tmpfs -o nr_inodes=1,mode=0700 none full
	mount_pjrtfs --cache-dir "$work/full"
	works
	eventually grep -q '^cache /.*: write entry .*: No space left on device' "$mnt/health"
	unmount_pjrtfs
	umount full
fi

# -- a directory of an ordinary user's whose mode changes; root may write in any
if [ "$(id -u)" != 0 ]; then
	mount_pjrtfs --cache-dir "$work/closed"
	chmod 0500 closed/tmp
	works
	refused 'Permission denied'
	chmod 0700 closed/tmp
	put_like_add more
	kept
	unmount_pjrtfs
fi

# -- the default lies in the home directory
PJRTFS_CACHE_DIR='' XDG_CACHE_HOME=$work/xdg mount_pjrtfs
works
unmount_pjrtfs
[ -d "$work/xdg/pjrtfs/entries" ] || fail "not in \$XDG_CACHE_HOME"
equal "its mode" "$(stat -c %a "$work/xdg/pjrtfs")" 700
