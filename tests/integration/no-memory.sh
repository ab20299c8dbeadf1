#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 32 CPU-s in 55 s
# Allocations of the daemon fail, each in turn, in every operation: the operation fails with ENOMEM
# or succeeds, the daemon and all files stay.  PJRTFS_TEST_NO_MEMORY="1 once all every larger" tries
# every allocation, which takes some minutes.
. "$srcdir/tests/lib.sh"

truncate -s 4096 control
export FAILING_MALLOC=$work/control
tool=$top/tests/tools/no_memory.py
LD_PRELOAD=$build/tests/tools/failing_malloc.so mount_pjrtfs
# Each operation is swept by itself; a hang is one of them.
"$patient" $((patience * 18)) python3 -B "$tool" "$mnt"
shows "$mnt/health" ok

# With a state directory that has files from an earlier mount, topologies, and maxima.
requires setfattr -n user.try -v 1 "$work"
export PJRTFS_TEST_STATE=$work/state
mount_pjrtfs --state-dir "$PJRTFS_TEST_STATE"
mkdir "$mnt/buffers/disk"
printf '1 2 3\n' >x.txt
bounded cp x.txt "$mnt/buffers/"
for i in {0..999}; do
	bounded cp "$mnt/buffers/x.npy" "$mnt/buffers/disk/$i.npy"
done
unmount_pjrtfs
LD_PRELOAD=$build/tests/tools/failing_malloc.so mount_pjrtfs --state-dir "$PJRTFS_TEST_STATE" \
	--quota memory=64M
"$patient" $((patience * 18)) python3 -B "$tool" "$mnt"
eventually grep -qx ok "$mnt/health"
