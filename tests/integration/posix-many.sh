#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ten thousand buffers, and listings while names come and go.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
chmod 755 "$work" # other users take part
cases=$top/tests/tools/posix_many.py
timeout -k 5 $((patience * 6)) python3 -B "$cases" "$mnt"
shows "$mnt/health" ok
