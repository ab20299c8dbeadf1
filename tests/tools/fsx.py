# SPDX-License-Identifier: Apache-2.0
"""Random operations on a file, and the same ones on a file in tmpfs as reference.

    fsx.py [option...] FILE          FILE is made; with --keep it is there already

Results, sizes, the bytes that are read, and now and then all bytes are compared.  The first
difference ends the run and prints the last operations.  A seed determines a run: the same seed and
options repeat it.
"""

import argparse
import collections
import contextlib
import ctypes
import errno
import itertools
import mmap
import os
import random
import sys
import tempfile

LAST = 50         # operations that a failure prints
WHOLE = 200       # all bytes are compared after so many operations
NAMED = 4         # the file is looked up by name after so many
PAGE = 4096       # what mappings begin at
STEP_MAX = 65536  # bytes that one operation reads or writes
ALL = 1 << 20     # no file is as large
OURS, MODEL = 0, 1

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_int64)
LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
LIBC.msync.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
FALLOCATE = {"0": 0, "KEEP_SIZE": 1, "PUNCH_HOLE": 3}
MS_SYNC = 4

said = collections.deque(maxlen=LAST)
done = itertools.count(1)
chance = random.Random()
options = argparse.Namespace()


def differ(what):
    for number, line in said:
        print(f"{number:6} {line}")
    sys.exit(f"DIFFERENT: {what}\nseed {options.seed}, {options.file}")


def say(text):
    """Note what is done next."""
    said.append((next(done), text))


def now():
    return said[-1][0] if said else 0


def equal(what, have, want):
    if have == want:
        return
    if isinstance(have, bytes) and isinstance(want, bytes) and len(have) == len(want):
        at = [i for i, pair in enumerate(zip(have, want)) if pair[0] != pair[1]]
        differ(f"{what}: {len(at)} of {len(have)} bytes, from {at[0]} on: "
               f"{have[at[0]:at[0] + 16].hex()}, tmpfs {want[at[0]:at[0] + 16].hex()}")
    have, want = (f"{len(value)} bytes" if isinstance(value, bytes) else value
                  for value in (have, want))
    differ(f"{what}: {have}, tmpfs {want}")


def outcome(call, *things):
    try:
        return call(*things)
    except OSError as error:
        return errno.errorcode[error.errno]


def both(what, call, *sides):
    """CALL of what the one side has, and of what the other has: the results must be the same."""
    ours, model = (outcome(call, *things) for things in zip(*sides))
    equal(what, ours, model)


def checked(result):
    """What a function of the C library returned, which is -1 if it failed."""
    if result in (-1, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


@contextlib.contextmanager
def mapped(fd, prot, flags, off, size):
    """SIZE bytes of the file, and a function that makes them lasting.  The descriptor may be closed
    meanwhile: mmap.mmap would keep another one."""
    before = off % PAGE
    at = checked(LIBC.mmap(None, before + size, prot, flags, fd, off - before))
    yield (memoryview((ctypes.c_ubyte * size).from_address(at + before)).cast("B"),
           lambda: checked(LIBC.msync(at, before + size, MS_SYNC)))
    checked(LIBC.munmap(at, before + size))


def opened(paths, flags):
    return [os.open(path, flags | os.O_CLOEXEC, 0o644) for path in paths]


def close(fds):
    both("close", os.close, fds)


def same_whole(what, fds):
    both(what, lambda fd: os.pread(fd, ALL, 0), fds)


class Twin:
    """A file that has two sides, the one under test and its model in tmpfs."""

    def __init__(self, folder, name, models):
        self.paths = [os.path.join(folder, name), os.path.join(models, name)]
        self.names = [self.paths[OURS], os.path.join(folder, "other-" + name)]
        self.fds = []
        self.size = 0

    def open(self, flags):
        self.fds = opened(self.paths, flags)

    def model(self, size, off=0):
        return os.pread(self.fds[MODEL], size, off)

    def check(self):
        """Sizes, by descriptor and at times by name, and that the two are one file."""
        ours, model = map(os.fstat, self.fds)
        equal("fstat's size", ours.st_size, model.st_size)
        self.size = model.st_size
        if now() % NAMED == 0:
            named = os.stat(self.paths[OURS])
            equal("stat's size, inode and links", (named.st_size, named.st_ino, named.st_nlink),
                  (model.st_size, ours.st_ino, 1))


# --- chance ---------------------------------------------------------------------------------


def one_in(n):
    return chance.randrange(n) == 0


def some_length(most):
    """1 to MOST: often small, often whole pages; 0 if MOST is 0."""
    most = max(0, min(most, STEP_MAX))
    if not most:
        return 0
    n = chance.choice((chance.randint(1, 16), PAGE * chance.randint(1, 8), chance.randint(1, most),
                       chance.randint(1, most)))
    return min(n, most)


def some_place(t, low, high):
    """From LOW to HIGH: often a multiple of a page, often at the end of the file."""
    at = chance.randint(low, high)
    at = chance.choice((at, at, at, at - at % PAGE, at - at % PAGE, t.size + chance.randint(-1, 1)))
    return max(low, min(at, high))


def some_bytes(n):
    return bytes(n) if one_in(16) else chance.randbytes(n)


# --- operations -----------------------------------------------------------------------------

OPERATIONS = []


def operation(weight, resizes=False):
    """RESIZES: it changes the size, or makes the file anew, which --keep forbids."""
    def note(function):
        OPERATIONS.append((function, weight, resizes))
        return function
    return note


@operation(20)
def read(t):
    off, n = some_place(t, 0, t.size + PAGE), some_length(STEP_MAX)
    say(f"pread({n:#x}, {off:#x})")
    both("pread", lambda fd: os.pread(fd, n, off), t.fds)


@operation(24)
def write(t):
    if options.size <= options.low:
        return
    off = some_place(t, options.low, options.size - 1)
    # Most writes are into the file, few make a hole.
    if off > t.size and not one_in(4):
        off = chance.randint(options.low, t.size)
    data = some_bytes(some_length(options.size - off))
    say(f"pwrite({len(data):#x}, {off:#x})")
    both("pwrite", lambda fd: os.pwrite(fd, data, off), t.fds)


@operation(4, resizes=True)
def append(t):
    """By another descriptor, which appends."""
    data = some_bytes(some_length(options.size - t.size))
    say(f"append({len(data):#x}) at {t.size:#x}")
    if data:
        fds = opened(t.paths, os.O_WRONLY | os.O_APPEND)
        both("append", lambda fd: os.write(fd, data), fds)
        close(fds)


@operation(8, resizes=True)
def truncate(t):
    size = 0 if one_in(16) else some_place(t, 0, options.size)
    name, files = chance.choice((("truncate", t.paths), ("ftruncate", t.fds)))
    say(f"{name}({size:#x}) from {t.size:#x}")
    both(name, lambda file: os.truncate(file, size), files)


@operation(6)
def fallocate(t):
    if options.size <= options.low:
        return
    name = chance.choice(list(FALLOCATE))
    off = some_place(t, options.low, options.size - 1)
    n = some_length(options.size - off)
    say(f"fallocate({name}, {off:#x}, {n:#x})")
    both("fallocate", lambda fd: checked(LIBC.fallocate(fd, FALLOCATE[name], off, n)), t.fds)


@operation(4)
def seek(t):
    """Data and holes may be anywhere, but a hole reads as zeros."""
    name = chance.choice(("SEEK_DATA", "SEEK_HOLE"))
    off, fd = some_place(t, 0, t.size + 1), t.fds[OURS]
    say(f"lseek({name}, {off:#x})")
    equal("SEEK_END", os.lseek(fd, 0, os.SEEK_END), t.size)
    at = outcome(os.lseek, fd, off, getattr(os, name))
    if at == "ENXIO" and (off >= t.size or name == "SEEK_DATA"):
        hole = off, t.size
    elif isinstance(at, str) or not off <= at <= t.size or off == t.size or \
            (name == "SEEK_DATA" and at == t.size):
        differ(f"{name} found {at} in a file of {t.size:#x}")
    else:
        hole = (off, at) if name == "SEEK_DATA" else (at, at + 1)
    if any(t.model(t.size)[slice(*hole)]):
        differ(f"{name} calls bytes {hole[0]:#x} to {hole[1]:#x} a hole, not all of which are zero")


@operation(3)
def sync(t):
    call = chance.choice((os.fsync, os.fdatasync))
    say(call.__name__)
    both(call.__name__, call, t.fds)


@operation(4)
def reopen(t):
    say("close, open")
    close(t.fds)
    t.open(os.O_RDWR)


@operation(1, resizes=True)
def empty(t):
    first, old = one_in(2), t.fds
    say("open(O_TRUNC), close the old one" if first else "close, open(O_TRUNC)")
    if not first:
        close(old)
    t.open(os.O_RDWR | os.O_TRUNC)
    if first:
        close(old)


@operation(4)
def look(t):
    """A new open reads the written bytes, though no descriptor was closed."""
    say("open(O_RDONLY), read, close")
    fds = opened(t.paths, os.O_RDONLY)
    same_whole("another reader", fds)
    close(fds)


@operation(2)
def duplicate(t):
    say("dup, close")
    close([os.dup(fd) for fd in t.fds])


@operation(6)
def mapped_read(t):
    if not t.size:
        return
    off = chance.randrange(t.size) // PAGE * PAGE
    n = some_length(t.size - off)
    name = chance.choice(("MAP_SHARED", "MAP_PRIVATE"))
    say(f"mmap({name}, {n:#x}, {off:#x}), read")
    with mapped(t.fds[OURS], mmap.PROT_READ, getattr(mmap, name), off, n) as (view, _):
        equal("mapped", bytes(view), t.model(n, off))


@operation(8)
def mapped_write(t):
    """Write into a mapping; other operations before munmap(2) must not affect it."""
    if t.size <= options.low:
        return
    off = chance.randrange(options.low, t.size)
    data = some_bytes(some_length(t.size - off))
    then = chance.choice(("", "msync", "close, open", "fsync", "pwrite"))
    say(f"mmap({len(data):#x}, {off:#x}), write, {then}")
    with mapped(t.fds[OURS], mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, off,
                len(data)) as (view, sync_view):
        view[:] = data
        os.pwrite(t.fds[MODEL], data, off)
        if then == "msync":
            sync_view()
        elif then == "close, open":
            close(t.fds)
            t.open(os.O_RDWR)
        elif then == "fsync":
            os.fsync(t.fds[OURS])
        elif then == "pwrite":
            more = some_bytes(some_length(len(data)))
            both("pwrite while mapped", lambda fd: os.pwrite(fd, more, off), t.fds)
            equal("mapped after pwrite", bytes(view[:len(more)]), more)


def copy_range(source, target, start, to, n):
    total = 0
    while total < n:
        step = os.copy_file_range(source, target, n - total, start + total, to + total)
        if not step:
            break
        total += step
    return total


@operation(6)
def copy(t):
    pairs = [(t, t)]
    if t.peer:
        pairs += [(t, t.peer), (t.peer, t)]
    source, target = chance.choice(pairs)
    if options.size <= options.low:
        return
    start = some_place(source, 0, source.size)
    to = some_place(target, options.low, options.size - 1)
    n = some_length(options.size - to)
    # A file that grows by what is copied from it would be copied in tiny steps.
    if source is target or not one_in(8):
        n = min(n, source.size - start)
    say(f"copy_file_range({os.path.basename(source.names[0])} {start:#x}, "
        f"{os.path.basename(target.names[0])} {to:#x}, {n:#x})")
    both("copy_file_range", lambda a, b: copy_range(a, b, start, to, n), source.fds, target.fds)
    if target is not t:
        target.check()
        same_whole("the peer", target.fds)


@operation(1)
def rename(t):
    say("rename")
    old = t.paths[OURS]
    new = t.names[1] if old == t.names[0] else t.names[0]
    os.rename(old, new)
    equal("the old name", os.path.lexists(old), False)
    t.paths[OURS] = new


@operation(1, resizes=True)
def replace(t):
    """Remove the name, or give it to another file; open descriptors keep the file."""
    over = one_in(2)
    say("rename peer over it" if over else "unlink, open(O_CREAT | O_EXCL)")
    if over:
        both("rename", os.rename, t.peer.paths, t.paths)
    else:
        both("unlink", os.unlink, t.paths)
    same_whole("the file that was replaced", t.fds)
    equal("links without a name", os.fstat(t.fds[OURS]).st_nlink, 0)
    if one_in(2):
        data = some_bytes(some_length(PAGE))
        both("write without a name", lambda fd: os.pwrite(fd, data, 0), t.fds)
    close(t.fds)
    t.open(os.O_RDWR if over else os.O_RDWR | os.O_CREAT | os.O_EXCL)
    if over:
        close(t.peer.fds)
        t.peer.open(os.O_RDWR | os.O_CREAT | os.O_EXCL)
        t.peer.size = 0


# --- the run --------------------------------------------------------------------------------


def begin(folder, name, models):
    t, t_peer = Twin(folder, name, models), Twin(folder, "peer-" + name, models)
    t.peer = None if options.keep is not None else t_peer
    if t.peer:
        t.open(os.O_RDWR | os.O_CREAT | os.O_EXCL)
        t.peer.open(os.O_RDWR | os.O_CREAT | os.O_EXCL)
    else:
        with open(t.paths[OURS], "rb") as ours, open(t.paths[MODEL], "wb") as model:
            options.size = model.write(ours.read())
        t.open(os.O_RDWR)
    t.check()
    return t


def end(t):
    """What is on the device at last is what the model is."""
    if t.paths[OURS] != t.names[0]:
        rename(t)
    reopen(t)
    same_whole("the end", t.fds)
    close(t.fds)
    if t.peer:
        close(t.peer.fds)
        os.unlink(t.peer.paths[OURS])


def work(models):
    t = begin(*os.path.split(options.file), models)
    chosen = [(function, weight) for function, weight, resizes in OPERATIONS
              if t.peer or not resizes]
    functions, weights = zip(*chosen)
    while now() < options.ops:
        number = now()
        chance.choices(functions, weights)[0](t)
        t.check()
        if now() != number and now() % WHOLE == 0:
            same_whole("all bytes", t.fds)
            if t.size:
                with mapped(t.fds[OURS], mmap.PROT_READ, mmap.MAP_SHARED, 0, t.size) as (view, _):
                    equal("all bytes, mapped", bytes(view), t.model(t.size))
    end(t)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=262144, help="no file grows beyond")
    parser.add_argument("--keep", type=int, help="FILE is there; its size and first KEEP bytes stay")
    parser.add_argument("file")
    parser.parse_args(namespace=options)
    options.low = options.keep or 0
    chance.seed(options.seed)
    print(f"{options.file}: {options.ops} operations, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="fsx.") as models:
        try:
            work(models)
        except OSError as error:
            differ(error)


main()
