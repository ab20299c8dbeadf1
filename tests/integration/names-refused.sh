#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Names that no buffer can have: where the sentence is, and the lines that convert files.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs ${others:+-o allow_other}
chmod 755 "$work"
b=$mnt/buffers
bounded mkdir "$b/ns"
# why NAME: the sentence
why()
{
	equal "state of $1" "$(bounded jq -r .state "$1.json")" error
	bounded jq -r .error "$1.json"
}

# -- files of other formats: the line that converts this very file
for ext in npz pt gguf onnx; do
	echo bytes >model.$ext
	for dir in "$b" "$b/ns"; do
		fails_with 'Invalid argument' cp model.$ext "$dir/"
		why "$dir/model" >said
		tells said "^\.$ext files are not read" "python3 -c '.*' model\.$ext( model\.safetensors)?\$"
		gone "$dir/model.$ext"
		equal "listed" "$(bounded ls "$dir" | grep -v '^ns$' || true)" ''
	done
	equal "its name" "$(bounded jq -r .name "$b/model.json")" model
	# the same line is in the README and in the manual, and is Python
	line=$(sed "s/^.*made by: //; s/model/NAME/g" said)
	bounded grep -qF -- "$line" "$mnt/README" || fail "the README has not: $line"
	grep -qF -- "$line" "$top/docs/pjrtfs.5.pod" || fail "the manual has not: $line"
	python3 -c 'import ast, shlex, sys; ast.parse(shlex.split(sys.argv[1])[2])' "$line"
done
# -- programs, and numbers or images in other formats
while read -r name sentence; do
	echo 1,2,3 >"$name"
	fails_with 'Invalid argument' cp "$name" "$b/"
	why "$b/${name%.*}" >said
	tells said "^$name: expected an array, which is called \.npy, .*found .*: .*$sentence"
	tells "$mnt/error" "$sentence"
	gone "$b/$name"
	fails_with 'Invalid argument' touch "$b/ns/$name"
done <<'END'
add.mlir go to programs/
add.hlo.pb go to programs/
add.stablehlo goes to programs/
c.csv called .txt
i.png python3 -c '
END
# what the sentence says of numbers is so
bounded cp c.csv "$b/c.txt"
equal "c" "$(bounded jq -c .shape "$b/c.json")" '[3]'
bounded rm "$b/c.txt"
# scratch names stay
for name in x.npy.part .x.npy.swp x.npy~ x.csv.bak; do
	bounded cp "$data/x.npy" "$b/$name"
	bounded mv "$b/$name" "$b/x.npy"
	bounded rm "$b/x.npy"
done

equal "its inode" "$(bounded stat -c %i "$b/model.json")" "$(bounded stat -c %i "$b/model.json")"
bounded cp "$b/model.json" copy.json
same copy.json "$b/model.json"

# -- the line for .npz does it
for p in python3 /usr/bin/python3; do
	"$p" -c 'import numpy' 2>/dev/null || continue
	"$p" -c 'import numpy as n
n.savez("arrays.npz", first=n.arange(6, dtype="f4").reshape(2, 3), second=n.array([1, -2]))'
	fails_with 'Invalid argument' cp arrays.npz "$b/"
	why "$b/arrays" | sed "s|^.*made by: python3|$p|" >convert.sh
	bounded sh convert.sh
	bounded cp first.npy second.npy "$b/"
	shows "$b/first.txt" $'0 1 2\n3 4 5'
	shows "$b/second.txt" '1 -2'
	break
done

# -- stems, renames, directories; the last refusal counts
fails_with 'Invalid argument' cp "$data/x.npy" "$b/x.npy.npy"
why "$b/x.npy" | grep -q 'must not end in .npy'
bounded cp "$data/x.npy" "$b/x.npy" # a buffer's .json describes the buffer
equal "x" "$(bounded jq -r .state "$b/x.json")" ready
fails_with 'Operation not supported' mv "$b/x.npy" "$b/y.txt"
why "$b/y" | grep -q 'does not convert'
head -c 100 "$data/x.npy" | bounded tee "$b/part" >/dev/null
fails_with 'subdirectory of itself' mv "$b/part" "$b/z.npy"
why "$b/z" | grep -q '100 bytes are not a whole .npy header'
head -c 140 "$data/x.npy" | bounded tee "$b/part" >/dev/null
fails_with 'subdirectory of itself' mv "$b/part" "$b/z.npy"
why "$b/z" | grep -q 'takes 24 bytes of data, 12 came'
bounded cp "$data/x.npy" "$b/part"
bounded mv "$b/part" "$b/z.npy"
eventually jq -e '.state == "ready"' "$b/z.json"
fails_with 'File exists' mkdir "$b/z"
fails_with 'File exists' cp "$data/x.npy" "$b/ns.npy"
why "$b/ns" | grep -q 'there is a directory ns'
# a result that takes the stem ends it, too
fails_with 'Invalid argument' cp model.npz "$b/"
why "$b/model" >/dev/null
ask '{"op":"create","buffer":"model","dtype":"F32","shape":[1],"fill":0}' >reply
equal "model" "$(bounded jq -r .state "$b/model.json")" ready
bounded rm "$b/model.npy"
gone "$b/model.json"
# the .json of a refusal does not describe a buffer
fails_with 'ermission denied' say "$b/ns.json" x
fails_with 'ot permitted' rm -f "$b/ns.json"
fails_with 'ot permitted' mv "$b/ns.json" "$b/part"
ask '{"op":"delete","buffer":"ns.json"}' >reply
tells reply '"errno":"EINVAL".*whose name is ns'

# -- each refusal is kept for its user
if [ -n "$others" ]; then
	bounded chmod 777 "$b"
	fails_with 'Invalid argument' as 1001 touch "$b/mine.npz"
	as 1001 grep -q numpy "$b/mine.json"
	fails_with 'ermission denied' as 1002 cat "$b/mine.json"
fi
shows "$mnt/health" ok
