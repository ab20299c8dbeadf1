#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# executables/NAME/run: lines and objects, quoted names, the last reply, descriptors.
. "$srcdir/tests/words.sh"
mount_pjrtfs
r=$mnt/executables/add/run
put_add

# -- echo, and what it says when read
echo 'x y -> z' >"$r"
shows "$mnt/buffers/z.txt" "$sum"
tells "$r" '^ok: z F32\[2,3\] on '"${plugin:-cpu}"':0 in [0-9.]+ s$'
equal "lines" "$(bounded wc -l <"$r")" 1
# only to the same session; scripts keep one descriptor
equal "in another session" "$(setsid -w timeout "$patience" cat "$r")" ''
equal "of another executable" "$(cp "$data/add.mlir" "$mnt/programs/b.mlir" &&
	bounded cat "$mnt/executables/b/run")" ''

# -- lines as check_request.c has them, with odd ends and odd names
printf 'x y -> crlf\r\n' >"$r"
bounded test -e "$mnt/buffers/crlf.npy" || fail "a line that ends in CR LF"
cp "$data/x.npy" "$mnt/buffers/with space.npy"
cp "$data/y.npy" "$mnt/buffers/a\"b=c.npy"
run add '"with space" "a\"b=c" -> "the sum"'
shows "$mnt/buffers/the sum.txt" "$sum"

# -- a line without its newline runs at close
printf 'x y -> late' >"$r"
shows "$mnt/buffers/late.txt" "$sum"
fails_with 'nvalid argument' bash -c 'printf "x -> y z" | tee "$1" >/dev/null' - "$r"
tells "$r" '^error: EINVAL: add: '

# -- empty lines are ignored
printf '\n\n  \nx y -> blank\n\n' >"$r"
bounded test -e "$mnt/buffers/blank.npy"

# -- several lines on one descriptor; check_ctl.c has pieces, and what a failed write does
exec 3<>"$r"
printf 'x y -> n1\nx x -> n2\n' >&3
equal "replies" "$(bounded cat <&3 | cut -d' ' -f1,2 | tr '\n' ' ')" 'ok: n1 ok: n2 '
shows "$mnt/buffers/n2.txt" $'2 4 6\n8 10 12'
echo 'x -> wrong' >&3 || fail "a write to a read-write descriptor failed"
echo 'x y -> right' >&3
IFS= read -r reply <&3
grep -q '^error: EINVAL: add: ' <<<"$reply" || fail "$reply"
IFS= read -r reply <&3
grep -q '^ok: right ' <<<"$reply" || fail "$reply"
exec 3<&-

# -- extents of 1 are no difference, and stay as they are
tail -c 24 "$data/x.npy" | npy '<f4' '(1, 2, 1, 3)' >ones.npy
cp ones.npy "$mnt/buffers/"
echo 'ones y -> o' >"$r"
shows "$mnt/buffers/o.txt" "$sum"
knows "$mnt/buffers/ones.json" '.shape == [1,2,1,3]'
knows "$mnt/buffers/o.json" '.shape == [2,3]'
bash -c '{ cat ones.npy "$2"; cat <&1 >called.npy; } 1<>"$1"' - "$mnt/executables/add/call" "$data/y.npy"
same called.npy "$mnt/buffers/o.npy"

# -- what the next line uses the line before has made
printf 'x y -> s1\ns1 s1 -> s2\ns2 s1 -> s3\n' >"$r"
shows "$mnt/buffers/s3.txt" $'33 66 99\n132 165 198'

# -- objects
say "$r" '{"inputs":["x","y"],"outputs":["j"],"id":5}'
shows "$mnt/buffers/j.txt" "$sum"
knows "$r" '.ok and .id == 5 and .outputs[0].name == "j"'
ask '{"inputs":["x"],"outputs":["j"]}' "$r" | jq -e '.error.errno == "EINVAL"' >/dev/null
ask '{"inputs":["x","y"]' "$r" >reply
tells reply 'EINVAL|^error'
# -- lines that cannot be one
printf 'x\0y -> z\n' >nul
fails_with 'nvalid argument' bash -c 'cat nul >"$1"' - "$r"

# -- write-only: after a failure no further line of that descriptor runs
printf 'x y -> w1\nx -> w2\nx y -> w3\n' >three
fails_with 'nvalid argument' bash -c 'cat three >"$1"' - "$r"
bounded test -e "$mnt/buffers/w1.npy"
gone "$mnt/buffers/w2.npy" "$mnt/buffers/w3.npy"

# -- the same buffer twice is two arguments; names that look like paths and lists are names
bounded mkdir "$mnt/buffers/buffers"
bounded cp "$data/y.npy" "$mnt/buffers/buffers/x.npy"
run add 'buffers/x buffers/x.npy -> buffers/z'
shows "$mnt/buffers/buffers/z.txt" $'20 40 60\n80 100 120'

# -- an executable is removed while its run is open
exec 3<>"$mnt/executables/b/run"
bounded rm "$mnt/programs/b.mlir"
echo 'x y -> after' >&3
bounded cat <&3 >reply
[ -s reply ] || fail "no reply from a removed executable"
exec 3<&-
