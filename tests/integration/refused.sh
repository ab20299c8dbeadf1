#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is refused: which errno, which sentence, where it is told; and nothing is changed by it.
. "$srcdir/tests/words.sh"
mount_pjrtfs ${others:+-o allow_other}
b=$mnt/buffers
bounded python3 -B "$top/tests/tools/refused.py" "$data/refused.tsv" "$mnt"

# -- each tool reports it, found at the header by a write or at the end by the close
printf "\x93NUMPY\x01\x00\x02\x00{}" >begin.npy
head -c 140 "$data/x.npy" >half.npy
for f in begin half; do
	fails_with 'Invalid argument' cp "$f.npy" "$b/cp.npy"
	fails_with 'Invalid argument' bash -c 'cat "$1.npy" >"$2/cat.npy"' - "$f" "$b"
	fails_with 'Invalid argument' dd if="$f.npy" of="$b/dd.npy" status=none
	fails_with 'Invalid argument' bash -c 'tee "$2/tee.npy" <"$1.npy" >/dev/null' - "$f" "$b"
	tar cf "$f.tar" "$f.npy"
	fails_with 'Invalid argument' tar -C "$b" -xf "$f.tar"
	fails_with 'Invalid argument' mv "$f.npy" "$b/mv.npy"
	[ -e "$f.npy" ] || fail "mv removed what it could not move"
	fails_with 'OSError: [Errno 22]' python3 -c 'import sys
with open(sys.argv[2], "wb") as f:
    f.write(open(sys.argv[1] + ".npy", "rb").read())' "$f" "$b/python.npy"
done
# numpy.save writes through a second descriptor, ignores what its close says, and hears the first's
fails_with 'OSError: [Errno 22]' python3 -c 'import os, sys
f = open(sys.argv[1], "wb")
second = os.dup(f.fileno())
os.write(second, open("half.npy", "rb").read())
try:
    os.close(second)
    sys.exit("the first close says nothing")
except OSError:
    pass
f.close()' "$b/saved.npy"
tells "$mnt/error" '^close buffers/saved.npy: .*12 came'

# -- a refused upload keeps its bytes and frees the value before
bounded cp "$data/x.npy" "$b/over.npy"
fails_with 'Invalid argument' cp half.npy "$b/over.npy"
same "$b/over.npy" half.npy
fails_with 'Invalid argument' run add 'x over -> z'
bounded cp "$data/x.npy" "$b/over.npy"
run add 'x over -> z'

# -- files of other formats: the line that converts them is in README, and is Python
for ext in npz pt pth gguf onnx; do
	fails_with 'Invalid argument' touch "$b/NAME.$ext"
	line=$(bounded jq -r .error "$b/NAME.json" | sed "s/^.*made by: //")
	bounded grep -qF -- "$line" "$mnt/README" || fail "the README has not: $line"
	[ "$ext" = npz ] || python3 -c 'import ast, shlex, sys; ast.parse(shlex.split(sys.argv[1])[2])' "$line"
done
equal "its inode" "$(bounded stat -c %i "$b/NAME.json")" "$(bounded stat -c %i "$b/NAME.json")"
if find_numpy; then
	"$python" -c 'import numpy as n
n.savez("arrays.npz", **{"first": n.arange(6, dtype="f4").reshape(2, 3), "l1/second": n.array([1, -2])})'
	fails_with 'Invalid argument' cp arrays.npz "$b/"
	bounded jq -r .error "$b/arrays.json" | sed "s|^.*made by: python3|$python|" >convert.sh
	bounded sh convert.sh
	bounded cp -r arrays "$b/"
	shows "$b/arrays/first.txt" $'0 1 2\n3 4 5'
	shows "$b/arrays/l1/second.txt" '1 -2'
fi

# -- files without an array's name stay as they are, and a run says what they are
mkdir -p data
for f in l1.weight l1.bias; do
	cp "$data/x.npy" "data/$f"
done
bounded cp -r data "$b/"
for words in 'data y' 'data/l1.weight y'; do
	fails_with '' say "$mnt/executables/add/run" "$words -> z"
	tells "$mnt/executables/add/run" "ENOENT: add: .* array, which is called .npy, .txt, .raw or .safetensors"
done

# -- error is as old as the refusal, since pjrtfs does not hear of what the kernel refuses
told_at()
{
	bounded stat -c %.9Y "$mnt/error"
}
fails_with '' mkdir "$mnt/x"
first=$(told_at)
equal "the age of error" "$(told_at)" "$first"
fails_with '' mkdir "$mnt/x"
[[ $(told_at) > $first ]] || fail "the second refusal is from $(told_at), the first from $first"

# -- another login session has its own sentence, and else sees this one, marked
fails_with '' mkdir "$mnt/x"
bounded setsid --wait bash -c 'cat "$1/error"; touch "$1/y" 2>/dev/null || cat "$1/error"' - "$mnt" >other
tells other '^mkdir x: .* .another login session of yours, [0-9]+ s ago.$' '^create y: '
equal "lines" "$(wc -l <other)" 2
tells "$mnt/error" '^mkdir x: '

# -- and another user, whose refusals are that user's
if [ -n "$others" ]; then
	bounded chmod 777 "$b"
	as 1001 cat "$mnt/error" >other
	same other /dev/null
	fails_with 'Invalid argument' as 1001 touch "$b/mine.npz"
	as 1001 grep -q zipfile "$b/mine.json"
	fails_with 'ermission denied' as 1002 cat "$b/mine.json"
	# a name is told to whom may list it
	as 1001 mkdir "$b/own"
	as 1001 cp "$data/x.npy" "$b/own/weights.npy"
	fails_with 'No such file' as 1002 bash -c 'echo "own/weihgts y -> z" >"$1"' - "$mnt/executables/add/run"
	as 1002 cat "$mnt/error" >other
	tells other 'there is no buffer own/weihgts .did you mean "own/weights"'
	as 1001 chmod 711 "$b/own"
	fails_with 'No such file' as 1002 bash -c 'echo "own/weihgts y -> z" >"$1"' - "$mnt/executables/add/run"
	as 1002 cat "$mnt/error" >other
	tells other 'there is no buffer own/weihgts$'
fi
unharmed
