#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 110 CPU-s
# LIMIT: 3600 s
# The release has every file of the repository, makes itself again with the same bytes, and builds,
# passes the tests that use its files in ways of their own, installs and is removed without a rest
# (make distcheck).  In the deep run it is optimized, as packages are, and passes all tests.
. "$srcdir/tests/lib.sh"
header=$(sed -n 's/^PJRT_INCLUDE = //p' "$build/Makefile")
check='unit/discover integration/setup integration/completions style/architecture style/binaries'
check+=' style/includes style/makefile style/spdx'
flags="CFLAGS='-O0 -U_FORTIFY_SOURCE'"
[ "$times" = 1 ] || check=check flags=

make_alone dist 'pjrtfs-*.tar.xz'
tar -xf pjrtfs-*.tar.xz
if git -C "$top" ls-files >files; then # a checkout, not an unpacked release
	grep -v '\.gitignore$' files | sort >wanted
	(cd pjrtfs-*/ && find . -type f -printf '%P\n' | sort) >there
	equal "what the release lacks" "$(comm -23 wanted there)" ''
fi

cd pjrtfs-*/ || exit
mkdir build
cd build || exit
../configure -q --with-pjrt-include="$header"
make -j"$(nproc)" distcheck TESTS="$check" DISTCHECK_CONFIGURE_FLAGS="$flags" >"$work/out" 2>&1 ||
	fail "make distcheck: $(grep -v '^PASS' "$work/out" | tail -n 100)"
same pjrtfs-*.tar.xz "$work"/pjrtfs-*.tar.xz
