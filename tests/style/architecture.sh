#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The picture of the layers is the one that the sources give.
"$srcdir/scripts/draw-layers" | diff "$srcdir/docs/architecture.svg" - || {
	echo "make it anew: scripts/draw-layers > docs/architecture.svg"
	exit 1
}
