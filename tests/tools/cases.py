# SPDX-License-Identifier: Apache-2.0
"""Help for the tests in Python: cases, each in an empty directory of its own.

At its end goes what a case leaves: files in buffers/ of all devices and in programs/, processes,
descriptors of opened().

    import cases
    from cases import case, equal, fails

    @case
    def unlink_frees(d):
        fails("ENOENT", os.unlink, d + "/x.npy")

    cases.main()        # python3 that.py [--as UID] MOUNTPOINT [CASE...]: runs all, or these

A case that fails does not end the others; the exit status is 1 then.  Those that need root
are @root_case and are left out for other users.
"""

import ctypes
import errno
import glob
import json
import os
import shutil
import signal
import struct
import sys
import time
import traceback

import schema

PATIENCE = float(os.environ.get("PJRTFS_TEST_PATIENCE", "20"))
TIMES = int(os.environ.get("PJRTFS_TEST_TIMES", "1"))  # of what the everyday run repeats

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")


def adder(tensor):
    """A program that adds two."""
    return f"""func.func @main(%x: {tensor}, %y: {tensor}) -> {tensor} {{
  %0 = stablehlo.add %x, %y : {tensor}
  return %0 : {tensor}
}}
""".encode()


# programs that several tests run
ADD = adder("tensor<3xf32>")
# %n steps that no compiler can foresee
COUNT = b"""func.func @main(%n: tensor<i64>) -> tensor<i64> {
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %r:2 = stablehlo.while(%i = %zero, %s = %zero) : tensor<i64>, tensor<i64>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i64>
      %m = stablehlo.constant dense<6364136223846793005> : tensor<i64>
      %k = stablehlo.add %i, %one : tensor<i64>
      %a = stablehlo.multiply %s, %m : tensor<i64>
      %b = stablehlo.xor %a, %k : tensor<i64>
      stablehlo.return %k, %b : tensor<i64>, tensor<i64>
    }
  return %r#1 : tensor<i64>
}
"""

mnt = None  # the mount point
plugin = None  # the name of the plugin that is mounted there first
buffers = None  # its buffers/
_cases = []
_children = set()  # those that have not ended
_opened = set()  # descriptors, to be closed at the end of the case


def case(fn):
    """Have main() run FN(directory)."""
    _cases.append(fn)
    return fn


def row(name, fn, *args):
    """Have main() run FN(directory, ...) as the case NAME."""
    def one(d):
        fn(d, *args)

    one.__name__ = name
    _cases.append(one)


def root_case(fn):
    """The same, for a case that becomes other users."""
    if "--as" not in sys.argv and os.geteuid() == 0:
        _cases.append(fn)
    return fn


def use(mountpoint):
    """Work in that mount."""
    global mnt, buffers, plugin
    mnt, buffers = mountpoint, mountpoint + "/buffers"
    plugin = next(n for n in os.listdir(mnt + "/plugins") if not n.endswith(".json"))


def _made():
    return {path for at in (*glob.glob(mnt + "/devices/*/*/buffers"), mnt + "/programs")
            for path in glob.glob(at + "/*")}


def _clear(before):
    """Undo what a case left."""
    os.umask(0o022)
    for pid in list(_children):
        os.kill(pid, signal.SIGKILL)
        end_of(pid)
    wrong = []
    while _opened:
        try:
            os.close(_opened.pop())
        except OSError as e:
            if e.errno != errno.EBADF:  # the case has closed it
                wrong.append(f"close: {e}")
    for path in _made() - before:
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        elif not path.endswith(".sharding.json"):  # that goes with its shards
            os.unlink(path)
    equal("what the end of the case told", wrong, [])


def main():
    """Run the cases, each in an empty directory in buffers/ that all may enter."""
    args = sys.argv[1:]
    if args[0] == "--as":
        _become(int(args[1]))
        args = args[2:]
    use(args[0])
    chosen = [fn for fn in _cases if not args[1:] or fn.__name__ in args[1:]]
    failed = 0
    os.umask(0o022)
    for fn in chosen:
        d, before = f"{buffers}/{fn.__name__}", _made()
        os.mkdir(d)
        began = time.monotonic()
        try:
            try:
                fn(d)
            finally:
                _clear(before)
        except Exception:
            failed += 1
            print(f"FAILED: {fn.__name__}")
            traceback.print_exc(file=sys.stdout)
        else:
            print(f"passed: {fn.__name__} ({time.monotonic() - began:.1f} s)")
        sys.stdout.flush()
    print(f"{failed} of {len(chosen)} cases failed")
    sys.exit(1 if failed else 0)


# --- what must hold ---------------------------------------------------------------------


def equal(what, got, want):
    if got != want:
        raise AssertionError(f"{what}: {got!r} instead of {want!r}")


def holds(what, condition):
    if not condition:
        raise AssertionError(f"not so: {what}")


def fails(names, fn, *args, **kwargs):
    """FN(...) fails with one of the errnos: "EPERM" or "EPERM EACCES"."""
    try:
        got = fn(*args, **kwargs)
    except OSError as e:
        if e.errno in [getattr(errno, name) for name in names.split()]:
            return
        name = errno.errorcode.get(e.errno, e.errno)
        raise AssertionError(f"{_call(fn, args)}: {name} instead of {names}") from e
    raise AssertionError(f"{_call(fn, args)}: {got!r} instead of {names}")


def _call(fn, args):
    text = ", ".join(repr(a)[:100] for a in args)
    return f"{getattr(fn, '__name__', fn)}({text})"


def eventually(what, fn, *args):
    """FN(...) becomes true; OSErrors count as not yet."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if fn(*args):
                return
        except OSError:
            pass
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(0.02)


# --- as whom ----------------------------------------------------------------------------


def child(fn, *args):
    """A process that does FN(...): its pid.  It exits with 1 if that raises."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            fn(*args)
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        os._exit(status)
    _children.add(pid)
    return pid


def end_of(pid):
    """How the child ended: its status, or minus the signal."""
    status = os.waitpid(pid, 0)[1]
    _children.discard(pid)
    return os.waitstatus_to_exitcode(status)


def end_well(*pids):
    """Each of the children ends with 0."""
    equal("children", [end_of(pid) for pid in pids], [0] * len(pids))


def _become(uid, gid=None, groups=()):
    os.setgroups(list(groups))
    os.setresgid(*[uid if gid is None else gid] * 3)
    os.setresuid(uid, uid, uid)


def as_user(uid, fn, *args, gid=None, groups=(), umask=0o022):
    """Do FN(...) as another user, in a process of its own."""

    def do():
        _become(uid, gid, groups)
        os.umask(umask)
        fn(*args)

    if end_of(child(do)) != 0:
        raise AssertionError(f"as user {uid}: see above")


# --- files ------------------------------------------------------------------------------

libc = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4


def renameat2(old, new, flags):
    if libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), old, None, new)


def npy(descr, shape, data):
    """A .npy file as numpy.save writes it."""
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head + data


def packed(*values):
    return struct.pack(f"<{len(values)}f", *values)


def f32(shape, *values):
    return npy("<f4", shape, packed(*values))


def floats(*values):
    """A .npy of F32[n]."""
    return f32((len(values),), *values)


def fortran(descr, shape, data):
    """A .npy of column-major data."""
    return npy(descr, shape, data).replace(b"'fortran_order': False, ", b"'fortran_order': True,  ")


def opened(path, flags=os.O_RDWR, mode=0o644):
    """A descriptor that is closed at the end of the case, if the case does not."""
    fd = os.open(path, flags, mode)
    _opened.add(fd)
    return fd


def write_all(fd, data, piece=None):
    at = 0
    while at < len(data):
        at += os.write(fd, data[at:at + piece] if piece else data[at:])


def read_all(fd, piece=1 << 20):
    parts = []
    while part := os.read(fd, piece):
        parts.append(part)
    return b"".join(parts)


def make(path, data=b"", mode=0o644, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    """Write a file as cat > would: what open, write and close say counts."""
    fd = os.open(path, flags, mode)
    try:
        write_all(fd, data)
    except BaseException:
        try:
            os.close(fd)
        except OSError:
            pass
        raise
    os.close(fd)
    return path


def content(path):
    with open(path, "rb") as f:
        return f.read()


def told(path):
    """The contents of a file that a worker is asked for: it may be too busy to answer in time."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            got = content(path)
            if b"did not answer within" not in got or time.monotonic() > end:
                return got
        except OSError:
            if b"no answer within" not in content(mnt + "/error") or time.monotonic() > end:
                raise


def about(path):
    """The contents of x.json, for the buffer that PATH is a view of."""
    return json.loads(content(path[:path.rindex(".")] + ".json"))


def state(path):
    return about(path)["state"]


def used():
    """Bytes that df calls used."""
    st = os.statvfs(mnt)
    return (st.f_blocks - st.f_bfree) * st.f_frsize


def valid(request, text):
    """The reply TEXT to REQUEST, which must be as the schema says."""
    reply = json.loads(text)
    wrong = schema.pair_errors(request, reply)
    holds(f"{request}: {text[:1000]}: {wrong}", not wrong)
    return reply


def send(fd, request):
    """Write all of one command."""
    write_all(fd, json.dumps(request).encode() + b"\n")


def receive(fd):
    """One reply, as it is."""
    reply = b""
    while not reply.endswith(b"\n"):
        part = os.read(fd, 1 << 20)
        holds(f"a whole reply, not {reply[:100]}", part)
        reply += part
    return reply


def callback_request(fd, piece=1 << 20):
    """The next request of a file in callbacks/: its head and the bytes of its arguments."""
    data = b""
    while b"\n" not in data:
        data += os.read(fd, piece)
    head, data = data.split(b"\n", 1)
    head = json.loads(head)
    while len(data) < head["bytes"]:
        data += os.read(fd, piece)
    equal("bytes", len(data), head["bytes"])
    return head, data


def ask(fd, request):
    """The reply to one command at control, which is open as FD."""
    send(fd, request)
    return valid(request, receive(fd))


def command(**request):
    """The reply to one command."""
    fd = os.open(mnt + "/control", os.O_RDWR)
    try:
        return ask(fd, request)
    finally:
        os.close(fd)


class Refused(Exception):
    """How an operation failed: errno as a name (None: not known) and the sentence."""


def ok(**o):
    """The reply to one command, which succeeds; raises Refused."""
    reply = command(**o)
    if not reply["ok"]:
        raise Refused(reply["error"]["errno"], reply["error"]["message"])
    return reply


def refused(names, pattern, **o):
    """The reply to one that fails: "EINVAL" or "EINVAL ENOENT", with PATTERN in its message."""
    reply = command(**o)
    holds(f"{o} is refused: {reply}", not reply["ok"])
    holds(f"{o}: {reply}", reply["error"]["errno"] in names.split())
    holds(f"{o}: {reply}, not {pattern!r}", pattern in reply["error"]["message"])
    return reply


def device(i, rest=""):
    """"cpu:1", with the mounted plugin's name."""
    return f"{plugin}:{i}{rest}"


def on(i, name=""):
    """The file NAME of device I."""
    return f"{mnt}/devices/{plugin}/{i}/buffers/{name}"


def program(name, source):
    """Put a program; the path of its executable."""
    make(f"{mnt}/programs/{name}.mlir", source if isinstance(source, bytes) else source.encode())
    return f"{mnt}/executables/{name}"


def of_plugin(file):
    """The text of one of the plugin's files."""
    return content(f"{mnt}/plugins/{plugin}/{file}").decode()


def kill_worker():
    """End the plugin's process, and wait for the next one."""
    restarts = int(of_plugin("restarts"))
    os.kill(int(of_plugin("pid")), signal.SIGKILL)
    eventually("a new worker", lambda: int(of_plugin("restarts")) > restarts and
               of_plugin("state") == "ready\n")
