#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Modes and owners in buffers/: chmod, chown, access, umask, and what they allow whom.
. "$srcdir/tests/lib.sh"
requires test "$(id -u)" = 0
mount_pjrtfs -o allow_other
chmod 755 "$work" # other users take part
cases=$top/tests/tools/posix_rights.py
timeout -k 5 $((patience * 4)) python3 -B "$cases" "$mnt"
shows "$mnt/health" ok
