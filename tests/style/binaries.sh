#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installed files do not contain the path of the build folder, so the same sources give the same
# bytes in any folder; and programs bind symbols at start-up, so that they cannot be changed later.
set -eu
top=$(cd "$srcdir" && pwd)
for program in pjrtfs pjrtfs-worker; do
	! grep -aoE "($top|$PWD)/(src|include)/[a-z/_.-]+" "$program" || {
		echo "$program holds these paths of the build"
		exit 1
	}
	readelf -d "$program" | grep -q 'FLAGS_1.* NOW .*PIE' || {
		echo "$program is not linked with -pie -z now: $(readelf -d "$program")"
		exit 1
	}
done
