#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 6 CPU-s in 17 s
# Each function of the plugin that an operation of a user reaches ends the plugin's process, or hangs until that
# is killed: the operation fails with a sentence, others are served, and the next process does it.
. "$srcdir/tests/lib.sh"
export PJRTFS_FAULTY_CALLS=yes
parts=25
for ((i = 0; i < parts; i++)); do
	mount_pjrtfs faulty --no-cache
	"$patient" $((patience * 20)) python3 -B "$top/tests/tools/plugin_calls_end.py" "$mnt" \
		"$faults" "$top/tests/faults/plugin/calls.h" "$i" "$parts"
	shows "$mnt/health" ok
	unmount_pjrtfs
done
