#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In a PID namespace entered from outside, as containers are, callers have no session leader.
[ -n "${inside-}" ] || inside=yes exec unshare --pid --fork --kill-child --mount-proc bash "$0"
. "$srcdir/tests/words.sh"
requires_mount
mount_pjrtfs

[ "$(cut -d' ' -f6 /proc/self/stat)" = 0 ] || fail "this shell's session leader is inside"
put_add

# The last reply is remembered all the same, of the user's processes without one.
echo 'x y -> z' >"$mnt/executables/add/run"
tells "$mnt/executables/add/run" '^ok: z F32\[2,3\]'

# Each session has its own replies.
equal "of another session" "$(bounded setsid --wait cat "$mnt/executables/add/run")" ''
