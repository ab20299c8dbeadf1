# SPDX-License-Identifier: Apache-2.0
"""executables/NAME/call: inputs written on one descriptor, outputs read back."""

import errno
import json
import os
import random
import select
import struct
import threading
import time

import cases
import schema
from cases import (case, child, content, end_of, end_well, equal, eventually, f32, fails, fortran,
                   holds, kill_worker, make, npy, opened, packed, program, read_all,
                   root_case, used, write_all)

MIB = 1 << 20
HEAD = 128  # bytes of the headers here


def function(name, takes, gives, body):
    """The path of a new program's call."""
    return program(name, f"func.func @main({takes}) -> ({gives}) {{\n{body}\n}}\n") + "/call"


def adder(name="call_add"):
    return program(name, cases.adder("tensor<2x3xf32>")) + "/call"


def inverter(name, n):
    """The bits of N U32, turned over."""
    return function(name, f"%x: tensor<{n}xui32>", f"tensor<{n}xui32>",
                    f"%0 = stablehlo.not %x : tensor<{n}xui32>\nreturn %0 : tensor<{n}xui32>")


def u32(n, data):
    return npy("<u4", (n,), data)


X = f32((2, 3), 1, 2, 3, 4, 5, 6)
Y = f32((2, 3), 10, 20, 30, 40, 50, 60)
SUM = f32((2, 3), 11, 22, 33, 44, 55, 66)


def adds(fd):
    """The descriptor works, and no reply is left over."""
    equal("write", os.write(fd, X + Y), len(X + Y))
    equal("sum", os.read(fd, 4096), SUM)
    equal("behind it", os.read(fd, 4096), b"")


def told(fd, name, pattern):
    """A read fails with NAME, the next one says why, then all is well."""
    fails(name, os.read, fd, 4096)
    error = json.loads(read_all(fd))
    wrong = schema.errors(error, "#/$defs/failure")
    holds(f"a failure: {error}: {wrong}", not wrong)
    equal("errno", error["error"]["errno"], name)
    holds(f"{pattern!r} in {error}", pattern in error["error"]["message"])


# --- what is right ----------------------------------------------------------------------


@case
def calls_after_one_another(d):
    fd = opened(adder())
    for _ in range(3):
        adds(fd)
    for i in range(300):
        equal("write", os.pwrite(fd, X + f32((2, 3), *[i] * 6), i), len(X + Y))
        equal("sum", os.pread(fd, 4096, 7), f32((2, 3), *[v + i for v in range(1, 7)]))
    os.close(fd)
    equal("buffers", os.listdir(d), [])


@case
def any_pieces(d):
    fd = opened(adder())
    whole = X + Y
    for cut in range(1, len(whole)):
        equal("first", os.write(fd, whole[:cut]), cut)
        equal("second", os.write(fd, whole[cut:]), len(whole) - cut)
        equal("sum", read_all(fd), SUM)
    write_all(fd, whole, 1)
    equal("sum, byte by byte", read_all(fd, 1), SUM)
    chance = random.Random(5)
    for _ in range(100):
        write_all(fd, whole, chance.randint(1, 80))
        equal("sum", read_all(fd, chance.randint(1, 80)), SUM)


@case
def a_write_ends_with_the_last_input(d):
    fd = opened(adder())
    equal("short", os.write(fd, X + Y + X), len(X + Y))
    fails("EBUSY", os.write, fd, X)
    equal("part", os.read(fd, 100), SUM[:100])
    fails("EBUSY", os.write, fd, X)
    equal("rest", os.read(fd, 100), SUM[100:])
    equal("X", os.write(fd, X), len(X))
    equal("short", os.write(fd, Y + b"\n"), len(Y))
    equal("sum", read_all(fd), SUM)


@case
def large_arrays(d):
    n = 3 * MIB + 5  # elements: 12 MiB and a bit
    path = inverter("call_large", n)
    before = used()
    data = random.Random(1).randbytes(MIB) * 13
    data = data[:4 * n]
    want = (int.from_bytes(data, "little") ^ ((1 << 32 * n) - 1)).to_bytes(4 * n, "little")
    fd = opened(path)
    for piece, reading in ((None, 8 * MIB), (100001, 70001), (MIB, MIB)):
        write_all(fd, u32(n, data), piece)
        got = read_all(fd, reading)
        equal("header", got[:HEAD], u32(n, b""))
        holds("the numbers are right", got[HEAD:] == want)
    # a read is as long as it can be
    write_all(fd, u32(n, data))
    equal("a long read", len(os.read(fd, 4 * n + 1000)), 4 * n + HEAD)
    # closing the descriptor drops unread results
    write_all(fd, u32(n, data))
    os.close(fd)
    eventually("all is given back", lambda: used() <= before)
    # as does what is half there
    fd = opened(path)
    write_all(fd, u32(n, data)[:5 * MIB])
    holds("room is taken", used() >= before + 4 * n)
    os.close(fd)
    eventually("all is given back", lambda: used() <= before)


@case
def middling_results(d):
    """Results that are copied into the pool, and several inside the answer."""
    for n in (1024, 1025, 5000, 262143, 262144, 300000):
        path = inverter(f"call_m{n}", n)
        before = used()
        fd = opened(path)
        for i in range(20):
            write_all(fd, u32(n, bytes([i]) * (4 * n)))
            equal(f"{n}", read_all(fd), u32(n, bytes([255 - i]) * (4 * n)))
        os.close(fd)
        eventually("all is given back", lambda: used() <= before)
    results = ", ".join(["tensor<1000xui32>"] * 40)
    fd = opened(function("call_many", "%x: tensor<1000xui32>", results,
                         "return " + ", ".join(["%x"] * 40) + " : " + results))
    for i in range(5):
        one = u32(1000, bytes([i]) * 4000)
        write_all(fd, one)
        equal("40 outputs", read_all(fd, 33333), one * 40)


@case
def no_inputs(d):
    fd = opened(function("call_none", "", "tensor<3xi32>",
                         "%0 = stablehlo.iota dim = 0 : tensor<3xi32>\n"
                         "return %0 : tensor<3xi32>"))
    want = npy("<i4", (3,), struct.pack("<3i", 0, 1, 2))
    equal("nothing yet", os.read(fd, 100), b"")
    for _ in range(3):
        equal("a newline", os.write(fd, b"\n\n"), 1)
        fails("EBUSY", os.write, fd, b"\n")
        equal("iota", read_all(fd), want)
    fails("EINVAL", os.write, fd, b"x\n")
    told(fd, "EINVAL", "no inputs to be written")
    equal("a newline", os.write(fd, b"\n"), 1)
    equal("iota", read_all(fd), want)


@case
def nothing_comes_back(d):
    fd = opened(function("call_sink", "%x: tensor<f32>", "", "return"))
    for _ in range(3):
        equal("write", os.write(fd, f32((), 1)), 128 + 4)
        equal("nothing", os.read(fd, 100), b"")


@case
def scalars_and_empty_arrays(d):
    fd = opened(function("call_odd", "%x: tensor<f32>, %e: tensor<0x4xf32>",
                         "tensor<0x4xf32>, tensor<f32>, tensor<0x4xf32>",
                         "return %e, %x, %e : tensor<0x4xf32>, tensor<f32>, tensor<0x4xf32>"))
    empty = f32((0, 4))
    for piece in None, 1:
        write_all(fd, f32((), 7) + empty, piece)
        equal("outputs", read_all(fd), empty + f32((), 7) + empty)


@case
def types(d):
    # name of MLIR, descr, others that mean it, bytes of an element
    for mlir, descr, others, one in (
            ("bf16", "<V2", ["|V2"], b"\x80\x3f"), ("f16", "<f2", ["|V2"], b"\0\x3c"),
            ("f8E5M2", "|V1", ["<f1", "<V1"], b"\x3c"), ("i1", "|b1", [], b"\1"),
            ("i4", "|i1", [], b"\xff"), ("complex<f32>", "<c8", [], b"\0\0\x80\x3f" * 2)):
        name = "call_t" + mlir.replace("<", "").replace(">", "")
        fd = opened(function(name, f"%x: tensor<3x{mlir}>", f"tensor<3x{mlir}>",
                             f"return %x : tensor<3x{mlir}>"))
        for said in [descr] + others:
            write_all(fd, npy(said, (3,), one * 3))
            equal(f"{mlir} as {said}", read_all(fd), npy(descr, (3,), one * 3))
        fails("EINVAL", os.write, fd, npy("<u2", (3,), b"\0" * 6))
        told(fd, "EINVAL", "U16[3] came, the program wants ")
        os.close(fd)


@case
def column_major(d):
    fd = opened(adder())
    turned = struct.pack("<6f", 1, 4, 2, 5, 3, 6)
    for piece in None, 1:
        write_all(fd, fortran("<f4", (2, 3), turned) + Y, piece)
        equal("sum", read_all(fd), SUM)
    os.close(fd)
    rows, columns = 1500, 700
    fd = opened(function("call_turn", f"%x: tensor<{rows}x{columns}xui32>",
                         f"tensor<{rows}x{columns}xui32>",
                         f"return %x : tensor<{rows}x{columns}xui32>"))
    data = [b"".join(struct.pack("<I", r * columns + c) for r in range(rows))
            for c in range(columns)]
    write_all(fd, fortran("<u4", (rows, columns), b"".join(data)), 300007)
    want = struct.pack(f"<{rows * columns}I", *range(rows * columns))
    holds("it is turned", read_all(fd) == npy("<u4", (rows, columns), want))


# --- arrays without headers, and inputs that are bound ------------------------------------


def raw_sum(fd, x, y, want):
    equal("write", os.write(fd, x + y), len(x + y))
    equal("sum", os.read(fd, 4096), want)
    equal("behind it", os.read(fd, 4096), b"")


@case
def raw_bytes(d):
    fd = opened(adder() + ".raw")
    x, y, z = (packed(*v) for v in ((1, 2, 3, 4, 5, 6), [10] * 6, (11, 12, 13, 14, 15, 16)))
    raw_sum(fd, x, y, z)
    for cut in range(1, 48):
        equal("first", os.write(fd, (x + y)[:cut]), cut)
        equal("second", os.write(fd, (x + y)[cut:]), 48 - cut)
        equal("sum", read_all(fd, 7), z)
    equal("short", os.write(fd, x + y + b"more"), 48)
    fails("EBUSY", os.write, fd, x)
    equal("sum", read_all(fd), z)
    os.write(fd, x[:5])
    told(fd, "EINVAL", "input 0 (x): 5 of 24 bytes of data came")
    raw_sum(fd, x, y, z)
    raw_sum(fd, b"bind x *" + x[8:], y, struct.pack("<2f", *(  # no binding
        struct.unpack("<f", b)[0] + 10 for b in (b"bind", b" x *"))) + z[8:])


@case
def raw_empty_arrays(d):
    path = function("call_odd_raw", "%e: tensor<0xf32>, %x: tensor<f32>, %f: tensor<0xf32>",
                    "tensor<0xf32>, tensor<f32>", "return %e, %x : tensor<0xf32>, tensor<f32>")
    fd = opened(path + ".raw")
    for _ in range(3):
        equal("write", os.write(fd, packed(7)), 4)
        equal("x", read_all(fd), packed(7))
    os.close(fd)
    path = function("call_none_raw", "%e: tensor<0xf32>", "tensor<3xi32>",
                    "%0 = stablehlo.iota dim = 0 : tensor<3xi32>\nreturn %0 : tensor<3xi32>")
    fd = opened(path + ".raw")
    equal("a newline", os.write(fd, b"\n"), 1)
    equal("iota", read_all(fd), struct.pack("<3i", 0, 1, 2))


def bind(path, line):
    make(os.path.dirname(path) + "/bind", line.encode() + b"\n")


def bound(path):
    return content(os.path.dirname(path) + "/bind")


@case
def bound_inputs(d):
    path, name = adder("call_bound"), os.path.basename(d)
    make(f"{d}/x.npy", X)
    fd, other = opened(path), opened(path + ".raw")
    adds(fd)
    equal("at first", bound(path), b"")
    bind(path, f"{name}/x * -> *")
    equal("the line", bound(path), f"{name}/x * -> *\n".encode())
    equal("its size", os.stat(os.path.dirname(path) + "/bind").st_size, len(bound(path)))
    for _ in range(3):
        equal("y", os.write(fd, Y + Y), len(Y))
        equal("sum", read_all(fd), SUM)
        raw_sum(other, Y[HEAD:], b"", SUM[HEAD:])
    # a new value counts from the next call on, also in the middle of nothing
    os.write(fd, Y[:50])
    make(f"{d}/new.npy", f32((2, 3), *[1] * 6))
    os.rename(f"{d}/new.npy", f"{d}/x.npy")
    os.write(fd, Y[50:])
    equal("with the new one", read_all(fd), f32((2, 3), 11, 21, 31, 41, 51, 61))
    kill_worker()
    raw_sum(other, Y[HEAD:], b"", packed(11, 21, 31, 41, 51, 61))
    # without the value
    os.unlink(f"{d}/x.npy")
    fails("ENOENT", os.write, fd, Y)
    told(fd, "ENOENT", f"call_bound: bound input 0: there is no buffer {name}/x")
    make(f"{d}/x.npy", f32((3,), 1, 2, 3))
    os.write(fd, Y)
    told(fd, "EINVAL", f"input 0 (x): {name}/x is F32[3], the program wants F32[2,3]")
    # all of them: a newline starts it
    make(f"{d}/x.npy", X)
    make(f"{d}/y.npy", Y)
    bind(path, f"{name}/ -> *")
    equal("a newline", os.write(fd, b"\n"), 1)
    equal("sum", read_all(fd), SUM)
    fails("EINVAL", os.write, fd, Y)
    told(fd, "EINVAL", "no inputs to be written")
    bind(path, "* *")
    adds(fd)
    bind(path, "")
    equal("no line", bound(path), b"")
    adds(fd)


@case
def bound_by_the_first_line(d):
    path, name = adder("call_line"), os.path.basename(d)
    make(f"{d}/x.npy", X)
    fd, other = opened(path), opened(path)
    line = f"bind {name}/x *\n".encode()
    equal("the line alone", os.write(fd, line + Y), len(line))
    equal("no reply", os.read(fd, 100), b"")
    os.write(fd, Y)
    equal("sum", read_all(fd), SUM)
    adds(other)  # it holds for its descriptor
    bind(path, "* * -> *")
    os.write(fd, Y)
    equal("sum", read_all(fd), SUM)
    equal("unbound", os.write(fd, b"bind\n"), 5)
    adds(fd)
    fails("EINVAL", os.write, fd, b"bind " + line[5:-1])
    told(fd, "EINVAL", "expected a line")
    fails("ENOENT", os.write, fd, b"bind no/x *\n")
    told(fd, "ENOENT", "bound input 0: there is no directory no ")
    os.write(fd, b"bind\n")
    adds(fd)
    bind(path, "")


@case
def wrong_bindings(d):
    path, name = adder("call_wrong"), os.path.basename(d)
    make(f"{d}/x.npy", X)
    bind(path, f"{name}/x *")
    for code, line, why in (
            ("EINVAL", f"{name}/x", "takes 2 inputs, 1 was given"),
            ("EINVAL", "* * *", "takes 2 inputs, 3 were given"),
            ("EINVAL", "* * -> * *", "gives 1 output, 2 names were given"),
            ("EINVAL", "* * -> z", "expected '*', found z"),
            ("EINVAL", "* -> * -> *", "found two"), ("EINVAL", "* * -> * donate=x", "an option of run"),
            ("EINVAL", '* "* -> *', "closing quote"), ("EINVAL", "* *\n* *", "one line"),
            ("ENOENT", f"{name}/w * -> *", f"there is no buffer {name}/w"),
            ("ENOENT", "none/ * -> *", "none"), ("EFBIG", "* " * 3000, "4096")):
        fails(code, bind, path, line)
        told_by_error = content(cases.mnt + "/error").decode()
        holds(f"{why!r} in {told_by_error!r}", why in told_by_error)
        equal("the line before", bound(path), f"{name}/x *\n".encode())
    # a program that is not compiled yet: the next call looks at its inputs
    os.unlink(f"{cases.mnt}/programs/call_wrong.mlir")
    make(f"{cases.mnt}/programs/call_wrong.mlir", b"")
    bind(path, "no/x *")
    adder("call_wrong")
    fd = opened(path)
    fails("ENOENT", os.write, fd, X)
    told(fd, "ENOENT", "bound input 0: there is no directory no ")
    os.close(fd)
    # a binding goes with its program
    os.unlink(f"{cases.mnt}/programs/call_wrong.mlir")
    equal("a new one", bound(adder("call_wrong")), b"")


@case
def bound_values_that_change(d):
    """Results are made of one value or the other, never of both."""
    path, name = adder("call_change"), os.path.basename(d)
    stop = f"{cases.mnt}/buffers/{name}/stop.npy"
    make(f"{d}/x.npy", f32((2, 3), *[0] * 6))
    bind(path, f"{name}/x *")

    def change():
        for i in range(100000):
            make(f"{d}/next.npy", f32((2, 3), *[i] * 6))
            os.rename(f"{d}/next.npy", f"{d}/x.npy")
            if os.path.exists(stop):
                return

    pid = child(change)
    fd, last, calls = opened(path + ".raw"), 0.0, 0
    end = time.monotonic() + cases.PATIENCE
    while calls < 2000 or last <= 1:  # as many as it takes to see another value
        holds("values change", calls < 2000 or time.monotonic() < end)
        calls += 1
        os.write(fd, packed(*[0.5] * 6))
        got = struct.unpack("<6f", os.read(fd, 24))
        equal("one value", set(got), {got[0]})
        holds(f"{got[0]} comes after {last}", got[0] >= last)
        last = got[0]
    make(stop, X)
    equal("the writer", end_of(pid), 0)


@root_case
def bindings_of_users(d):
    path, name = adder("call_ours"), os.path.basename(d)
    os.chmod(d, 0o755)
    make(f"{d}/x.npy", X)
    make(f"{d}/mine.npy", X, 0o600)
    bind(path, f"{name}/mine *")

    def works():
        fd = opened(path)
        os.write(fd, Y)
        equal("sum", read_all(fd), SUM)

    def another():
        equal("no binding", bound(path), b"")
        fails("EACCES", bind, path, f"{name}/mine *")
        bind(path, f"* {name}/x")
        works()

    cases.as_user(1001, another)
    equal("as before", bound(path), f"{name}/mine *\n".encode())
    works()
    for uid in range(2000, 2062):
        cases.as_user(uid, bind, path, "* *")
    cases.as_user(2062, fails, "EUSERS", bind, path, "* *")
    cases.as_user(2061, bind, path, "")
    cases.as_user(2062, bind, path, "* *")


# --- several at once --------------------------------------------------------------------


@case
def twenty_at_once(d):
    path = adder()

    def some(i):
        fd = opened(path)
        for k in range(20):
            y = [i * 1000 + k] * 6
            write_all(fd, X + f32((2, 3), *y), 50 + i if k % 3 else None)
            equal("sum", read_all(fd), f32((2, 3), *[a + b for a, b in zip(range(1, 7), y)]))

    end_well(*[child(some, i) for i in range(20)])


@case
def one_descriptor_for_several(d):
    fd = opened(adder())
    other = os.dup(fd)
    os.write(fd, X)
    end_well(child(os.write, other, Y))
    os.close(other)  # closing one of two descriptors loses no data
    equal("sum", read_all(fd), SUM)
    # a reader that is there first
    got = []
    for _ in range(50):
        os.write(fd, X + Y[:-1])
        os.write(fd, Y[-1:])
        readers = [threading.Thread(target=lambda: got.append(os.read(fd, 71))) for _ in range(3)]
        for t in readers:
            t.start()
        for t in readers:
            t.join()
        equal("in pieces", sorted(map(len, got)), [10, 71, 71])
        got.clear()


# --- what is wrong ----------------------------------------------------------------------


def polled(fd, ms):
    """The events that poll(2) reports for one descriptor within MS milliseconds."""
    p = select.poll()
    p.register(fd, select.POLLIN | select.POLLOUT)
    return dict(p.poll(ms)).get(fd, 0)


@case
def polls(d):
    """POLLIN once results can be read, or why there are none; POLLOUT for inputs."""
    path = adder()
    fd = opened(path)
    try:
        for _ in range(50):
            equal("at first", polled(fd, 0), select.POLLOUT)
            os.write(fd, X)
            equal("half of the inputs", polled(fd, 0), select.POLLOUT)
            os.write(fd, Y)
            equal("results", polled(fd, cases.PATIENCE * 1000), select.POLLIN)
            equal("a part of them", os.read(fd, 10), SUM[:10])
            equal("the rest is there", polled(fd, 0), select.POLLIN)
            equal("the rest", os.read(fd, 4096), SUM[10:])
        fails("EINVAL", os.write, fd, b"no array")
        equal("a failure", polled(fd, 0), select.POLLIN)
        fails("EINVAL", os.read, fd, 4096)
        equal("why", polled(fd, 0), select.POLLIN)
        read_all(fd)
        adds(fd)
    finally:
        os.close(fd)
    # many at once, waited for together
    fds = {opened(path) for _ in range(20)}
    waits = select.epoll()
    for fd in fds:
        waits.register(fd, select.EPOLLIN)
        os.write(fd, X + Y)
    left = set(fds)
    while left:
        ready = waits.poll(cases.PATIENCE)
        holds("some are ready", ready)
        for fd, _ in ready:
            equal("sum", os.read(fd, 4096), SUM)
            left.discard(fd)
    waits.close()


@case
def openings(d):
    path = adder()
    fails("EINVAL", os.open, path, os.O_WRONLY)
    fails("EINVAL", os.open, path, os.O_WRONLY | os.O_TRUNC)
    fd = opened(path, os.O_RDONLY)
    equal("nothing", os.read(fd, 100), b"")
    os.close(fd)
    equal("size", os.stat(path).st_size, 0)
    fd = opened(path, os.O_RDWR | os.O_TRUNC | os.O_APPEND)
    adds(fd)
    os.ftruncate(fd, 0)
    os.fsync(fd)
    adds(fd)
    os.close(fd)
    fails("EPERM EACCES", os.unlink, path)


@case
def wrong_inputs(d):
    fd = opened(adder())
    for bad, why in (
            (npy("<f8", (2, 3), b"\0" * 48), "input 0 (x): F64[2,3] came, the program wants F32[2,3]"),
            (f32((3, 2), *range(6)), "F32[3,2] came"), (npy("|V2", (3,), b"\0" * 6), "V2[3] came"),
            (b"x y -> z\n", ".npy"), (b"\n", ".npy")):  # check_npy.c has more
        fails("EINVAL", os.write, fd, bad)
        fails("EINVAL", os.write, fd, X)  # until it got the error
        told(fd, "EINVAL", why)
        adds(fd)
        # as the second input, in the same write and in another
        fails("EINVAL", os.write, fd, X + bad)
        told(fd, "EINVAL", why.replace("input 0 (x)", "input 1 (y)").replace("input 0", "input 1"))
        os.write(fd, X)
        fails("EINVAL", lambda: write_all(fd, bad, 1))
        fails("EINVAL", os.read, fd, 100)
        fails("EINVAL", os.write, fd, X)
        error = read_all(fd, 7)
        holds("an error in pieces", json.loads(error)["ok"] is False and error[-1:] == b"\n")
        adds(fd)


@case
def too_few(d):
    fd = opened(adder())
    for part, why in ((X, "input 1 (y): 0 bytes of a header"), (X[:5], "input 0 (x): 5 bytes"),
                      (X + Y[:-1], "input 1 (y): 23 of 24 bytes")):
        os.write(fd, part)
        told(fd, "EINVAL", why)
        adds(fd)


@case
def programs_that_cannot(d):
    path = adder("call_two")
    fd = opened(path)
    adds(fd)
    make(f"{cases.mnt}/executables/call_two/options.json", b'{"num_replicas":2}')
    fails("EOPNOTSUPP", os.write, fd, X)
    told(fd, "EOPNOTSUPP", "call_two: the program runs on 2 devices at once")
    make(f"{cases.mnt}/executables/call_two/options.json", b"{}")
    adds(fd)
    # another program takes its place: the next call is to that one
    inverter("call_two", 1)
    one = u32(1, b"\0\0\0\0")
    write_all(fd, one)
    equal("another program", read_all(fd), u32(1, b"\xff" * 4))
    # one that does not compile takes no place
    fails("EINVAL EIO", make, f"{cases.mnt}/programs/call_two.mlir", b"func.func @main(")
    write_all(fd, one)
    equal("the program before", read_all(fd), u32(1, b"\xff" * 4))
    # nothing was compiled
    fails("EINVAL EIO", make, f"{cases.mnt}/programs/call_bad.mlir", b"func.func @main(")
    bad = opened(f"{cases.mnt}/executables/call_bad/call")
    fails("EINVAL EIO", os.write, bad, one)
    name = None
    try:
        os.read(bad, 100)
    except OSError as e:
        name = errno.errorcode[e.errno]
    holds("a read says it too", name in ("EINVAL", "EIO"))
    holds("why", b"did not compile" in read_all(bad))
    make(f"{cases.mnt}/programs/call_bad.mlir", b"")
    fails("ENOENT", os.write, bad, one)
    told(bad, "ENOENT", "program")
    os.close(bad)
    os.unlink(f"{cases.mnt}/programs/call_bad.mlir")
    os.unlink(f"{cases.mnt}/programs/call_two.mlir")
    fails("ENOENT", os.write, fd, one)
    told(fd, "ENOENT", "(removed)")


@root_case
def rights(d):
    path = adder("call_mine")
    source = f"{cases.mnt}/programs/call_mine.mlir"
    os.chown(source, 1001, 1001)
    os.chmod(source, 0o640)

    def may():
        adds(opened(path))

    cases.as_user(1001, may)
    cases.as_user(1002, may, groups=[1001])
    cases.as_user(1002, fails, "EACCES", os.open, path, os.O_RDWR)
    os.chmod(source, 0o644)
    cases.as_user(1002, may)

    def may_no_more():
        fd = opened(path)
        adds(fd)
        os.write(ask, b"x")
        eventually("its program may not be read", lambda: not os.access(source, os.R_OK))
        fails("EACCES", os.write, fd, X)
        told(fd, "EACCES", "call_mine: permission denied")
        os.close(fd)

    def forbid():
        os.read(asked, 1)
        os.chmod(source, 0o600)

    asked, ask = os.pipe()
    threading.Thread(target=forbid, daemon=True).start()
    cases.as_user(1002, may_no_more)


# --- death ------------------------------------------------------------------------------


@case
def the_worker_dies_between(d):
    fd = opened(adder())
    adds(fd)
    kill_worker()
    adds(fd)
    os.write(fd, X)
    kill_worker()
    os.write(fd, Y)
    equal("sum", read_all(fd), SUM)
    # unread results stay
    n = MIB
    large = opened(inverter("call_keep", n))
    write_all(large, u32(n, b"\0" * 4 * n))
    head = os.read(large, 10)
    kill_worker()
    holds("results outlive the worker",
          head + read_all(large) == u32(n, b"\xff" * 4 * n))


@case
def nothing_leaks(d):
    """Of descriptors that are closed at every stage; growth.py counts the processes' memory."""
    small = adder()
    before = used()
    nodes = os.statvfs(cases.mnt)
    for i in range(200):
        fd = opened(small)
        os.write(fd, (X + Y)[:1 + i * 2])
        if i % 2:
            fails("EINVAL", os.write, fd, b"zz" * 500) if i < 10 else None
        os.close(fd)
    after = os.statvfs(cases.mnt)
    holds("no file stays", after.f_files - after.f_ffree <= nodes.f_files - nodes.f_ffree)
    equal("buffers", os.listdir(d), [])
    eventually("all is given back", lambda: used() <= before)


cases.main()
