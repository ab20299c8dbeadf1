#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# The mount's README: the lines that it says work when pasted do.
. "$srcdir/tests/lib.sh"
mount_pjrtfs

# Indented lines are commands; a here-document ends at END without the indent.
bounded cat "$mnt/README" >readme
sed -n '/^Try it/,/^Write a program/{s/^  //p;}' readme >lines
[ "$(grep -cE '^(cat >.*|END)$' lines)" = 2 ] || fail "the README's example has changed"
bounded bash -eu lines >out
grep -qx '11 22 33' out || fail "the README's example says $(cat out)"
shows "$mnt/buffers/z.txt" '11 22 33'

# The commands for control: exec keeps the descriptor.
sed -n '/^  exec 3<>/,/^  cat <&3/{s/^  //p;}' readme >lines
[ "$(wc -l <lines)" = 3 ] || fail "the README's example for control has changed"
bounded bash -eu lines >out
grep -q '^{"ok":true' out || fail "control's example says $(cat out)"

# Every path that it names outside of the examples is there, for the names of the example.
grep -oE "^  [a-z]+/NAME[a-z/.]*" readme | sed 's/^  //' >paths || true
while read -r path; do
	found=
	for name in add x "${plugin:-cpu}"; do
		! bounded test -e "$mnt/${path/NAME/$name}" || found=yes
	done
	[ -n "$found" ] || fail "the README names $path, which nothing has"
done <paths
[ -s paths ] || fail "the README does not tell where errors are"

# The devices that it names are there.
grep -oE '^  [^ ]+:[0-9]+ ' readme | tr -d ' ' >devices
while IFS=: read -r name id; do
	bounded test -d "$mnt/devices/$name/$id" || fail "the README names $name:$id"
done <devices
[ "$(bounded ls "$mnt"/devices/* | wc -l)" = "$(wc -l <devices)" ] ||
	fail "the README names $(wc -l <devices) devices"
