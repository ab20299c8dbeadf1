#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A result is a file as others: opened, written in the middle, at its end, mapped, renamed.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
cp "$data/x.npy" "$mnt/buffers/"
# One result inside the reply, one on the device, one in shared memory.
cat >wide.mlir <<'END'
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<100000xf32>, tensor<1000000xf32>) {
  %0 = stablehlo.constant dense<2.0> : tensor<100000xf32>
  %1 = stablehlo.constant dense<3.0> : tensor<1000000xf32>
  return %x, %0, %1 : tensor<2x3xf32>, tensor<100000xf32>, tensor<1000000xf32>
}
END
bounded cp wide.mlir "$mnt/programs/"
bounded python3 - "$mnt" <<'END'
import json, mmap, os, struct, subprocess, sys

mnt = sys.argv[1]
b = mnt + "/buffers/"
SEVEN = struct.pack("<f", 7)

def run():
    with open(mnt + "/executables/wide/run", "w") as f:
        f.write("x -> o0 o1 o2\n")

def content(name):
    with open(b + name, "rb") as f:
        return f.read()

def about(name):
    return json.loads(content(name + ".json"))

def check(what, ok):
    if not ok:
        raise SystemExit("not so: " + what)

run()
was = {f"o{i}.{view}": content(f"o{i}.{view}") for i in range(3) for view in ("npy", "raw", "txt")}
for name, bytes_ in was.items():
    stem, view = name.split(".")
    run()
    at = 128 + 8 if view == "npy" else 8

    # read first as any view
    check(f"{name}: what was computed", content(name) == bytes_)
    run()

    # opened to write, and not written: the same array
    for mode in "r+b", "ab":
        open(b + name, mode).close()
        check(f"{name}: {mode} changes nothing", about(stem)["state"] == "ready")
        check(f"{name}: the same bytes", content(name) == bytes_)
    check("it is listed as what was opened", name in os.listdir(b))

    # what is written is changed, the rest stays
    run()
    with open(b + name, "r+b", 0) as f:
        check(f"{name}: what is there is read", f.read(1 << 20) == bytes_[:1 << 20])
        if view == "txt":
            f.seek(0)
            f.write(b"7")
        else:
            f.seek(at)
            f.write(SEVEN)
    want = b"7" + bytes_[1:] if view == "txt" else bytes_[:at] + SEVEN + bytes_[at + 4:]
    check(f"{name}: written in the middle", content(name) == want)
    told = about(stem)
    check(f"{name}: {told}", told["state"] == "ready" and told["dtype"] == "F32")
    check("its other view", content(stem + ".raw").count(SEVEN) == 1)

    # through a mapping
    run()
    with open(b + name, "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
        m[0:1] = m[0:1]
    check(f"{name}: through a mapping", content(name) == bytes_)

    # only written, not read, and at its end
    run()
    fd = os.open(b + name, os.O_WRONLY)
    if view == "raw":
        os.pwrite(fd, SEVEN, len(bytes_) - 4)
        want = bytes_[:-4] + SEVEN
    else:
        os.pwrite(fd, bytes_[-4:], len(bytes_) - 4)
        want = bytes_
    os.close(fd)
    check(f"{name}: its end", content(name) == want)

    # truncated: not an array, but the bytes are kept
    run()
    f = open(b + name, "r+b")
    size = {"npy": 100, "raw": 20, "txt": 4}[view]
    f.truncate(size)
    try:
        f.close()
        check(f"{name}: cut", view == "txt")
    except OSError as e:
        check(f"{name}: {e}", view != "txt" and e.errno == 22)
    check(f"{name}: the rest", content(name) == bytes_[:size])
    check(f"{name}: {about(stem)}", (about(stem)["state"] == "ready") == (view == "txt"))

    # a scratch file has the bytes
    run()
    subprocess.run(["mv", b + stem + ".npy", b + "scratch"], check=True)
    check(f"{stem} as scratch", content("scratch") == was[stem + ".npy"])
    os.unlink(b + "scratch")

# one without elements has a header all the same
fd = os.open(mnt + "/control", os.O_RDWR)
os.write(fd, b'{"op":"create","buffer":"none","dtype":"F32","shape":[3,0],"fill":0}\n')
check("created", json.loads(os.read(fd, 4096))["ok"])
was = content("none.npy")
with open(b + "none.npy", "r+b", 0) as f:
    check("its header", f.read() == was and len(was) == 128)
check(f"none: {about('none')}", about("none")["state"] == "ready")
with open(b + "none.raw", "r+b", 0) as f:
    check("no bytes", f.read() == b"")
END
shows "$mnt/health" ok
shows "$mnt/plugins/${plugin:-cpu}/restarts" 0
