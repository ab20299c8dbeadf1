#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# Installed files do not contain the path of the build folder, so the same sources give the same
# bytes in any folder; programs bind symbols at start-up, so that they cannot be changed later; to mount takes
# four libraries beside libc; and the libraries that workers load show nothing but their tables.
set -eu
top=$(cd "$srcdir" && pwd)
for program in pjrtfs pjrtfs-worker libpjrtfs-lapack.so pjrtfs-redis.so; do
	[ -e "$program" ] || continue # pjrtfs-redis.so needs libhiredis
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
needed=$(readelf -d pjrtfs pjrtfs-worker libpjrtfs-lapack.so | sed -n 's/.*(NEEDED).*\[\(.*\)\.so\..*/\1/p' | sort -u | tr '\n' ' ')
[ "$needed" = "libc libcrypto libfuse3 libjson-c libm libprotobuf-c " ] || {
	echo "to mount takes $needed"
	exit 1
}
for library in libpjrtfs-lapack.so:pjrtfs_ffi_library pjrtfs-redis.so:pf_kv_redis; do
	[ -e "${library%:*}" ] || continue
	exported=$(nm -D --defined-only "${library%:*}" | awk '{ print $3 }')
	[ "$exported" = "${library#*:}" ] || {
		echo "${library%:*} exports: $exported"
		exit 1
	}
done
