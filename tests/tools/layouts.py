# SPDX-License-Identifier: Apache-2.0
"""Programs whose parameters and results are not row-major on the device."""

import io
import itertools
import json
import os

import numpy as np

import cases
from cases import (about, case, content, equal, holds, kill_worker, make, ok, opened, read_all,
                   refused, write_all)
from numpy_files import load, same, save

# MLIR's element type, NumPy's, and the length of one element on the host
TYPES = [("f32", np.float32), ("f64", np.float64), ("i8", np.int8), ("ui16", np.uint16),
         ("complex<f64>", np.complex128), ("i1", np.bool_)]


def executable(name, file=""):
    return f"{cases.mnt}/executables/{name}/{file}"


def tensor(shape, dtype="f32"):
    return f"tensor<{'x'.join(map(str, shape))}x{dtype}>"


def laid(layout, more=""):
    """The attribute for a parameter or a result; the fastest varying dimension first."""
    attributes = [more] if more else []
    if layout:
        attributes.append(f'mhlo.layout_mode = "{{{",".join(map(str, layout))}}}"')
    return f" {{{', '.join(attributes)}}}" if attributes else ""


def program(name, takes, gives, body, options=""):
    """TAKES and GIVES: lists of (type, attributes)."""
    takes = ", ".join(f"%x{i}: {t}{a}" for i, (t, a) in enumerate(takes))
    gives = ", ".join(f"{t}{a}" for t, a in gives)
    cases.program(name, f"module @{name} {options} {{\n"
                        f"func.func public @main({takes}) -> ({gives}) {{\n{body}\n}}}}\n")


def identity(name, shape, dtype, takes, gives, **more):
    t = tensor(shape, dtype)
    program(name, [(t, laid(takes))], [(t, laid(gives))], f"return %x0 : {t}", **more)


def twice(name, shape, takes, gives, more=""):
    t = tensor(shape)
    program(name, [(t, laid(takes, more))], [(t, laid(gives))],
                   f"%0 = stablehlo.add %x0, %x0 : {t}\nreturn %0 : {t}")


def counted(shape, dtype=np.float32):
    n = int(np.prod(shape))
    numbers = np.arange(1, n + 1) if dtype != np.bool_ else np.arange(n) % 3 == 0
    return numbers.astype(dtype).reshape(shape)


def run(name, words):
    make(executable(name, "run"), words.encode() + b"\n", flags=os.O_WRONLY)


def at(d, name):
    """How commands call the buffer NAME of directory D."""
    return f"{os.path.basename(d)}/{name}"


def layout_of(path):
    return json.loads(content(path))["layout"]


def check_identity(d, name, shape, mlir, dtype, takes, gives):
    x = counted(shape, dtype)
    save(d + "/x.npy", x)
    identity(name, shape, mlir, takes, gives)
    run(name, f"{at(d, 'x')} -> {at(d, 'y')}")
    same(f"{name} {shape} {mlir} {takes} {gives}", load(d + "/y.npy"), x)
    run(name, f"{at(d, 'y')} -> {at(d, 'z')}")  # in the layout that it has, or in another
    same(f"{name} again", load(d + "/z.npy"), x)
    for name in "xyz":
        os.unlink(f"{d}/{name}.npy")


@case
def types(d):
    for mlir, dtype in TYPES:
        for takes, gives in [((0, 1), None), (None, (0, 1)), ((0, 1), (0, 1))]:
            check_identity(d, "layout_type", (3, 5), mlir, dtype, takes, gives)


@case
def orders(d):
    for takes in itertools.permutations(range(3)):
        check_identity(d, "layout_order", (2, 3, 4), "f32", np.float32, takes,
                       takes[1:] + takes[:1])
    check_identity(d, "layout_order", (2, 3, 4, 5), "i8", np.int8, (1, 3, 0, 2), (2, 0, 3, 1))
    # extents of 1, and no elements
    check_identity(d, "layout_order", (3, 1, 5), "f32", np.float32, (0, 1, 2), (1, 0, 2))
    check_identity(d, "layout_order", (1, 5), "f32", np.float32, (0, 1), (0, 1))
    check_identity(d, "layout_order", (0, 5), "f32", np.float32, (0, 1), (0, 1))


@case
def less_than_a_byte(d):
    """No program changes the layout: XLA of API 0.81 aborts when it compiles one that does."""
    x = np.arange(-7, 8).astype(np.int8).reshape(3, 5).tobytes()
    ok(op="create", buffer=at(d, "x"), dtype="S4", shape=[3, 5])
    make(d + "/x.raw", x)
    identity("layout_s4", (3, 5), "i4", (0, 1), (0, 1))
    identity("layout_s4_row", (3, 5), "i4", None, None)
    for name in ("layout_s4", "layout_s4", "layout_s4_row", "layout_s4"):
        run(name, f"{at(d, 'x')} -> {at(d, 'x')}")
        equal(name, content(d + "/x.raw"), x)


@case
def what_files_show(d):
    twice("layout_show", (2, 3), (0, 1), (0, 1))
    signature = json.loads(content(executable("layout_show", "signature.json")))
    equal("input", signature["inputs"][0]["layout"], [0, 1])
    equal("output", signature["outputs"][0]["layout"], [0, 1])
    x = counted((2, 3))
    save(d + "/x.npy", x)
    run("layout_show", f"{at(d, 'x')} -> {at(d, 'y')}")
    equal("x", layout_of(d + "/x.json"), "row-major")
    equal("y", layout_of(d + "/y.json"), [0, 1])
    equal("xattr", os.getxattr(d + "/y.npy", "user.pjrtfs.layout"), b"[0,1]")
    holds("row-major", b"'fortran_order': False" in content(d + "/y.npy"))
    equal("text", content(d + "/y.txt"), b"2 4 6\n8 10 12\n")
    equal("raw", content(d + "/y.raw"), (2 * x).tobytes())


@case
def other_programs(d):
    """The result of one in the other, whose parameter has another layout."""
    x = counted((3, 4))
    twice("layout_other_c", (3, 4), (0, 1), (0, 1))
    twice("layout_other_r", (3, 4), None, None)
    save(d + "/x.npy", x)
    for i, name in enumerate(("c", "r", "c", "c", "r", "r")):
        run("layout_other_" + name, f"{at(d, 'x')} -> {at(d, 'x')}")
        same(f"run {i}", load(d + "/x.npy"), x * 2 ** (i + 1))


@case
def calls(d):
    t, u = tensor((3, 5)), tensor((5, 3))
    program("layout_call", [(t, laid((0, 1))), (t, "")], [(t, laid((0, 1))), (u, laid((0, 1)))],
            f"%0 = stablehlo.subtract %x0, %x1 : {t}\n"
            f"%1 = stablehlo.transpose %x0, dims = [1, 0] : ({t}) -> {u}\nreturn %0, %1 : {t}, {u}")
    x, y = counted((3, 5)), counted((3, 5)) ** 2
    fd = opened(executable("layout_call", "call"), os.O_RDWR)
    for order in ("C", "F"):  # call takes both
        f = io.BytesIO()
        np.save(f, np.asarray(x, order=order))
        np.save(f, y)
        write_all(fd, f.getvalue())
        got = io.BytesIO(read_all(fd))
        same("first", np.load(got), x - y)
        same("second", np.load(got), x.T)


@case
def large_calls(d):
    n = 1100
    identity("layout_call_large", (n, 2 * n), "f32", (0, 1), (0, 1))
    x = counted((n, 2 * n))
    f = io.BytesIO()
    np.save(f, x)
    fd = opened(executable("layout_call_large", "call"), os.O_RDWR)
    write_all(fd, f.getvalue())
    same("large", np.load(io.BytesIO(read_all(fd))), x)


@case
def repetitions(d):
    """A result in the parameter's layout, or in another; with and without donation."""
    alias = "tf.aliasing_output = 0 : i32"
    x = counted((3, 4))
    for n, (takes, gives, more) in enumerate(itertools.product(
            ((0, 1), None), ((0, 1), None), ("", alias))):
        if (takes == gives) < bool(more):
            continue  # memory is reused only in the same layout
        name = f"layout_repeat{n}"
        twice(name, (3, 4), takes, gives, more)
        save(d + "/x.npy", x)
        run(name, f"{at(d, 'x')} -> {at(d, 'x')} repeat=7")
        same(name, load(d + "/x.npy"), x * 2 ** 7)


@case
def donations(d):
    """What is donated in another layout is a copy, and the array stays."""
    x = counted((3, 4))
    twice("layout_donate", (3, 4), (0, 1), (0, 1), "jax.buffer_donor = true")
    save(d + "/x.npy", x)
    run("layout_donate", f"{at(d, 'x')} -> {at(d, 'y')} donate={at(d, 'x')}")
    same("result", load(d + "/y.npy"), 2 * x)
    same("x", load(d + "/x.npy"), x)
    run("layout_donate", f"{at(d, 'y')} -> {at(d, 'z')} donate={at(d, 'y')}")
    same("second result", load(d + "/z.npy"), 4 * x)
    equal("y", about(d + "/y.npy")["state"], "donated")


@case
def batches(d):
    x = counted((3, 4))
    twice("layout_batch", (3, 4), (0, 1), (0, 1))
    save(d + "/x.npy", x)
    steps = [{"op": "execute", "executable": "layout_batch", "inputs": [at(d, a)],
              "outputs": [at(d, b)]} for a, b in ("xy", "yz", "zx")]
    ok(op="batch", steps=steps)
    same("x", load(d + "/x.npy"), 8 * x)


@case
def other_devices(d):
    """Copies and moves of an array that is not row-major."""
    x = counted((2, 4))
    twice("layout_device", (2, 4), (0, 1), (0, 1))
    save(d + "/x.npy", x)
    run("layout_device", f"{at(d, 'x')} -> {at(d, 'y')}")
    other = f"{cases.plugin}:1/layout_y"
    path = cases.on(1, "layout_y")
    ok(op="copy", buffer=at(d, "y"), **{"as": other})
    same("copy", load(path + ".npy"), 2 * x)
    equal("copy", layout_of(path + ".json"), [0, 1])
    ok(op="execute", executable="layout_device", inputs=[other], outputs=[at(d, "z")], move=True)
    same("moved argument", load(d + "/z.npy"), 4 * x)
    os.rename(path + ".npy", d + "/w.npy")
    same("move", load(d + "/w.npy"), 2 * x)
    run("layout_device", f"{at(d, 'w')} -> {at(d, 'v')}")
    same("after it", load(d + "/v.npy"), 4 * x)
    shard = {"op": "shard", "buffer": at(d, "y"), "as": "layout_s", "mesh": {"x": 2}}
    for spec in (["x"], [None, "x"]):
        ok(**shard, spec=spec)
        ok(op="gather", buffer="layout_s", **{"as": at(d, "g")})
        same(f"gather {spec}", load(d + "/g.npy"), 2 * x)


@case
def several_devices(d):
    """An SPMD program whose parameter and result are not row-major."""
    t = tensor((4, 6))
    rows = 'mhlo.sharding = "{devices=[2,1]0,1}"'
    program("layout_spmd", [(t, laid((0, 1), rows))], [(t, laid((0, 1), rows))],
            f"%0 = stablehlo.add %x0, %x0 : {t}\nreturn %0 : {t}",
            options="attributes {mhlo.num_partitions = 2 : i32}")
    x = counted((4, 6))
    save(d + "/x.npy", x)
    ok(op="shard", buffer=at(d, "x"), mesh={"x": 2}, spec=["x"], **{"as": "layout_p"})
    for n in range(1, 4):
        ok(op="execute", executable="layout_spmd", inputs=["layout_p"], outputs=["layout_p"])
        ok(op="gather", buffer="layout_p", **{"as": at(d, "g")})
        same(f"run {n}", load(d + "/g.npy"), x * 2 ** n)


@case
def made_in_a_layout(d):
    x = counted((3, 4))
    ok(op="create", buffer=at(d, "c"), dtype="F32", shape=[3, 4], fill=1, layout=[0, 1])
    equal("created", layout_of(d + "/c.json"), [0, 1])
    same("created", load(d + "/c.npy"), np.ones((3, 4), np.float32))
    ok(op="create", buffer=at(d, "u"), dtype="F32", shape=[3, 4], uninitialized=True,
       layout=[0, 1])
    same("blank", load(d + "/u.npy"), np.zeros((3, 4), np.float32))
    save(d + "/x.npy", x)
    ok(op="copy", buffer=at(d, "x"), layout=[0, 1], **{"as": at(d, "y")})
    equal("copied", layout_of(d + "/y.json"), [0, 1])
    same("copied", load(d + "/y.npy"), x)
    ok(op="copy", buffer=at(d, "y"), layout=[1, 0], **{"as": at(d, "y")})
    equal("copied back", layout_of(d + "/y.json"), "row-major")
    same("copied back", load(d + "/y.npy"), x)
    twice("layout_made", (3, 4), (0, 1), None)
    for name, want in (("c", 2), ("u", 0), ("x", 2 * x)):
        run("layout_made", f"{at(d, name)} -> {at(d, 'z')}")
        same(name, load(d + "/z.npy"), np.zeros((3, 4), np.float32) + np.float32(want))
    for wrong in ([0], [0, 0], [0, 2], [-1, 0], "x", None):
        refused("EINVAL", '"layout"', op="copy", buffer=at(d, "x"), layout=wrong, **{"as": at(d, "w")})
        refused("EINVAL", '"layout"', op="create", buffer=at(d, "w"), dtype="F32", shape=[2, 3], fill=1,
                layout=wrong)
    refused("EINVAL", '"layout"', op="create", buffer=at(d, "w"), dtype="F32", shape=[2, 3], layout=[0, 1])
    holds("no w", not os.path.exists(d + "/w.npy") and not os.path.exists(d + "/w.raw"))


@case
def compile_options(d):
    """The layouts that options.json names, for a program that says nothing of them."""
    x = counted((3, 4))
    twice("layout_options", (3, 4), None, None)
    column = "F32[3,4]{0,1}"
    make(executable("layout_options", "options.json"),
         json.dumps({"argument_layouts": [column], "result_layout": column}).encode())
    signature = json.loads(content(executable("layout_options", "signature.json")))
    equal("input", signature["inputs"][0]["layout"], [0, 1])
    equal("output", signature["outputs"][0]["layout"], [0, 1])
    save(d + "/x.npy", x)
    run("layout_options", f"{at(d, 'x')} -> {at(d, 'x')} repeat=3")
    same("x", load(d + "/x.npy"), 8 * x)
    make(executable("layout_options", "options.json"), b"{}\n")
    run("layout_options", f"{at(d, 'x')} -> {at(d, 'x')}")
    same("row-major again", load(d + "/x.npy"), 16 * x)


@case
def from_the_cache(d):
    """A program that another executable has compiled, and one that is loaded from its file."""
    x = counted((3, 4))
    twice("layout_cached", (3, 4), (0, 1), (0, 1))
    save(d + "/x.npy", x)
    make(f"{cases.mnt}/programs/layout_native.pjrtexe",
         content(executable("layout_cached", "serialized")))
    for name in ("layout_native", "layout_cached"):
        run(name, f"{at(d, 'x')} -> {at(d, 'y')}")
        same(name, load(d + "/y.npy"), 2 * x)


@case
def after_a_death(d):
    """The worker dies: results stay, and are transferred again in their layout."""
    x = counted((3, 4))
    twice("layout_death", (3, 4), (0, 1), (0, 1))
    save(d + "/x.npy", x)
    run("layout_death", f"{at(d, 'x')} -> {at(d, 'y')}")
    kill_worker()
    same("y", load(d + "/y.npy"), 2 * x)
    run("layout_death", f"{at(d, 'y')} -> {at(d, 'z')}")
    same("z", load(d + "/z.npy"), 4 * x)
    run("layout_death", f"{at(d, 'x')} -> {at(d, 'z')}")
    same("x again", load(d + "/z.npy"), 2 * x)


if __name__ == "__main__":
    cases.main()
