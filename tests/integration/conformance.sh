#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: none
# COST: 70 CPU-s
# All conformance cases in the sandbox strict, as an ordinary user; those of JAX and of several devices also
# as root, and as root with the rights of Landlock's ABI 2 only (Linux 5.19): they give the same bytes.
. "$srcdir/tests/lib.sh"
requires_mount
requires has_landlock
requires find_numpy
export python name=${plugin:-cpu} so=$plugins/${plugin:-cpu}/pjrt_plugin.so
export work build top HOME=$work/home archive=cases filter=
mkdir -m 777 home
bounded "$python" -B "$top/tests/conformance/selftest.py" >out 2>&1 || fail "selftest: $(cat out)"

# cases MODE LANDLOCK COMMAND...: all cases, or those of $filter, run by COMMAND; what they gave is in the
# file MODE.
cases()
{
	local mode=$1 landlock=$2
	shift 2
	"$@" bash -c 'cd / && TMPDIR=$HOME PJRTFS_BUILD=$build exec "$python" -B \
		"$top/tests/conformance/run" "$top/tests/conformance/$archive.tar.xz" \
		--plugin "$name=$so" --multi --filter "$filter" --digests "$HOME/digests"' >out 2>&1 ||
		fail "$mode: $(cat out)"
	tells out "^plugin $name, API [0-9.]+, sandbox strict, landlock $landlock, seccomp yes\$" \
		'^[1-9][0-9]* passed, 0 failed$'
	mv home/digests "$mode"
	echo "$mode: $(tail -n 1 out)"
}

archive=linalg cases linalg '[1-9][0-9]*' ordinary
archive=linalg-exported cases exported '[1-9][0-9]*' ordinary
archive=callbacks cases callbacks '[1-9][0-9]*' ordinary
archive=ordered cases ordered '[1-9][0-9]*' ordinary
cases user '[1-9][0-9]*' ordinary
# Root and the older Landlock differ in the sandbox only: one plugin tells that.
[ "$(id -u)" = 0 ] && [ "$name" = cpu ] || exit 0
[ ! -O user ] || fail "the ordinary user is root"
limit=("$patient" $((patience * 6)))
filter='^(jax|multi)/'
grep -E "$filter" user >some
cases root '[1-9][0-9]*' "${limit[@]}"
cases abi-2 2 "${limit[@]}" "$top/tests/tools/landlock_abi.py" 2
same some root
same some abi-2
