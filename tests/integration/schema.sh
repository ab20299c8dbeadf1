#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The schema of commands and replies: it and the daemon agree.
. "$srcdir/tests/lib.sh"
read -ra cc <<<"${CC:-cc}" # it may have options
requires "${cc[@]}" --version
"${cc[@]}" -shared -fPIC -O2 -I"$top/include" -Dpjrtfs_ffi_library=unused -Dstatic= \
	-o library.so "$top/docs/examples/ffi/leaky_relu.c"
export FFI_LIBRARY=$work/library.so
mount_pjrtfs
timeout -k 5 $((patience * 6)) python3 -B "$top/tests/tools/commands_schema.py" "$mnt"
shows "$mnt/health" ok
