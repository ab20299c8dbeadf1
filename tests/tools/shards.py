# SPDX-License-Identifier: Apache-2.0
"""Arrays over several devices: shard, gather, and programs that take and give them."""

import io
import itertools
import json
import os
import random
import tarfile

import numpy as np

import cases
from cases import (about, as_user, case, child, command, content, device, end_well, equal,
                   eventually, fails, holds, make, ok, on, program, refused, root_case, used)
from numpy_files import load, same, save

MIB = 1 << 20
CASES = cases.DATA + "/../conformance/cases.tar.xz"
# replicas do not determine how results are split
TWICE = b"""module @twice attributes {mhlo.num_replicas = 4 : i32} {
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %x, %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}}
"""
# the result is split as the argument, on the devices in the other order
TURNED = b"""module @turned attributes {mhlo.num_partitions = 2 : i32} {
func.func @main(%x: tensor<4x4xf32> {mhlo.sharding = "{devices=[2,1]0,1}"})
    -> (tensor<4x4xf32> {mhlo.sharding = "{devices=[2,1]1,0}"}) {
  %0 = stablehlo.add %x, %x : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}}
"""


def saved(name, array):
    """Make the buffer NAME; the array."""
    save(f"{cases.buffers}/{name}.npy", array)
    return array


def numbers(*shape, dtype="<f4", name="w"):
    return saved(name, np.arange(np.prod(shape), dtype=dtype).reshape(shape))


def shard(buffer, as_, mesh, spec, **o):
    return ok(op="shard", buffer=buffer, mesh=mesh, spec=spec, **{"as": as_}, **o)


def gather(buffer, as_, **o):
    return ok(op="gather", buffer=buffer, **{"as": as_}, **o)


def gathers(name, want, to="w2"):
    """NAME is WANT, gathered."""
    gather(name, to)
    same(f"{name} gathered", load(f"{cases.buffers}/{to}.npy"), want)


def has(i, name, want):
    """Device I has WANT as the buffer NAME."""
    same(f"{name} on {i}", load(on(i, name + ".npy")), want)


def parts(name, wanted, devices=range(4)):
    """The devices have WANTED as the buffers NAME."""
    for i, part in zip(devices, wanted):
        has(i, name, part)


def sharding(name):
    return json.loads(content(f"{cases.buffers}/{name}.sharding.json"))


def clear(*names):
    """Remove the buffers NAME of all devices."""
    for i, name in itertools.product(range(4), names):
        if os.path.exists(on(i, name + ".npy")):
            os.unlink(on(i, name + ".npy"))


def divided(array, mesh, spec):
    """The block at position I of the mesh, for each: the same rules with numpy."""
    blocks = []
    for at in itertools.product(*map(range, mesh.values())):
        index, part = dict(zip(mesh, at)), array
        for dim, entry in enumerate(spec):
            for axis in [entry] if isinstance(entry, str) else entry or []:
                part = np.split(part, mesh[axis], dim)[index[axis]]
        blocks.append(part)
    return blocks


@case
def splits_and_joins(d):
    w = numbers(4, 8, 6, dtype="<i4")
    xy = {"x": 2, "y": 2}
    for mesh, spec in [
            (xy, ["x", None, None]), (xy, ["x"]), (xy, []), (xy, [None, "y", "x"]),
            (xy, ["x", "y", None]), (xy, [["x", "y"]]), (xy, [None, ["y", "x"]]),
            (xy, [[], ["x"], None]), ({"x": 4}, ["x"]), ({"x": 4}, [None, "x"]),
            ({"x": 1}, ["x"]), ({"x": 1, "y": 3, "z": 1}, ["z", None, "y"]),
            ({"a b": 2, "\u00e9": 2}, ["\u00e9", "a b"])]:
        reply = shard("w", "ws", mesh, spec)
        want = divided(w, mesh, spec)
        equal("devices", reply["devices"], [device(i) for i in range(len(want))])
        equal("shape", reply["shard_shape"], list(want[0].shape))
        parts("ws", want)
        for i in range(len(want)):
            told = about(on(i, "ws.npy"))
            equal("device and state", (told["device"], told["state"]), (device(i), "ready"))
        told = sharding("ws")
        flat = [a for e in spec for a in ([e] if isinstance(e, str) else e or [])]
        equal("mesh", list(told["mesh"].items()), list(mesh.items()))
        equal("spec", told["spec"],
              [(e if isinstance(e, str) else e[0] if e and len(e) == 1 else e or None)
               for e in spec] + [None] * (3 - len(spec)))
        equal("replicated", told["replicated"], [a for a in mesh if a not in flat])
        equal("devices", told["devices"], reply["devices"])
        equal("shape", told["shape"], [4, 8, 6])
        equal("shard_shape", told["shard_shape"], list(want[0].shape))
        equal("dtype", told["dtype"], "S32")
        gathers("ws", w)
        gather("ws", "w3", device=device(3))
        has(3, "w3", w)
        gather("ws.npy", device(2) + "/w3.npy")
        has(2, "w3", w)
        clear("ws", "w2", "w3")


@case
def in_any_order_of_devices(d):
    w = np.arange(12, dtype="<f8").reshape(4, 3)
    save(on(1, "w.npy"), w)
    order = [2, 0, 3, 1]
    shard("w", "ws", {"x": 2, "y": 2}, [["y", "x"]], device=device(1),
          devices=[device(i) for i in order])
    parts("ws", divided(w, {"x": 2, "y": 2}, [["y", "x"]]), order)
    equal("devices", sharding("ws")["devices"], [device(i) for i in order])
    gathers("ws", w, "w")
    clear("ws", "w")
    # those that do not include the default device; the file is in buffers/ all the same
    save(cases.buffers + "/w.npy", w)
    shard("w", "ws", {"x": 2}, ["x"], devices=[device(3), device(1)])
    fails("ENOENT", os.stat, on(0, "ws.npy"))
    has(3, "ws", w[:2])
    gathers("ws", w)


@case
def as_text(d):
    """The words of XLA and Shardy, of which tests/unit/formats/check_sharding_text.c has more."""
    w = numbers(4, 8, dtype="<i4")
    o = dict(op="shard", buffer="w", **{"as": "ws"})
    rows, square = np.split(w, 2), [q for h in np.split(w, 2) for q in np.split(h, 2, 1)]
    mesh = 'sdy.mesh @mesh = <["x"=2, "y"=2]>'
    for words, want in [
            (dict(sharding="{devices=[2,2]<=[4]}"), square),
            (dict(sharding="{devices=[2,1,2]<=[4] last_tile_dim_replicate}"),
             [rows[i] for i in (0, 0, 1, 1)]),
            (dict(sharding='#sdy.sharding<@mesh, [{"x"}, {"y"}]>', mesh=mesh), square),
            (dict(spec=["x"], mesh=mesh), [rows[i] for i in (0, 0, 1, 1)]),
            (dict(sharding={"mesh": {"x": 2}, "spec": ["x"]}), rows)]:
        reply = ok(**o, **words)
        equal("shape", reply["shard_shape"], list(want[0].shape))
        equal("devices", sorted(reply["devices"]), [device(i) for i in range(len(want))])
        parts("ws", want)
        gathers("ws", w)
        clear("ws", "w2")
    # numbers are those of "devices"
    ok(sharding="{devices=[2,1]1,0}", devices=[device(3), device(1)], **o)
    has(1, "ws", w[:2])
    has(3, "ws", w[2:])
    clear("ws")
    ok(sharding="{maximal device=2}", **o)
    has(2, "ws", w)
    equal("devices", sharding("ws")["devices"], [device(2)])
    refused("EINVAL", "that is manual does not say which part", sharding="{manual}", **o)
    refused("EINVAL", '"mesh" is missing', sharding='<@mesh, [{"x"}, {}]>', **o)
    refused("EINVAL", '"sharding": expected a string, found int', sharding=2, **o)
    refused("EINVAL", 'unknown key "axes"', sharding={"axes": {}}, **o)


@case
def in_other_memories(d):
    w = numbers(8, dtype="<i4")
    for kind in os.listdir(f"{cases.mnt}/devices/{cases.plugin}/1/memories"):
        shard("w", "ws", {"x": 2}, ["x"], memory=kind)
        for i in range(2):
            equal("memory", about(on(i, "ws.npy"))["memory"], kind)
            same(kind, load(on(i, "ws.npy")), w[4 * i:4 * i + 4])
        ok(op="copy", buffer="w", memory=kind, **{"as": "wc"})
        equal("memory", about(cases.buffers + "/wc.npy")["memory"], kind)
        same(kind, load(cases.buffers + "/wc.npy"), w)
    refused("EINVAL", f"device {device(0)} has no memory hbm", op="copy", buffer="w",
            memory="hbm", **{"as": "wc"})


@case
def of_every_type(d):
    """One of each size and kind; dtypes.py has all of them."""
    for dtype, size, low in [("PRED", 1, 2), ("S2", 1, 4), ("U4", 1, 16), ("F4E2M1FN", 1, 16),
                             ("F8E4M3FN", 1, 256), ("S16", 2, 256), ("BF16", 2, 256),
                             ("F32", 4, 256), ("U64", 8, 256), ("C64", 8, 256), ("C128", 16, 256)]:
        data = bytes((i * 7 + 3) % low for i in range(6 * 4 * size))
        ok(op="create", buffer="t", dtype=dtype, shape=[6, 4])
        make(cases.buffers + "/t.raw", data)
        whole = np.frombuffer(content(cases.buffers + "/t.raw"), dtype=f"V{size}").reshape(6, 4)
        for mesh, spec in ({"x": 2}, ["x"]), ({"x": 2}, [None, "x"]):
            shard("t", "ts", mesh, spec)
            for i, part in enumerate(divided(whole, mesh, spec)):
                got = np.frombuffer(content(on(i, "ts.raw")), dtype=f"V{size}")
                holds(f"{dtype} on device {i}", got.tobytes() == part.tobytes())
                equal("dtype", about(on(i, "ts.npy"))["dtype"], dtype)
            # what the devices have, not the host's copy of it
            for i in range(2):
                ok(op="copy", buffer=f"{device(i)}/ts", **{"as": f"{device(1 - i)}/tc"})
            gather("ts", "t2")
            holds(f"{dtype} joined", content(cases.buffers + "/t2.raw") == whole.tobytes())
            equal("dtype", about(cases.buffers + "/t2.npy")["dtype"], dtype)
            clear("ts", "tc", "t2")
        os.unlink(cases.buffers + "/t.raw")


def reshard(buffer, as_, **o):
    return ok(op="reshard", buffer=buffer, **{"as": as_}, **o)


@case
def of_parts_that_are_there(d):
    """Arrays that were written to their devices are the parts of one; gather and reshard take it."""
    whole = np.arange(24, dtype="<f4").reshape(4, 6)
    for i in range(4):
        np.save(on(i, "hs.npy"), whole[i // 2 * 2:i // 2 * 2 + 2, i % 2 * 3:i % 2 * 3 + 3])
    o = dict(op="assemble", buffer="hs", mesh={"x": 2, "y": 2}, spec=["x", "y"])
    equal("reply", ok(**o), {"ok": True, "buffer": "hs", "shard_shape": [2, 3],
                             "devices": [device(i) for i in range(4)]})
    equal("shape", json.loads(content(cases.buffers + "/hs.sharding.json"))["shape"], [4, 6])
    gather("hs", "h")
    same("gathered", load(cases.buffers + "/h.npy"), whole)
    reshard("hs", "ht", sharding="{devices=[4,1]<=[4]}")
    has(3, "ht", whole[3:])
    # two of the parts, in another order, on devices without the default one
    ok(**{**o, "mesh": {"x": 2}, "spec": [None, "x"], "devices": [device(3), device(1)]})
    gather("hs", "h")
    same("of two", load(cases.buffers + "/h.npy"), np.hstack([whole[2:, 3:], whole[:2, 3:]]))
    # what is not the parts of one
    refused("ENOENT", "no buffer none", **{**o, "buffer": "none"})
    refused("EINVAL", "without a device", **{**o, "buffer": device(1) + "/hs"})
    np.save(on(1, "hs.npy"), whole)
    refused("EINVAL", f"the shard on {device(1)}: expected F32[2,3], found F32[4,6]", **o)
    os.unlink(on(1, "hs.npy"))
    refused("ENOENT", f"the shard on {device(1)}: there is no buffer hs", **o)
    clear("hs", "ht", "h")


@case
def of_several_buffers(d):
    """A list is a batch of the command for each: it stops at the first that fails.  check_commands.c
    has lists that are refused."""
    arrays = {n: np.arange(16, dtype="<i4").reshape(4, 4) * k for k, n in enumerate("abc")}
    for name, array in arrays.items():
        saved(name, array)
    reply = ok(op="shard", buffers=list("abc"), mesh={"x": 2}, spec=["x"],
               **{"as": ["as", "bs", "cs"]})
    equal("replies", [r["buffer"] for r in reply["replies"]], ["as", "bs", "cs"])
    for name, array in arrays.items():
        same(name, load(on(1, name + "s.npy")), array[2:])
    # a sharding for each
    ok(op="reshard", buffers=["as", "bs"], sharding=["{replicated}", {"mesh": {"x": 4}, "spec": ["x"]}],
       id="both", **{"as": ["as", "bs"]})
    has(3, "as", arrays["a"])
    has(3, "bs", arrays["b"][3:])
    # the reply has those up to the first that failed, which stay done
    reply = command(op="gather", buffers=["bs", "a", "cs"], **{"as": ["b2", "a2", "c2"]})
    holds(reply, not reply["ok"] and reply["error"]["errno"] == "ENOENT")
    equal("message", reply["error"]["message"],
          '"buffers", element 1: gather: a is not an array on several devices: there is no '
          'a.sharding.json in buffers/')
    equal("replies", [r["ok"] for r in reply["replies"]], [True, False])
    same("b2", load(cases.buffers + "/b2.npy"), arrays["b"])
    fails("ENOENT", os.stat, cases.buffers + "/c2.npy")
    ok(op="copy", buffers=["a", "b"], device=device(0),
       **{"as": [device(1) + "/a", device(2) + "/b"]})
    has(2, "b", arrays["b"])
    # as a job, as a step, and none
    job = ok(op="copy", buffers=["a", "b"], **{"as": ["a3", "b3"], "async": True})["job"]
    equal("job", [r["buffer"] for r in ok(op="wait", job=job)["result"]["replies"]], ["a3", "b3"])
    reply = ok(op="batch", steps=[{"op": "delete", "buffers": ["a3", "b3"]},
                                  {"op": "delete", "buffers": []}])
    equal("replies", [len(r["replies"]) for r in reply["replies"]], [2, 0])
    fails("ENOENT", os.stat, cases.buffers + "/b3.npy")
    ok(op="copy", buffers=["a"], **{"as": "a3"}, timeout_ms=100000)


@case
def split_otherwise(d):
    """From any sharding to any other: what shard makes of the whole array."""
    rng = random.Random(20)
    specs = [[], ["x"], ["y"], [None, "x"], [None, "y"], ["x", "y"], ["y", "x"], [["x", "y"]],
             [None, ["y", "x"]], [None, None, "x"], ["x", None, "y"]]
    meshes = [{"x": 2, "y": 2}, {"x": 4, "y": 1}, {"x": 2, "y": 1}, {"x": 3, "y": 1},
              {"x": 1, "y": 1}]
    for i in range(30 * cases.TIMES):
        shape = rng.choice([(12, 12, 4), (12, 12, 12), (24, 12, 12), (0, 12, 12), (12, 0, 12)])
        w = np.random.default_rng(i).integers(0, 1 << 60, shape, dtype="<i8")
        saved("w", w)
        for op, old, new in ("shard", "w", "ws"), ("reshard", "ws", rng.choice(["wt", "ws"])):
            mesh, spec = rng.choice(meshes), rng.choice(specs)
            order = rng.sample(range(4), mesh["x"] * mesh["y"])
            reply = ok(op=op, buffer=old, mesh=mesh, spec=spec, devices=[device(k) for k in order],
                       **{"as": new})
            want = divided(w, mesh, spec)
            equal("devices", reply["devices"], [device(k) for k in order])
            equal("shape", reply["shard_shape"], list(want[0].shape))
            parts(new, want, order)
            equal("spec", sharding(new)["spec"], spec + [None] * (3 - len(spec)))
        gathers(new, w)
        clear("w", "ws", "wt", "w2")


@case
def split_otherwise_in_place(d):
    """No array is gathered: parts that devices have are shared, rows too, columns copied once."""
    w = numbers(4096, 2048, dtype="<i4")  # 32 MiB
    shard("w", "ws", {"x": 2}, ["x"])
    os.unlink(cases.buffers + "/w.npy")
    before = used()
    reshard("ws", "same", sharding="{devices=[2,1]1,0}")
    reshard("ws", "rows", sharding="{devices=[4,1]<=[4]}")
    reshard("ws", "copies", sharding="{devices=[2,1,2]<=[4] last_tile_dim_replicate}")
    holds(f"rows take {used() - before}", used() - before < MIB)
    has(1, "same", w[:2048])
    has(2, "rows", w[2048:3072])
    has(3, "copies", w[2048:])
    before = used()
    reshard("ws", "columns", sharding="{devices=[1,4]<=[4]}")
    holds(f"columns take {used() - before}", 31 * MIB < used() - before < 33 * MIB)
    has(3, "columns", w[:, 1536:])
    before = used()
    reshard("rows", "whole", sharding="{replicated}")
    holds(f"the whole takes {used() - before}", used() - before < 33 * MIB)
    has(2, "whole", w)
    # results are parts, too: what a program gave
    reshard("columns", "ws", sharding="{devices=[2,2]<=[4]}", memory="device")
    gathers("ws", w, "w")


@case
def split_otherwise_refused(d):
    w = numbers(4, 6)
    o = dict(op="reshard", buffer="ws", sharding="{devices=[2,1]<=[2]}", **{"as": "wt"})
    refused("ENOENT", "ws is not an array on several devices", **o)
    shard("w", "ws", {"x": 2}, ["x"])
    refused("EINVAL", "dimension 1 has 6 elements, which axis \"d1\" of size 4",
            **{**o, "sharding": "{devices=[1,4]<=[4]}"})
    refused("EINVAL", "it is of 8 devices, the plugin has 4",
            **{**o, "sharding": "{devices=[8,1]<=[8]}"})
    refused("E2BIG", "more than 1024 devices", **{**o, "sharding": "{devices=[1000000,1]0}"})
    refused("EINVAL", 'unknown key "device"', device=device(0), **o)
    refused("ENOENT", "there is no directory none", **{**o, "as": "none/wt"})
    refused("ENODEV", "no device", devices=[device(0), device(9)], **o)
    os.unlink(on(1, "ws.npy"))
    refused("ENOENT", f"the shard on {device(1)}", **o)
    save(on(1, "ws.npy"), w)
    refused("EINVAL", f"the shard on {device(1)}: expected F32[2,6], found F32[4,6]", **o)
    equal("nothing was made", sorted(os.listdir(on(1))), ["ws.npy"])


@case
def of_odd_shapes(d):
    for shape, mesh, spec in [((), {"x": 4}, []), ((2,) * 8, {"a": 2, "b": 2}, [None] * 6 + ["a", "b"])]:
        w = numbers(*shape, dtype="<i2")
        shard("w", "ws", mesh, spec)
        parts("ws", divided(w, mesh, spec))
        gathers("ws", w)
        clear("w", "ws", "w2")


@case
def results_too(d):
    """An array that a program made, and shards that programs made since."""
    program("add", cases.adder("tensor<2x3xf32>"))
    x = numbers(2, 3, name="x")
    run = dict(op="execute", executable="add", inputs=["x", "x"])
    ok(outputs=["z"], **run)
    shard("z", "zs", {"x": 3}, [None, "x"])
    parts("zs", np.split(2 * x, 3, 1))
    shard("z", "zr", {"x": 4}, [])  # all of it everywhere
    gathers("zs", 2 * x, "z2")
    gather("zr", "z3", device=device(2))
    has(2, "z3", 2 * x)
    # a result takes the place of a shard
    ok(outputs=["zr"], **run)
    ok(op="execute", executable="add", inputs=["zr", "x"], outputs=["zr"])
    gathers("zr", 3 * x, "z4")


@case
def large(d):
    """Rows share the file's memory, replicas each other's; columns are copied once."""
    w = numbers(4096, 2048, dtype="<i4")  # 32 MiB
    before = used()
    shard("w", "rows", {"x": 4}, ["x"])
    holds(f"rows take {used() - before}", used() - before < MIB)
    for i in range(4):
        holds("in place", about(on(i, "rows.npy"))["zero_copy"])
    shard("w", "all", {"x": 4}, [])
    holds(f"replicas take {used() - before}", used() - before < MIB)
    shard("w", "half", {"x": 2, "y": 2}, [None, "y"])
    holds(f"columns take {used() - before}", used() - before < 33 * MIB)
    parts("half", divided(w, {"x": 2, "y": 2}, [None, "y"]))
    has(2, "rows", w[2048:3072])
    gather("half", "w2")
    holds(f"joined {used() - before}", used() - before < 65 * MIB)
    same("joined", load(cases.buffers + "/w2.npy"), w)
    os.unlink(cases.buffers + "/w.npy")
    has(3, "rows", w[3072:])
    clear("rows", "half", "all", "w2")
    eventually("the memory is free", lambda: used() < before - 31 * MIB)


@case
def the_file(d):
    w = numbers(8)
    path = cases.buffers + "/ws.sharding.json"

    def again():
        shard("w", "ws", {"x": 2}, ["x"])

    again()
    holds("listed", "ws.sharding.json" in os.listdir(cases.buffers))
    holds("elsewhere not", "ws.sharding.json" not in os.listdir(on(1)))
    equal("size", os.stat(path).st_size, len(content(path)))
    equal("mode", os.stat(path).st_mode & 0o7777, 0o444)
    fails("EACCES EPERM", make, path, b"{}")
    fails("EINVAL", make, cases.buffers + "/other.sharding.json", b"{}")
    fails("EPERM", os.rename, path, cases.buffers + "/wt.sharding.json")
    fails("EPERM", os.rename, path, cases.buffers + "/ws.txt")
    fails("EINVAL", os.rename, cases.buffers + "/w.npy", path)
    fails("EINVAL", cases.renameat2, cases.buffers + "/w.npy", path, cases.EXCHANGE)
    fails("EPERM", cases.renameat2, path, cases.buffers + "/w.npy", cases.EXCHANGE)
    fails("EINVAL EEXIST", os.mkdir, path)
    # as an argument "ws" is the buffer still, and a directory's other buffers are its own
    equal("names", ok(op="stat", buffer="ws")["buffer"]["shape"], [4])
    # rm of the file leaves buffers
    os.unlink(path)
    has(1, "ws", w[4:])
    refused("ENOENT", "no ws.sharding.json", op="gather", buffer="ws", **{"as": "w2"})
    # removing or renaming the last shard removes it
    again()
    os.unlink(on(0, "ws.npy"))
    refused("ENOENT", f"the shard on {device(0)}: there is no buffer ws", op="gather",
            buffer="ws", **{"as": "w2"})
    os.rename(on(1, "ws.npy"), on(1, "other.npy"))
    fails("ENOENT", os.stat, path)
    again()
    ok(op="delete", buffer="ws")
    os.stat(path)
    os.rename(on(1, "ws.npy"), on(1, "ws.part"))
    fails("ENOENT", os.stat, path)
    again()
    os.rename(on(1, "ws.npy"), on(0, "moved.npy"))
    os.rename(on(0, "ws.npy"), on(1, "ws.npy"))
    os.stat(path)
    fails("ENOENT", os.stat, on(0, "ws.npy"))
    os.rename(on(1, "ws.npy"), on(2, "ws.npy"))
    fails("ENOENT", os.stat, path)
    # another sharding takes its place; what it leaves elsewhere is a buffer
    shard("w", "ws", {"x": 4}, ["x"])
    first = os.stat(path).st_ino
    again()
    holds("another inode", os.stat(path).st_ino != first)
    equal("mesh", sharding("ws")["mesh"], {"x": 2})
    has(3, "ws", w[6:])
    clear("ws", "w", "other", "moved")
    os.unlink(on(1, "ws.part"))
    fails("ENOENT", os.stat, path)


@case
def replaced_since(d):
    w = numbers(2, 4)
    o = dict(op="gather", buffer="ws", **{"as": "w2"})
    shard("w", "ws", {"x": 2}, ["x"])
    save(on(1, "ws.npy"), -w[:1])
    gathers("ws", np.concatenate([w[:1], -w[:1]]))
    save(on(1, "ws.npy"), w)
    refused("EINVAL", f"the shard on {device(1)}: expected F32[1,4], found F32[2,4]", **o)
    save(on(1, "ws.npy"), w[:1].astype("<i4"))
    refused("EINVAL", "expected F32[1,4], found S32[1,4]", **o)
    ok(op="delete", buffer=device(1) + "/ws")
    refused("ENOENT", f"the shard on {device(1)}", **o)
    # replicas: each of them must be there
    shard("w", "ws", {"x": 2}, [])
    os.unlink(on(1, "ws.npy"))
    refused("ENOENT", f"the shard on {device(1)}", **o)
    # incomplete
    fails("EINVAL", make, on(1, "ws.npy"), content(cases.buffers + "/w.npy")[:-1])
    refused("EINVAL", f"the shard on {device(1)}", **o)


@case
def in_directories(d):
    here = os.path.basename(d)
    w = np.arange(8, dtype="<f4")
    save(d + "/w.npy", w)
    o = dict(op="shard", buffer=here + "/w", mesh={"x": 2}, spec=["x"])
    refused("ENOENT", f"on {device(1)}: there is no directory {here}",
            **{"as": here + "/ws"}, **o)
    equal("nothing was made", os.listdir(d), ["w.npy"])
    os.mkdir(on(1, here))
    ok(**{"as": here + "/ws"}, **o)
    same("there", load(on(1, here + "/ws.npy")), w[4:])
    equal("the file", sorted(os.listdir(d)), ["w.npy", "ws.npy", "ws.sharding.json"])
    gather(here + "/ws", here + "/w2")
    same("joined", load(d + "/w2.npy"), w)
    os.unlink(on(1, here + "/ws.npy"))
    os.unlink(d + "/ws.npy")
    fails("ENOENT", os.stat, d + "/ws.sharding.json")
    # a directory as arguments: sharding files are not among them
    ok(**{"as": here + "/ws"}, **o)
    equal("directory", json.loads(content(d + "/ws.sharding.json"))["shape"], [8])
    os.rename(d, d + "-2")
    os.rename(on(1, here), on(1, here + "-2"))
    gather(here + "-2/ws", here + "-2/w2")
    os.rename(d + "-2", d)
    for name in os.listdir(on(1, here + "-2")):
        os.unlink(on(1, here + "-2/" + name))
    os.rmdir(on(1, here + "-2"))
    # names: 241 bytes and an extension
    shard(here + "/w", "n" * 241, {"x": 2}, ["x"])
    refused("ENAMETOOLONG", "at most 241 bytes", **{"as": "n" * 242}, **o)


@case
def refusals(d):
    """What no mesh and spec says, of which tests/unit/formats/check_sharding.c has the refusals."""
    numbers(4, 6)
    ok(op="create", buffer="empty", dtype="F32", shape=[4])
    os.mkdir(on(1, "there"))
    before = sorted(os.listdir(cases.buffers))
    for names, pattern, o in [
            ("EINVAL", 'the mesh has no axis "z"', dict(spec=["z"])),
            ("EINVAL", "it is of 5 devices, the plugin has 4", dict(mesh={"x": 5}, spec=[])),
            ("ENODEV", f"no device {device(9)}", dict(devices=[device(i) for i in (0, 1, 2, 9)])),
            ("ENOENT", "no buffer none", dict(buffer="none")),
            ("ENODEV", "no device", dict(device="none:0")),
            ("EINVAL", "without a device", {"as": device(1) + "/no"}),
            ("EINVAL", ".sharding", {"as": "no.sharding"}),
            ("ENOENT", "no directory none", {"as": "none/no"}),
            ("EINVAL", '"spec" and the text of "sharding" exclude each other',
             dict(sharding="{devices=[2,2]<=[4]}", mesh=None)),
            ("EINVAL", '"mesh" is there beside "sharding"',
             dict(sharding={"mesh": {"x": 2}, "spec": []})),
            ("EINVAL", f"device {device(0)} has no memory none (it has", dict(memory="none")),
            ("ENODATA", "empty: it is empty", dict(buffer="empty")),
            ("EEXIST", f"on {device(1)}", {"as": "there", "mesh": {"x": 2}})]:
        refused(names, pattern, **{"op": "shard", "buffer": "w", "as": "no",
                                   "mesh": {"x": 2, "y": 2}, "spec": ["x"], **o})
    equal("nothing was made", sorted(os.listdir(cases.buffers)), before)
    equal("nothing elsewhere", [os.listdir(on(i)) for i in (1, 2, 3)], [["there"], [], []])
    shard("w", "ws", {"x": 2}, ["x"])
    for names, pattern, o in [
            ("ENOENT", "w is not an array on several devices", dict(buffer="w")),
            ("ENOENT", "no directory none", {"as": "none/no"}),
            ("ENODEV", "no device", dict(device="none:1")),
            ("ENOENT", "is not an array on several", dict(buffer=device(1) + "/ws"))]:
        refused(names, pattern, **{"op": "gather", "buffer": "ws", "as": "no", **o})


@root_case
def rights(d):
    """Whoever may not read the array, write the shards or their directory, is refused."""
    numbers(8)

    def may_not(uid, pattern, **o):
        as_user(uid, lambda: refused("EACCES", pattern, **o))

    o = dict(op="shard", buffer="w", mesh={"x": 2}, spec=["x"], **{"as": "ws"})
    os.chmod(cases.buffers + "/w.npy", 0o600)
    may_not(1234, "buffer w: permission denied", **o)
    os.chmod(cases.buffers + "/w.npy", 0o644)
    may_not(1234, "permission denied", **o)
    ok(**o)
    os.chmod(on(1, "ws.npy"), 0o600)
    os.chmod(on(0, "rights"), 0o777)
    g = {"op": "gather", "buffer": "ws", "as": "rights/w2"}
    may_not(1234, f"the shard on {device(1)}", **g)
    os.chmod(on(1, "ws.npy"), 0o644)
    as_user(1234, lambda: ok(**g))
    equal("owner", os.stat(d + "/w2.npy").st_uid, 1234)
    os.chmod(cases.buffers + "/ws.sharding.json", 0o400)
    may_not(1234, "ws.sharding.json: permission denied", **g)
    # a directory of theirs on each device
    os.mkdir(on(1, "rights"))
    os.chmod(on(1, "rights"), 0o777)
    o["as"] = "rights/ws"
    as_user(1234, lambda: ok(**o), umask=0o077)
    st = os.stat(d + "/ws.sharding.json")
    equal("the file", (st.st_uid, st.st_mode & 0o777), (1234, 0o400))
    as_user(1234, lambda: ok(**o))
    os.chmod(d, 0o755)
    as_user(1234, lambda: ok(**o))  # it is theirs
    may_not(4321, "permission denied", **o)
    # where the directories of the shards are anybody's, that of the file decides
    devices = [device(1), device(2)]
    os.mkdir(on(2, "rights"))
    os.chmod(on(2, "rights"), 0o777)
    o.update({"as": "rights/new", "devices": devices})
    may_not(4321, "new.sharding.json: permission denied", **o)
    equal("nothing was made", os.listdir(on(2, "rights")), [])


# --- programs ---------------------------------------------------------------------------


def exported(name):
    """A case for several devices that JAX exported: its program is put, its arrays read."""
    with tarfile.open(CASES) as tar:
        read = {os.path.basename(m.name): tar.extractfile(m).read() for m in tar
                if f"/multi/{name}/" in "/" + m.name and m.isfile()}
    about_it = json.loads(read["case.json"])
    form = [p for p in about_it["programs"] if "vhlo" in p][0]
    options = {**about_it["compile_options"], "num_partitions": about_it["num_partitions"]}
    make(f"{cases.mnt}/programs/{name}.mlirbc")
    make(f"{cases.mnt}/executables/{name}/options.json", json.dumps(options).encode())
    make(f"{cases.mnt}/programs/{name}.mlirbc", read[form])

    def arrays(rows):
        return [[np.load(io.BytesIO(read[a["file"]])) for a in row] for row in rows]

    return arrays(about_it["inputs_per_device"]), arrays(about_it["outputs_per_device"])


def joined(blocks, mesh, spec):
    """The array of which BLOCKS are what divided() gives."""
    shape = list(blocks[0].shape)
    for dim, entry in enumerate(spec):
        for axis in [entry] if isinstance(entry, str) else entry or []:
            shape[dim] *= mesh[axis]
    whole = np.zeros(shape, blocks[0].dtype)
    number = np.arange(whole.size).reshape(shape)
    for part, at in zip(blocks, divided(number, mesh, spec)):
        whole.flat[at.flatten()] = part.flatten()
    return whole


def close(i, name, want):
    """Device I has about WANT as the buffer NAME."""
    got = load(on(i, name + ".npy"))
    holds(f"{name} on {i}: {got} is {want}", got.shape == want.shape and
          np.allclose(got, want, rtol=1e-5, atol=1e-5))


def runs_as_exported(_, name, mesh, specs, out_spec, compute):
    """Shard, execute by one word each, gather: what JAX's devices had, and numpy's result."""
    inputs, outputs = exported(name)
    n = len(inputs)
    wholes = [joined([row[i] for row in inputs], mesh, spec) for i, spec in enumerate(specs)]
    for i, (whole, spec) in enumerate(zip(wholes, specs)):
        saved(f"a{i}", whole)
        shard(f"a{i}", f"s{i}", mesh, spec)
        parts(f"s{i}", [row[i] for row in inputs])
    names = [f"s{i}" for i in range(len(specs))]
    ok(op="execute", executable=name, inputs=names, outputs=["y"])
    for p in range(n):
        close(p, "y", outputs[p][0])
    told = sharding("y")
    equal("mesh and spec", (told["mesh"], told["spec"]), (mesh, out_spec))
    gather("y", "z")
    close(0, "z", compute(*wholes))
    # and by a line
    clear("y", "z")
    make(f"{cases.mnt}/executables/{name}/run", (" ".join(names) + " -> y\n").encode(),
         flags=os.O_WRONLY)
    gather("y", "z", device=device(n - 1))
    close(n - 1, "z", compute(*wholes))
    clear("y", "z", *names, *[f"a{i}" for i in range(len(specs))])
    fails("ENOENT", os.stat, cases.buffers + "/y.sharding.json")


for case_name, *what in [
        ("a_product_of_jax", "matmul_2x2_gspmd", {"x": 2, "y": 2}, [["x", "y"], ["y", None]],
         ["x", None], np.matmul),
        ("a_network_of_jax", "mlp_tensor_parallel_2p_shardy", {"x": 2},
         [[None, None], [None, "x"], ["x", None]], [None, None],
         lambda x, v, w: np.maximum(x @ v, 0) @ w),
        ("a_transpose_of_jax", "reshard_transpose_2p_shardy", {"x": 2}, [["x", None]], ["x", None],
         np.transpose),
        ("a_shard_map_of_jax", "shard_map_psum_scatter_2p", {"x": 2}, [["x", None]], ["x", None],
         lambda x: x[:4] + x[4:])]:
    cases.row(case_name, runs_as_exported, *what)


@case
def as_its_program_says(d):
    """The text in a program, and that of its array, are one sharding."""
    taken, given = "{devices=[2,2]<=[2,2]T(1,0)}", "{devices=[1,2,2]<=[4] last_tile_dim_replicate}"
    program("square", f"""module attributes {{mhlo.num_partitions = 4 : i32}} {{
func.func @main(%x: tensor<4x4xf32> {{mhlo.sharding = "{taken}"}})
    -> (tensor<4x4xf32> {{mhlo.sharding = "{given}"}}) {{
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}}}}
""".encode())
    x = numbers(4, 4, name="x")
    run = dict(op="execute", executable="square", outputs=["ys"])
    ok(op="shard", buffer="x", sharding=given, **{"as": "xs"})
    refused("EINVAL", "dimension 0 is in 1 parts, the program takes it in 2", inputs=["xs"], **run)
    reshard("xs", "xs", sharding=taken)
    ok(inputs=["xs"], donate=[0], **run)
    equal("donated", [about(on(i, "xs.npy"))["state"] for i in range(4)], ["donated"] * 4)
    for i in range(4):
        close(i, "ys", (x @ x)[:, i // 2 * 2:i // 2 * 2 + 2])
    gather("ys", "y")
    close(0, "y", x @ x)


@case
def an_export_of_jax(d):
    """jax.export's own bytes: x * 2 + y of two F32[4,3] over two devices."""
    make(cases.mnt + "/programs/sharded.jax_exported",
         content(cases.DATA + "/jax/sharded.jax_exported"))
    signature = json.loads(content(cases.mnt + "/executables/sharded/signature.json"))
    x = numbers(4, 3, name="x")
    equal("parts", [p["sharding"]["parts"] for p in signature["inputs"]], [[2, 1], [2, 1]])
    shard("x", "xs", {"data": 2}, ["data"])
    ok(op="execute", executable="sharded", inputs=["xs", "xs"], outputs=["ys"])
    equal("spec", sharding("ys")["spec"], ["data", None])
    gathers("ys", 3 * x, "y")
    # by parameter
    names = [p["name"] for p in signature["inputs"]]
    ok(op="execute", executable="sharded", inputs=dict.fromkeys(names, "xs"), outputs=["yt"])
    gathers("yt", 3 * x, "y")


@case
def what_does_not_fit_a_program(d):
    name = "reshard_transpose_2p_shardy"
    exported(name)
    run = dict(op="execute", executable=name, inputs=["ws"])
    w = numbers(4, 8)
    # rows of names: just buffers
    save(on(0, "r.npy"), w[:2])
    save(on(1, "r.npy"), w[2:])
    ok(op="execute", executable=name, inputs=[["r"], ["r"]], outputs=[["t"], ["t"]])
    has(1, "t", w.T[4:])
    fails("ENOENT", os.stat, cases.buffers + "/t.sharding.json")
    # one word for buffers without a sharding file: the result gets one all the same
    ok(op="execute", executable=name, inputs=["r"], outputs=["t"])
    equal("mesh", sharding("t")["mesh"], {"d0": 2})
    gathers("t", w.T, "t2")
    # split otherwise, though each shard has the right shape
    numbers(2, 16, name="wide")
    shard("wide", "ws", {"x": 2}, [None, "x"])
    refused("EINVAL", "input 0: ws, as ws.sharding.json has it: dimension 0 is in 1 parts, "
            "the program takes it in 2", outputs=["t"], **run)
    shard("w", "ws", {"x": 2}, ["x"], devices=[device(1), device(0)])
    refused("EINVAL", f"{device(0)} has part 1 of dimension 0, the program wants part 0",
            outputs=["t"], **run)
    shard("w", "ws", {"x": 2}, ["x"], devices=[device(0), device(2)])
    refused("EINVAL", f"no shard on {device(1)}", outputs=["t"], **run)
    shard("w", "ws", {"x": 2, "y": 2}, ["x"])
    refused("EINVAL", "shards on 4 devices, the program runs on 2", outputs=["t"], **run)
    shard("w", "ws", {"x": 2}, ["x"])
    refused("ENOENT", "no directory none", outputs=["none/t"], **run)
    refused("ENAMETOOLONG", "at most 241 bytes", outputs=["n" * 242], **run)
    # into a new directory, on the devices and where the files are
    ok(outputs=["new/"], **run)
    equal("spec", sharding("new/0")["spec"], ["x", None])
    gathers("new/0", w.T, "t2")
    # consumed
    ok(outputs=["t"], donate=["ws"], **run)
    refused("EINVAL ENOENT EIO", f"the shard on {device(0)}", op="gather", buffer="ws",
            **{"as": "w2"})
    for i in range(2):
        os.unlink(on(i, "new/0.npy"))
    equal("new/", os.listdir(on(0, "new")), [])


@case
def what_repetitions_carry_over(d):
    """A result is an argument of the next repetition only if it is split like that."""
    program("turned", TURNED)
    w = numbers(4, 4)
    shard("w", "ws", {"x": 2}, ["x"])
    o = dict(op="execute", executable="turned", inputs=["ws"])
    refused("EINVAL", "turned: output 0 is split otherwise than input 0, to which repetitions "
            "feed it", outputs=["ws"], repeat=2, **o)
    gathers("ws", w)
    ok(outputs=["other"], repeat=2, **o)
    ok(outputs=["ws"], **o)
    gathers("ws", 2 * w)


@case
def what_replicas_give(d):
    """Nobody knows how their results belong together."""
    program("twice", TWICE)
    w = numbers(8, 3)
    shard("w", "ws", {"x": 4}, ["x"])
    ok(op="execute", executable="twice", inputs=["ws"], outputs=["ys"])
    told = sharding("ys")
    holds(told, "unavailable" in told and "mesh" not in told and "shape" not in told)
    equal("devices", told["devices"], [device(i) for i in range(4)])
    equal("shard_shape", told["shard_shape"], [2, 3])
    parts("ys", np.split(2 * w, 4))
    refused("EINVAL", "how ys is split is not known", op="gather", buffer="ys",
            **{"as": "y"})
    # to a program it is what it is
    ok(op="execute", executable="twice", inputs=["ys"], outputs=["ys"], repeat=3)
    has(3, "ys", 16 * w[6:])
    clear("w", "ws", "ys")
    fails("ENOENT", os.stat, cases.buffers + "/ys.sharding.json")


@case
def many_at_once(d):
    """Commands that shard, gather and remove the same names: whole or refused, never hung."""
    w = numbers(8, 8)
    shard("w", "ws", {"x": 2}, ["x"])
    rng = random.Random(7)

    def worker(seed):
        mine = random.Random(seed)
        for i in range(40):
            o = mine.choice([
                dict(op="shard", buffer="w", mesh={"x": 2}, spec=["x"], **{"as": "ws"}),
                dict(op="shard", buffer="w", mesh={"x": 2, "y": 2}, spec=["y"], **{"as": "ws"}),
                dict(op="gather", buffer="ws", **{"as": f"g{seed}"}),
                dict(op="delete", buffer="ws"),
                dict(op="delete", buffer=device(1) + "/ws")])
            reply = command(**o)
            holds(reply, reply["ok"] or reply["error"]["errno"] in ("ENOENT", "EINVAL"))
            if reply["ok"] and o["op"] == "gather":
                same(f"{seed}: {i}", load(f"{cases.buffers}/g{seed}.npy"), w)

    end_well(*[child(worker, rng.randrange(1000)) for _ in range(4)])
    shard("w", "ws", {"x": 4}, ["x"])
    gathers("ws", w)


if __name__ == "__main__":
    cases.main()
