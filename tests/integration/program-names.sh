#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# programs/ and executables/: mv, rm, mkdir, scratch names, and which names exclude each other.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
mount_pjrtfs
to=$mnt/programs
made=$mnt/executables
cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"

# -- mv also renames the executable, without another compile
cp "$data/add.mlir" "$to/a.mlir"
bounded cat "$made/a/info.json" >info
bounded mv "$to/a.mlir" "$to/b.mlir"
gone "$made/a" "$to/a.mlir"
bounded cat "$made/b/info.json" >info.b
same info info.b
equal "b's program" "$(bounded readlink "$made/b/program")" ../../programs/b.mlir
run b 'x y -> z'

# -- mv over another program replaces it
sed 's/stablehlo.add/stablehlo.multiply/' "$data/add.mlir" >mul.mlir
cp mul.mlir "$to/c.mlir"
bounded mv "$to/b.mlir" "$to/c.mlir"
gone "$made/b"
run c 'x y -> z'
bounded cat "$mnt/buffers/z.txt" >sum
same "$to/c.mlir" "$data/add.mlir"

# -- rm
bounded rm "$to/c.mlir"
gone "$made/c" "$to/c.mlir"
fails_with 'No such file' run c 'x y -> z'

# -- one stem, one program
cp "$data/add.mlir" "$to/a.mlir"
fails_with 'File exists' touch "$to/a.mlirbc"
fails_with 'File exists' touch "$to/a.hlo.pb"
fails_with 'File exists' mkdir "$to/a"
cp "$data/add.mlir" "$to/other.mlir"
bounded touch "$to/bc.mlirbc"
# (EEXIST, though that name does not exist: mv's message for it is odd)
fails_with 'mv: cannot' mv "$to/other.mlir" "$to/bc.mlir"
fails_with 'cannot move' mv "$to/other.mlir" "$to/other.mlirbc"
shows "$made/other/state" ready
fails_with 'File exists' mkdir "$to/other"
equal "programs" "$(bounded ls "$to" | tr '\n' ' ')" 'a.mlir bc.mlirbc other.mlir '
equal "executables" "$(bounded ls "$made" | tr '\n' ' ')" 'a bc other '

# -- a directory is a namespace in both
bounded mkdir "$to/ns" "$to/ns/deep"
bounded test -d "$made/ns/deep"
fails_with 'File exists' touch "$to/ns.mlir"
cp "$data/add.mlir" "$to/ns/a.mlir"
cp mul.mlir "$to/ns/deep/a.mlir"
shows "$made/ns/a/state" ready
equal "ns/deep/a's program" "$(bounded realpath "$made/ns/deep/a/program")" "$to/ns/deep/a.mlir"
run ns/a 'x y -> z'
same "$mnt/buffers/z.txt" sum
run ns/deep/a 'x y -> z'
bounded cat "$mnt/buffers/z.txt" >product
! cmp -s sum product || fail "ns/deep/a is ns/a"
ask '{"op":"execute","executable":"ns/deep/a","inputs":["x","y"],"outputs":["z2"]}' >reply
tells reply '^\{"ok":true'
same "$mnt/buffers/z2.txt" product
fails_with 'not empty' rmdir "$to/ns"
bounded mv "$to/ns" "$to/moved"
gone "$made/ns"
run moved/deep/a 'x y -> z'
bounded mv "$to/moved/deep/a.mlir" "$to/up.mlir"
run up 'x y -> z'
same "$mnt/buffers/z.txt" product
bounded rmdir "$to/moved/deep"
gone "$made/moved/deep"
bounded rm -r "$to/moved"
gone "$made/moved" "$to/moved"
fails_with 'No such file' ls "$made/moved/a"

# -- scratch names: kept, never compiled, and not in executables
bounded cp "$data/x.npy" "$to/p.mlir.part"
bounded cp "$data/add.mlir" "$to/notes"
same "$to/p.mlir.part" "$data/x.npy"
gone "$made/notes" "$made/p.mlir.part" "$made/p"
cp "$data/add.mlir" "$to/p.mlir.part"
bounded mv "$to/p.mlir.part" "$to/p.mlir"
eventually grep -qx ready "$made/p/state"
run p 'x y -> z'
# back to a scratch name: not runnable any more
bounded mv "$to/p.mlir" "$to/p.bak"
gone "$made/p"
same "$to/p.bak" "$data/add.mlir"

# -- a scratch name over a program, as editors save
cp mul.mlir "$to/new~"
bounded mv "$to/new~" "$to/a.mlir"
eventually grep -qx ready "$made/a/state"
run a 'x y -> z'
same "$mnt/buffers/z.txt" product
bounded sed -i 's/multiply/add/' "$to/a.mlir"
eventually grep -qx ready "$made/a/state"
run a 'x y -> z'
same "$mnt/buffers/z.txt" sum
equal "programs" "$(bounded ls "$to" | tr '\n' ' ')" 'a.mlir bc.mlirbc notes other.mlir p.bak up.mlir '

# -- executables/ is a mirror: users cannot make, move or remove names there
fails_with 'mv: ' mv "$made/a" "$made/a2"
fails_with 'rm: ' rm "$made/a/state"
fails_with 'rmdir: ' rmdir "$made/a"
shows "$made/a/state" ready

# -- no second name for a file, no other kinds of files
fails_with 'ln: ' ln "$to/a.mlir" "$to/hard.mlir"
fails_with 'ln: ' ln -s a.mlir "$to/soft.mlir"
fails_with 'mkfifo: ' mkfifo "$to/fifo.mlir"

# -- names that cannot be
fails_with '' touch "$to/"$'new\nline.mlir'
fails_with '' touch "$to/"$'\xff\xfe.mlir'
fails_with 'too long' touch "$to/$(printf '%0300d' 0).mlir"
fails_with 'Invalid argument' touch "$to/a.mlir.mlirbc"
equal "executables" "$(bounded ls "$made" | tr '\n' ' ')" 'a bc other up '

# -- names that users mistake for programs' or arrays' names: refused, and no file is made
while read -r name sentence; do
	cp "$data/add.mlir" "$name"
	fails_with 'Invalid argument' cp "$name" "$to/"
	tells "$mnt/error" "$name: expected a program, which is called \.mlir, .*: .*$sentence"
	gone "$to/$name"
	bounded cp "$name" "$to/part"
	fails_with 'mv: cannot move' mv "$to/part" "$to/ns/$name"
	tells "$mnt/error" "$sentence"
	gone "$to/ns/$name"
	same "$to/part" "$data/add.mlir"
done <<'END'
add.stablehlo called .mlir as text
add.hlo HLO as text
add.pb called .hlo.pb
add.py as_text
add.onnx as StableHLO where it was made
add.pt as StableHLO where it was made
add.txt called .mlir
x.npy go to buffers/
x.npz go to buffers/
x.raw go to buffers/
model.safetensors go to buffers/
END
# files with names that editors and downloads use, and with unknown names, are kept unchanged
for name in add.mlir~ .add.mlir.swp '#add.mlir#' add.mlir.part 4913 add.bak notes.md .txt; do
	bounded cp "$data/add.mlir" "$to/$name"
	bounded mv "$to/$name" "$to/scratch"
	bounded mv "$to/scratch" "$to/$name"
	bounded mv "$to/$name" "$to/edited.mlir"
	eventually grep -qx ready "$made/edited/state"
	bounded rm "$to/edited.mlir"
done
