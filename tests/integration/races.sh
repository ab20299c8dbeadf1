#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: tsan
# COST: 19 CPU-s
# An open of a name that another buffer takes over at that moment gets one of the two.
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs --memory-limit 64M
timeout -k 5 $((patience * 6 * times)) python3 -B "$top/tests/tools/race.py" "$mnt"
# Deferred frees end soon.
bounded find "$mnt/buffers" -type f -delete
eventually bash -c "[ \$(df --output=used -B1 $mnt | tail -n 1) -lt 1048576 ]"
shows "$mnt/health" ok
shows "$mnt/plugins/${plugin:-cpu}/restarts" 0
