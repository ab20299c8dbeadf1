#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The sentence of the last refused call is in error, whatever the call was.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
mount_pjrtfs
b=$mnt/buffers
x=$mnt/executables/add
# refused ERRNO'S_WORDS SENTENCE COMMAND...: the command fails so, and error has SENTENCE
refused()
{
	local words=$1 sentence=$2
	shift 2
	fails_with "$words" "$@"
	tells "$mnt/error" "$sentence"
	equal "the size of error" "$(bounded stat -c %s "$mnt/error")" \
		"$(bounded cat "$mnt/error" | wc -c)"
}

equal "error at first" "$(bounded cat "$mnt/error")" ''
bounded cp "$data/add.mlir" "$mnt/programs/"
bounded cp "$data/x.npy" "$data/y.npy" "$b/"
bounded bash -c 'echo "x y -> z" >"$1/run"' - "$x"
bounded test ! -e "$b/nothing" # lookups are not refusals
equal "error after what succeeded" "$(bounded cat "$mnt/error")" ''

# -- names
refused 'not permitted' '^mkdir x: programs go to programs/ and arrays to buffers/$' \
	mkdir "$mnt/x"
refused 'not permitted' '^create executables/add.mlir: .* made of programs/: ' \
	cp "$data/add.mlir" "$mnt/executables/"
if [ "$(id -u)" = 0 ]; then # the kernel refuses other users because of the directory's mode
	refused 'not permitted' '^unlink executables/add/[a-z.]*: .* remove that from programs/$' \
		rm -r "$x"
fi
refused 'not permitted' '^rmdir executables/add: .* remove that from programs/$' rmdir "$x"
refused 'not permitted' '^make buffers/l.npy: there are no hard links here' \
	ln "$b/x.npy" "$b/l.npy"
refused 'not permitted' '^make buffers/l.npy: there are no symbolic links here' \
	ln -s x.npy "$b/l.npy"
refused 'not permitted' '^make buffers/f: there are no special files here' mkfifo "$b/f"
refused 'Operation not supported' '^rename programs/add.mlir: .* does not convert a program' \
	mv "$mnt/programs/add.mlir" "$mnt/programs/add.mlirbc"
refused 'Operation not supported' '^rename buffers/x.npy: .* does not convert' mv "$b/x.npy" "$b/x.txt"
refused 'Invalid argument' '^create buffers/x.npz: \.npz files are not read; .* x\.npz$' \
	cp "$data/x.npy" "$b/x.npz"

# -- opening, writing, closing
refused 'Invalid argument' '^open executables/add/call: .* open it to read and write' \
	bash -c 'cat "$1" >"$2"' - "$data/x.npy" "$x/call"
refused 'Invalid argument' '^write executables/add/run: .*takes 2 inputs, 1 was given$' \
	bash -c 'echo "x -> z" >"$1"' - "$x/run"
refused 'Invalid argument' '^write control: "op": expected one of .*, found "nix"$' \
	bash -c 'echo "{\"op\":\"nix\"}" >"$1"' - "$mnt/control"
printf 'x -> z' >line
refused 'Invalid argument' '^close executables/add/run: .*takes 2 inputs, 1 was given$' cp line "$x/run"
printf '{"op":' >part
refused 'Invalid argument' '^close control: the last command is not whole$' cp part "$mnt/control"
if [ "$(id -u)" = 0 ]; then # a view has the name of what it shows, and its own extension
	refused 'ermission denied' '^open buffers/x\.json: what is known of a buffer cannot' \
		bash -c 'echo >"$1"' - "$b/x.json"
fi
refused 'Invalid argument' '^truncate buffers/x\.txt: a view has the size that' \
	python3 -c 'import os, sys; os.truncate(sys.argv[1], 3)' "$b/x.txt"
refused 'Invalid argument' '^close programs/bad.mlir: expected a program, found a .npy' \
	cp "$data/x.npy" "$mnt/programs/bad.mlir"
refused 'Invalid argument' '^write buffers/k.txt: line 1, .*"hello" is not a valid F32$' \
	bash -c 'set -e; echo hello | cat >"$1"' - "$b/k.txt"
if command -v setfattr >/dev/null; then
	refused 'Invalid argument' '^setxattr buffers/x.npy: .*float99' \
		setfattr -n user.pjrtfs.dtype -v float99 "$b/x.npy"
fi

# -- another login session has its own
bounded setsid --wait cat "$mnt/error" >other
same other /dev/null
refused 'Invalid argument' '^write buffers/k.txt: .*"hello" is not a valid F32$' \
	bash -c 'set -e; echo hello | cat >"$1"' - "$b/k.txt"
bounded setsid --wait bash -c 'mkdir "$1/x" 2>/dev/null || cat "$1/error"' - "$mnt" >other
tells other '^mkdir x: '
tells "$mnt/error" '^write buffers/k.txt: '

# -- and another user
if [ -n "$others" ]; then
	unmount_pjrtfs
	mount_pjrtfs -o allow_other
	chmod 755 "$work"
	fails_with '' mkdir "$mnt/x"
	as 1001 cat "$mnt/error" >other
	same other /dev/null
	tells "$mnt/error" '^mkdir x: '
fi
