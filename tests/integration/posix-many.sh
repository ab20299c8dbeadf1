#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 10 CPU-s
# Ten thousand buffers, and listings while names come and go.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
posix_cases many 6
