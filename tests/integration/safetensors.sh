#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# .safetensors: of one tensor and of many, what is refused, and how fast a large one is there.
. "$srcdir/tests/words.sh"
mount_pjrtfs
"$patient" $((patience * 6)) python3 -B "$top/tests/tools/checkpoints.py" "$mnt"
unharmed
