# SPDX-License-Identifier: Apache-2.0
"""Files of many tensors: .safetensors in buffers/, written here byte by byte."""

import json
import os
import signal
import struct
import time

import cases
from cases import (about, case, child, command, content, end_of, end_well, equal, eventually, fails,
                   floats, holds, make, opened, program, state, used)

MIB = 1 << 20
SIZES = {"F32": 4, "U8": 1, "I64": 8, "BF16": 2, "BOOL": 1, "F8_E4M3": 1, "F64": 8}
OURS = {"I64": "S64", "BOOL": "PRED", "F8_E4M3": "F8E4M3FN", "I4": "S4"}


def header(tensors, pad=0, metadata=None):
    """The header for [(name, dtype, shape, bytes or their number)], in this order."""
    table, at = {}, 0
    if metadata:
        table["__metadata__"] = metadata
    for name, dtype, shape, data in tensors:
        n = data if isinstance(data, int) else len(data)
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    return framed(json.dumps(table, ensure_ascii=False).encode(), pad)


def framed(text, pad=0):
    """TEXT as a header, padded so that the data begin at a multiple of PAD."""
    if pad:
        text += b" " * (-(8 + len(text)) % pad)
    return struct.pack("<Q", len(text)) + text


def whole(tensors, **how):
    return header(tensors, **how) + b"".join(t[3] for t in tensors)


def f32(name, *values):
    return (name, "F32", [len(values)], struct.pack(f"<{len(values)}f", *values))


MODEL = [
    f32("embed.weight", 1, 2, 3, 4),
    ("model.layers.0.attn.q", "F32", [2, 3], struct.pack("<6f", 1, 2, 3, 4, 5, 6)),
    ("model.layers.0.bias", "BF16", [3], bytes(range(6))),
    ("odd", "U8", [3], b"abc"),
    ("after.odd", "F32", [2, 2], struct.pack("<4f", 10, 20, 30, 40)),
    ("heads/0/w", "F64", [2], struct.pack("<2d", 0.1, -2)),
    ("heads/1/w", "F64", [2], struct.pack("<2d", 0.2, -3)),
    ("heads/10/w", "I64", [], struct.pack("<q", -7)),
    ("größe", "BOOL", [4], b"\1\0\1\1"),
    ("層/重み", "F8_E4M3", [2, 2], bytes([56, 184, 0, 1])),
    ("with space", "U8", [1], b"x"),
    ("empty", "F32", [0, 5], b""),
    ("scalar", "F32", [], struct.pack("<f", 2.5)),
    ("nibbles", "I4", [3], bytes([0x21, 0x0F])),
]


def tensors_in(d):
    """{tensor's name: the path of its file} in the directory of a checkpoint."""
    found = {}
    for folder, _, files in os.walk(d):
        for name in files:
            path = f"{folder}/{name}"
            found[os.path.relpath(path[: path.rindex(".")], d)] = path
    return found


def shows(d, tensors):
    """The directory has the tensors, and each of them its type, shape and bytes."""
    got = tensors_in(d)
    equal("names", sorted(got), sorted(t[0] for t in tensors))
    for name, dtype, shape, data in tensors:
        path = got[name]
        told = about(path)
        equal(name, (told["state"], told["dtype"], told["shape"]),
              ("ready", OURS.get(dtype, dtype), shape))
        if dtype in SIZES:
            equal(name, content(path[: path.rindex(".")] + ".raw"), data)
    # opened as a file of one tensor, too
    one = content(got[tensors[0][0]][: got[tensors[0][0]].rindex(".")] + ".safetensors")
    holds("a tensor's own file ends with its data", one.endswith(tensors[0][3]))


@case
def many_tensors(d):
    for i, how in enumerate(({}, {"pad": 8}, {"pad": 64}, {"metadata": {"format": "pt"}})):
        data = whole(MODEL, **how)
        path = f"{d}/ck{i}.safetensors"
        make(path, data)
        equal("listing", os.listdir(d), [f"ck{i}"])
        shows(f"{d}/ck{i}", MODEL)
        equal("bytes", content(path), data)
        st = os.stat(path)
        equal("size", st.st_size, len(data))
        holds("an inode of its own", st.st_ino != os.stat(f"{d}/ck{i}").st_ino)
        equal("i4", content(f"{d}/ck{i}/nibbles.raw"), b"\x01\x02\xff")
        equal("text", content(f"{d}/ck{i}/heads/10/w.txt"), b"-7\n")
        reply = command(op="stat", buffer=f"many_tensors/ck{i}/model.layers.0.bias")
        equal("stat", reply["buffer"]["dtype"], "BF16")
        cases.shutil.rmtree(f"{d}/ck{i}")
        fails("ENOENT", os.stat, path)
        equal("listing", os.listdir(d), [])


@case
def one_tensor(d):
    for name in ("x", "weight", "a/b", "größe", "x.npy"):
        data = whole([f32(name, 1, 2, 3)])
        make(d + "/x.safetensors", data)
        equal("listing", os.listdir(d), ["x.safetensors"])
        equal("bytes", content(d + "/x.safetensors"), data)
        equal("raw", content(d + "/x.raw"), data[-12:])
        told = about(d + "/x.safetensors")
        equal("type", (told["dtype"], told["shape"], told["state"]), ("F32", [3], "ready"))
    # like any other view: not listed; of another array
    make(d + "/y.npy", floats(4, 5))
    got = content(d + "/y.safetensors")
    n = struct.unpack("<Q", got[:8])[0]
    table = json.loads(got[8 : 8 + n])
    equal("table", table, {"y": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})
    equal("data", got[8 + n :], struct.pack("<2f", 4, 5))
    equal("listing", sorted(os.listdir(d)), ["x.safetensors", "y.npy"])
    fails("EPERM", os.unlink, d + "/y.safetensors")
    # written through it
    data = whole([f32("z", 7)])
    make(d + "/y.safetensors", data)
    equal("listing", sorted(os.listdir(d)), ["x.safetensors", "y.safetensors"])
    equal("text", content(d + "/y.txt"), b"7\n")
    # from many to one, and back
    make(d + "/x.safetensors", data)
    equal("text", content(d + "/x.txt"), b"7\n")


@case
def written_by_several(d):
    """check_tensors.c has pieces."""
    data = whole(MODEL)
    # by two processes
    fd = opened(d + "/c.safetensors", os.O_WRONLY | os.O_CREAT)
    os.write(fd, data[:200])

    def rest():
        os.write(fd, data[200:])
        os.close(fd)

    end_well(child(rest))
    os.close(fd)
    shows(d + "/c", MODEL)
    # by one that is killed: no directory
    def killed():
        mine = opened(d + "/k.safetensors", os.O_WRONLY | os.O_CREAT)
        os.write(mine, data)
        os.kill(os.getpid(), signal.SIGKILL)

    equal("killed", end_of(child(killed)), -signal.SIGKILL)
    fails("ENOENT", os.stat, d + "/k")
    make(d + "/k.safetensors", data)
    shows(d + "/k", MODEL)


@case
def scratch_and_rename(d):
    data = whole(MODEL)
    make(d + "/m.part", data)
    os.rename(d + "/m.part", d + "/m.safetensors")
    eventually("the directory", lambda: len(tensors_in(d + "/m")) == len(MODEL))
    eventually("ready", lambda: all(state(p) == "ready" for p in tensors_in(d + "/m").values()))
    shows(d + "/m", MODEL)
    equal("bytes", content(d + "/m.safetensors"), data)
    equal("listing", os.listdir(d), ["m"])
    # the directory moves with all that it is
    os.rename(d + "/m", d + "/n")
    shows(d + "/n", MODEL)
    equal("bytes", content(d + "/n.safetensors"), data)
    fails("ENOENT", os.stat, d + "/m.safetensors")
    # what is none: EINVAL, and both stay
    make(d + "/junk", data[:-1])
    fails("EINVAL", os.rename, d + "/junk", d + "/j.safetensors")
    equal("junk", content(d + "/junk"), data[:-1])
    fails("ENOENT", os.stat, d + "/j")
    os.unlink(d + "/junk")
    # a directory that is not a checkpoint, and a buffer, occupy the name
    os.mkdir(d + "/dir")
    make(d + "/dir/x.npy", floats(1))
    fails("EEXIST EINVAL EISDIR ENOTEMPTY", make, d + "/dir.safetensors", data)
    equal("dir", os.listdir(d + "/dir"), ["x.npy"])


@case
def overwritten(d):
    """The same name again: other tensors."""
    make(d + "/m.safetensors", whole(MODEL))
    other = [f32("only", 1, 2), f32("embed.weight", 9, 9)]
    make(d + "/m.safetensors", whole(other))
    shows(d + "/m", other)
    equal("bytes", content(d + "/m.safetensors"), whole(other))
    # one tensor of them
    path = tensors_in(d + "/m")["only"]
    make(d + "/m/only.npy", floats(5, 6))
    equal("text", content(d + "/m/only.txt"), b"5 6\n")
    equal("the other", content(d + "/m/embed.weight.txt"), b"9 9\n")
    holds("listed once", path.endswith(".npy") or not os.path.exists(path)
          or "only.npy" in os.listdir(d + "/m"))


@case
def file_of_a_directory(d):
    """The file is there though the directory is listed, and is not removed by itself."""
    data = whole(MODEL)
    path = d + "/m.safetensors"
    make(path, data)
    equal("links", os.stat(path).st_nlink, 1)
    fails("EPERM", os.unlink, path)
    fails("EPERM", os.rename, path, d + "/n.safetensors")
    fails("EEXIST", make, d + "/m.npy", floats(1))
    fails("EEXIST", os.mkdir, d + "/m")
    told = json.loads(content(d + "/m.json"))
    equal("json", (told["state"], told["tensors"], told["written"]),
          ("ready", len(MODEL), len(data)))
    # an open descriptor keeps it, like any file
    fd = opened(path, os.O_RDONLY)
    cases.shutil.rmtree(d + "/m")
    fails("ENOENT", os.stat, path)
    equal("bytes", os.pread(fd, len(data), 0), data)
    os.close(fd)
    equal("listing", os.listdir(d), [])


@case
def copied_and_replaced(d):
    size = 8 * MIB
    model = [("a", "U8", [size], bytes(size)), f32("b", 1, 2)]
    data = whole(model, pad=64)
    make(d + "/m.safetensors", data)
    before = used()
    # a copy shares the bytes
    end_well(child(os.execvp, "cp", ["cp", d + "/m.safetensors", d + "/n.safetensors"]))
    holds("the bytes are shared", used() - before < MIB)
    shows(d + "/n", model)
    equal("bytes", content(d + "/n.safetensors"), data)
    # another file moved over it
    other = [f32("c", 3), f32("d", 4)]
    make(d + "/part", whole(other))
    fd = opened(d + "/n.safetensors", os.O_RDONLY)
    os.rename(d + "/part", d + "/n.safetensors")
    shows(d + "/n", other)
    equal("the old one", os.pread(fd, len(data), 0), data)
    os.close(fd)
    equal("listing", sorted(os.listdir(d)), ["m", "n"])
    # its directory moved over an empty one of another
    make(d + "/e.safetensors", framed(b"{}"))
    os.rename(d + "/n", d + "/e")
    shows(d + "/e", other)
    equal("bytes", content(d + "/e.safetensors"), whole(other))
    equal("listing", sorted(os.listdir(d)), ["e", "m"])
    # into another device's directory
    there = f"{cases.mnt}/devices/{cases.plugin}/1/buffers"
    cases.shutil.copyfile(d + "/e.safetensors", there + "/e.safetensors")
    shows(there + "/e", other)
    equal("device", about(there + "/e/c.npy")["device"], f"{cases.plugin}:1")


@case
def written_in_place(d):
    model = [f32("a", 1, 2), f32("b", 3, 4)]
    data = whole(model)
    path = d + "/m.safetensors"
    make(path, data)
    view = opened(d + "/m/b.raw", os.O_RDONLY)
    fd = opened(path, os.O_RDWR)
    os.pwrite(fd, struct.pack("<f", 9), len(data) - 4)
    equal("while it is written", os.listdir(d), ["m.safetensors"])
    os.close(fd)
    model[1] = f32("b", 3, 9)
    shows(d + "/m", model)
    equal("listing", os.listdir(d), ["m"])
    equal("the old tensor", os.pread(view, 8, 0), struct.pack("<2f", 3, 4))
    os.close(view)
    # other files in the directory are kept
    make(d + "/m/mine.npy", floats(5))
    fails("ENOTEMPTY", make, path, data)
    equal("mine", content(d + "/m/mine.txt"), b"5\n")
    shows(d + "/m", model + [f32("mine", 5)])
    os.unlink(d + "/m/mine.npy")
    # truncated: refused, and the former tensors are lost, like any former value
    os.truncate(path, len(data) - 4)
    equal("listing", os.listdir(d), ["m.safetensors"])
    equal("state", state(path), "incomplete")
    make(path, data)
    shows(d + "/m", [f32("a", 1, 2), f32("b", 3, 4)])
    # one tensor instead of several: a file again
    make(path, whole([f32("a", 7)]))
    equal("listing", os.listdir(d), ["m.safetensors"])
    equal("text", content(d + "/m.txt"), b"7\n")


ONE, TWO = f32("a", 1), f32("b", 2)
# check_safetensors.c and check_tensors.c have what the header itself may not be.
BAD = {
    "data too few": whole([ONE, TWO])[:-1],
    "a file and a directory": whole([ONE, f32("a/b", 2)]),
    "the other way": whole([f32("a/b", 2), ONE]),
}
# Names that a directory cannot have.
for _name in ("", ".", "..", "/", "/a", "a/", "a//b", "a/../b", "../a", "n\n", 300 * "n",
              "x/" + 300 * "n", "a.npy", "a.json", "a.sharding"):
    BAD[f"a tensor called {_name[:20]!r}"] = whole([f32(_name, 1), TWO])


@case
def refused(d):
    for i, (what, data) in enumerate(BAD.items()):
        path = f"{d}/bad{i}.safetensors"
        try:
            fails("EINVAL EOVERFLOW ENAMETOOLONG EEXIST E2BIG", make, path, data)
            holds("no directory", not os.path.isdir(f"{d}/bad{i}"))
            told = about(path)
            holds("a sentence", told["state"] in ("error", "incomplete") and told.get("error"))
            os.unlink(path)
            # and renamed to that: both stay
            make(d + "/part", data)
            fails("EINVAL EOVERFLOW ENAMETOOLONG EEXIST E2BIG", os.rename, d + "/part", path)
            equal("listing", os.listdir(d), ["part"])
        except Exception as e:
            raise AssertionError(f"{what}: {e}") from e
    equal("used", used() < MIB, True)
    # and a good one under that name
    make(d + "/bad0.safetensors", whole(MODEL))
    shows(d + "/bad0", MODEL)


@case
def thousands(d):
    """A large model has thousands of tensors."""
    model = [f32(f"model.layers.{i}.mlp.weight", i, i + 1) for i in range(5000)]
    data = whole(model)
    make(d + "/m.safetensors", data)
    equal("tensors", len(os.listdir(d + "/m")), 5000)
    for i in (0, 1, 2500, 4999):
        equal("text", content(f"{d}/m/model.layers.{i}.mlp.weight.txt"),
              f"{i} {i + 1}\n".encode())
    equal("bytes", content(d + "/m.safetensors"), data)


@case
def large(d):
    """512 MiB: visible and used by a program within a second of the last byte, held once."""
    before = used()
    n = 16 * MIB  # elements of a tensor
    count = 8
    program("pick", f"""func.func @main(%a: tensor<{n}xf32>, %b: tensor<{n}xf32>)
    -> tensor<2xf32> {{
  %0 = stablehlo.slice %a [0:1] : (tensor<{n}xf32>) -> tensor<1xf32>
  %1 = stablehlo.slice %b [{n - 1}:{n}] : (tensor<{n}xf32>) -> tensor<1xf32>
  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}}
""")
    block = struct.pack("<f", 1.5) * (MIB // 4)
    for name, pad in (("aligned", 64), ("unaligned", 0)):
        head = header([(f"t{i}", "F32", [n], 4 * n) for i in range(count)], pad=pad)
        if not pad and len(head) % 4 == 0:
            head = framed(head[8:] + b" ")
        fd = opened(f"{d}/{name}.safetensors", os.O_WRONLY | os.O_CREAT)
        os.write(fd, head)
        for i in range(count):
            for k in range(4 * n // MIB):
                mark = struct.pack("<f", 100 * i + k)
                os.write(fd, mark + block[4:-4] + mark)
        began = time.monotonic()
        os.close(fd)
        closed = time.monotonic() - began
        equal("tensors", len(os.listdir(f"{d}/{name}")), count)
        reply = command(op="execute", executable="pick",
                        inputs=[f"large/{name}/t0", f"large/{name}/t7"],
                        outputs=["large/got"])
        took = time.monotonic() - began
        print(f"  {name}: closed after {closed:.2f} s, used after {took:.2f} s")
        equal("run", (reply.get("ok"), reply.get("error")), (True, None))
        equal("the result", content(d + "/got.txt"), b"0 763\n")
        holds(f"within a second: {took:.2f} s", took < cases.PATIENCE / 20)
        total = len(head) + 4 * n * count
        holds(f"held once: {(used() - before) / total:.3f}",
              total <= used() - before < total + 32 * MIB)
        fd = opened(f"{d}/{name}.safetensors", os.O_RDONLY)
        equal("size", os.fstat(fd).st_size, total)
        equal("header", os.pread(fd, len(head), 0), head)
        for i in (0, 3, 7):
            equal("a tensor", os.pread(fd, 8, len(head) + 4 * n * i),
                  struct.pack("<2f", 100 * i, 1.5))
            view = opened(f"{d}/{name}/t{i}.raw", os.O_RDONLY)
            equal("its file", os.pread(view, 8, 5 * MIB), struct.pack("<2f", 100 * i + 5, 1.5))
            equal("its size", os.fstat(view).st_size, 4 * n)
            os.close(view)
        os.close(fd)
        holds(f"still once: {(used() - before) / total:.3f}",
              used() - before < total + 32 * MIB)
        cases.shutil.rmtree(f"{d}/{name}")
        eventually("df as before", lambda: used() - before < 2 * MIB)


cases.main()
