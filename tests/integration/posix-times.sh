#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which operation in buffers/ changes which times, for root and for another user.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
posix_cases times 4 both
