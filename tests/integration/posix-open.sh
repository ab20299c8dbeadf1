#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Open files in buffers/: unlinked, replaced, shared, locked, and their writers killed.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
chmod 755 "$work" # other users take part
cases=$top/tests/tools/posix_open.py
timeout -k 5 $((patience * 6)) python3 -B "$cases" "$mnt"
shows "$mnt/health" ok
