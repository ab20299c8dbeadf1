#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 12 CPU-s
# Floods: long batches, many sessions, many jobs, halves of commands, callers that go.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
chmod 755 "$work" # other users take part
if sanitized; then
	export SANITIZED=1
fi
"$patient" $((patience * 12)) python3 -B "$top/tests/tools/floods.py" "$mnt"
shows "$mnt/health" ok
