# SPDX-License-Identifier: Apache-2.0
"""Files beyond 4 GiB, and what does not fit: the limit of the mount is 6 GiB."""

import mmap
import os
import time

import cases
from cases import about, case, equal, eventually, fails, floats, holds, make, opened, state, used

MIB, GIB = 1 << 20, 1 << 30
A = floats(1, 2, 3)
LIMIT = 6 * GIB


def available():
    """Bytes of memory that the machine, or the control group, has left."""
    left = []
    with open("/proc/meminfo") as f:
        left += [int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable")]
    for limit, now in (("memory.max", "memory.current"),
                       ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        try:
            with open("/sys/fs/cgroup/" + limit) as f:
                limit = int(f.read())
            with open("/sys/fs/cgroup/" + now) as f:
                left.append(limit - int(f.read()))
        except (OSError, ValueError):
            pass
    return min(left)


@case
def beyond_the_limit(d):
    """ENOSPC, without other changes."""
    equal("the limit", os.statvfs(d).f_blocks * os.statvfs(d).f_frsize, LIMIT)
    make(d + "/small.raw", b"0123456789")
    make(d + "/a.npy", A)
    before = used()
    fails("ENOSPC", os.truncate, d + "/small.raw", 7 * GIB)
    fd = opened(d + "/new.raw", os.O_RDWR | os.O_CREAT)
    fails("ENOSPC", os.ftruncate, fd, 7 * GIB)
    fails("ENOSPC", os.pwrite, fd, b"x", 7 * GIB)
    fails("ENOSPC", os.pwrite, fd, b"x", (1 << 62))
    fails("ENOSPC EFBIG EINVAL", os.pwrite, fd, b"x", (1 << 63) - 2)
    equal("size", os.fstat(fd).st_size, 0)
    os.pwrite(fd, b"abc", 0)
    os.close(fd)
    equal("bytes", cases.content(d + "/new.raw"), b"abc")
    equal("bytes", cases.content(d + "/small.raw"), b"0123456789")
    equal("state", state(d + "/small.raw"), "ready")
    equal("bytes", cases.content(d + "/a.npy"), A)
    holds("df as before", used() - before < MIB)
    # several that fit alone do not fit together
    os.truncate(make(d + "/one"), 4 * GIB)
    fails("ENOSPC", os.truncate, make(d + "/two"), 4 * GIB)
    equal("size", os.stat(d + "/two").st_size, 0)
    os.unlink(d + "/one")
    eventually("df as before", lambda: used() - before < MIB)
    os.truncate(d + "/two", 4 * GIB)
    os.unlink(d + "/two")
    eventually("df as before", lambda: used() - before < MIB)


@case
def beyond_4_gib(d):
    """A page beyond, written at the end: offsets have 64 bits."""
    size = 4 * GIB + 4096
    page = os.urandom(4096)
    fd = opened(d + "/a.raw", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, page, 4 * GIB)
    equal("size", os.fstat(fd).st_size, size)
    os.pwrite(fd, b"low", 0)
    equal("at the end", os.pread(fd, 8192, 4 * GIB), page)
    os.close(fd)
    told = about(d + "/a.raw")
    equal("what is told", (told["state"], told["dtype"], told["shape"], told["bytes"]),
          ("ready", "U8", [size], size))
    fd = opened(d + "/a.raw", os.O_RDONLY)
    equal("size", os.fstat(fd).st_size, size)
    equal("at the begin", os.pread(fd, 8, 0), b"low" + bytes(5))
    equal("before 4 GiB", os.pread(fd, 8, 4 * GIB - 8), bytes(8))
    equal("across 4 GiB", os.pread(fd, 16, 4 * GIB - 8), bytes(8) + page[:8])
    equal("across 2 GiB", os.pread(fd, 16, 2 * GIB - 8), bytes(16))
    equal("beyond 4 GiB", os.pread(fd, 8192, 4 * GIB + 100), page[100:])
    equal("at the end", os.pread(fd, 10, size), b"")
    equal("the end", os.lseek(fd, 0, os.SEEK_END), size)
    with mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ, offset=4 * GIB) as at:
        equal("mapped", at[:], page)
    os.close(fd)
    # as an array with a header before it: the element at 4 GiB is after it
    st = os.stat(d + "/a.npy")
    holds("the header's size", st.st_size - size in range(64, 257))
    fd = opened(d + "/a.npy", os.O_RDONLY)
    equal("the .npy's end", os.pread(fd, 8192, st.st_size - 4096), page)
    os.close(fd)
    # smaller again: a value of what is left
    os.truncate(d + "/a.raw", 4 * GIB + 1)
    equal("shape", about(d + "/a.raw")["shape"], [4 * GIB + 1])
    os.unlink(d + "/a.raw")
    eventually("df shows it no more", lambda: used() < 16 * MIB)


@case
def uploaded(d):
    """As large an array as memory allows, up to 4.5 GiB, byte by byte."""
    # The bytes are in the mount once; with sanitizers, a second time in the plugin.
    room = available() // (4 if os.environ.get("SANITIZED") else 2)
    whole = min(4 * GIB + GIB // 2, max(64, (room - GIB) // MIB) * MIB)
    print(f"  {whole / GIB:.2f} GiB")
    block = os.urandom(MIB - 8)

    def part(i):
        return block + i.to_bytes(8, "little")

    head = cases.npy("|u1", (whole,), b"")
    began = time.monotonic()
    fd = opened(d + "/a.npy", os.O_WRONLY | os.O_CREAT)
    os.write(fd, head)
    for i in range(whole // MIB):
        b = part(i)
        n = 0
        while n < MIB:
            n += os.write(fd, b[n:])
    os.close(fd)
    print(f"  written in {time.monotonic() - began:.1f} s")
    told = about(d + "/a.npy")
    equal("what is told", (told["state"], told["dtype"], told["shape"]),
          ("ready", "U8", [whole]))
    began = time.monotonic()
    for view, skip in (("npy", len(head)), ("raw", 0)):
        fd = opened(d + "/a." + view, os.O_RDONLY)
        equal("size", os.fstat(fd).st_size, whole + skip)
        # all parts with an offset, else those where counters overflow
        for i in range(whole // MIB) if skip else (0, 1, 2047, 2048, 4095, 4096, -1):
            i %= whole // MIB
            got = os.pread(fd, MIB, skip + i * MIB)
            if got != part(i):
                raise AssertionError(f"{view}: MiB {i} differs")
        os.close(fd)
    print(f"  read in {time.monotonic() - began:.1f} s")
    os.unlink(d + "/a.npy")
    eventually("df shows it no more", lambda: used() < 16 * MIB)


cases.main()
