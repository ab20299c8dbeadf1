#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 5 CPU-s
# What other producers of StableHLO write: quantized types, composites, custom calls, sizes that are values.  Each program
# of the table runs right or is refused in pjrtfs's words, which say what to do; no worker ends.
. "$srcdir/tests/words.sh"
mount_pjrtfs
bounded python3 -B "$top/tests/tools/producers.py" "$data/producers/cases.mlir" "$mnt"
unharmed
