#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Names that are gone take no memory, also those of which no process told the kernel.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
nodes()
{
	bounded df --output=iused "$mnt" | tail -n 1
}
few()
{
	[ "$(nodes)" -lt $((before + 300)) ]
}
# The daemon collects 256 names before the kernel drops them.
more()
{
	bounded python3 -c '
import os, sys
for i in range(300):
    os.mkdir(sys.argv[1] + f"/d{i}")
    os.rmdir(sys.argv[1] + f"/d{i}")' "$mnt/buffers"
}
before=$(nodes)

# -- the other views of a buffer
"$patient" $((patience * 2)) python3 - "$mnt/buffers" <<'END'
import os, sys

os.chdir(sys.argv[1])
for i in range(1000):
    with open(f"{i}.raw", "wb") as f:
        f.write(b"abcd")
    for view in "npy", "txt", "json":
        with open(f"{i}.{view}", "rb") as f:
            f.read()
    os.unlink(f"{i}.raw")
END
eventually few

# -- a directory, and what is in it, that a command or the end of a program removes
cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
for ((i = 0; i < 40; i++)); do
	cp "$data/add.mlir" "$mnt/programs/p$i.mlir"
	cat "$mnt/executables/p$i/"{state,error,info.json,options.json,cost.json,memory.json,signature.json}
	rm "$mnt/programs/p$i.mlir"
done >/dev/null
more
eventually few

# -- jobs: the last 1000 are kept
cp "$data/add.mlir" "$mnt/programs/"
"$patient" $((patience * 2)) python3 - "$mnt" <<'END'
import json, os, sys

os.chdir(sys.argv[1])
fd = os.open("control", os.O_RDWR)
command = b'{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["z"],"async":true}\n'
for i in range(2500):
    os.write(fd, command)
    job = json.loads(os.read(fd, 65536))["job"]
    os.write(fd, b'{"op":"wait","job":%d}\n' % job)
    os.read(fd, 65536)
    for file in "state", "result.json":
        with open(f"jobs/{job}/{file}") as f:
            f.read()
    if i == 1100:
        first = os.statvfs(".")
last = os.statvfs(".")
first, last = first.f_files - first.f_ffree, last.f_files - last.f_ffree
assert last < first + 2000, f"{first} nodes, then {last}"
END

# -- a directory that is there again stays where processes work in it
mkdir "$mnt/buffers/again"
cd "$mnt/buffers/again" || fail "no directory"
more
rmdir "$mnt/buffers/again"
mkdir "$mnt/buffers/again"
cd "$mnt/buffers/again" || fail "no directory"
more
# real time: the daemon has dropped the names by now, and must not have dropped this one
sleep 0.2
equal "the working directory" "$(readlink /proc/$$/cwd)" "$(realpath "$mnt")/buffers/again"
cd "$work" || fail "no directory"
