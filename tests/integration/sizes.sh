#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files whose size is known late, or to one reader: programs that rely on sizes, or use sendfile(2),
# get all bytes.
# shellcheck disable=SC2086 # what another shell expands; words that are a command
. "$srcdir/tests/words.sh"
requires busybox true
mount_pjrtfs
b=$mnt/buffers
x=$mnt/executables/add
put_add
printf '11 22 33\n44 55 66\n' >sum

# fresh: a new, unread result named z
fresh()
{
	bounded rm -f "$b/z.npy"
	run add 'x y -> z'
}
# every READER FILE: writes what is in FILE to standard output
readers=(cat 'busybox cat' send 'busybox cp' cp copyfile 'busybox tar' tar rsync)
# shellcheck disable=SC2086 # READER is a list of words
every()
{
	case $1 in
	*cat) bounded $1 "$2" ;;
	*cp) bounded $1 "$2" copied && cat copied ;;
	*tar) bounded $1 cf some.tar -C "$(dirname "$2")" "$(basename "$2")" &&
		tar xOf some.tar ;;
	rsync) bounded rsync -t "$2" copied && cat copied ;;
	send) bounded python3 -B -c 'import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
while os.sendfile(1, fd, None, 1 << 20):
    pass' "$2" >copied && cat copied ;;
	copyfile) bounded python3 -B -c 'import shutil, sys
shutil.copyfile(sys.argv[1], sys.argv[2])' "$2" copied && cat copied ;;
	esac
}

# -- text of a result, by its first reader
for reader in "${readers[@]}"; do
	rm -f copied some.tar
	fresh
	every "$reader" "$b/z.txt" >got || fail "$reader fails"
	same got sum
done
fresh
equal "the size of a small text" "$(bounded stat -c %s "$b/z.txt")" "$(wc -c <sum)"

# -- large text: stat(2) does not render it, and no reader gets zeros or only a part
perl -e 'print pack("l<*", 0 .. 299999)' | npy '<i4' '(300000,)' >large
seq -s ' ' 0 299999 >text
for reader in "${readers[@]}"; do
	[ "$reader" != send ] || continue # it is refused: see below
	rm -f copied some.tar
	bounded cp large "$b/large.npy"
	[ "$(bounded stat -c %s "$b/large.txt")" -ge "$(wc -c <text)" ] ||
		fail "the size of a large text is too small"
	# A program that relies on the size from before its open may fail, with a message.
	if every "$reader" "$b/large.txt" >got 2>said; then
		same got text
	else
		case $reader in
		*tar | rsync) [ -s said ] || fail "$reader says nothing" ;;
		*) fail "$reader fails: $(cat said)" ;;
		esac
	fi
	equal "the size once it was read" "$(bounded stat -c %s "$b/large.txt")" \
		"$(wc -c <text)"
done
every send "$b/large.txt" >got
same got text
bounded cp large "$b/large.npy"
fails_with 'Input/output error' every send "$b/large.txt"

# -- replies: the last one of this user and session
bounded bash -c 'echo "x y -> z" >"$1/run"' - "$x"
bounded cat "$x/run" >reply
[ -s reply ] || fail "there is no reply"
for reader in "${readers[@]}"; do
	[ "$reader" != send ] || continue
	rm -f copied some.tar
	every "$reader" "$x/run" >got || fail "$reader fails"
	same got reply
done
equal "the size of run" "$(bounded stat -c %s "$x/run")" "$(wc -c <reply)"
for cat in cat 'busybox cat'; do
	bounded bash -c 'exec 3<>"$1"; echo "{\"op\":\"stat\",\"buffer\":\"x\"}" >&3; '"$cat"' <&3' \
		- "$mnt/control" >got
	tells got '"ok":true'
done
equal "the size of control elsewhere" \
	"$(bounded setsid --wait stat -c %s "$mnt/control")" 0
shows "$mnt/health" ok
