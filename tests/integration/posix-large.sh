#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files beyond 4 GiB, and what is beyond the memory limit.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other} --memory-limit 6G
chmod 755 "$work" # other users take part
cases=$top/tests/tools/posix_large.py
if sanitized; then
	export SANITIZED=1 # the plugin copies
fi
timeout -k 5 $((patience * 12)) python3 -B "$cases" "$mnt"
shows "$mnt/health" ok
