#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is installed does not show the folder in which it was built, so the same sources give the
# same bytes elsewhere; and its symbols are bound at the start, so that they cannot be changed.
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
