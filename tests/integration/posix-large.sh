#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 13 CPU-s
# Files beyond 4 GiB, and what is beyond the memory limit.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other} --memory-limit 6G
if sanitized; then
	export SANITIZED=1 # the plugin copies
fi
posix_cases large 12
