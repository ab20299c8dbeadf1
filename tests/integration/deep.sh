#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Directories have a deepest: what goes down the tree has an end.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
b=$mnt/buffers
put_add

# descend DIRECTORY: make d/d/d/... in it until that is refused; prints the errno and how deep
descend()
{
	bounded python3 -B - "$1" <<'END'
import errno, os, sys
os.chdir(sys.argv[1])
n = 0
try:
    while n < 1000:
        os.mkdir("d")
        os.chdir("d")
        n += 1
except OSError as e:
    print(errno.errorcode[e.errno], n)
else:
    print("no end", n)
END
}
for dir in buffers programs; do
	equal "the deepest in $dir" "$(descend "$mnt/$dir")" 'ENAMETOOLONG 255'
	tells "$mnt/error" '^mkdir \.\.\..*/d: more than 256 directories one in another$'
done
deepest=$b/$(printf 'd/%.0s' {1..255})
deepest=${deepest%/}

# -- files go there, and commands all the way down
bounded cp "$data/x.npy" "$deepest/"
fails_with 'Invalid argument' bash -c 'echo "d -> z" >"$1"' - "$mnt/executables/add/run"
bounded cp "$data/y.npy" "$deepest/"
bounded bash -c 'echo "d -> z" >"$1"' - "$mnt/executables/add/run"
shows "$b/z.txt" $'11 22 33\n44 55 66'
shows "$mnt/devices/${plugin:-cpu}/0/executables" add
fails_with 'File name too long' cp "$data/add.mlir" "$mnt/programs/${deepest#"$b/"}/"
gone "$mnt/programs/${deepest#"$b/"}/add.mlir"

# -- renames count the directories below; refused renames change nothing
bounded mkdir -p "$b/e/f"
fails_with 'File name too long' mv "$b/e" "$(dirname "$deepest")/"
bounded test -d "$b/e/f"
bounded mv "$b/e/f" "$(dirname "$deepest")/"

# A directory of programs is one level more in executables/: none of both trees changes.
bounded mkdir -p "$mnt/programs/e"
bounded cp "$data/add.mlir" "$mnt/programs/e/"
deep_programs=$mnt/programs/$(dirname "${deepest#"$b/"}")
bounded rmdir "$deep_programs/d"
fails_with 'File name too long' mv "$mnt/programs/e" "$deep_programs/"
bounded test -f "$mnt/programs/e/add.mlir"
bounded test -d "$mnt/executables/e/add"

# -- tensors' names make directories, and outputs do
bounded python3 -B - "$work/deep.safetensors" "$work/flat.safetensors" <<'END'
import json, struct, sys
for path, depth in zip(sys.argv[1:], (260, 2)):
    head = {"/".join(["d"] * depth) + "/" + leaf:
            {"dtype": "F32", "shape": [], "data_offsets": [4 * i, 4 * i + 4]}
            for i, leaf in enumerate("ab")}
    text = json.dumps(head).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + bytes(8))
END
fails_with 'File name too long' cp deep.safetensors "$b/"
tells "$mnt/error" 'more than 256 directories'
fails_with 'File name too long' cp flat.safetensors "$(dirname "$deepest")/"
tells "$mnt/error" 'more than 256 directories'
bounded cp flat.safetensors "$b/"
bounded test -e "$b/flat/d/d/b.npy"
fails_with 'File name too long' \
	bash -c 'echo "x y -> $2/" >"$1"' - "$mnt/executables/add/run" "${deepest#"$b/"}/out"
tells "$mnt/executables/add/run" 'more than 256 directories'
bounded rm -r "$b/d"
shows "$mnt/health" ok
