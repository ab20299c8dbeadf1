# SPDX-License-Identifier: Apache-2.0
"""Names in buffers/: what open, mkdir, rmdir, unlink, link, symlink and mknod do, and which
errno they give."""

import itertools
import os
import stat

import cases
from cases import (about, as_user, case, content, equal, eventually, fails, floats, holds, make,
                   opened, root_case, state)

A, B = floats(1, 2, 3), floats(4, 5)


@case
def open_flags(d):
    fails("ENOENT", os.open, d + "/a.npy", os.O_RDONLY)
    fails("ENOENT", os.open, d + "/a.npy", os.O_WRONLY | os.O_TRUNC)
    fd = opened(d + "/a.npy", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    os.write(fd, A)
    os.close(fd)
    fails("EEXIST", os.open, d + "/a.npy", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    # an unlisted view exists, too
    fails("EEXIST", os.open, d + "/a.txt", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    equal("bytes", content(d + "/a.npy"), A)
    # O_CREAT of what is there takes it, mode and all
    os.close(opened(d + "/a.npy", os.O_RDONLY | os.O_CREAT, 0o777))
    equal("mode", stat.S_IMODE(os.stat(d + "/a.npy").st_mode), 0o640)
    equal("bytes", content(d + "/a.npy"), A)
    fails("ENOTDIR", os.open, d + "/a.npy", os.O_RDONLY | os.O_DIRECTORY)
    fails("EISDIR", os.open, d, os.O_WRONLY)
    fails("EISDIR", os.open, d, os.O_RDWR)
    fails("EISDIR", os.open, d, os.O_RDONLY | os.O_CREAT)
    equal("bytes", content(d + "/a.npy"), A)


@case
def truncating_open(d):
    make(d + "/a.npy", A)
    ino = os.stat(d + "/a.npy").st_ino
    os.close(opened(d + "/a.npy", os.O_WRONLY | os.O_TRUNC))
    st = os.stat(d + "/a.npy")
    equal("inode and size", (st.st_ino, st.st_size), (ino, 0))
    equal("state", state(d + "/a.npy"), "empty")
    make(d + "/a.npy", B)
    equal("bytes", content(d + "/a.npy"), B)
    equal("inode", os.stat(d + "/a.npy").st_ino, ino)


@case
def appending(d):
    make(d + "/log", b"one ")
    fd = opened(d + "/log", os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"two ")
    os.write(fd, b"three")
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, b" four")
    os.close(fd)
    equal("bytes", content(d + "/log"), b"one two three four")


@case
def unlinking(d):
    fails("ENOENT", os.unlink, d + "/a.npy")
    make(d + "/a.npy", A)
    fails("EPERM", os.unlink, d + "/a.txt")
    fails("EPERM", os.unlink, d + "/a.json")
    fails("ENOTDIR", os.unlink, d + "/a.npy/b")
    fails("ENOTDIR", os.unlink, d + "/a.npy/")
    fails("EISDIR EPERM", os.unlink, d)
    os.unlink(d + "/a.npy")
    for name in ("a.npy", "a.txt", "a.raw", "a.json"):
        fails("ENOENT", os.stat, d + "/" + name)
    fails("ENOENT", os.unlink, d + "/a.npy")
    for path in ("/version", "/control", "/buffers", "/devices", "/health"):
        fails("EPERM EACCES EISDIR EBUSY", os.unlink, cases.mnt + path)


@case
def directories(d):
    os.mkdir(d + "/a", 0o750)
    st = os.stat(d + "/a")
    equal("mode", stat.S_IMODE(st.st_mode), 0o750)
    fails("EEXIST", os.mkdir, d + "/a")
    fails("ENOENT", os.mkdir, d + "/none/a")
    make(d + "/f.npy", A)
    fails("ENOTDIR", os.mkdir, d + "/f.npy/a")
    fails("EEXIST", os.mkdir, d + "/f")  # a buffer and a directory of one stem
    fails("EEXIST", os.mkdir, d + "/f.npy")
    fails("EEXIST", os.open, d + "/a.npy", os.O_WRONLY | os.O_CREAT)
    fails("EEXIST", os.open, d + "/a.txt", os.O_WRONLY | os.O_CREAT)
    # links count the subdirectories
    equal("links", os.stat(d).st_nlink, 3)
    os.mkdir(d + "/a/b")
    equal("links", os.stat(d + "/a").st_nlink, 3)
    fails("ENOTEMPTY EEXIST", os.rmdir, d + "/a")
    fails("ENOTDIR", os.rmdir, d + "/f.npy")
    fails("ENOENT", os.rmdir, d + "/none")
    fails("EINVAL", os.rmdir, d + "/a/.")
    fails("ENOTEMPTY EEXIST EINVAL", os.rmdir, d + "/a/b/..")
    os.rmdir(d + "/a/b")
    os.rmdir(d + "/a")
    equal("links", os.stat(d).st_nlink, 2)
    fails("ENOENT", os.rmdir, d + "/a")
    for path in ("/buffers", "/devices", "/plugins", "/programs"):
        fails("EPERM EACCES EBUSY ENOTEMPTY", os.rmdir, cases.mnt + path)
    # The owner adds plugins, and only in a mount that another process holds.
    fails("EACCES ENOTSUP", os.mkdir, cases.mnt + "/plugins/new")
    for path in ("/new", "/devices/new"):
        fails("EPERM EACCES", os.mkdir, cases.mnt + path)


@case
def removed_directory(d):
    """A process whose working directory is removed cannot make files there."""
    os.mkdir(d + "/a")
    fd = opened(d + "/a", os.O_RDONLY | os.O_DIRECTORY)
    os.rmdir(d + "/a")
    fails("ENOENT", os.open, "x.npy", os.O_WRONLY | os.O_CREAT, dir_fd=fd)
    fails("ENOENT", os.mkdir, "x", dir_fd=fd)
    equal("links", os.fstat(fd).st_nlink, 0)
    os.mkdir(d + "/a")
    holds("another inode", os.stat(d + "/a").st_ino != os.fstat(fd).st_ino)


@case
def long_names(d):
    for n in (1, 100, 251):
        make(d + "/" + n * "x" + ".npy", A)
        equal("bytes", content(d + "/" + n * "x" + ".npy"), A)
    make(d + "/" + 255 * "s", A)
    fails("ENAMETOOLONG", os.open, d + "/" + 252 * "x" + ".npy", os.O_WRONLY | os.O_CREAT)
    # a view's name may be too long where its buffer's is not
    fails("ENAMETOOLONG ENOENT", os.stat, d + "/" + 251 * "x" + ".json")
    for fn in os.stat, os.mkdir, os.unlink, os.rmdir:
        fails("ENAMETOOLONG", fn, d + "/" + 256 * "x")
    fails("ENAMETOOLONG", os.stat, d + 2048 * "/x")
    equal("name_max", os.statvfs(d).f_namemax, 255)
    # as deep as a path can be
    deep = d
    while len(deep) < 3800:
        deep += "/" + 200 * "d"
        os.mkdir(deep)
    make(deep + "/x.npy", A)
    equal("bytes", content(deep + "/x.npy"), A)


@case
def other_names(d):
    for name in ("with space", "-dash", "ümläut", "日本", '"', "'", "\\", "a.b", "0", "~",
                 "x.npy~", ".hidden", "..x", "...", "#x#", "x.NPY", "npy", "x.", "*", "$x"):
        make(f"{d}/{name}.npy", A)
        equal("listing", os.listdir(d), [name + ".npy"])
        equal("bytes", content(f"{d}/{name}.npy"), A)
        holds("described", about(f"{d}/{name}.npy")["name"].endswith(name))
        os.unlink(f"{d}/{name}.npy")
    for name in (b"\xff.npy", b"\xc0\x80.npy", b"\xed\xa0\x80.npy", b"new\nline.npy",
                 b"\x01.npy", b"\x7f.npy"):
        fails("EILSEQ EINVAL", os.open, os.fsencode(d) + b"/" + name,
              os.O_WRONLY | os.O_CREAT)
        fails("EILSEQ EINVAL", os.mkdir, os.fsencode(d) + b"/" + name[:-4])
    for name in ("x.npy.npy", "x.raw.npy", "x.json.txt", "x.safetensors.npy",
                 "x.sharding.npy", "x.npy.safetensors", "y.npy.json", "x.npz", "x.pt", "x.gguf",
                 "x.onnx"):
        fails("EINVAL", os.open, d + "/" + name, os.O_WRONLY | os.O_CREAT)
    equal("listing", os.listdir(d), [])


@case
def a_stem_of_its_own(d):
    """A scratch file's whole name may be a buffer's stem."""
    make(d + "/x", A)
    os.rename(d + "/x", d + "/x.npy")
    make(d + "/x", B)
    equal("listing", sorted(os.listdir(d)), ["x", "x.npy"])
    equal("bytes", (content(d + "/x"), content(d + "/x.npy")), (B, A))
    os.rename(d + "/x", d + "/x.npy")
    equal("bytes", content(d + "/x.npy"), B)
    fails("EEXIST", os.mkdir, d + "/x")


@case
def links(d):
    make(d + "/a.npy", A)
    fails("EPERM", os.link, d + "/a.npy", d + "/b.npy")
    fails("EPERM", os.symlink, "a.npy", d + "/b.npy")
    fails("EXDEV", os.link, d + "/a.npy", "/dev/shm/pjrtfs-never.npy")
    fails("EPERM", os.mknod, d + "/chr", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    fails("EPERM", os.mknod, d + "/blk", stat.S_IFBLK | 0o600, os.makedev(7, 0))
    fails("EPERM", os.mkfifo, d + "/fifo")
    fails("EPERM", os.mknod, d + "/sock", stat.S_IFSOCK | 0o600)
    equal("listing", os.listdir(d), ["a.npy"])
    equal("links", os.stat(d + "/a.npy").st_nlink, 1)
    # mknod makes files
    os.mknod(d + "/b.npy", stat.S_IFREG | 0o604)
    st = os.stat(d + "/b.npy")
    equal("mode and size", (stat.S_IMODE(st.st_mode), st.st_size), (0o604, 0))
    fails("EEXIST", os.mknod, d + "/b.npy", stat.S_IFREG | 0o600)
    make(d + "/b.npy", B)
    equal("bytes", content(d + "/b.npy"), B)


@root_case
def symbolic_links(d):
    """The links that there are, and loops outside that lead in."""
    link = cases.mnt + "/devices/" + os.listdir(cases.mnt + "/devices")[0] + "/0/plugin"
    fails("ELOOP", os.open, link, os.O_RDONLY | os.O_NOFOLLOW)
    fails("EINVAL", os.readlink, cases.mnt + "/version")
    equal("size of a link", os.lstat(link).st_size, len(os.readlink(link)))
    there = os.path.realpath(link)
    equal("where it leads", there.startswith(os.path.realpath(cases.mnt)), True)
    os.stat(link + "/state")
    fails("EPERM EACCES EBUSY", os.unlink, link)
    loop = os.getcwd() + "/loop"
    os.symlink(loop, loop)
    fails("ELOOP", os.rename, loop + "/a", d + "/a")
    fails("ELOOP", os.stat, loop)
    os.unlink(loop)
    # a link outside to a file inside
    make(d + "/a.npy", A)
    os.symlink(os.path.abspath(d + "/a.npy"), "into.npy")
    equal("bytes", content("into.npy"), A)
    make("into.npy", B)
    equal("bytes", content(d + "/a.npy"), B)
    os.unlink("into.npy")
    equal("bytes", content(d + "/a.npy"), B)


@root_case
def sticky(d):
    os.chmod(d, 0o1777)
    as_user(1001, make, d + "/theirs.npy", A)
    as_user(1001, os.mkdir, d + "/dir")
    as_user(1001, os.chmod, d + "/theirs.npy", 0o666)

    def user():
        fails("EPERM", os.unlink, d + "/theirs.npy")
        fails("EPERM", os.rmdir, d + "/dir")
        equal("bytes", content(d + "/theirs.npy"), A)
        # Writing is the file's to allow; where fs.protected_regular is set, the kernel refuses O_CREAT.
        make(d + "/theirs.npy", B, flags=os.O_WRONLY | os.O_TRUNC)
        make(d + "/mine.npy", A)
        os.unlink(d + "/mine.npy")

    as_user(1002, user)
    # the owner of the directory may remove all
    os.chown(d, 1002, 1002)
    as_user(1002, os.unlink, d + "/theirs.npy")
    as_user(1002, os.rmdir, d + "/dir")
    equal("listing", os.listdir(d), [])


@case
def truncating(d):
    make(d + "/a.raw", b"0123456789")
    os.truncate(d + "/a.raw", 4)
    equal("bytes", content(d + "/a.raw"), b"0123")
    equal("shape", about(d + "/a.raw")["shape"], [4])
    os.truncate(d + "/a.raw", 8)
    equal("bytes", content(d + "/a.raw"), b"0123\0\0\0\0")
    equal("shape", about(d + "/a.raw")["shape"], [8])
    os.truncate(d + "/a.raw", 0)
    equal("size", os.stat(d + "/a.raw").st_size, 0)
    fails("EINVAL", os.truncate, d + "/a.raw", -1)
    fails("EISDIR", os.truncate, d, 0)
    fails("ENOENT", os.truncate, d + "/none", 0)
    make(d + "/a.raw", b"0123456789")
    fails("ENOSPC EFBIG", os.truncate, d + "/a.raw", 1 << 62)
    equal("bytes", content(d + "/a.raw"), b"0123456789")
    # an array has the size that it has
    make(d + "/b.npy", A)
    fails("EINVAL", os.truncate, d + "/b.raw", 4)
    fails("EACCES EPERM EINVAL", os.truncate, d + "/b.json", 0)
    equal("bytes", content(d + "/b.npy"), A)
    # a scratch file any
    make(d + "/s", b"0123456789")
    os.truncate(d + "/s", 1 << 20)
    equal("bytes", content(d + "/s"), b"0123456789" + bytes((1 << 20) - 10))


@case
def listing(d):
    """., .. and each name once, with the type and the inode that stat(2) returns."""
    make(d + "/a.npy", A)
    make(d + "/s", b"x")
    os.mkdir(d + "/ns")
    equal("names", sorted(os.listdir(d)), ["a.npy", "ns", "s"])
    for e in os.scandir(d):
        equal("inode", e.inode(), os.stat(e.path).st_ino)
        equal("directory", e.is_dir(follow_symlinks=False), os.path.isdir(e.path))
    equal("..", os.stat(d + "/..").st_ino, os.stat(cases.buffers).st_ino)
    equal(".", os.stat(d + "/.").st_ino, os.stat(d).st_ino)


@case
def statvfs(d):
    make(d + "/a.raw", bytes(1 << 20))
    st = os.statvfs(d)
    equal("of a file", os.statvfs(d + "/a.raw").f_blocks, st.f_blocks)
    equal("of the root", os.statvfs(cases.mnt).f_fsid, st.f_fsid)
    holds("sizes", st.f_bsize > 0 and st.f_frsize > 0)
    holds("free blocks", 0 < st.f_bavail <= st.f_bfree <= st.f_blocks)
    holds("a MiB is in use", (st.f_blocks - st.f_bfree) * st.f_frsize >= 1 << 20)
    holds("files", 0 < st.f_favail <= st.f_ffree <= st.f_files)
    equal("names", st.f_namemax, 255)
    # as many files more as were made, once the kernel has forgotten those removed before
    made = itertools.count()

    def ten_more():
        st = os.statvfs(d)
        before = st.f_files - st.f_ffree
        for _ in range(10):
            make(f"{d}/n{next(made)}", b"x")
        st = os.statvfs(d)
        return st.f_files - st.f_ffree >= before + 10

    eventually("ten files more", ten_more)


@case
def without_a_name(d):
    fails("EOPNOTSUPP EISDIR", os.open, d, os.O_TMPFILE | os.O_RDWR)
    # by descriptors of directories
    fd = opened(d, os.O_RDONLY | os.O_DIRECTORY)
    os.close(os.open("a.npy", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
    os.mkdir("ns", dir_fd=fd)
    os.rename("a.npy", "ns/b.npy", src_dir_fd=fd, dst_dir_fd=fd)
    equal("listing", os.listdir(d + "/ns"), ["b.npy"])
    os.unlink("ns/b.npy", dir_fd=fd)
    os.rmdir("ns", dir_fd=fd)
    equal("listing", os.listdir(fd), [])
    os.close(fd)
    # O_PATH does not open the file
    make(d + "/a.npy", A)
    fd = opened(d + "/a.npy", os.O_PATH)
    fails("EBADF", os.read, fd, 1)
    equal("size", os.fstat(fd).st_size, len(A))
    again = opened(f"/proc/self/fd/{fd}", os.O_RDONLY)
    equal("bytes", os.read(again, 1000), A)


cases.main()
