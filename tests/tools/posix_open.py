# SPDX-License-Identifier: Apache-2.0
"""Open files in buffers/: without a name, opened several times, locked, by killed processes."""

import fcntl
import os
import signal
import time

import cases
from cases import (about, case, child, content, end_of, end_well, equal, eventually, fails, floats,
                   holds, make, opened, state, used)

A, B = floats(1, 2, 3), floats(4, 5, 6)
MIB = 1 << 20


@case
def unlinked_while_open(d):
    """Open descriptors still read it; closing the last one frees the memory."""
    eventually("little in use", lambda: used() < MIB)
    before = used()
    data = os.urandom(16 * MIB)
    make(d + "/a.raw", data)
    reader = opened(d + "/a.raw", os.O_RDONLY)
    writer = opened(d + "/a.raw", os.O_RDWR)
    ino = os.fstat(reader).st_ino
    os.unlink(d + "/a.raw")
    fails("ENOENT", os.stat, d + "/a.raw")
    st = os.fstat(reader)
    equal("inode and links", (st.st_ino, st.st_nlink), (ino, 0))
    equal("size", st.st_size, len(data))
    equal("bytes", os.pread(reader, len(data), 0), data)
    holds("df shows it", used() - before >= 16 * MIB)
    # also written: only open descriptors see the change
    os.pwrite(writer, b"new", 0)
    equal("what was written", os.pread(writer, 4, 0), b"new" + data[3:4])
    make(d + "/a.raw", b"other")
    holds("another inode", os.stat(d + "/a.raw").st_ino != ino)
    equal("another file", content(d + "/a.raw"), b"other")
    os.close(writer)
    equal("bytes", os.pread(reader, len(data), 0)[3:], data[3:])
    os.close(reader)
    eventually("df shows it no more", lambda: used() - before < MIB)
    equal("another file", content(d + "/a.raw"), b"other")


@case
def created_and_unlinked(d):
    """A temporary file that never had a name for long."""
    fd = opened(d + "/a.npy", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    os.unlink(d + "/a.npy")
    os.write(fd, A)
    equal("bytes", os.pread(fd, 1000, 0), A)
    os.close(fd)
    equal("listing", os.listdir(d), [])


@case
def replaced_while_open(d):
    """Rename over a name: readers keep the file that they opened."""
    make(d + "/a.npy", A)
    fds = []
    for i in range(8):
        fds.append((opened(d + "/a.npy", os.O_RDONLY), floats(i, i, i)))
        make(d + "/part", floats(i + 1, i + 1, i + 1))
        if i == 0:
            fds[0] = (fds[0][0], A)
        os.rename(d + "/part", d + "/a.npy")
    for fd, want in fds:
        equal("bytes", os.pread(fd, 1000, 0), want)
        equal("links", os.fstat(fd).st_nlink, 0)
        os.close(fd)
    equal("bytes", content(d + "/a.npy"), floats(8, 8, 8))


@case
def two_writers(d):
    """Each writes its part; what both closed is there, whole."""
    part = os.urandom(MIB // 2)
    parts = [part, part[::-1]]

    def write(i):
        fd = opened(d + "/a.raw", os.O_WRONLY | os.O_CREAT)
        for off in range(0, len(part), 4096):
            os.pwrite(fd, parts[i][off : off + 4096], i * len(part) + off)
        os.close(fd)

    end_well(*[child(write, i) for i in (0, 1)])
    equal("bytes", content(d + "/a.raw") == parts[0] + parts[1], True)
    equal("shape", about(d + "/a.raw")["shape"], [MIB])
    equal("state", state(d + "/a.raw"), "ready")


@case
def two_appenders(d):
    """No line is lost or torn."""

    def write(letter):
        fd = opened(d + "/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for i in range(500):
            os.write(fd, f"{letter} {i:04d}\n".encode())
        os.close(fd)

    end_well(*[child(write, letter) for letter in "ab"])
    lines = content(d + "/log").decode().splitlines()
    for letter in "ab":
        equal("lines", [x for x in lines if x[0] == letter],
              [f"{letter} {i:04d}" for i in range(500)])


@case
def duplicates_and_children(d):
    """One open file shared by several processes has one position, and is whole at last."""
    fd = opened(d + "/a.npy", os.O_WRONLY | os.O_CREAT)
    os.write(fd, A[:50])

    def more():
        os.write(fd, A[50:100])
        try:
            os.close(fd)  # no whole array yet
        except OSError as e:
            equal("errno", e.errno, 22)

    end_well(child(more))
    other = os.dup(fd)
    os.write(other, A[100:])
    os.close(other)
    equal("state", state(d + "/a.npy"), "ready")
    os.close(fd)
    equal("bytes", content(d + "/a.npy"), A)
    # children that write at the same time
    fd = opened(d + "/b.raw", os.O_RDWR | os.O_CREAT)

    def write(i):
        for off in range(i * 4096, MIB, 4 * 4096):
            os.pwrite(fd, bytes([65 + i]) * 4096, off)

    end_well(*[child(write, i) for i in range(4)])
    want = b"".join(bytes([65 + i]) * 4096 for i in range(4)) * (MIB // 16384)
    equal("bytes", os.pread(fd, MIB, 0) == want, True)
    os.close(fd)
    equal("bytes", content(d + "/b.raw") == want, True)
    equal("state", state(d + "/b.raw"), "ready")


@case
def locks(d):
    """flock and fcntl locks hold between processes: the kernel keeps them."""
    make(d + "/a.npy", A)
    for op, lock, free, want in (
        ("flock", lambda fd: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
         lambda fd: fcntl.flock(fd, fcntl.LOCK_UN), "EWOULDBLOCK"),
        ("fcntl", lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5),
         lambda fd: fcntl.lockf(fd, fcntl.LOCK_UN, 10, 5), "EAGAIN EACCES"),
    ):
        fd = opened(d + "/a.npy", os.O_RDWR)
        lock(fd)

        def other():
            mine = opened(d + "/a.npy", os.O_RDWR)
            fails(want, lock, mine)
            if op == "fcntl":
                fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 100)  # elsewhere

        end_well(child(other))
        free(fd)

        def after():
            lock(opened(d + "/a.npy", os.O_RDWR))

        end_well(child(after))
        # the end of a process releases its locks
        lock(fd)
        os.close(fd)
        end_well(child(after))


@case
def killed_writers(d):
    """A killed process's writes are not committed, in any format."""
    for name, data in (("new.npy", A), ("new.raw", bytes(1000)), ("new.txt", b"1 2 3\n"),
                       ("old.npy", A), ("old.raw", bytes(1000)), ("old.txt", b"1 2 3\n")):
        path = d + "/" + name
        if name.startswith("old"):
            make(path, data)
            equal("state", state(path), "ready")

        def write():
            fd = opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.write(fd, data[: len(data) // 2])
            os.write(fd, data[len(data) // 2 :])
            os.kill(os.getpid(), signal.SIGKILL)

        equal("killed", end_of(child(write)), -signal.SIGKILL)
        eventually("the end of its flush", lambda: state(path) != "transferring")
        holds(f"{name} is not committed: {state(path)}", state(path) != "ready")
        # and the name is as good as before
        make(path, data)
        equal("state", state(path), "ready")
        equal("bytes", content(path), data)
        os.unlink(path)


@case
def killed_in_the_middle(d):
    """At any moment: what is ready then is what was there before, whole."""
    data = os.urandom(8 * MIB)
    r, w = os.pipe()

    def write():
        fd = opened(d + "/a.part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(w, b"x")
        while True:
            os.pwrite(fd, data, 0)

    make(d + "/a.raw", data)
    for i in range(10):
        pid = child(write)
        os.read(r, 1)
        time.sleep(0.001 * i)  # real time: it is killed at any moment
        os.kill(pid, signal.SIGKILL)
        equal("killed", end_of(pid), -signal.SIGKILL)
        equal("state", state(d + "/a.raw"), "ready")
        holds("part of the bytes", data.startswith(content(d + "/a.part")))
    equal("bytes", content(d + "/a.raw") == data, True)


@case
def incomplete_at_fsync(d):
    fd = opened(d + "/a.npy", os.O_WRONLY | os.O_CREAT)
    os.fsync(fd)
    for at in range(0, len(A), 16):
        os.write(fd, A[at : at + 16])
        os.fsync(fd)
        os.fdatasync(fd)
        want = "ready" if at + 16 >= len(A) else "incomplete"
        equal(f"state after {at + 16}", state(d + "/a.npy"), want)
    os.close(fd)
    fd = opened(d, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)


@case
def read_while_written(d):
    """An open while another process writes gets a value or the reason for none, and never hangs."""
    one, two = os.urandom(MIB), os.urandom(MIB)
    make(d + "/a.raw", one)
    stop, told = os.pipe()

    def write():
        for i in range(400):
            make(d + "/part", two if i % 2 else one)
            os.rename(d + "/part", d + "/a.raw")
        os.write(told, b"x")

    pid = child(write)
    os.set_blocking(stop, False)
    n = 0
    while True:
        got = content(d + "/a.raw")
        holds("one or the other", got in (one, two))
        n += 1
        try:
            os.read(stop, 1)
            break
        except BlockingIOError:
            pass
    end_well(pid)
    os.close(stop)
    os.close(told)
    holds("it was read meanwhile", n > 1)


cases.main()
