#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# buffers/: rm, mv, cp, mkdir, scratch names, and odd names.
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs
b=$mnt/buffers
listed()
{
	equal "what is listed" "$(bounded ls "$b" | tr '\n' ' ')" "$1"
}
put_add

# -- mv, also over another, whose views go too
bounded mv "$b/x.npy" "$b/a.npy"
gone "$b/x.npy" "$b/x.txt" "$b/x.json"
same "$b/a.npy" "$data/x.npy"
equal "name" "$(bounded jq -r .name "$b/a.json")" a
bounded mv "$b/a.npy" "$b/y.npy"
listed 'y.npy '
shows "$b/y.txt" $'1 2 3\n4 5 6'
run add 'y y -> z'
shows "$b/z.txt" $'2 4 6\n8 10 12'

# -- cp within makes another buffer
bounded cp "$b/y.npy" "$b/copy.npy"
bounded rm "$b/y.npy"
same "$b/copy.npy" "$data/x.npy"
run add 'copy z -> y'
listed 'copy.npy y.npy z.npy '

# -- rm
bounded rm "$b/copy.npy" "$b/y.npy" "$b/z.npy"
listed ''

# -- a name of another format replaces: one stem, one buffer
cp "$data/x.npy" "$b/x.npy"
echo 5 | bounded tee "$b/t.txt" >/dev/null
fails_with 'cannot move' mv "$b/t.txt" "$b/x.npy"
same "$b/x.npy" "$data/x.npy"
bounded rm "$b/t.txt"

# -- scratch names: kept, never uploaded, and no input
cp "$data/y.npy" "$b/x.npy.part"
head -c 100 /dev/urandom >junk
bounded cp junk "$b/junk.bin"
same "$b/junk.bin" junk
equal "kinds" "$(bounded ls "$b" | tr '\n' ' ')" 'junk.bin x.npy x.npy.part '
gone "$b/junk.json" "$b/x.npy.json" "$b/junk.txt"
# renamed to a real name: commits
before=$(bounded stat -c %i "$b/x.npy")
bounded mv "$b/x.npy.part" "$b/x.npy"
same "$b/x.npy" "$data/y.npy"
run add 'x x -> z'
shows "$b/z.txt" $'20 40 60\n80 100 120'
[ "$(bounded stat -c %i "$b/x.npy")" != "$before" ] || fail "a new value, the old inode"
# a file that is not an array of that format: EINVAL, both names stay
fails_with 'cannot move' mv "$b/junk.bin" "$b/x.npy"
same "$b/x.npy" "$data/y.npy"
same "$b/junk.bin" junk
head -c 140 "$data/x.npy" | bounded tee "$b/half" >/dev/null
fails_with 'cannot move' mv "$b/half" "$b/x.npy"
same "$b/x.npy" "$data/y.npy"
equal "x's state" "$(bounded jq -r .state "$b/x.json")" ready
# and the other way
bounded mv "$b/x.npy" "$b/x.bak"
gone "$b/x.npy" "$b/x.txt"
same "$b/x.bak" "$data/y.npy"
bounded mv "$b/z.npy" "$b/z.bak"
bounded mv "$b/z.bak" "$b/z.npy"
eventually grep -q '"state":"ready"' "$b/z.json"
shows "$b/z.txt" $'20 40 60\n80 100 120'
bounded rm "$b/half" "$b/junk.bin" "$b/x.bak" "$b/z.npy"
listed ''

# -- editors: sed -i makes a scratch file and renames it
echo '1 2 3' | bounded tee "$b/s.txt" >/dev/null
bounded sed -i 's/2/20/' "$b/s.txt"
eventually grep -q '"state":"ready"' "$b/s.json"
shows "$b/s.txt" '1 20 3'
bounded cp --backup=simple "$data/x.npy" "$b/k.npy"
bounded cp --backup=simple "$data/y.npy" "$b/k.npy"
same "$b/k.npy" "$data/y.npy"
same "$b/k.npy~" "$data/x.npy"
bounded install -m 600 "$data/x.npy" "$b/i.npy"
same "$b/i.npy" "$data/x.npy"
bounded rm "$b"/*
listed ''

# -- directories
bounded mkdir -p "$b/ns/deep"
cp "$data/x.npy" "$b/ns/deep/"
cp "$data/y.npy" "$b/ns/x.npy"
run add 'ns/x ns/deep/x.npy -> ns/sum'
shows "$b/ns/sum.txt" $'11 22 33\n44 55 66'
gone "$b/sum.npy"
fails_with 'not empty' rmdir "$b/ns"
bounded mv "$b/ns/deep" "$b/up"
run add 'up/x up/x -> two'
bounded mv "$b/ns/x.npy" "$b/up/y.npy"
same "$b/up/y.npy" "$data/y.npy"
bounded rm -r "$b"/*
listed ''

# -- a model's files: those of tools are scratch files, until a buffer needs the name
bounded mkdir hf
echo '{"layers":2}' | tee hf/config.json >hf/model.safetensors.index.json
printf '#version: 0.2\nt h\nth e</w>\n' >hf/merges.txt
bounded cp -r hf "$b/"
same "$b/hf/config.json" hf/config.json
same "$b/hf/merges.txt" hf/merges.txt
same "$b/hf/model.safetensors.index.json" hf/config.json
fails_with 'File exists' cp "$data/x.npy" "$b/hf/config.npy"
cp "$data/x.npy" "$b/x.npy"
fails_with 'Permission denied' cp hf/config.json "$b/x.json"
bounded rm -r "$b"/*
listed ''

# -- names with odd characters
for name in 'with space' '-dash' 'ümläut' '"quoted"' 'a.b' '0' "$(printf '%0250d' 0)"; do
	cp "$data/x.npy" "$b/$name.npy"
	same "$b/$name.npy" "$data/x.npy"
	bounded jq -e '.name != ""' "$b/$name.json" >/dev/null
	bounded rm "$b/$name.npy"
done
listed ''
