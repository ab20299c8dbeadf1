# SPDX-License-Identifier: Apache-2.0
"""Opening names while other processes keep moving them to other buffers."""

import os

import cases
from cases import (case, child, command, content, end_well, equal, eventually, fails, floats,
                   holds, make, opened)

N = 1000 * cases.TIMES


def stamped(i):
    """A file that shows whether it is whole: it repeats its number."""
    return i.to_bytes(8, "little") * 64


def read_on(d, name, whole):
    """Open and read NAME until the writer is done; every open must succeed."""
    n = 0
    last = b""
    while not os.path.exists(d + "/done"):
        fd = os.open(f"{d}/{name}", os.O_RDONLY)
        size = os.fstat(fd).st_size
        got = os.read(fd, 4096)
        os.close(fd)
        holds(f"all bytes: {len(got)} of {size}", len(got) == size and whole(got))
        if got != last:
            n, last = n + 1, got
            if n == 10:
                make(f"{d}/seen{os.getpid()}")


def race(d, write, work, *args, workers=1):
    """Processes that do WORK(...) until the file done is there, while WRITE runs; each ends well."""
    pids = [child(work, *args) for _ in range(workers)]
    try:
        write()
    finally:
        make(d + "/done")
    end_well(*pids)


def read_race(d, name, whole, write):
    """Two readers of NAME while WRITE runs, until each has seen it change."""

    def write_on():
        write()
        return sum(seen.startswith("seen") for seen in os.listdir(d)) == 2

    race(d, lambda: eventually("both see changes", write_on), read_on, d, name, whole, workers=2)


def moved_over(d, n, old, new, data_of):
    """N times a new file NEW is moved to OLD."""
    for i in range(1, n + 1):
        make(f"{d}/{new}", data_of(i))
        os.rename(f"{d}/{new}", f"{d}/{old}")


@case
def rename_over(d):
    make(d + "/x.raw", stamped(0))
    read_race(d, "x.raw", lambda got: len(got) == 512 and got == got[:8] * 64,
              lambda: moved_over(d, N, "x.raw", "part", stamped))
    equal("the last", content(d + "/x.raw"), stamped(N))


@case
def rename_over_and_views(d):
    """The same for a view that is not listed."""
    make(d + "/x.txt", b"0 0\n")
    read_race(d, "x.raw", lambda got: len(got) == 8 and got[:4] == got[4:],
              lambda: moved_over(d, N // 4, "x.txt", "part", lambda i: b"%d %d\n" % (i, i)))


@case
def rename_over_and_commands(d):
    """A command finds one array or the other."""
    name = os.path.basename(d)
    for side in ("x", "next"):
        make(f"{d}/{side}.npy", floats(1))

    def ask():
        fd = opened(cases.mnt + "/control", os.O_RDWR)
        while not os.path.exists(d + "/done"):
            reply = cases.ask(fd, {"op": "stat", "buffer": name + "/x"})
            holds(reply, reply["ok"])

    race(d, lambda: moved_over(d, N // 4, "x.npy", "next.npy", floats), ask)


@case
def programs_renamed_over(d):
    """An executable is there while its program is replaced."""
    programs = cases.mnt + "/programs"
    source = b"func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    make(programs + "/over.mlir", source)

    def look():
        while not os.path.exists(d + "/done"):
            os.stat(cases.mnt + "/executables/over")

    race(d, lambda: moved_over(programs, N // 20, "over.mlir", "next", lambda _: source), look)
    eventually("it is compiled", lambda: content(cases.mnt + "/executables/over/state")
               == b"ready\n")


@case
def results(d):
    """A result takes a name over by a command."""
    make(d + "/one.npy", floats(*64 * [1]))
    make(d + "/z.npy", floats(*64 * [1]))
    make(cases.mnt + "/programs/inc.mlir", b"""func.func @main(%x: tensor<64xf32>)
        -> tensor<64xf32> { %0 = stablehlo.add %x, %x : tensor<64xf32>
        return %0 : tensor<64xf32> }""")
    sides = [content(d + "/one.npy"), floats(*64 * [2])]

    def write():
        for i in range(N // 4):
            reply = command(op="execute", executable="inc", inputs=["results/one"],
                            outputs=["results/z"])
            holds(reply, reply["ok"])
            make(d + "/part", sides[0])
            os.rename(d + "/part", d + "/z.npy")

    read_race(d, "z.npy", lambda got: got in sides, write)


@case
def removed_and_made(d):
    """An open meanwhile succeeds, or fails with ENOENT."""

    def read():
        n = 0
        while not os.path.exists(d + "/done"):
            try:
                got = content(d + "/x.raw")
            except FileNotFoundError:
                continue
            # it is made before it is written
            holds("one file", got == b"" or got == got[:8] * 64)
            n += 1
            if n == 1:
                make(d + "/seen")

    def write():
        for i in range(N // 4):
            make(d + "/x.raw", stamped(i))
            os.unlink(d + "/x.raw")
        return os.path.exists(d + "/seen")

    race(d, lambda: eventually("it was there sometimes", write), read)
    fails("ENOENT", os.stat, d + "/x.raw")


cases.main()
