#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# A daemon is killed while one of its threads waits in the kernel for a request that it has not
# answered, so the process cannot end: the next daemon answers the request.
. "$srcdir/tests/lib.sh"
requires_mount

mnt=$work/mnt
mkdir "$mnt"
at_end 'bounded fusermount3 -u -z "$mnt" 2>/dev/null'
STUCK=$work/stuck LD_PRELOAD=$build/tests/tools/stuck.so bounded "$pjrtfs" "${plugin:-cpu}" \
	"$mnt" --plugin-dir "$plugins" --no-cache </dev/null >out 2>&1 ||
	fail "cannot mount: $(cat out)"
bounded mkdir "$mnt/buffers/d"
bounded cp "$data/x.npy" "$mnt/buffers/d/"
daemon=$(bounded cat "$mnt/pid")
absent()
{
	[ ! -e "$1" ]
}
touch stuck
mkdir "$mnt/buffers/d/new" &
maker=$!
eventually absent stuck
waits()
{
	grep -qs '^State:.D' "/proc/$daemon/task/"*/status
}
eventually waits
kill -KILL "$daemon"
eventually stat "$mnt/buffers/d/new"
wait "$maker"
[ "$(bounded cat "$mnt/pid")" != "$daemon" ] || fail "the daemon lives on"
same "$mnt/buffers/d/x.npy" "$data/x.npy"
eventually absent "/proc/$daemon" # the holder reaps it
