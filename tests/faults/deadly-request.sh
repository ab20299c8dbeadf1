#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# A request that ends the daemon each time it is processed: after two deaths it fails, and all else
# goes on.
. "$srcdir/tests/lib.sh"
CRASH=$work/crash LD_PRELOAD=$build/tests/tools/crash.so mount_pjrtfs --keep
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers"
equal "dtype" "$(bounded getfattr --absolute-names --only-values -n user.pjrtfs.dtype "$mnt/buffers/x.npy")" F32
first=$(bounded cat "$mnt/pid")

# To get an attribute of an array calls json_object_object_get.
touch crash
fails_with 'Input/output error' getfattr --absolute-names -n user.pjrtfs.dtype "$mnt/buffers/x.npy"
rm crash
[ "$(bounded cat "$mnt/pid")" != "$first" ] || fail "the daemon did not die"
for name in x y; do
	same "$mnt/buffers/$name.npy" "$data/$name.npy"
	equal "dtype" "$(bounded getfattr --absolute-names --only-values -n user.pjrtfs.dtype "$mnt/buffers/$name.npy")" F32
done
