#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: none
# The ways of docs/ARCHITECTURE.md name functions that are in their files, and are drawn as they are.
"$srcdir/scripts/draw-ways" --check || exit 1
"$srcdir/scripts/draw-ways" | cmp - "$srcdir/docs/ways.svg" || {
	echo "make it anew: scripts/draw-ways > docs/ways.svg"
	exit 1
}
