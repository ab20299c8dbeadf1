#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rename(2) as POSIX and Linux have it, for root and for another user.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
posix_cases rename 4 both
