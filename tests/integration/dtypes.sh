#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# Every element type in every format and shape: its bytes, its numbers, its description.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
"$patient" $((patience * 6)) python3 -B "$top/tests/tools/dtypes.py" "$mnt"
shows "$mnt/health" ok
shows "$mnt/plugins/${plugin:-cpu}/restarts" 0
