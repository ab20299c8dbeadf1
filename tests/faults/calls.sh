#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan tsan
# COST: 7 CPU-s in 8 s
# Each function of the plugin that pjrtfs calls fails with each of PJRT's codes, and succeeds without a
# result: the errno and the sentence are as documented, and nothing is leaked.
. "$srcdir/tests/lib.sh"
calls=$top/tests/faults/plugin/calls.h
export PJRTFS_FAULTY_CALLS=yes
mount_pjrtfs faulty --no-cache
"$patient" $((patience * 30)) python3 -B "$top/tests/tools/plugin_calls.py" "$mnt" "$faults" "$calls" \
	"$pjrtfs" "$build/tests/faults/faulty_plugin.so" "$top"/src/pjrt/*.c
shows "$mnt/health" ok
