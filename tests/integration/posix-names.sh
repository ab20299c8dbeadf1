#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Names in buffers/ as POSIX has them, for root and for another user.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
posix_cases names 4 both
