#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# Installed files do not contain the path of the build folder, so the same sources give the same
# bytes in any folder; programs bind symbols at start-up, so that they cannot be changed later; and
# the library that workers load shows nothing but its table.
set -eu
top=$(cd "$srcdir" && pwd)
for program in pjrtfs pjrtfs-worker libpjrtfs-lapack.so; do
	! grep -aoE "($top|$PWD)/(src|include)/[a-z/_.-]+" "$program" || {
		echo "$program holds these paths of the build"
		exit 1
	}
	case $program in
	*.so) flags='FLAGS_1.* NOW' ;;
	*) flags='FLAGS_1.* NOW .*PIE' ;;
	esac
	readelf -d "$program" | grep -q "$flags" || {
		echo "$program is not linked with -pie -z now: $(readelf -d "$program")"
		exit 1
	}
done
exported=$(nm -D --defined-only libpjrtfs-lapack.so | awk '{ print $3 }')
[ "$exported" = pjrtfs_ffi_library ] || {
	echo "libpjrtfs-lapack.so exports: $exported"
	exit 1
}
