#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Open files in buffers/: unlinked, replaced, shared, locked, and their writers killed.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
posix_cases open 6
