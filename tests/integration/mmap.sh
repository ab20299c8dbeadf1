#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Files of buffers/ in memory: read, written, replaced while they are mapped.  fsx.sh mixes mappings with
# reads and writes.
. "$srcdir/tests/words.sh"
requires find_numpy
mount_pjrtfs

# Files that are read directly can be mapped since Linux 6.6.
requires "$python" -c 'import mmap, os, sys
mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 0, mmap.MAP_SHARED, mmap.PROT_READ)' "$mnt/README"
put_add
cat >cases.py <<'END'
import ctypes, mmap, os, sys, time
import numpy as np
from numpy.lib.format import open_memmap

mnt = sys.argv[1]
b = mnt + "/buffers/"
x = np.arange(1, 7, dtype="f4").reshape(2, 3)
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
both = mmap.PROT_READ | mmap.PROT_WRITE

def run(line):
    with open(mnt + "/executables/add/run", "w") as f:
        f.write(line + "\n")

def text(name):
    with open(b + name) as f:
        return f.read()

def same(got, want):
    assert np.array_equal(got, want), "%s instead of %s" % (got, want)

def map_fd(fd, n):
    p = libc.mmap(None, n, both, mmap.MAP_SHARED, fd, 0)
    assert p not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
    return p

def a_name_gets_another_array():
    run("x x -> z")
    old = np.load(b + "z.npy", mmap_mode="r")
    run("x y -> z")
    same(np.load(b + "z.npy", mmap_mode="r"), x * 11)
    same(old, x * 2)
    os.unlink(b + "z.npy")
    same(old, x * 2)

def writing():
    w = np.load(b + "x.npy", mmap_mode="r+")
    w[0, 0] = 100
    w.flush()
    same(np.load(b + "x.npy")[0, 0], 100)
    assert text("x.txt") == "100 2 3\n4 5 6\n"
    run("x x -> z") # msync is enough
    same(np.load(b + "z.npy")[0], [200, 4, 6])
    w[0, 0] = 1
    w[1, 2] = 7
    del w
    run("x x -> z")
    same(np.load(b + "z.npy"), [[2, 4, 6], [8, 10, 14]])
    end = np.load(b + "x.npy", mmap_mode="r+")
    end[1, 2] = 6
    del end
    same(np.load(b + "x.npy"), x)

def a_descriptor_of_before_reads_what_it_opened():
    np.save(b + "z.npy", x)
    for name, end in ("z.npy", 152), ("z.raw", 24):
        before = os.open(b + name, os.O_RDONLY)
        old = os.pread(before, 4, end - 4)
        fd = os.open(b + name, os.O_RDWR)
        p = map_fd(fd, end)
        ctypes.memmove(p + end - 4, np.float32(end).tobytes(), 4)
        assert os.pread(before, 4, end - 4) == old
        libc.msync(ctypes.c_void_p(p), end, 4)
        assert os.pread(before, 4, end - 4) == old
        same(np.load(b + "z.npy")[1, 2], end)
        libc.munmap(p, end)
        os.close(fd)
        os.close(before)

def two_mappings_are_one_memory():
    np.save(b + "s.npy", x + 6)
    one = np.load(b + "s.npy", mmap_mode="r+")
    two = np.load(b + "s.npy", mmap_mode="r+")
    reader = np.load(b + "s.npy", mmap_mode="r")
    one[0, 0] = -1
    assert two[0, 0] == -1 and reader[0, 0] == -1
    two[1, 2] = -2
    del one
    assert reader[1, 2] == -2
    same(np.load(b + "s.npy")[1], [10, 11, -2])
    two[0, 1] = -3
    del two
    run("x s -> t")
    same(np.load(b + "t.npy"), x + [[-1, -3, 9], [10, 11, -2]])

def a_damaged_header():
    fd = os.open(b + "t.npy", os.O_RDWR)
    n = os.fstat(fd).st_size
    p = map_fd(fd, n)
    ctypes.memmove(p, b"not an array", 12)
    assert libc.msync(ctypes.c_void_p(p), n, 4) < 0
    libc.munmap(p, n)
    try:
        os.close(fd)
    except OSError:
        pass
    np.save(b + "t.npy", x)
    same(np.load(b + "t.npy"), x)

def numpys_way_to_make_a_file():
    w = open_memmap(b + "made.npy", mode="w+", dtype="f4", shape=(2, 3))
    w[:] = x * 10
    w.flush()
    assert text("made.txt") == "10 20 30\n40 50 60\n"
    w[0, 0] = 11
    del w
    run("x made -> s")
    same(np.load(b + "s.npy"), x * 11 + [[1, 0, 0], [0, 0, 0]])
    large = open_memmap(b + "large.npy", mode="w+", dtype="i4", shape=(3, 1 << 20))
    large[:] = np.arange(3 << 20).reshape(3, -1)
    del large
    same(np.load(b + "large.npy"), np.arange(3 << 20).reshape(3, -1))

def changes_show_in_other_views():
    np.save(b + "v.npy", np.zeros(1024, "f4"))
    npy, js = os.open(b + "v.npy", os.O_RDONLY), os.open(b + "v.json", os.O_RDONLY)
    before = np.load(b + "v.npy", mmap_mode="r")
    assert before.sum() == 0
    size, changed = os.fstat(npy).st_size, os.fstat(npy).st_mtime_ns
    with open(b + "v.raw", "wb") as f:
        f.write(np.ones(1024, "f4").tobytes())
    after = np.load(b + "v.npy", mmap_mode="r")
    assert (after == 1).all()
    assert os.stat(b + "v.npy").st_size == size == os.stat(b + "v.raw").st_size + 128
    # one that was mapped before shows the old array, or all of the new one
    assert before.sum() in (0, 1024), before.sum()
    with open(b + "v.txt", "w") as f:
        f.write("5 6 7\n")
    assert os.stat(b + "v.npy").st_size == 128 + 12
    same(np.load(b + "v.npy", mmap_mode="r"), [5, 6, 7])
    assert '"shape":[3]' in text("v.json")
    # attributes of what is open are kept for a jiffy at most
    end = time.monotonic() + float(os.environ["patience"])
    while os.fstat(npy).st_size != 128 + 12:
        assert time.monotonic() < end, os.fstat(npy)

def a_result_is_there_at_once():
    np.save(b + "r.npy", x)
    for i in range(1, 101):
        run("x r -> s" if i % 2 else "x s -> r")
        name = b + ("s" if i % 2 else "r")
        want = x * (i + 1)
        assert os.stat(name + ".raw").st_size == 24
        same(np.load(name + ".npy"), want)
        same(np.load(name + ".npy", mmap_mode="r"), want)
        same(np.memmap(name + ".raw", "f4", "r"), want.ravel())

for case in (a_name_gets_another_array, writing, a_descriptor_of_before_reads_what_it_opened,
             two_mappings_are_one_memory, a_damaged_header, numpys_way_to_make_a_file,
             changes_show_in_other_views, a_result_is_there_at_once):
    try:
        case()
    except BaseException:
        print("failed:", case.__name__)
        raise
END
patience=$patience "$patient" $((patience * 3)) "$python" cases.py "$mnt"
shows "$mnt/health" ok
