#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 15 CPU-s in 20 s
# Files in buffers/ as POSIX and Linux have them, for root and for another user.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
# A process that executes another program closes what it has written; the daemon, which looks at it,
# must not wait for it.
bounded python3 -c 'import os, sys
os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), b"12345678\n")
os.execlp("true", "true")' "$mnt/buffers/executed.raw"
shows "$mnt/buffers/executed.raw" 12345678
[ -z "$others" ] || posix_cases rights 4
posix_cases open 6
posix_cases names 4 both
posix_cases rename 4 both
posix_cases times 4 both
