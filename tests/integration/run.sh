#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# executables/NAME/run: lines and objects, quoted names, the last reply, descriptors.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
requires jq --version
requires python3 --version
mount_pjrtfs
r=$mnt/executables/add/run
cp "$data/add.mlir" "$mnt/programs/"
cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
sum=$'11 22 33\n44 55 66'

# -- echo, and what it says when read
echo 'x y -> z' >"$r"
shows "$mnt/buffers/z.txt" "$sum"
tells "$r" '^ok: z F32\[2,3\] on '"${plugin:-cpu}"':0 in [0-9.]+ s$'
equal "lines" "$(bounded wc -l <"$r")" 1
# only to the same session; scripts keep one descriptor
equal "in another session" "$(setsid -w timeout "$patience" cat "$r")" ''
equal "of another executable" "$(cp "$data/add.mlir" "$mnt/programs/b.mlir" &&
	bounded cat "$mnt/executables/b/run")" ''

# -- how lines may look
for line in '  x   y  ->  a  ' $'x\ty\t->\ta' 'x.npy y.npy -> a.npy' '"x" "y" -> "a"' \
	'"x".npy y -> a' 'x "y.npy" -> a'; do
	bounded rm -f "$mnt/buffers/a.npy"
	say "$r" "$line" || fail "refused: $line"
	shows "$mnt/buffers/a.txt" "$sum"
done
printf 'x y -> crlf\r\n' >"$r"
bounded test -e "$mnt/buffers/crlf.npy" || fail "a line that ends in CR LF"
cp "$data/x.npy" "$mnt/buffers/with space.npy"
cp "$data/y.npy" "$mnt/buffers/a\"b=c.npy"
cp "$data/y.npy" "$mnt/buffers/->.npy"
run add '"with space" "a\"b=c" -> "the sum"'
shows "$mnt/buffers/the sum.txt" "$sum"
run add '"with space" "->" -> "="'
shows "$mnt/buffers/=.txt" "$sum"

# names that are words of the line themselves
for name in async move donate=x '->'; do
	run add "x y -> \"$name\""
	bounded cmp "$mnt/buffers/$name.npy" "$mnt/buffers/z.npy"
	run add "\"$name\" x -> again"
done

# -- a line without its newline runs at close
printf 'x y -> late' >"$r"
shows "$mnt/buffers/late.txt" "$sum"
fails_with 'nvalid argument' bash -c 'printf "x -> y z" | tee "$1" >/dev/null' - "$r"
tells "$r" '^error: EINVAL: add: '

# -- empty lines are ignored
printf '\n\n  \nx y -> blank\n\n' >"$r"
bounded test -e "$mnt/buffers/blank.npy"

# -- several lines, in pieces, on one descriptor
bounded python3 -c 'import os, sys
f = os.open(sys.argv[1], os.O_RDWR)
os.write(f, b"x y -> m1\nx y -> m2\nx y ")
os.write(f, b"-> m3\nx x -> m4\n")
for c in b"x y -> m5\n":
    os.write(f, bytes([c]))
while text := os.read(f, 1000000).decode():
    sys.stdout.write(text)' "$r" >replies
equal "replies" "$(cut -d' ' -f1,2 replies | tr '\n' ' ')" 'ok: m1 ok: m2 ok: m3 ok: m4 ok: m5 '
exec 3<>"$r"
printf 'x y -> n1\nx x -> n2\n' >&3
equal "replies" "$(bounded cat <&3 | cut -d' ' -f1,2 | tr '\n' ' ')" 'ok: n1 ok: n2 '
shows "$mnt/buffers/m4.txt" $'2 4 6\n8 10 12'
echo 'x -> wrong' >&3 || fail "a write to a read-write descriptor failed"
echo 'x y -> right' >&3
IFS= read -r reply <&3
grep -q '^error: EINVAL: add: ' <<<"$reply" || fail "$reply"
IFS= read -r reply <&3
grep -q '^ok: right ' <<<"$reply" || fail "$reply"
exec 3<&-

# -- what the next line uses the line before has made
printf 'x y -> s1\ns1 s1 -> s2\ns2 s1 -> s3\n' >"$r"
shows "$mnt/buffers/s3.txt" $'33 66 99\n132 165 198'

# -- objects
say "$r" '{"inputs":["x","y"],"outputs":["j"],"id":5}'
shows "$mnt/buffers/j.txt" "$sum"
bounded jq -e '.ok and .id == 5 and .outputs[0].name == "j"' "$r" >/dev/null ||
	fail "a JSON line was answered $(bounded cat "$r")"
ask '{"inputs":["x"],"outputs":["j"]}' "$r" | jq -e '.error.errno == "EINVAL"' >/dev/null
ask '{"inputs":["x","y"]' "$r" >reply
tells reply 'EINVAL|^error'
for line in '{"inputs":["x","y"],"outputs":["t"]} x y -> t' \
	'{"inputs":["x","y"],"outputs":["t"]}{}' \
	'{"inputs":["x"],"outputs":["t"],"inputs":["x","y"]}'; do
	ask "$line" "$r" >reply
	tells reply 'EINVAL.*(nothing behind the JSON object|twice)'
	gone "$mnt/buffers/t.npy"
done

# -- lines that cannot be one
printf 'x\0y -> z\n' >nul
fails_with 'nvalid argument' bash -c 'cat nul >"$1"' - "$r"
{
	head -c 70000000 /dev/zero | tr '\0' x
	echo ' y -> z'
} >long
fails_with '' bash -c 'cat long >"$1"' - "$r"

# -- write-only: after a failure no further line of that descriptor runs
printf 'x y -> w1\nx -> w2\nx y -> w3\n' >three
fails_with 'nvalid argument' bash -c 'cat three >"$1"' - "$r"
bounded test -e "$mnt/buffers/w1.npy"
gone "$mnt/buffers/w2.npy" "$mnt/buffers/w3.npy"
bounded python3 -c 'import errno, os, sys
f = os.open(sys.argv[1], os.O_WRONLY)
for line in b"x -> w2\n", b"x y -> w3\n", b"x y -> w3\n":
    try:
        os.write(f, line)
        raise SystemExit("a write after a failure succeeded")
    except OSError as e:
        assert e.errno == errno.EINVAL, e
os.close(f)' "$r"
gone "$mnt/buffers/w3.npy"

# -- python's own buffering, with open(..., "w") and print
bounded python3 -c 'import sys
with open(sys.argv[1], "w") as f:
    print("x y -> py1", file=f)
    print("x y -> py2", file=f)
try:
    with open(sys.argv[1], "w") as f:
        print("x y -> py3", file=f)
        print("x -> py4", file=f)
    raise SystemExit("no exception")
except OSError as e:
    pass' "$r"
shows "$mnt/buffers/py2.txt" "$sum"

# -- the same buffer twice is two arguments; names that look like paths and lists are names
bounded mkdir "$mnt/buffers/buffers"
bounded cp "$data/y.npy" "$mnt/buffers/buffers/x.npy"
bounded cp "$data/y.npy" "$mnt/buffers/x,"
run add 'buffers/x buffers/x.npy -> buffers/z'
shows "$mnt/buffers/buffers/z.txt" $'20 40 60\n80 100 120'

# -- run is not truncated, moved or removed
: >"$r"
fails_with 'rm: ' rm "$r"
fails_with 'mv: ' mv "$r" "$mnt/executables/add/walk"

# -- an executable is removed while its run is open
exec 3<>"$mnt/executables/b/run"
bounded rm "$mnt/programs/b.mlir"
echo 'x y -> after' >&3
bounded cat <&3 >reply
[ -s reply ] || fail "no reply from a removed executable"
exec 3<&-
