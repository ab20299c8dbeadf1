#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Modes and owners in buffers/: chmod, chown, access, umask, and what they allow whom.
. "$srcdir/tests/lib.sh"
requires test "$(id -u)" = 0
mount_pjrtfs -o allow_other
posix_cases rights 4
