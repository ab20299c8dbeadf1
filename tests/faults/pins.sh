#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Large downloads go to memory that the plugin has pinned.  What fails there fails nobody's read, and is logged
# once; the worker may be killed in the middle of it.  tests/unit/worker/check_pins.c has how much is pinned.
. "$srcdir/tests/lib.sh"
export PJRTFS_FAULTY_CALLS=yes
own=(memory=own PJRT_Device_MemoryStats=alive) # the devices have memory of their own
# make_array NAME: on the device only
make_array()
{
	ask '{"op":"create","buffer":"'"$1"'","dtype":"U8","shape":[4194304],"uninitialized":true}' >reply
	tells reply '"ok":true'
}
# downloaded NAME: it is read whole, from the device
downloaded()
{
	make_array "$1"
	bounded cat "$mnt/buffers/$1.raw" >got
	equal "$1: bytes" "$(wc -c <got)" 4194304
	equal "$1: other bytes" "$(tr -d '\245' <got | wc -c)" 0
}
# has_pins N: so many blocks are pinned.
has_pins()
{
	bounded grep -q " $1 pins" "$mnt/devices/faulty/0/memory_stats.json"
}
# logged PATTERN [N]: the plugin's log has N such lines (1).
logged()
{
	[ "$(bounded cat "$mnt/plugins/faulty/log" | grep -c -e "$1")" = "${2:-1}" ]
}

# -- pinned as long as somebody has the bytes, and some seconds
faults "${own[@]}"
mount_pjrtfs faulty
downloaded a
has_pins 1
downloaded b
has_pins 2
bounded rm "$mnt/buffers/a.npy" "$mnt/buffers/b.npy"
eventually has_pins 0
downloaded a
has_pins 1

# -- no download goes to memory that the plugin has not unpinned yet
faults "${own[@]}" unpin=held:leaves
bounded rm "$mnt/buffers/a.npy"
reached leaves
downloaded b
has_pins 2
faults "${own[@]}"
eventually has_pins 1

# -- killed during a download: the next worker takes what is in host memory at once, and pins, too
put_add
faults "${own[@]}" download=held:killed
make_array c
bounded cat "$mnt/buffers/c.raw" >got 2>said &
reader=$!
reached killed
kill_worker faulty
faults "${own[@]}"
! wait "$reader" || fail "an array that only the dead process had was read"
run add 'x y -> z'
shows "$mnt/buffers/z.txt" $'0 0 0\n0 0 0'
equal "x" "$(bounded jq -r .state "$mnt/buffers/x.json")" ready
downloaded d
has_pins 1
same "$mnt/buffers/b.raw" "$mnt/buffers/d.raw" # downloaded before
unmount_pjrtfs

# -- the plugin cannot pin: one line, whatever follows
faults "${own[@]}" 'pin=error:RESOURCE_EXHAUSTED:no memory may be locked'
mount_pjrtfs faulty
for name in a b c; do
	downloaded "$name"
done
eventually logged 'cannot pin 4194304 bytes for downloads, .*: no memory may be locked (.*RLIMIT_MEMLOCK)$'
faults "${own[@]}"
downloaded d
has_pins 0
unmount_pjrtfs

# -- it does not offer that: no line
faults "${own[@]}" pin=error:UNIMPLEMENTED
mount_pjrtfs faulty
downloaded a
has_pins 0
settle
logged 'for downloads' 0
unmount_pjrtfs

# -- it cannot unpin: the memory is not used any more
faults "${own[@]}" unpin=error:INTERNAL:stuck
mount_pjrtfs faulty
downloaded a
bounded rm "$mnt/buffers/a.npy"
eventually logged 'cannot unpin 4194304 bytes for downloads, .*: stuck'
downloaded b
has_pins 1
shows "$mnt/plugins/faulty/restarts" 0
