#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The schema of commands and replies: it and the daemon agree.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
timeout -k 5 $((patience * 6)) python3 -B "$top/tests/tools/commands_schema.py" "$mnt"
shows "$mnt/health" ok
