#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 12 CPU-s in 14 s
# configure: a system without a LAPACK, or without libhiredis, is configured, and the package that has it is named;
# so is one with a newer pjrt_c_api.h, whose functions pjrtfs does not know.
. "$srcdir/tests/lib.sh"
requires test ! -e "$top/config.status" # one that is configured in place refuses another folder
header=$(sed -n 's/^PJRT_INCLUDE = //p' "$build/Makefile")
cc=${CC:-cc}

# A compiler whose linker finds no LAPACK, or one that finds it.
mkdir lib
: | $cc -shared -x c -o lib/liblapack.so.3 -
cat >linker <<END
#!/bin/sh
case " \$* " in *" -l:liblapack.so.3 "*) [ -n "\$lapack" ] || exit 1 ;; esac
exec $cc "\$@" -L"$work/lib"
END
chmod +x linker

# configured WANT [VARIABLE=VALUE...]: configure, in tree, says this about the LAPACK, when it looks for it
# and at the end.
configured()
{
	rm -rf tree
	mkdir tree
	(cd tree && "$patient" $((patience * 10)) "$top/configure" CC="$work/linker" "${@:2}" \
		--with-pjrt-include="${include:-$header}" >../said 2>&1) || fail "configure failed: $(cat said)"
	tells said "^checking for liblapack\.so\.3\.\.\. $1\$" "^ *LAPACK +$1\$"
}

# A header that is newer than all functions that pjrtfs knows, and one that is too old.
mkdir header
sed -e 's/^\(#define PJRT_API_MINOR\) .*/\1 116/' \
	-e 's/^ *_PJRT_API_STRUCT_FIELD(PJRT_LoadedExecutable_GetDeviceAssignment);/&\n  void (*PJRT_Newer)(void);/' \
	"$header/pjrt_c_api.h" >header/pjrt_c_api.h
tells header/pjrt_c_api.h PJRT_Newer
include=$work/header lapack=yes configured 'liblapack\.so\.3' CFLAGS=-O0
tells said '^ *pjrt_c_api\.h .*, API 0\.116; pjrtfs uses the functions up to 0\.115$'
"$patient" $((patience * 30)) make -C tree src/pjrt/libpjrt_a-table.o \
	src/pjrt/libpjrt_a-plugin.o >said 2>&1 || fail "$(cat said)"
sed -i 's/^\(#define PJRT_API_MINOR\) .*/\1 80/' header/pjrt_c_api.h
(cd tree && fails_with 'pjrt_c_api.h of API 0.80 is too old: pjrtfs needs 0.81 or newer' \
	"$top/configure" --with-pjrt-include="$work/header")

# Without libhiredis all is built, and a group is refused with a sentence.
cat >pkg-config <<'END'
#!/bin/sh
case " $* " in *" hiredis "*) exit 1 ;; esac
exec pkg-config "$@"
END
chmod +x pkg-config
mkdir bin
configured 'none, so programs with linear algebra cannot run: apt install libopenblas0-pthread' \
	PKG_CONFIG="$work/pkg-config" CFLAGS=-O0
tells said '^ *--group +no, for lack of libhiredis: apt install libhiredis-dev$'
"$patient" $((patience * 30)) make -C tree pjrtfs-worker >said 2>&1 || fail "$(cat said)"
requires_mount
cp "$pjrtfs" tree/pjrtfs-worker bin
pjrtfs=bin/pjrtfs
refuses 1 'plugin cpu: this pjrtfs was built without libhiredis, which groups need$' cpu bin -f --no-cache \
	--plugin-dir "$plugins" --group redis://localhost --group-name x --group-process 0/1
