#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Floods: long batches, many sessions, many jobs, halves of commands, callers that go.
. "$srcdir/tests/lib.sh"
options=()
if [ "$(id -u)" = 0 ]; then
	options=(-o allow_other)
	chmod 755 "$work"
fi
mount_pjrtfs ${options[@]+"${options[@]}"}
if sanitized; then
	export SANITIZED=1
fi
timeout -k 5 $((patience * 12)) python3 -B "$top/tests/tools/floods.py" "$mnt"
shows "$mnt/health" ok
