#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which operation in buffers/ changes which times, for root and for another user.
. "$srcdir/tests/lib.sh"
requires test "$(id -u)" = 0
mount_pjrtfs -o allow_other
chmod 755 "$work" # other users take part
cases=$top/tests/tools/posix_times.py
timeout -k 5 $((patience * 4)) python3 -B "$cases" "$mnt"
bounded chmod 1777 "$mnt/buffers"
timeout -k 5 $((patience * 4)) python3 -B "$cases" --as 1001 "$mnt"
shows "$mnt/health" ok
