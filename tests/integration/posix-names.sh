#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Names in buffers/ as POSIX has them, for root and for another user.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
chmod 755 "$work" # other users take part
cases=$top/tests/tools/posix_names.py
timeout -k 5 $((patience * 4)) python3 -B "$cases" "$mnt"
if [ -n "$others" ]; then
	bounded chmod 1777 "$mnt/buffers"
	timeout -k 5 $((patience * 4)) python3 -B "$cases" --as 1001 "$mnt"
fi
shows "$mnt/health" ok
