#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# configure: a system without a LAPACK is configured, and the package that has one is named.
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

# configured WANT: configure says this about the LAPACK, when it looks for it and at the end.
configured()
{
	mkdir tree
	(cd tree && timeout -k 5 $((patience * 10)) "$top/configure" CC="$work/linker" \
		--with-pjrt-include="$header" >../said 2>&1) || fail "configure failed: $(cat said)"
	tells said "^checking for liblapack\.so\.3\.\.\. $1\$" "^ *LAPACK +$1\$"
	rm -r tree
}
configured 'none, so programs with linear algebra cannot run: apt install libopenblas0-pthread'
lapack=yes configured 'liblapack\.so\.3'
