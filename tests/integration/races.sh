#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: tsan
# COST: 19 CPU-s
# An open of a name that another buffer takes over at that moment gets one of the two.
. "$srcdir/tests/words.sh"
mount_pjrtfs --memory-limit 64M
"$patient" $((patience * 6 * times)) python3 -B "$top/tests/tools/race.py" "$mnt"
# Deferred frees end soon.
bounded find "$mnt/buffers" -type f -delete
eventually uses_less 1048576
unharmed
