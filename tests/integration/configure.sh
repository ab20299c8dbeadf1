#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 18 CPU-s in 20 s
# configure: a system without a LAPACK, or without libhiredis, is configured, and the package that has it is named.
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
		--with-pjrt-include="$header" >../said 2>&1) || fail "configure failed: $(cat said)"
	tells said "^checking for liblapack\.so\.3\.\.\. $1\$" "^ *LAPACK +$1\$"
}
lapack=yes configured 'liblapack\.so\.3'

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
