#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 15 CPU-s
# Commands: batches, repetitions, directories as arguments, several devices, jobs, timeouts.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
"$patient" $((patience * 6)) python3 -B "$top/tests/tools/commands.py" "$mnt"
shows "$mnt/health" ok
