#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 7 CPU-s
# scripts/demo for a user who is not root and has no sudo: on the host, and in a user namespace of
# their own, as in containers without privileges.
. "$srcdir/tests/lib.sh"
requires_mount
requires unshare --version

# The demo's output: four arrays are right; afterwards no files are left.
demo='id -u && unset XDG_CONFIG_HOME XDG_RUNTIME_DIR && mkdir -p "$HOME/tmp" && cd / &&
	PJRTFS_BUILD=$build TMPDIR=$HOME/tmp "$top/scripts/demo" --plugin "cpu=$so" &&
	rmdir "$HOME/tmp"'
check_demo()
{
	equal "right arrays of the demo $1" "$(grep -c 'numbers, as JAX computed them$' out)" 4
	tells out '^3 1 4 1 5 9 2 6$' '^Unmounted\.'
}

ordinary bash -c "$demo" >out 2>&1 || fail "the demo of an ordinary user: $(cat out)"
[ "$(head -n 1 out)" != 0 ] || fail "the ordinary user is root"
check_demo "of an ordinary user"

requires ordinary unshare --user --map-root-user true
ordinary unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc \
	bash -c "$demo" >out 2>&1 || fail "the demo in a user namespace: $(cat out)"
equal "the user in the namespace" "$(head -n 1 out)" 0
check_demo "in a user namespace"
