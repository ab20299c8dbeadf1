#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Open files in buffers/: unlinked, replaced, shared, locked, and their writers killed.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
# A process that executes another program closes what it has written; the daemon, which looks at it,
# must not wait for it.
bounded python3 -c 'import os, sys
os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), b"12345678\n")
os.execlp("true", "true")' "$mnt/buffers/executed.raw"
shows "$mnt/buffers/executed.raw" 12345678
posix_cases open 6
