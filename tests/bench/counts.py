#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count what common operations of a mount cost, and compare with a table.

    tests/bench/counts.py BUILD PLUGIN TABLE [--update]

BUILD is the build folder, TABLE is tests/bench/counts; --update writes what is found into it.  The
daemon and its worker run with tests/bench/count.c preloaded.  Each operation is done TIMES times, and
its counts are read before and after each.  Other work on the machine makes a count higher, for
example when the kernel's knowledge of a file has become too old, or moves a part of it into the
next operation.  So of the TIMES numbers that of rank TIMES / 4 counts: it is the same on a quiet
machine and beside others.  Time decides nothing.

Counted are: requests that the daemon reads from the kernel, by FUSE opcode, but for FORGET and
INTERRUPT, which the kernel sends at a time of its choice; bytes of messages to the worker and back,
each of which wakes one thread of the other process at most; bytes that daemon and worker copy and
allocate; and threads that the daemon starts or wakes.
"""

import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

TIMES, WARM = 120, 30
OPCODES = {
    1: "LOOKUP", 3: "GETATTR", 4: "SETATTR", 9: "MKDIR", 10: "UNLINK", 12: "RENAME", 14: "OPEN",
    15: "READ", 16: "WRITE", 18: "RELEASE", 20: "FSYNC", 21: "SETXATTR", 22: "GETXATTR",
    23: "LISTXATTR", 25: "FLUSH", 26: "INIT", 27: "OPENDIR", 28: "READDIR", 29: "RELEASEDIR",
    34: "ACCESS", 35: "CREATE", 39: "IOCTL", 40: "POLL", 44: "READDIRPLUS", 46: "LSEEK", 52: "STATX",
}
FORGET, STATFS, INTERRUPT, BATCH_FORGET = 2, 17, 36, 42
COUNTS = struct.Struct("64Q3Q")  # struct counts of count.c
RING = 128 + (1 << 20)           # bytes of struct pf_ring_shared (src/wire/ring.c), whose first is head
COLUMNS = ("requests", "to worker", "from worker", "daemon copies", "worker copies",
           "daemon allocates", "worker allocates", "daemon wakes")
HELP = """Each number is the greatest that may be, per operation.  If the change is meant to cost this,
write the new counts with `make check-bench COUNTS_FLAGS=--update`, and say why in the commit.  If not:
requests come with attributes or names that the kernel may not keep (src/fuse/ops.c), copies and
memory from the way of the data (docs/ARCHITECTURE.md, Upload, Execution, Download)."""


# --- a mount whose daemon and worker count --------------------------------------------------


class Mount:

    def __init__(self, build, plugin):
        self.dir = tempfile.mkdtemp(prefix="pjrtfs-counts.")
        self.mnt = self.dir + "/mnt"
        os.mkdir(self.mnt)
        with open(self.dir + "/counts", "wb+") as f:
            f.truncate(2 * COUNTS.size)
            self.counts = mmap.mmap(f.fileno(), 2 * COUNTS.size)
        env = dict(os.environ, LD_PRELOAD=build + "/tests/bench/count.so",
                   PJRTFS_COUNTS=self.dir + "/counts", PJRTFS_CACHE_DIR=self.dir + "/cache",
                   XDG_CONFIG_HOME=self.dir)
        with open(self.dir + "/log", "wb") as log:
            self.daemon = subprocess.Popen([build + "/pjrtfs", plugin, self.mnt, "-f"], env=env,
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.memory = -1
        while not os.path.exists(self.mnt + "/version"):
            if self.daemon.poll() is not None:
                sys.exit("FAIL: the daemon ended: " + open(self.dir + "/log").read())
            time.sleep(0.01)

    def find_rings(self):
        """The rings of the worker, which has begun, in the daemon's memory."""
        at = [line for line in open(f"/proc/{self.daemon.pid}/maps") if "pjrtfs-channel" in line]
        self.rings = int(at[0].split("-")[0], 16)
        self.memory = os.open(f"/proc/{self.daemon.pid}/mem", os.O_RDONLY)

    def read(self):
        """All counts so far: of opcodes, and of COLUMNS but the first."""
        daemon, worker = COUNTS.iter_unpack(self.counts[:])
        sent, came = (struct.unpack("Q", os.pread(self.memory, 8, self.rings + at))[0]
                      for at in (0, RING))
        return daemon[:64] + (sent, came, daemon[64], worker[64], daemon[65], worker[65], daemon[66])

    def end(self):
        if self.memory >= 0:
            os.close(self.memory)
        subprocess.run(["fusermount3", "-u", "-z", self.mnt], check=False)
        try:
            self.daemon.wait(60)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            raise
        shutil.rmtree(self.dir)


# --- operations -----------------------------------------------------------------------------


def put(path, data):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        while data:
            data = data[os.write(fd, data):]
    finally:
        os.close(fd)


# The kernel asks for as many pages at once as a buffer lies in.
PAGES = mmap.mmap(-1, 2 << 20)


def get(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        parts = []
        while n := os.readv(fd, [PAGES]):
            parts.append(PAGES[:n])
        return b"".join(parts)
    finally:
        os.close(fd)


def equal(what, found, want):
    if found != want:
        sys.exit(f"FAIL: {what}: wrong bytes: {found[:200]!r}")


def ask(fd, line, want):
    os.write(fd, line)
    reply = os.read(fd, 65536)
    equal(line.decode(), reply[:len(want)], want)


def npy(n, value):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({n},), }}".ljust(117) + "\n"
    return (b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode() +
            struct.pack("<f", value) * n)


def program(n):
    t = f"tensor<{n}xf32>"
    return (f"func.func @main(%a: {t}, %b: {t}) -> {t} {{\n  %0 = stablehlo.add %a, %b : {t}\n"
            f"  return %0 : {t}\n}}\n").encode()


SIZES = {"few": 6, "4k": 1024, "1m": 1 << 18}
X = {name: npy(n, 1) for name, n in SIZES.items()}
Z = {name: npy(n, 2) for name, n in SIZES.items()}


def operations(mnt):
    """Make what they need; then (name, what is counted, what is done after it) for each."""
    buffers, executables = mnt + "/buffers/", mnt + "/executables/"
    for name, n in SIZES.items():
        put(f"{mnt}/programs/{name}.mlir", program(n))
        while (state := get(f"{executables}{name}/state")) != b"ready\n":
            if state == b"failed\n":
                sys.exit("FAIL: " + get(f"{executables}{name}/error").decode())
            time.sleep(0.02)
        put(f"{buffers}{name}.npy", X[name])
    os.mkdir(buffers + "hundred")
    for i in range(100):
        put(f"{buffers}hundred/{i}.npy", X["few"])
    call, run = (os.open(f"{executables}few/{name}", os.O_RDWR) for name in ("call", "run"))
    control = os.open(mnt + "/control", os.O_RDWR)
    new = buffers + "new.npy"

    def calls():
        os.pwrite(call, X["few"] * 2, 0)
        equal("call", os.pread(call, 65536, 0), Z["few"])

    def execute(name):
        fd = os.open(f"{executables}{name}/run", os.O_RDWR)
        ask(fd, f"{name} {name} -> z\n".encode(), b"ok")
        os.close(fd)
        equal(name, get(buffers + "z.npy"), Z[name])

    def nothing():
        pass

    yield "nothing", nothing, nothing
    yield "call", calls, nothing
    yield "run", lambda: ask(run, b"few few -> z\n", b"ok"), nothing
    yield "control: execute", lambda: ask(
        control, b'{"op":"execute","executable":"few","inputs":["few","few"],"outputs":["z"]}\n',
        b'{"ok":true'), nothing
    for size in ("4k", "1m"):
        yield f"write a new array, {size}", lambda: put(new, X[size]), lambda: os.unlink(new)
    yield "write over an array, 4k", lambda: put(f"{buffers}over.npy", X["4k"]), nothing
    for size in ("4k", "1m"):
        yield f"read an array, {size}", lambda: equal(
            "read", get(f"{buffers}{size}.npy"), X[size]), nothing
    for size in ("4k", "1m"):
        yield f"run and first read, {size}", lambda: execute(size), nothing
    yield "stat", lambda: os.stat(buffers + "few.npy"), nothing
    yield "list 100 names", lambda: equal(
        "names", sorted(os.listdir(buffers + "hundred")),
        sorted(f"{i}.npy" for i in range(100))), nothing
    for fd in (call, run, control):
        os.close(fd)


def measure(mount, op, after):
    """What one OP costs, as Mount.read()."""
    samples = []
    for i in range(WARM + TIMES):
        os.statvfs(mount.mnt)
        before = mount.read()
        op()
        os.statvfs(mount.mnt)  # the daemon has read all requests before
        if i >= WARM:
            samples.append([b - a for a, b in zip(before, mount.read())])
        after()
    return [sorted(one)[TIMES // 4] for one in zip(*samples)]


def found(mount):
    """The table's row for each operation: {name: [requests, number...]}."""
    rows, nothing = {}, None
    for name, op, after in operations(mount.mnt):
        if nothing is None:
            mount.find_rings()
        counts = measure(mount, op, after)
        nothing = nothing or counts
        counts = [n - less for n, less in zip(counts, nothing)]
        requests = {OPCODES.get(i, f"opcode-{i}"): n for i, n in enumerate(counts[:64])
                    if n and i not in (FORGET, STATFS, INTERRUPT, BATCH_FORGET)}
        rows[name] = [requests] + counts[64:]
    del rows["nothing"]
    return rows


# --- the table ------------------------------------------------------------------------------


def text_of(name, row):
    requests = " ".join(f"{op}={n}" for op, n in row[0].items())
    return " | ".join([name, requests] + [str(n) for n in row[1:]])


def parse(table):
    """The comments, the tolerances, {name: row}."""
    comments = [line for line in table if line.startswith("#")]
    rows = {}
    for line in table:
        if not line.startswith("#"):
            name, requests, *numbers = (word.strip() for word in line.split("|"))
            requests = dict(word.split("=") for word in requests.split())
            rows[name] = [{op: int(n) for op, n in requests.items()}] + [int(n) for n in numbers]
    return comments, rows.pop("tolerance"), rows


def differences(want, row, tolerance):
    """(what, expected, found, is it a failure?) for each count that is not as in the table."""
    for op in sorted(want[0] | row[0]):
        yield op, want[0].get(op, 0), row[0].get(op, 0), 0
    yield from zip(COLUMNS[1:], want[1:], row[1:], tolerance[1:])


def compare(rows, table, tolerance):
    failed = False
    if rows.keys() != table.keys():
        print("FAIL: the table has not the same operations:", *sorted(rows.keys() ^ table.keys()))
        failed = True
    for name in (name for name in rows if name in table):
        for what, most, now, more in differences(table[name], rows[name], tolerance):
            if now > most + more:
                print(f"FAIL: {name}: {what}: expected {most}, found {now}")
                failed = True
            elif most > more and now == 0:
                print(f"FAIL: {name}: {what}: expected {most}, found none: is it counted at all?")
                failed = True
            elif now < most - more:
                print(f"less: {name}: {what}: {now} of {most}: the table can have the new count")
    return failed


def main():
    build, plugin, path = (os.path.abspath(word) for word in sys.argv[1:4])
    # What the plugin allocates depends on how many processors it has.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    with open(path) as f:
        comments, tolerance, table = parse(f.readlines())
    mount = Mount(build, plugin)
    try:
        rows = found(mount)
    finally:
        mount.end()
    print("operation |", " | ".join(COLUMNS))
    lines = [text_of(name, row) for name, row in rows.items()]
    print("\n".join(lines))
    if sys.argv[4:] == ["--update"]:
        with open(path, "w") as f:
            f.writelines(comments + [text_of("tolerance", tolerance) + "\n"] +
                         [line + "\n" for line in lines])
    elif compare(rows, table, tolerance):
        sys.exit(HELP)


main()
