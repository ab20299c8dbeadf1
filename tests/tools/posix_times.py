# SPDX-License-Identifier: Apache-2.0
"""Times in buffers/: which operation changes which, and that what is set is kept."""

import os
import time

import cases
from cases import (EXCHANGE, as_user, case, content, equal, fails, floats, holds, make, opened,
                   renameat2, root_case, state)

A, B = floats(1, 2, 3), floats(4, 5, 6)
OLD = 981173106_123456789  # in 2001, with nanoseconds


def times(path):
    st = os.stat(path)
    return {"mtime": st.st_mtime_ns, "ctime": st.st_ctime_ns}


def changes(what, paths, fn, *args):
    """FN(...) sets the named times of each path to about now, and no others.

    PATHS: {path: "mtime ctime"}; the path is looked at after FN under its new name if it
    is given as (old, new).
    """
    old = {}
    for p in paths:
        before = p[0] if isinstance(p, tuple) else p
        old[p] = times(before)
    time.sleep(0.012)  # real time: more than the kernel's clock tick
    began = time.time_ns() - 10_000_000
    fn(*args)
    for p, want in paths.items():
        after = times(p[1] if isinstance(p, tuple) else p)
        for name in ("mtime", "ctime"):
            if name in want.split():
                holds(f"{what} sets {name} of {p}", after[name] >= began)
                holds(f"{what} sets {name} of {p} to now",
                      after[name] <= time.time_ns() + 10_000_000)
            else:
                equal(f"{what}: {name} of {p}", after[name], old[p][name])


@case
def making_and_removing(d):
    f, sub = d + "/a.npy", d + "/sub"
    began = time.time_ns() - 10_000_000
    changes("creat", {d: "mtime ctime"}, make, f, A)
    for name, t in times(f).items():
        holds(f"{name} of a new file", t >= began)
    changes("creat of what is there", {d: "", f: ""},
            lambda: os.close(opened(f, os.O_RDONLY | os.O_CREAT)))
    changes("mkdir", {d: "mtime ctime"}, os.mkdir, sub)
    changes("mkdir below", {sub: "mtime ctime", d: ""}, os.mkdir, sub + "/sub")
    changes("rmdir below", {sub: "mtime ctime", d: ""}, os.rmdir, sub + "/sub")
    changes("rmdir", {d: "mtime ctime"}, os.rmdir, sub)
    changes("unlink", {d: "mtime ctime"}, os.unlink, f)
    changes("mknod", {d: "mtime ctime"}, os.mknod, f, 0o100644)
    # failed operations change no times
    changes("a failing mkdir", {d: "", f: ""}, fails, "EEXIST", os.mkdir, f)
    changes("a failing unlink", {d: ""}, fails, "ENOENT", os.unlink, d + "/none")
    fd = opened(f, os.O_RDONLY)
    began = time.time_ns() - 10_000_000
    os.unlink(f)
    holds("unlink sets ctime of the file", os.fstat(fd).st_ctime_ns >= began)


@case
def writing(d):
    f = make(d + "/a.raw", b"0123456789")
    changes("reading", {f: "", d: ""}, content, f)
    changes("stat", {f: ""}, os.stat, f)
    fd = opened(f, os.O_RDWR)
    changes("write", {f: "mtime ctime", d: ""}, os.pwrite, fd, b"x", 3)
    changes("fsync", {f: ""}, os.fsync, fd)
    changes("ftruncate", {f: "mtime ctime", d: ""}, os.ftruncate, fd, 20)
    changes("ftruncate to 0", {f: "mtime ctime"}, os.ftruncate, fd, 0)
    os.pwrite(fd, b"0123", 0)
    changes("close", {f: ""}, os.close, fd)
    changes("truncate", {f: "mtime ctime"}, os.truncate, f, 10)
    changes("open(O_TRUNC)", {f: "mtime ctime"},
            lambda: os.close(opened(f, os.O_WRONLY | os.O_TRUNC)))
    changes("a failing truncate", {f: ""}, fails, "EINVAL", os.truncate, f, -1)
    # a view that was written
    make(d + "/b.npy", A)
    changes("writing a view", {d + "/b.npy": "mtime ctime"}, make, d + "/b.txt", b"1\n")


@root_case
def mode_and_owner(d):
    f = make(d + "/a.npy", A)
    changes("chmod", {f: "ctime", d: ""}, os.chmod, f, 0o600)
    changes("chown", {f: "ctime", d: ""}, os.chown, f, 1001, 1001)
    changes("chmod of a directory", {d: "ctime"}, os.chmod, d, 0o777)
    changes("a failing chmod", {f: ""}, as_user, 1002, fails, "EPERM", os.chmod, f, 0o666)
    changes("a failing chown", {f: ""}, as_user, 1001, fails, "EPERM", os.chown, f, 1002,
            -1)


@case
def renaming(d):
    for name in ("one", "two"):
        os.mkdir(f"{d}/{name}")
    a = make(d + "/one/a.npy", A)
    b = d + "/one/b.npy"
    c = d + "/two/c.npy"
    changes("rename", {(a, b): "ctime", d + "/one": "mtime ctime", d: ""}, os.rename, a, b)
    changes("rename to another directory",
            {(b, c): "ctime", d + "/one": "mtime ctime", d + "/two": "mtime ctime"},
            os.rename, b, c)
    make(a, B)
    changes("rename over", {(a, c): "ctime", d + "/one": "mtime ctime",
                            d + "/two": "mtime ctime"}, os.rename, a, c)
    changes("rename of a directory",
            {(d + "/two", d + "/one/two"): "ctime", d: "mtime ctime",
             d + "/one": "mtime ctime"}, os.rename, d + "/two", d + "/one/two")
    make(a, B)
    changes("exchange", {(a, d + "/one/two/c.npy"): "ctime", d + "/one": "mtime ctime"},
            renameat2, a, d + "/one/two/c.npy", EXCHANGE)
    changes("a failing rename", {a: "", d + "/one": ""}, fails, "ENOENT", os.rename,
            d + "/none", a)


@case
def setting(d):
    f = make(d + "/a.npy", A)
    for path in (f, d):
        os.utime(path, ns=(OLD, OLD + 7))
        st = os.stat(path)
        equal("times", (st.st_atime_ns, st.st_mtime_ns), (OLD, OLD + 7))
    equal("a view's", os.stat(d + "/a.txt").st_mtime_ns, OLD + 7)
    # before 1970 and after 2038
    for t in (-1_000_000_001, 0, 4_294_967_296_000_000_001):
        os.utime(f, ns=(t, t))
        equal("times", os.stat(f).st_mtime_ns, t)
    os.utime(f, ns=(OLD, OLD))
    # it changes ctime; reading, renaming and another's command change nothing
    holds("ctime", abs(time.time_ns() - os.stat(f).st_ctime_ns) < 10_000_000_000)
    content(f)
    content(d + "/a.txt")
    os.rename(f, d + "/b.npy")
    f = d + "/b.npy"
    st = os.stat(f)
    equal("times", (st.st_atime_ns, st.st_mtime_ns), (OLD, OLD))
    # of a file that is open for writing, set after the last write: kept at close (cp -p)
    fd = opened(d + "/c.npy", os.O_WRONLY | os.O_CREAT)
    os.write(fd, A)
    os.utime(fd, ns=(OLD, OLD))
    os.close(fd)
    equal("after close", os.stat(d + "/c.npy").st_mtime_ns, OLD)
    equal("state", state(d + "/c.npy"), "ready")
    # only one of the two
    os.utime(f, ns=(OLD, OLD))
    now = time.time_ns()
    os.utime(f)
    holds("now", abs(os.stat(f).st_mtime_ns - now) < 10_000_000_000)
    fails("ENOENT", os.utime, d + "/none")


@root_case
def setting_is_the_owners(d):
    f = make(d + "/a.npy", A)
    os.chown(f, 1001, 1001)
    as_user(1001, os.utime, f, (1, 2))
    as_user(1002, fails, "EPERM", os.utime, f, (3, 4))
    as_user(1002, fails, "EACCES", os.utime, f)
    os.chmod(f, 0o666)
    as_user(1002, fails, "EPERM", os.utime, f, (3, 4))
    as_user(1002, os.utime, f)  # setting the current time needs only write permission


cases.main()
