#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A plugin that keeps the host's bytes of a zero copy until the buffer's end, though it has copied them: uploads
# end, because none is asked for where the memory is not the host's, or does not use host memory in place.
. "$srcdir/tests/lib.sh"
requires setfattr --version
# begin FAULT: mount, with it from the first upload on
begin()
{
	faults "$1"
	mount_pjrtfs faulty
	b=$mnt/buffers
	bounded touch "$b/pinned.npy"
	bounded setfattr -n user.pjrtfs.memory -v pinned_host "$b/pinned.npy"
}
# uploaded NAME ZERO_COPY: an array that is written as NAME arrives whole, and in place or not
uploaded()
{
	bounded cp "$data/x.npy" "$b/$1.npy"
	same "$b/$1.npy" "$data/x.npy"
	equal "$1" "$(bounded jq -c '[.state, .zero_copy, .memory]' "$b/$1.json")" \
		"[\"ready\",$2,\"${3:-device}\"]"
}

# -- the device's own memory beside the host's
begin memory=own
uploaded first false
uploaded second false
uploaded pinned true pinned_host
put_add
run add 'first second -> z'
unmount_pjrtfs

# -- the host's memory, which is not used in place
begin memory=kept
uploaded first false
uploaded second false
uploaded pinned false pinned_host
unmount_pjrtfs

# -- the host's memory, used in place
begin memory=none
uploaded first true
uploaded pinned true pinned_host
