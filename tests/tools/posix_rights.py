# SPDX-License-Identifier: Apache-2.0
"""Modes and owners in buffers/: chmod, chown, access, umask, and what they allow whom."""

import os
import stat

import cases
from cases import about, as_user, case, content, equal, fails, floats, holds, make, opened, state

A, B = floats(1, 2, 3), floats(4, 5, 6)
U1, U2 = 1001, 1002


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def owner(path):
    st = os.stat(path)
    return st.st_uid, st.st_gid


@case
def umask(d):
    os.umask(0o027)
    make(d + "/a.npy", A, 0o666)
    make(d + "/b", A, 0o777)
    os.mkdir(d + "/dir", 0o777)
    os.umask(0)
    make(d + "/c.npy", A, 0o666)
    equal("modes", [oct(mode(d + "/" + n)) for n in ("a.npy", "b", "dir", "c.npy")],
          ["0o640", "0o750", "0o750", "0o666"])


@case
def chmod(d):
    make(d + "/a.npy", A)
    for m in (0o600, 0o444, 0o000, 0o777, 0o640):
        os.chmod(d + "/a.npy", m)
        equal("mode", oct(mode(d + "/a.npy")), oct(m))
        equal("a view's mode", oct(mode(d + "/a.raw")), oct(m))
        equal("x.json's mode", oct(mode(d + "/a.json") & 0o666), oct(m & 0o444))
    fd = opened(d + "/a.npy", os.O_RDONLY)
    os.fchmod(fd, 0o604)
    os.close(fd)
    equal("mode", oct(mode(d + "/a.npy")), "0o604")
    # a new value keeps it, in whichever view
    make(d + "/a.npy", B)
    equal("mode", oct(mode(d + "/a.npy")), "0o604")
    make(d + "/a.txt", b"1 2\n")
    equal("mode", oct(mode(d + "/a.txt")), "0o604")
    os.rename(d + "/a.txt", d + "/b.txt")
    equal("mode", oct(mode(d + "/b.txt")), "0o604")
    # set-user-ID, set-group-ID and sticky bits are kept
    os.mkdir(d + "/dir")
    os.chmod(d + "/dir", 0o3775)
    equal("mode", oct(mode(d + "/dir")), "0o3775")
    fails("ENOENT", os.chmod, d + "/none", 0o600)


@case
def chmod_is_the_owners(d):
    make(d + "/a.npy", A)
    os.chown(d + "/a.npy", U1, U1)
    as_user(U1, os.chmod, d + "/a.npy", 0o600)
    as_user(U2, fails, "EPERM", os.chmod, d + "/a.npy", 0o666)
    equal("mode", oct(mode(d + "/a.npy")), "0o600")


@case
def chown(d):
    make(d + "/a.npy", A)
    os.chown(d + "/a.npy", U1, U2)
    equal("owner", owner(d + "/a.npy"), (U1, U2))
    equal("a view's owner", owner(d + "/a.txt"), (U1, U2))
    os.chown(d + "/a.npy", -1, U1)
    equal("owner", owner(d + "/a.npy"), (U1, U1))
    os.chown(d + "/a.npy", U2, -1)
    equal("owner", owner(d + "/a.npy"), (U2, U1))
    os.chown(d + "/a.npy", -1, -1)
    equal("owner", owner(d + "/a.npy"), (U2, U1))
    # not root: the group only, to one that one is in, and only one's own file
    as_user(U2, fails, "EPERM", os.chown, d + "/a.npy", U1, -1)
    as_user(U2, fails, "EPERM", os.chown, d + "/a.npy", -1, 4242)
    as_user(U2, os.chown, d + "/a.npy", -1, 4242, groups=[4242])
    as_user(U1, fails, "EPERM", os.chown, d + "/a.npy", -1, U1)
    equal("owner", owner(d + "/a.npy"), (U2, 4242))
    os.chown(d, U1, U1)
    equal("a directory's owner", owner(d), (U1, U1))


@case
def owners_of_new_files(d):
    os.chmod(d, 0o777)
    as_user(U1, make, d + "/a.npy", A, gid=4242)
    as_user(U1, os.mkdir, d + "/dir", gid=4242)
    equal("owner", owner(d + "/a.npy"), (U1, 4242))
    equal("a directory's owner", owner(d + "/dir"), (U1, 4242))
    # a set-group-ID directory gives its group, and to directories the bit
    os.chown(d + "/dir", 0, 4343)
    os.chmod(d + "/dir", 0o2777)
    as_user(U1, make, d + "/dir/b.npy", A)
    as_user(U1, os.mkdir, d + "/dir/sub")
    equal("owner", owner(d + "/dir/b.npy"), (U1, 4343))
    equal("owner", owner(d + "/dir/sub"), (U1, 4343))
    equal("mode", oct(mode(d + "/dir/sub")), "0o2755")


@case
def privileges_end_with_a_write(d):
    """Set-user-ID and set-group-ID go when another than root writes, or the owner changes."""
    for size in ("write", "truncate"):
        path = make(d + "/" + size, b"program")
        os.chown(path, U1, U1)
        os.chmod(path, 0o6777)
        equal("mode", oct(mode(path)), "0o6777")

        def user():
            if size == "truncate":
                os.truncate(path, 3)
                return
            fd = opened(path, os.O_WRONLY)
            os.write(fd, b"x")
            os.close(fd)

        as_user(U2, user)
        equal("after " + size, oct(mode(path)), "0o777")
    path = make(d + "/chown", b"program")
    os.chmod(path, 0o6755)
    os.chown(path, U1, U1)
    equal("after chown", oct(mode(path)), "0o755")


@case
def access(d):
    os.chmod(d, 0o755)
    make(d + "/a.npy", A)
    os.chown(d + "/a.npy", U1, 4242)
    os.chmod(d + "/a.npy", 0o640)

    def may(what, want):
        for bit, letter in ((os.R_OK, "r"), (os.W_OK, "w"), (os.X_OK, "x")):
            equal(f"{what}: {letter}", os.access(d + "/a.npy", bit), letter in want)

    may("root", "rw")
    as_user(U1, may, "owner", "rw")
    as_user(U2, may, "group", "r", groups=[4242])
    as_user(U2, may, "other", "")
    # views have the buffer's mode; .json is read-only
    as_user(U2, fails, "EACCES", os.open, d + "/a.txt", os.O_RDONLY)
    as_user(U2, os.listdir, d)
    as_user(U2, os.stat, d + "/a.npy")
    as_user(U2, fails, "EACCES", os.open, d + "/a.txt", os.O_RDONLY, groups=[7])
    as_user(U2, content, d + "/a.txt", groups=[7, 4242])
    as_user(U2, fails, "EACCES", os.open, d + "/a.npy", os.O_WRONLY, groups=[4242])
    as_user(U2, fails, "EACCES", os.truncate, d + "/a.npy", 0, groups=[4242])
    as_user(U1, fails, "EACCES", os.open, d + "/a.json", os.O_WRONLY)
    equal("exists", os.access(d + "/a.npy", os.F_OK), True)
    equal("exists", os.access(d + "/none", os.F_OK), False)
    equal("bytes", content(d + "/a.npy"), A)


@case
def directories(d):
    os.chmod(d, 0o755)
    os.mkdir(d + "/in")
    make(d + "/in/a.npy", A)
    # without r: no listing; without x: no access to files; without w: no new files
    os.chmod(d + "/in", 0o711)
    as_user(U1, fails, "EACCES", os.listdir, d + "/in")
    as_user(U1, content, d + "/in/a.npy")
    os.chmod(d + "/in", 0o744)
    as_user(U1, os.listdir, d + "/in")
    as_user(U1, fails, "EACCES", os.stat, d + "/in/a.npy")
    as_user(U1, fails, "EACCES", os.stat, d + "/in/none")
    os.chmod(d + "/in", 0o755)
    as_user(U1, fails, "EACCES", make, d + "/in/b.npy", A)
    as_user(U1, fails, "EACCES", os.mkdir, d + "/in/b")
    as_user(U1, fails, "EACCES", os.unlink, d + "/in/a.npy")
    as_user(U1, fails, "EACCES", os.mknod, d + "/in/b", stat.S_IFREG | 0o600)
    as_user(U1, fails, "EACCES", os.open, d + "/in/a.npy", os.O_WRONLY)
    as_user(U1, fails, "EACCES", os.rmdir, d + "/in")
    equal("listing", os.listdir(d + "/in"), ["a.npy"])
    # one may remove from a writable directory what one may not read
    os.chmod(d + "/in", 0o777)
    os.chmod(d + "/in/a.npy", 0)
    as_user(U1, fails, "EACCES", os.open, d + "/in/a.npy", os.O_RDONLY)
    as_user(U1, os.unlink, d + "/in/a.npy")


@case
def open_files_stay_open(d):
    """Rights are checked at open only."""
    make(d + "/a.npy", A)
    os.chmod(d + "/a.npy", 0o666)

    fd = opened(d + "/a.npy", os.O_RDWR)
    os.chmod(d + "/a.npy", 0)
    os.pwrite(fd, B, 0)
    equal("bytes", os.pread(fd, 1000, 0), B)
    os.close(fd)
    equal("state", state(d + "/a.npy"), "ready")
    # a read-only mode does not keep its creator from writing what it created
    os.chmod(d, 0o777)

    def creator():
        fd = opened(d + "/b.npy", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        os.write(fd, A)
        os.close(fd)
        fails("EACCES", os.open, d + "/b.npy", os.O_WRONLY)
        equal("state", about(d + "/b.npy")["state"], "ready")

    as_user(U1, creator)


@case
def everywhere(d):
    """No user may write read-only files."""
    for path in ("/version", "/health", "/pid", "/README"):
        as_user(U1, fails, "EACCES", os.open, cases.mnt + path, os.O_WRONLY)
        fails("EACCES EPERM", os.open, cases.mnt + path, os.O_WRONLY)
        as_user(U1, fails, "EPERM EACCES", os.chmod, cases.mnt + path, 0o666)
        as_user(U1, fails, "EPERM EACCES", os.unlink, cases.mnt + path)
    holds("still readable", content(cases.mnt + "/version"))


cases.main()
