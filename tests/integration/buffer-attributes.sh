#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Modes, times, inodes and links of files: what a user sets is kept, what is new is new.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
b=$mnt/buffers
st() # FORMAT FILE
{
	bounded stat -c "$1" "$2"
}
put_add

# -- touch -d, chmod
bounded touch -d '2001-02-03 04:05:06 UTC' "$b/x.npy" "$mnt/programs/add.mlir"
equal "touch -d" "$(st %Y "$b/x.npy")" 981173106
equal "touch -d of a program" "$(st %Y "$mnt/programs/add.mlir")" 981173106
bounded cat "$b/x.npy" >/dev/null
run add 'x y -> z'
equal "the time after reading" "$(st %Y "$b/x.npy")" 981173106
bounded chmod 640 "$b/x.npy"
bounded chmod 600 "$mnt/programs/add.mlir"
equal "chmod" "$(st %a "$b/x.npy")" 640
equal "a view's mode" "$(st %a "$b/x.raw")" 640
equal "x.json's mode" "$(st %a "$b/x.json")" 440
equal "chmod of a program" "$(st %a "$mnt/programs/add.mlir")" 600
bounded cp -p "$data/x.npy" "$b/p.npy"
equal "cp -p" "$(st '%Y %a' "$b/p.npy")" "$(st '%Y %a' "$data/x.npy")"
# kept by mv
bounded mv "$b/x.npy" "$b/moved.npy"
equal "after mv" "$(st '%Y %a' "$b/moved.npy")" '981173106 640'
bounded mv "$b/moved.npy" "$b/x.npy"

# -- a new value has a new time
now=$(date +%s)
bounded cp "$data/y.npy" "$b/x.npy"
[ "$(st %Y "$b/x.npy")" -ge $((now - 1)) ] ||
	fail "the time after writing: $(st %y "$b/x.npy")"
equal "the mode after writing" "$(st %a "$b/x.npy")" 640

# -- umask
(
	umask 077
	cat "$data/x.npy" >"$b/private.npy" # cp would keep a mode of its own
	mkdir "$b/dir"
)
equal "umask" "$(st %a "$b/private.npy") $(st %a "$b/dir")" '600 700'
equal "an output's mode" "$(st %a "$b/z.npy")" 644
(
	umask 027
	run add 'x y -> masked'
)
equal "an output's mode by umask" "$(st %a "$b/masked.npy")" 640

# -- inodes: stable, and not the old one's for what is new
ino=$(st %i "$b/x.npy")
equal "the inode" "$(st %i "$b/x.npy")" "$ino"
bounded rm "$b/x.npy"
cp "$data/x.npy" "$b/x.npy"
[ "$(st %i "$b/x.npy")" != "$ino" ] || fail "an inode is used again"
equal "links" "$(st %h "$b/x.npy")" 1

# -- an output over a name: new inode; owner and mode stay
bounded chmod 604 "$b/z.npy"
ino=$(st %i "$b/z.npy")
run add 'x x -> z'
[ "$(st %i "$b/z.npy")" != "$ino" ] || fail "an output keeps the inode"
equal "its mode" "$(st %a "$b/z.npy")" 604
shows "$b/z.txt" $'2 4 6\n8 10 12'
# and a read-only one is not written over, unless one may everything
if [ "$(id -u)" != 0 ]; then
	bounded chmod 444 "$b/z.npy"
	fails_with 'ermission denied' run add 'x y -> z'
fi
