#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A plugin that uses host memory in place gets an array when it is first used: close(2) does not wait for it, until
# it has refused one.
. "$srcdir/tests/words.sh"
mount_pjrtfs faulty
b=$mnt/buffers
put_add # shows that the plugin uses the bytes in place

# -- close(2) returns though the plugin would take no array
faults upload=held:upload
bounded cp "$data/x.npy" "$b/new.npy"
bounded cp "$data/x.npy" "$b/x.npy"
equal "new" "$(bounded jq -c '[.state, .zero_copy, .on_device_bytes]' "$b/new.json")" '["ready",true,24]'
same "$b/new.npy" "$data/x.npy"
[ ! -s "$faults.reached" ] || fail "close(2) has the plugin take the array"

# -- a type that the plugin has not taken yet, and refuses: close(2) tells it
faults 'upload=error:UNIMPLEMENTED:no such type'
packed 's<*' 1 2 | npy '<i2' '(2,)' >other.npy
fails_with '' cp other.npy "$b/"
tells "$b/other.json" 'no such type'
faults upload=held:upload

# -- the first use waits
run add 'new y -> z' &
user=$!
reached upload
faults
wait "$user" || fail "an array that was held is not used"
shows "$b/z.txt" $'0 0 0\n0 0 0'

# -- a refusal is told at the use and in .json; after it close(2) asks the plugin, until it takes one
bounded cp "$data/x.npy" "$b/refused.npy"
faults 'upload=error:RESOURCE_EXHAUSTED:no room here'
fails_with '' run add 'refused y -> never'
tells "$mnt/error" 'no room here'
equal "refused" "$(bounded jq -r .state "$b/refused.json")" error
tells "$b/refused.json" 'no room here'
fails_with '' cp "$data/x.npy" "$b/asked.npy"
tells "$b/asked.json" 'no room here'
faults
bounded cp "$data/x.npy" "$b/refused.npy"
run add 'refused y -> z'

# -- with a maximum for the device close(2) tells that it is reached
max=$mnt/users/0/faulty:0/memory.max
say "$max" 1
fails_with 'Disk quota exceeded' cp "$data/x.npy" "$b/large.npy"
say "$max" max
bounded cp "$data/x.npy" "$b/large.npy"
unmount_pjrtfs
