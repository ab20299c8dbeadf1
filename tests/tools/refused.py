# SPDX-License-Identifier: Apache-2.0
"""Plays tests/data/refused.tsv, on one mount: each row is refused, and changes nothing.

    refused.py TABLE MOUNTPOINT

A row is OPERATION, OBJECT, ARGUMENT, ERRNO and SENTENCE, separated by tabs, with Python's escapes.
The operation is one of this file's functions below "operations"; OBJECT is a path in the mount.  The
sentence is a regular expression: it is in the file error, in what describes the buffer or the program,
in the reply; {plugin} stands for the name of the plugin.
"""

import errno
import json
import os
import re
import sys

import cases
from cases import content, equal, floats, holds, make, npy, ok

DATA = os.path.dirname(os.path.abspath(sys.argv[1]))


def plain(text):
    """The bytes of a field."""
    return text.encode().decode("unicode_escape").encode("latin-1")


def bytes_of(text):
    """What ARGUMENT stands for: head:HEADER, N*BYTES, @FILE of tests/data, @FILE:LENGTH, @FILE+MORE."""
    kind, _, rest = text.partition(":")
    if kind == "head":
        return b"\x93NUMPY\x01\0" + len(rest).to_bytes(2, "little") + rest.encode() + bytes(24)
    if text.startswith("@"):
        name, length, more = re.fullmatch(r"@([^:+]+):?(\d*)\+?(.*)", text).groups()
        return content(f"{DATA}/{name}")[:int(length) if length else None] + plain(more)
    times, _, rest = text.partition("*")
    return int(times) * plain(rest) if times.isdigit() and rest else plain(text)


# --- operations ---------------------------------------------------------------------------------


def write(path, data):
    """The write itself fails, as a shell's echo reports it."""
    with open(path, "wb", buffering=0) as f:
        try:
            f.write(bytes_of(data))
        except OSError as e:
            told = e
        else:
            raise AssertionError("write(2) succeeded")
        try:
            f.close()
        except OSError:
            pass
    raise told


def close(path, data):
    """Only the close fails."""
    f = open(path, "wb", buffering=0)
    try:
        f.write(bytes_of(data))
    except OSError as e:
        raise AssertionError(f"write(2): {e}") from e
    f.close()


def new(path, _):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT))


def foreign(path, _):
    """A new file of another format, which STEM.json describes."""
    new(path, _)


def read(path, _):
    content(path)


def mkdir(path, _):
    os.mkdir(path)


def truncate(path, size):
    os.truncate(path, int(size))


def unlink(path, _):
    os.unlink(path)


def rmdir(path, _):
    os.rmdir(path)


def rename(path, new):
    os.rename(path, os.fsencode(cases.mnt + "/") + plain(new))


def link(path, new):
    os.link(path, f"{cases.mnt}/{new}")


def symlink(path, target):
    os.symlink(target, path)


def mkfifo(path, _):
    os.mkfifo(path)


def set_attribute(path, text):
    name, _, value = text.partition("=")
    os.setxattr(path, name, plain(value))


def run(path, line):
    make(path, line.encode() + b"\n")


def ask(path, request):
    """Not by cases.command: it need not be JSON."""
    fd = os.open(path, os.O_RDWR)
    try:
        cases.write_all(fd, bytes_of(request) + b"\n")
        error = json.loads(cases.receive(fd))["error"]
    finally:
        os.close(fd)
    holds(f"keys of {error}", sorted(error) == ["code", "errno", "message"])
    raise OSError(getattr(errno, error["errno"]), error["message"])


# --- what must hold -----------------------------------------------------------------------------


def names():
    return sorted(os.path.join(at, name) for top in ("buffers", "programs", "devices")
                  for at, dirs, files in os.walk(f"{cases.mnt}/{top}") for name in dirs + files)


def described(path):
    """The sentence in STEM.json."""
    about = cases.about(path)
    holds(f"{about} is an error", about["state"] in ("error", "incomplete"))
    return about["error"]


def sentences(operation, path, argument, code, said):
    """The texts that must tell why."""
    stem = os.path.splitext(os.path.basename(path))[0]
    if operation == "ask":
        yield said
        return
    if operation == "run":
        reply = content(path).decode()
        holds(f"{reply} begins with its errno", reply.startswith(f"error: {code}: add: "))
        yield reply
        return
    error = content(cases.mnt + "/error")
    equal("the size of error", os.stat(cases.mnt + "/error").st_size, len(error))
    yield error.decode()
    if operation == "rename" and not os.path.exists(f"{cases.mnt}/{argument}"):
        if argument.startswith("buffers/"):
            yield described(f"{cases.mnt}/{argument}")
    elif operation in ("write", "close", "foreign") and "/buffers/" in path:
        yield described(path)
        if os.path.exists(path):
            try:
                run(cases.mnt + "/executables/add/run", f"x {stem} -> z")
                holds(f"{stem} is no input", False)
            except OSError:
                reply = content(cases.mnt + "/executables/add/run").decode()
                holds(reply, re.match(f"error: E[A-Z]*: add: input 1: {stem}: ", reply))


def check(operation, path, argument, code, sentence):
    """One row."""
    path = os.fsencode(cases.mnt + "/") + plain(path)
    path = path if b"\xff" in path else os.fsdecode(path)
    there = os.path.exists(path)
    said = None
    try:
        globals()[operation](path, argument.replace("{plugin}", cases.plugin))
    except OSError as e:
        name = "EOPNOTSUPP" if e.errno == errno.EOPNOTSUPP else errno.errorcode[e.errno]
        if os.geteuid() and (code, name) == ("EPERM", "EACCES"):
            return  # the kernel says so because of the directory's mode
        holds(f"{name} ({e}) is {code}", name == code)
        said = e.strerror
    holds("it is refused", said is not None)
    if sentence:
        for text in sentences(operation, path, argument, code, said):
            wanted = sentence.replace("{plugin}", cases.plugin)
            holds(f"{text!r} has {wanted!r}", re.search(wanted, text))
    if not there and os.path.exists(path):
        os.unlink(path)


def prepare():
    """What the rows name."""
    b, x = cases.buffers, content(DATA + "/x.npy")
    six = x[-24:]
    for name, data in (("x", x), ("y", x), ("s3", npy("<i4", (3,), bytes(12))),
                       ("s23", npy("<i4", (2, 3), bytes(24))), ("f32", npy("<f4", (3, 2), six)),
                       ("d3", npy("<f8", (3,), six)),
                       ("f", npy("<f4", (), six[:4])), ("f6", floats(1, 2, 3, 4, 5, 6))):
        make(f"{b}/{name}.npy", data)
    for name in ("buffers/ns", "programs/ns", "buffers/dir"):
        os.mkdir(f"{cases.mnt}/{name}")
    ok(op="create", buffer="c", dtype="F32", shape=[2, 3])
    ok(op="create", buffer="bytes", dtype="U8", shape=[2])
    make(b + "/bytes.txt", b"1 2\n")
    make(b + "/t6.txt", b"1 2 3 4 5 6\n")
    make(b + "/r24.raw", six)
    make(b + "/r2.raw", six[:2])
    make(b + "/scratch", x)
    make(b + "/part", x[:140])
    make(b + "/empty.npy")
    make(cases.on(1, "only1.npy"), x)
    add = content(DATA + "/add.mlir")
    for name in ("add.mlir", "other.mlir", "part"):
        make(f"{cases.mnt}/programs/{name}", add)
    make(f"{cases.mnt}/programs/none.mlir")


def main():
    cases.use(sys.argv[2])
    prepare()
    before, x = names(), content(cases.buffers + "/x.npy")
    holds("no name: that is no refusal", not os.path.exists(cases.buffers + "/nothing"))
    equal("error after what succeeded", content(cases.mnt + "/error"), b"")
    rows, wrong = 0, 0
    with open(sys.argv[1], encoding="utf-8") as table:
        for number, line in enumerate(table, 1):
            row = line.rstrip("\n").split("\t")
            if line.startswith("#") or len(row) == 1:
                continue
            rows += 1
            try:
                check(*row)
                holds(f"names stay: {set(names()) ^ set(before)}", names() == before)
            except (AssertionError, KeyError, OSError) as e:
                wrong += 1
                before = names()
                print(f"{sys.argv[1]}:{number}: {line.strip()[:200]}\n\t{type(e).__name__}: {e}")
    holds("x stays", content(cases.buffers + "/x.npy") == x)
    holds("programs stay", content(cases.mnt + "/executables/other/state") == b"ready\n")
    print(f"{rows} rows, {wrong} of them wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
