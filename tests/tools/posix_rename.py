# SPDX-License-Identifier: Apache-2.0
"""rename(2) and renameat2(2) in buffers/: what they do, and which errno they give."""

import os

import cases
from cases import (EXCHANGE, NOREPLACE, WHITEOUT, about, as_user, case, content, equal, eventually,
                   fails, floats, holds, make, opened, renameat2, root_case, state)

A, B = floats(1, 2, 3), floats(4, 5)


def inode(path):
    return os.stat(path).st_ino


@case
def file_to_free_name(d):
    make(d + "/a.npy", A)
    ino = inode(d + "/a.npy")
    os.rename(d + "/a.npy", d + "/b.npy")
    fails("ENOENT", os.stat, d + "/a.npy")
    fails("ENOENT", os.stat, d + "/a.json")
    equal("inode", inode(d + "/b.npy"), ino)
    equal("bytes", content(d + "/b.npy"), A)
    equal("name", about(d + "/b.npy")["name"], "b")
    equal("listing", os.listdir(d), ["b.npy"])


@case
def file_over_file(d):
    make(d + "/a.npy", A)
    make(d + "/b.npy", B)
    new, old = inode(d + "/a.npy"), inode(d + "/b.npy")
    fd = opened(d + "/b.npy", os.O_RDONLY)
    os.rename(d + "/a.npy", d + "/b.npy")
    equal("inode", inode(d + "/b.npy"), new)
    holds("the old inode is not the new one's", new != old)
    equal("bytes", content(d + "/b.npy"), A)
    equal("shape", about(d + "/b.npy")["shape"], [3])
    # an open descriptor keeps the old file and its inode, with a link count of 0
    st = os.fstat(fd)
    equal("inode of the old one", st.st_ino, old)
    equal("links of the old one", st.st_nlink, 0)
    equal("bytes of the old one", os.pread(fd, 1000, 0), B)
    os.close(fd)
    equal("listing", os.listdir(d), ["b.npy"])


@case
def file_over_itself(d):
    make(d + "/a.npy", A)
    os.rename(d + "/a.npy", d + "/a.npy")
    equal("bytes", content(d + "/a.npy"), A)
    equal("state", state(d + "/a.npy"), "ready")


@case
def writer_keeps_its_file(d):
    """Bytes written after the rename go to the file that was opened."""
    fd = opened(d + "/a.npy", os.O_WRONLY | os.O_CREAT)
    os.write(fd, A[:100])
    os.rename(d + "/a.npy", d + "/b.npy")
    os.write(fd, A[100:])
    os.close(fd)
    equal("bytes", content(d + "/b.npy"), A)
    equal("state", state(d + "/b.npy"), "ready")
    # and if another takes the name meanwhile, they go nowhere
    fd = opened(d + "/a.npy", os.O_WRONLY | os.O_CREAT)
    os.write(fd, A[:100])
    os.rename(d + "/b.npy", d + "/a.npy")
    os.write(fd, A[100:])
    equal("bytes of the other", content(d + "/a.npy"), A)
    os.ftruncate(fd, 0)
    os.write(fd, b"junk")
    try:
        os.close(fd)
    except OSError:
        pass
    equal("bytes of the other", content(d + "/a.npy"), A)
    equal("state of the other", state(d + "/a.npy"), "ready")


@case
def directories(d):
    os.mkdir(d + "/one")
    os.mkdir(d + "/two")
    make(d + "/one/a.npy", A)
    # over an empty one
    ino = inode(d + "/one")
    os.rename(d + "/one", d + "/two")
    equal("inode", inode(d + "/two"), ino)
    equal("bytes", content(d + "/two/a.npy"), A)
    # over one that is not empty
    os.mkdir(d + "/one")
    fails("ENOTEMPTY EEXIST", os.rename, d + "/one", d + "/two")
    equal("listing", sorted(os.listdir(d)), ["one", "two"])
    # to a free name, and below another
    os.rename(d + "/two", d + "/three")
    os.rename(d + "/three", d + "/one/three")
    equal("bytes", content(d + "/one/three/a.npy"), A)
    # below itself
    fails("EINVAL", os.rename, d + "/one", d + "/one/three/one")
    fails("EINVAL", os.rename, d + "/one", d + "/one/one")
    fails("ENOTEMPTY EEXIST EINVAL", os.rename, d + "/one/three", d + "/one")
    fails("EINVAL EBUSY", os.rename, d + "/one/.", d + "/four")
    fails("EINVAL EBUSY ENOTEMPTY EEXIST", os.rename, d + "/one/three", d + "/one/..")


@case
def file_and_directory(d):
    os.mkdir(d + "/dir")
    make(d + "/scratch", b"bytes")
    fails("ENOTDIR", os.rename, d + "/dir", d + "/scratch")
    fails("EISDIR", os.rename, d + "/scratch", d + "/dir")
    make(d + "/a.npy", A)
    fails("ENOTDIR", os.rename, d + "/dir", d + "/a.npy")
    fails("EISDIR", os.rename, d + "/a.npy", d + "/dir")
    # a buffer and a directory of one stem
    fails("EEXIST", os.rename, d + "/a.npy", d + "/dir.npy")
    fails("EEXIST", os.rename, d + "/dir", d + "/a")
    os.rename(d + "/a.npy", d + "/dir/a.npy")
    fails("EINVAL ENOTEMPTY EISDIR", os.rename, d + "/dir/a.npy", d + "/dir")
    equal("listing", sorted(os.listdir(d)), ["dir", "scratch"])


@case
def formats(d):
    """From one format to another is refused, never with EXDEV, after which mv would copy."""
    make(d + "/a.npy", A)
    make(d + "/b.txt", b"1 2\n")
    for new in ("a.raw", "c.raw", "c.txt", "b.raw", "c.npz", "c.pt", "c.gguf",
                "c.onnx", "c.npy.npy", "c.txt.npy", "c.sharding.npy"):
        fails("EINVAL EOPNOTSUPP", os.rename, d + "/a.npy", d + "/" + new)
    fails("EINVAL EOPNOTSUPP", os.rename, d + "/a.npy", d + "/b.txt")
    fails("EINVAL EOPNOTSUPP", os.rename, d + "/b.txt", d + "/a.npy")
    equal("listing", sorted(os.listdir(d)), ["a.npy", "b.txt"])
    equal("bytes", content(d + "/a.npy"), A)
    equal("bytes", content(d + "/b.txt"), b"1 2\n")
    # views that are not listed have no name of their own
    fails("EPERM", os.rename, d + "/a.raw", d + "/c.raw")
    fails("EPERM", os.rename, d + "/a.json", d + "/c.json")
    fails("EPERM EINVAL", os.rename, d + "/a.txt", d + "/c")
    # another stem of the same format, though other views of that stem were opened
    equal("text", content(d + "/a.txt"), b"1 2 3\n")
    os.rename(d + "/a.npy", d + "/c.npy")
    equal("text", content(d + "/c.txt"), b"1 2 3\n")
    fails("ENOENT", os.stat, d + "/a.txt")
    # over a buffer that is listed in another format: one stem, one buffer
    make(d + "/d.npy", B)
    os.rename(d + "/d.npy", d + "/b.npy")
    equal("listing", sorted(os.listdir(d)), ["b.npy", "c.npy"])
    equal("text", content(d + "/b.txt"), b"4 5\n")


@case
def scratch(d):
    """Scratch files become arrays when they get a real name: in the background."""
    make(d + "/a.part", A)
    fails("ENOENT", os.stat, d + "/a.json")
    make(d + "/a.npy", B)
    old = inode(d + "/a.npy")
    os.rename(d + "/a.part", d + "/a.npy")
    eventually("ready", lambda: state(d + "/a.npy") == "ready")
    equal("shape", about(d + "/a.npy")["shape"], [3])
    holds("a new inode", inode(d + "/a.npy") != old)
    # header and length are checked first; both files stay
    for junk in (b"", b"junk", A[:-1], A + b"\0", A[:60]):
        make(d + "/junk", junk)
        fails("EINVAL", os.rename, d + "/junk", d + "/a.npy")
        fails("EINVAL", os.rename, d + "/junk", d + "/b.npy")
        equal("bytes", content(d + "/a.npy"), A)
        equal("junk", content(d + "/junk"), junk)
    fails("ENOENT", os.stat, d + "/b.npy")
    # text is looked at in the background: x.json has the sentence
    make(d + "/words", b"no numbers\n")
    try:
        os.rename(d + "/words", d + "/t.txt")
    except OSError as e:
        equal("errno", e.errno, 22)
    else:
        eventually("an error", lambda: state(d + "/t.txt") == "error")
        holds("a sentence", about(d + "/t.txt")["error"])
        os.unlink(d + "/t.txt")
    # back: the value is dropped, the bytes are kept
    os.rename(d + "/a.npy", d + "/a.bak")
    fails("ENOENT", os.stat, d + "/a.json")
    equal("bytes", content(d + "/a.bak"), A)
    # scratch to scratch
    os.rename(d + "/a.bak", d + "/junk")
    equal("bytes", content(d + "/junk"), A)


@case
def noreplace(d):
    make(d + "/a.npy", A)
    make(d + "/b.npy", B)
    os.mkdir(d + "/dir")
    fails("EEXIST", renameat2, d + "/a.npy", d + "/b.npy", NOREPLACE)
    fails("EEXIST", renameat2, d + "/a.npy", d + "/dir", NOREPLACE)
    fails("EEXIST", renameat2, d + "/a.npy", d + "/a.npy", NOREPLACE)
    # a view that is not listed is there all the same
    fails("EEXIST EINVAL", renameat2, d + "/a.npy", d + "/b.raw", NOREPLACE)
    equal("bytes", content(d + "/a.npy"), A)
    equal("bytes", content(d + "/b.npy"), B)
    renameat2(d + "/a.npy", d + "/c.npy", NOREPLACE)
    equal("bytes", content(d + "/c.npy"), A)
    renameat2(d + "/dir", d + "/dir2", NOREPLACE)
    equal("listing", sorted(os.listdir(d)), ["b.npy", "c.npy", "dir2"])
    fails("ENOENT", renameat2, d + "/none.npy", d + "/b.npy", NOREPLACE)


@case
def exchange(d):
    make(d + "/a.npy", A)
    make(d + "/b.npy", B)
    a, b = inode(d + "/a.npy"), inode(d + "/b.npy")
    renameat2(d + "/a.npy", d + "/b.npy", EXCHANGE)
    equal("inodes", (inode(d + "/a.npy"), inode(d + "/b.npy")), (b, a))
    equal("bytes of a", content(d + "/a.npy"), B)
    equal("bytes of b", content(d + "/b.npy"), A)
    equal("shape of a", about(d + "/a.npy")["shape"], [2])
    equal("name of a", about(d + "/a.npy")["name"], "a")
    equal("text of b", content(d + "/b.txt"), b"1 2 3\n")
    # directories
    os.mkdir(d + "/one")
    os.mkdir(d + "/two")
    make(d + "/one/x.npy", A)
    renameat2(d + "/one", d + "/two", EXCHANGE)
    equal("one", os.listdir(d + "/one"), [])
    equal("two", os.listdir(d + "/two"), ["x.npy"])
    # between two directories
    renameat2(d + "/two/x.npy", d + "/a.npy", EXCHANGE)
    equal("bytes of x", content(d + "/two/x.npy"), B)
    equal("bytes of a", content(d + "/a.npy"), A)
    # with itself, with a missing name, with its own subdirectory, with another format
    renameat2(d + "/a.npy", d + "/a.npy", EXCHANGE)
    fails("ENOENT", renameat2, d + "/a.npy", d + "/none.npy", EXCHANGE)
    fails("ENOENT", renameat2, d + "/none.npy", d + "/a.npy", EXCHANGE)
    fails("EINVAL", renameat2, d + "/two", d + "/two/x.npy", EXCHANGE)
    make(d + "/t.txt", b"1\n")
    fails("EINVAL", renameat2, d + "/t.txt", d + "/a.npy", EXCHANGE)
    # nor with a scratch file; both stay
    make(d + "/part", B)
    fails("EINVAL", renameat2, d + "/part", d + "/a.npy", EXCHANGE)
    equal("bytes of a", content(d + "/a.npy"), A)
    equal("bytes of part", content(d + "/part"), B)
    # two of those may
    make(d + "/other", b"junk")
    renameat2(d + "/part", d + "/other", EXCHANGE)
    equal("bytes of part", content(d + "/part"), b"junk")


@case
def flags(d):
    make(d + "/a.npy", A)
    make(d + "/b.npy", B)
    fails("EINVAL", renameat2, d + "/a.npy", d + "/b.npy", NOREPLACE | EXCHANGE)
    fails("EINVAL", renameat2, d + "/a.npy", d + "/b.npy", 64)
    fails("EINVAL EPERM", renameat2, d + "/a.npy", d + "/b.npy", WHITEOUT)
    equal("bytes", content(d + "/a.npy"), A)
    equal("bytes", content(d + "/b.npy"), B)


@case
def names(d):
    make(d + "/a.npy", A)
    fails("ENOENT", os.rename, d + "/none.npy", d + "/b.npy")
    fails("ENOENT", os.rename, d + "/a.npy", d + "/none/b.npy")
    fails("ENOTDIR", os.rename, d + "/a.npy", d + "/a.npy/b.npy")
    fails("ENOTDIR", os.rename, d + "/a.npy/b.npy", d + "/b.npy")
    fails("ENAMETOOLONG", os.rename, d + "/a.npy", d + "/" + 252 * "n" + ".npy")
    fails("ENAMETOOLONG", os.rename, d + "/" + 256 * "n", d + "/b.npy")
    fails("EILSEQ EINVAL", os.rename, d + "/a.npy", os.fsencode(d) + b"/\xff.npy")
    fails("ENOTDIR EINVAL", os.rename, d + "/a.npy", d + "/b.npy/")
    os.rename(d + "/a.npy", d + "/" + 251 * "n" + ".npy")
    equal("bytes", content(d + "/" + 251 * "n" + ".npy"), A)


@case
def elsewhere(d):
    """To folders that cannot hold arrays: refused, without changes."""
    make(d + "/a.npy", A)
    for new in ("/a.npy", "/plugins/a.npy", "/devices/a.npy", "/executables/a.npy"):
        fails("EPERM EOPNOTSUPP EINVAL EACCES", os.rename, d + "/a.npy", cases.mnt + new)
    fails("EOPNOTSUPP EINVAL EPERM EACCES", os.rename, d + "/a.npy",
          cases.mnt + "/programs/a")
    fails("EPERM EACCES", os.rename, cases.mnt + "/version", d + "/version")
    fails("EPERM EACCES EBUSY", os.rename, cases.buffers, cases.mnt + "/programs/b")
    equal("bytes", content(d + "/a.npy"), A)
    fails("EXDEV", os.rename, d + "/a.npy", "/dev/shm/pjrtfs-never.npy")


@root_case
def rights(d):
    make(d + "/a.npy", A)
    for name in ("closed", "open", "sticky"):
        os.mkdir(d + "/" + name)
    os.chmod(d + "/open", 0o777)
    os.chmod(d + "/sticky", 0o1777)
    for who in (1001, 1002):
        as_user(who, make, d + f"/open/{who}.npy", A)
        as_user(who, make, d + f"/sticky/{who}.npy", A)

    def user():
        # the directory decides, not the file
        fails("EACCES", os.rename, d + "/a.npy", d + "/b.npy")
        fails("EACCES", os.rename, d + "/a.npy", d + "/open/b.npy")
        fails("EACCES", os.rename, d + "/open/1001.npy", d + "/closed/b.npy")
        os.rename(d + "/open/1002.npy", d + "/open/1001.npy")
        # sticky: one's own files only, and only over one's own
        fails("EPERM", os.rename, d + "/sticky/1002.npy", d + "/sticky/b.npy")
        fails("EPERM", os.rename, d + "/sticky/1001.npy", d + "/sticky/1002.npy")
        fails("EPERM", renameat2, d + "/sticky/1001.npy", d + "/sticky/1002.npy",
              EXCHANGE)
        fails("EPERM", os.rename, d + "/sticky/1002.npy", d + "/open/b.npy")
        os.rename(d + "/sticky/1001.npy", d + "/sticky/b.npy")
        os.rename(d + "/sticky/b.npy", d + "/open/c.npy")
        # a directory that moves needs to be writable itself: its .. changes
        os.mkdir(d + "/open/mine")
        os.chmod(d + "/open/mine", 0o555)
        os.rename(d + "/open/mine", d + "/open/mine2")
        fails("EACCES", os.rename, d + "/open/mine2", d + "/sticky/mine")

    as_user(1001, user)
    equal("listing", sorted(os.listdir(d + "/sticky")), ["1002.npy"])
    equal("owner", os.stat(d + "/open/1001.npy").st_uid, 1002)


cases.main()
