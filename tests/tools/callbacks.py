# SPDX-License-Identifier: Apache-2.0
"""executables/NAME/callbacks/: what programs ask their hosts, and what hosts answer."""

import ctypes
import json
import mmap
import os
import select
import signal
import struct
import threading

import cases
from cases import (as_user, callback_request, case, child, content, end_of, end_well, equal,
                   eventually, f32, fails, floats, fortran, holds, make, npy, opened, program,
                   root_case, used, write_all)

MIB = 1 << 20


def call_of(index, takes, gives, effect="true"):
    """The text of a call: TAKES are pairs of a value and its type, GIVES types."""
    values = ", ".join(v for v, _ in takes)
    types = ", ".join(t for _, t in takes)
    results = gives[0] if len(gives) == 1 else f"({', '.join(gives)})"
    return (f"stablehlo.custom_call @pjrtfs_callback({values}) {{api_version = 4 : i32, "
            f"backend_config = {{index = {index} : ui64}}, has_side_effect = {effect}}} : "
            f"({types}) -> {results}")


VECTOR = "tensor<3xf32>"
X, Y = floats(1, 2, 3), floats(10, 20, 30)


def asker(name, index=0, kind=VECTOR):
    """A program that gives what callback INDEX makes of its argument."""
    return program(name, f"""func.func @main(%x: {kind}) -> {kind} {{
  %0 = {call_of(index, [("%x", kind)], [kind])}
  return %0 : {kind}
}}
""")


def teller(name, takes=VECTOR):
    """A program that tells callback 0 its argument, and returns it."""
    return program(name, f"""func.func @main(%x: {takes}) -> {takes} {{
  {call_of(0, [("%x", takes)], [])[:-len("()")]}()
  return %x : {takes}
}}
""")


def host(path, file="0", flags=os.O_RDWR):
    return opened(f"{path}/callbacks/{file}", flags)


class Execution:
    """An execution of PATH on arrays, in a thread."""

    def __init__(self, path, *args, **more):
        name = os.path.basename(path)
        self.inputs = [f"{name}_i{i}" for i in range(len(args))]
        self.outputs = more.pop("outputs", [f"{name}_o"])
        for at, data in zip(self.inputs, args):
            make(f"{cases.buffers}/{at}.npy", data)
        self.reply = None
        self.thread = threading.Thread(target=self.run, daemon=True, args=(
            dict(op="execute", executable=name, inputs=self.inputs, outputs=self.outputs, **more),))
        self.thread.start()

    def run(self, request):
        self.reply = cases.command(**request)

    def end(self):
        self.thread.join(cases.PATIENCE)
        holds("the execution ends", self.reply)
        return self.reply

    def gives(self, *want):
        """It ends well, and its results are the .npy files WANT."""
        reply = self.end()
        holds(f"it ends well: {reply}", reply["ok"])
        equal("results", [content(f"{cases.buffers}/{o}.npy") for o in self.outputs], list(want))
        for o in self.outputs:
            os.unlink(f"{cases.buffers}/{o}.npy")

    def fails(self, name, code, *patterns):
        reply = self.end()
        holds(f"it fails: {reply}", not reply["ok"])
        equal("errno", (reply["error"]["errno"], reply["error"]["code"]), (name, code))
        for pattern in patterns:
            holds(f"{pattern!r} in {reply}", pattern in reply["error"]["message"])


def serve(fd, e, takes=X, gives=Y, piece=None):
    """Answer the request of E with GIVES, which are its results."""
    equal("argument", callback_request(fd, piece or MIB)[1], takes)
    write_all(fd, gives, piece)
    e.gives(gives)


def talk(path, fd, piece=None):
    serve(fd, Execution(path, X), piece=piece)


def line_of(fd, piece=MIB):
    data = b""
    while not data.endswith(b"\n"):
        data += os.read(fd, piece)
    return data.decode()


def refused(names, pattern, fn, *args):
    """FN fails with one of the errnos, and the sentence of the user's last failure has PATTERN."""
    fails(names, fn, *args)
    why = content(f"{cases.mnt}/error").decode()
    holds(f"{pattern!r} in {why!r}", pattern in why)


def polled(fd, ms=0):
    p = select.poll()
    p.register(fd, select.POLLIN | select.POLLOUT)
    return dict(p.poll(ms)).get(fd, 0)


def waits(fd):
    """A request is there within the patience."""
    equal("a request", polled(fd, cases.PATIENCE * 1000), select.POLLIN)


# --- what is right ----------------------------------------------------------------------


@case
def conversations(d):
    path = asker("cb_talk")
    equal("files", sorted(os.listdir(f"{path}/callbacks")), ["0", "0.txt"])
    sig = json.loads(content(f"{path}/signature.json"))["callbacks"]
    equal("signature", [(c["index"], c["target"]) for c in sig], [(0, "pjrtfs_callback")])
    fd = host(path)
    for n in range(1, 4):
        e = Execution(path, X)
        head, data = callback_request(fd)
        equal("head", head, {"call": n, "index": 0, "bytes": len(X),
                             "args": [{"dtype": "F32", "shape": [3]}],
                             "results": [{"dtype": "F32", "shape": [3]}]})
        equal("argument", data, X)
        write_all(fd, Y)
        e.gives(Y)
    for piece in 1, 7, 100, 130, 260:
        talk(path, fd, piece)
    # an answer before all of the request is read
    e = Execution(path, X)
    os.read(fd, 3)
    write_all(fd, Y)
    e.gives(Y)


@case
def a_write_ends_with_the_answer(d):
    path = asker("cb_ends")
    fd = host(path)
    refused("EINVAL", "no request", os.write, fd, Y)
    e = Execution(path, X)
    callback_request(fd)
    equal("short", os.write(fd, Y + Y), len(Y))
    fails("EINVAL", os.write, fd, Y)
    e.gives(Y)


@case
def many_types(d):
    kinds = [("tensor<2xi1>", "|b1", (2,), b"\1\0"), ("tensor<i16>", "<i2", (), b"\1\0"),
             ("tensor<bf16>", "<V2", (), b"\x80\x3f"),
             ("tensor<1x2xf64>", "<f8", (1, 2), b"\0" * 16),
             ("tensor<complex<f32>>", "<c8", (), b"\0\0\x80\x3f" * 2),
             ("tensor<0x3xf32>", "<f4", (0, 3), b"")]
    types = [k for k, *_ in kinds]
    args = ", ".join(f"%{i}: {t}" for i, t in enumerate(types))
    names = [f"%{i}" for i in range(len(types))]
    text = f"func.func @main({args}) -> ({', '.join(types)}) {{\n"
    text += f"%r:{len(types)} = {call_of(7, list(zip(names, types)), types)}\nreturn "
    text += ", ".join(f"%r#{i}" for i in range(len(types))) + " : " + ", ".join(types) + "\n}\n"
    path = program("cb_types", text)
    fd = host(path, "7")
    arrays = [npy(descr, shape, data) for _, descr, shape, data in kinds]
    for piece in None, 1:
        e = Execution(path, *arrays, outputs=[f"cb_types_o{i}" for i in range(len(types))])
        head, data = callback_request(fd)
        equal("types", [a["dtype"] for a in head["args"]],
              ["PRED", "S16", "BF16", "F64", "C64", "F32"])
        equal("arguments", data, b"".join(arrays))
        write_all(fd, b"".join(arrays), piece)
        e.gives(*arrays)


@case
def large_arrays(d):
    n = 3 * MIB + 5
    path = asker("cb_large", kind=f"tensor<{n}xi32>")
    before = used()
    fd = host(path)
    data = npy("<i4", (n,), (bytes(range(256)) * (n // 64 + 1))[:4 * n])
    serve(fd, Execution(path, data), data, data, 100001)
    os.close(fd)
    os.unlink(f"{cases.buffers}/cb_large_i0.npy")
    eventually("all is given back", lambda: used() <= before)


@case
def column_major(d):
    for n in 2, 1000:  # the second by a thread
        path = asker(f"cb_columns{n}", kind=f"tensor<{n}x{n}xi32>")
        fd = host(path)
        data = npy("<i4", (n, n), struct.pack(f"<{n * n}i", *range(n * n)))
        turned = struct.pack(f"<{n * n}i", *[i % n * n + i // n for i in range(n * n)])
        for close in False, True:
            e = Execution(path, data)
            callback_request(fd)
            write_all(fd, fortran("<i4", (n, n), turned))
            if close:
                os.close(fd)
            e.gives(data)


@case
def several_callbacks(d):
    path = program("cb_two", f"""func.func @main(%x: {VECTOR}) -> {VECTOR} {{
  %0 = {call_of(3, [("%x", VECTOR)], [VECTOR])}
  %1 = {call_of(12, [("%0", VECTOR), ("%x", VECTOR)], [VECTOR])}
  return %1 : {VECTOR}
}}
""")
    equal("files", sorted(os.listdir(f"{path}/callbacks")), ["12", "12.txt", "3", "3.txt"])
    a, b = host(path, "3"), host(path, "12")
    e = Execution(path, X)
    equal("first", callback_request(a)[1], X)
    write_all(a, Y)
    serve(b, e, Y + X, X)


@case
def programs_at_once(d):
    """Two of them have a callback 0."""
    one, two = asker("cb_one"), asker("cb_other")
    a, b = host(one), host(two)
    e, f = Execution(one, X), Execution(two, Y)
    serve(b, f, Y, X)
    serve(a, e)


@case
def hosts_share(d):
    path = asker("cb_share")
    got = {}

    def host_of(fd, name, text):
        got[name] = 0
        while got[name] < 5:
            try:
                line_of(fd) if text else callback_request(fd)
            except OSError:
                return
            got[name] += 1
            # until both have one, so that each gets some
            eventually("both serve", lambda: all(got.get(k) for k in "ab"))
            write_all(fd, b"1 2 3\n" if text else X)

    for args in (host(path), "a", False), (host(path, "0.txt"), "b", True):
        threading.Thread(target=host_of, args=args, daemon=True).start()
    make(f"{cases.buffers}/cb_share_i.npy", X)
    ends = []

    def run(i):
        for _ in range(2):
            ends.append(cases.command(op="execute", executable="cb_share", inputs=["cb_share_i"],
                                      outputs=[f"cb_share_o{i}"])["ok"])

    runs = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(4)]
    for t in runs:
        t.start()
    for t in runs:
        t.join(cases.PATIENCE)
    equal("all end well", ends, [True] * 8)
    holds(f"each served: {got}", got["a"] and got["b"])


@case
def calls(d):
    path = asker("cb_call")
    fd, call = host(path), opened(f"{path}/call")
    for _ in range(20):
        os.write(call, X)
        equal("argument", callback_request(fd)[1], X)
        write_all(fd, Y)
        equal("result", os.read(call, 4096), Y)
        equal("all", os.read(call, 4096), b"")
    os.write(call, X)
    callback_request(fd)
    os.close(call)  # nobody wants the result
    eventually("the request ends", lambda: polled(fd) & select.POLLERR)
    refused("EIO", "cancelled", os.write, fd, Y)


# --- lines ------------------------------------------------------------------------------


@case
def lines(d):
    path = asker("cb_lines")
    fd = host(path, "0.txt")
    for said, data in (("1 2 3\n", X), ("10 20 30 \n", Y), ("1,2,3\n", X),
                       ("\t1\t2\t 3\r\n", X), ("1e0 +2 3.0\n", X)):
        e = Execution(path, X)
        equal("request", line_of(fd), "1 2 3\n")
        write_all(fd, said.encode(), 2)
        e.gives(data)
    e = Execution(path, X)
    line_of(fd)
    for bad, text in (("1 2\n", "result 0: 2 numbers came, the program wants 3"),
                      ("\n", "result 0"), ("1 2 x\n", "column 5"), ("1 2 3 4\n", "4 numbers"),
                      ("{}\n", "without an error"), ("{\n", "expected")):
        refused("EINVAL", text, os.write, fd, bad.encode())
    fails("E2BIG", os.write, fd, b"1 " * (300 << 10))
    equal("a part of two", os.write(fd, b"10 20 30\n1"), 9)
    e.gives(Y)


@case
def lines_of_several(d):
    pred, empty = "tensor<2xi1>", "tensor<0xf32>"
    path = program("cb_fields", f"""func.func @main(%x: tensor<2x2xi32>, %p: {pred}, %e: {empty})
    -> ({pred}, {empty}, tensor<f32>) {{
  %r:3 = {call_of(0, [("%x", "tensor<2x2xi32>"), ("%e", empty), ("%p", pred)],
                  [pred, empty, "tensor<f32>"])}
  return %r#0, %r#1, %r#2 : {pred}, {empty}, tensor<f32>
}}
""")
    fd = host(path, "0.txt")
    e = Execution(path, npy("<i4", (2, 2), struct.pack("<4i", 1, -2, 3, 4)),
                  npy("|b1", (2,), b"\1\0"), floats(), outputs=[f"cb_fields_{i}" for i in range(3)])
    equal("request", line_of(fd), "1 -2 3 4\t\ttrue false\n")
    for bad in "true false\n", "true false\t\n", "true\t\t1\n", "true false\t1\t1\n":
        fails("EINVAL", os.write, fd, bad.encode())
    write_all(fd, b"0 1\t \t2.5\n")
    e.gives(npy("|b1", (2,), b"\0\1"), floats(), f32((), 2.5))
    # more than is printed at once
    n = 30000
    path = asker("cb_long", kind=f"tensor<{n}xi32>")
    fd = host(path, "0.txt")
    data = npy("<i4", (n,), struct.pack(f"<{n}i", *range(n)))
    for piece in MIB, 1000:
        e = Execution(path, data)
        line = line_of(fd, piece)
        equal("request", line, " ".join(map(str, range(n))) + "\n")
        write_all(fd, line.encode())
        e.gives(data)


# --- callbacks without results ----------------------------------------------------------


@case
def tells(d):
    path = teller("cb_tell")
    # a reader that goes on, a poll, {} or an empty line, and a close say that it was read
    fd = host(path, "0.txt", os.O_RDONLY | os.O_NONBLOCK)
    for goes_on in (lambda: equal("nothing more", polled(fd), 0),
                    lambda: fails("EAGAIN", os.read, fd, 100)):
        e = Execution(path, X)
        waits(fd)
        equal("request", line_of(fd), "1 2 3\n")
        equal("it waits", e.reply, None)
        goes_on()
        e.gives(X)
    fails("EBADF", os.write, fd, b"{}\n")
    os.close(fd)
    for said in b"{}\n", b"\n", None:
        for file in "0", "0.txt":
            fd = host(path, file)
            e = Execution(path, X)
            if file == "0":
                equal("results", callback_request(fd)[0]["results"], [])
            else:
                line_of(fd)
            if said:
                fails("EINVAL", os.write, fd, b"1\n")
                write_all(fd, said)
                e.gives(X)
            os.close(fd)
            if not said:
                e.gives(X)
    # one that has read a part has not read it
    fd = host(path, "0.txt")
    e = Execution(path, X)
    os.read(fd, 2)
    os.close(fd)
    e.fails("ECONNABORTED", "ABORTED", "closed it without an answer")


def events(name):
    lines = [json.loads(line) for line in content(f"{cases.mnt}/events").splitlines()]
    return [e for e in lines if e["event"] == "callback" and e["object"] == f"executables/{name}"]


@case
def nobody_listens(d):
    e = Execution(asker("cb_nobody"), X)
    # one that has neither results nor an order, as debug.print, becomes an event
    Execution(teller("cb_unheard"), X).gives(X)
    equal("events", [(s["index"], s["text"]) for s in events("cb_unheard")], [(0, "1 2 3")])
    data = floats(*[0] * 100000)
    Execution(teller("cb_unheard_long", "tensor<100000xf32>"), data).gives(data)
    text = events("cb_unheard_long")[0]["text"]
    holds(f"cut: {text}", text.startswith("0 0 ") and text.endswith("...") and len(text) < 5000)
    # the other has failed after a while
    e.fails("EBUSY", "FAILED_PRECONDITION", "executables/cb_nobody/callbacks/0",
            "no process has it open")


# --- what is wrong ----------------------------------------------------------------------


@case
def wrong_answers(d):
    path = asker("cb_wrong")
    fd = host(path)
    e = Execution(path, X)
    callback_request(fd)
    for bad, text in (
            (npy("<f8", (3,), b"\0" * 24), "result 0: F64[3] came, the program wants F32[3]"),
            (floats(1, 2), "F32[2] came"), (b"1 2 3\n", ".npy"), (b"\n", "found a line"),
            (b"{}\n", "without an error"), (b'{"error":1}\n', "without an error"),
            (b'{"error":{}} x\n', "expected"), (b'{"error":{"code":"OK"}}\n', "found \"OK\"")):
        refused("EINVAL", text, os.write, fd, bad)
    # in pieces: what came before the failure is dropped
    write_all(fd, Y[:50], 7)
    fails("EINVAL", os.write, fd, b"\0" * 100)
    write_all(fd, Y, 7)
    e.gives(Y)


@case
def errors(d):
    path = asker("cb_errors")
    for file in "0", "0.txt":
        fd = host(path, file)
        for said, name, code, text in (
                ({"code": "INVALID_ARGUMENT", "message": "it is too large"}, "EINVAL",
                 "INVALID_ARGUMENT", "it is too large"),
                ({"code": "NOT_FOUND", "message": "no file"}, "ENOENT", "NOT_FOUND", "no file"),
                ({"message": "grüße"}, "EIO", "INTERNAL", "grüße"),
                ({}, "EIO", "INTERNAL", "no reason")):
            e = Execution(path, X)
            waits(fd)
            os.read(fd, 4096)
            write_all(fd, json.dumps({"error": said}, ensure_ascii=False).encode() + b"\n", 9)
            e.fails(name, code, text)
        e = Execution(path, X)
        os.read(fd, 4096)
        write_all(fd, Y if file == "0" else b"10 20 30\n")
        e.gives(Y)
        os.close(fd)


@case
def a_host_leaves(d):
    """It is killed while it reads, or closes what it has begun; check_callbacks.c has other ends."""
    path = asker("cb_leaves")
    fd = host(path)
    pid = child(os.read, fd, 100)
    os.kill(pid, signal.SIGKILL)
    equal("killed", end_of(pid), -signal.SIGKILL)
    talk(path, fd)
    e = Execution(path, X)
    callback_request(fd)
    os.close(fd)
    e.fails("ECONNABORTED", "ABORTED", "executables/cb_leaves/callbacks/0",
            "closed it without an answer")


@case
def polls(d):
    path = asker("cb_polls")
    fd = host(path, flags=os.O_RDWR | os.O_NONBLOCK)
    equal("nothing", polled(fd), 0)
    fails("EAGAIN", os.read, fd, 100)
    for _ in range(20):
        e = Execution(path, X)
        waits(fd)
        os.read(fd, 10)
        equal("the rest", polled(fd), select.POLLIN)
        holds("the line", os.read(fd, 4096).endswith(b"}\n"))
        equal("the arguments", polled(fd), select.POLLIN)
        equal("all of them", os.read(fd, 4096), X)
        equal("an answer", polled(fd), select.POLLOUT)
        fails("EAGAIN", os.read, fd, 100)
        write_all(fd, Y[:100])
        equal("more of it", polled(fd), select.POLLOUT)
        write_all(fd, Y[100:])
        equal("nothing", polled(fd), 0)
        e.gives(Y)
    # two pollers: the one that does not read does not keep the request
    other = host(path)
    e = Execution(path, X)
    waits(fd)
    waits(other)
    serve(other, e)


@case
def an_interrupted_reader(d):
    """A host whose read was interrupted, and that does not read, gets no request."""
    path = asker("cb_intr")
    fd = host(path)

    class Ring(Exception):
        pass

    def ring(*_):
        raise Ring

    def interrupted():
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            os.read(fd, 100)
        except Ring:
            pass
        talk(path, host(path))

    end_well(child(interrupted))


@case
def openings(d):
    path = asker("cb_open")
    told = teller("cb_open_told")
    for file in "0", "0.txt":
        at = f"{path}/callbacks/{file}"
        fails("EINVAL", os.open, at, os.O_WRONLY)
        fails("EINVAL", os.open, at, os.O_RDONLY)
        fails("EINVAL", os.open, f"{told}/callbacks/{file}", os.O_WRONLY)
        os.close(os.open(at, os.O_RDWR | os.O_TRUNC | os.O_APPEND))
        equal("size", os.stat(at).st_size, 0)
        fails("EPERM", os.unlink, at)
    fails("ENOTEMPTY", os.rmdir, f"{path}/callbacks")
    fails("ENOENT", os.open, f"{path}/callbacks/1", os.O_RDWR)
    fails("EPERM EACCES", os.open, f"{path}/callbacks/1", os.O_RDWR | os.O_CREAT)
    plain = program("cb_plain", cases.ADD)
    equal("no callbacks", os.listdir(f"{plain}/callbacks"), [])
    holds("nor in the signature", b"callbacks" not in content(f"{plain}/signature.json"))


@case
def programs_change(d):
    path = asker("cb_change")
    fd = host(path)
    asker("cb_change", 5)
    equal("files", sorted(os.listdir(f"{path}/callbacks")), ["5", "5.txt"])
    fails("ENOENT", host, path)
    five = host(path, "5")
    talk(path, five)
    equal("the old one", polled(fd), 0)
    # an execution under way keeps its host when its program is removed
    e = Execution(path, X)
    callback_request(five)
    os.unlink(f"{cases.mnt}/programs/cb_change.mlir")
    fails("ENOENT", host, path, "5")
    write_all(five, Y)
    e.gives(Y)


@case
def commands_as(d):
    """An executable that has no program of its own has callbacks, too."""
    asker("cb_source")
    cases.ok(op="compile", program="cb_source", **{"as": "cb_as"})
    path = f"{cases.mnt}/executables/cb_as"
    talk(path, host(path))
    os.rmdir(path)


# --- ends -------------------------------------------------------------------------------


def after_end(fd, part, pattern):
    """The request of which PART was read has ended, and the next one is served."""
    eventually("it ends", lambda: polled(fd) & select.POLLERR)
    # the rest of it, or an answer
    refused("EIO", pattern, *([os.read, fd, 100] if part == 5 else [os.write, fd, Y]))


@case
def interrupted_run(d):
    path = asker("cb_run")
    fd = host(path)
    make(f"{cases.buffers}/cb_run_i.npy", X)
    run = make, f"{path}/run", b"cb_run_i -> cb_run_o\n"
    for part in 4096, 5:
        pid = child(*run)
        os.read(fd, part)
        os.kill(pid, signal.SIGKILL)
        end_of(pid)
        after_end(fd, part, "cancelled")
    pid = child(*run)
    callback_request(fd)
    write_all(fd, Y)
    end_well(pid)
    equal("result", content(f"{cases.buffers}/cb_run_o.npy"), Y)


@case
def jobs(d):
    path = asker("cb_job")
    fd = host(path)
    make(f"{cases.buffers}/cb_job_i.npy", X)
    spec = dict(op="execute", executable="cb_job", inputs=["cb_job_i"], outputs=["cb_job_o"])
    job = cases.ok(**spec, **{"async": True})["job"]
    callback_request(fd)
    cases.ok(op="cancel", job=job)
    reply = cases.command(op="wait", job=job)
    equal("cancelled", (reply["state"], reply["result"]["error"]["code"]),
          ("cancelled", "CANCELLED"))
    fails("EIO", os.write, fd, Y)
    # a timeout, of a command and of a job
    cases.refused("ETIMEDOUT", "did not end within", **spec, timeout_ms=300)
    eventually("a request that has ended", lambda: not polled(fd))
    thread = threading.Thread(target=lambda: callback_request(fd), daemon=True)
    thread.start()
    cases.refused("ETIMEDOUT", "did not end within", **spec, timeout_ms=2000)
    thread.join(cases.PATIENCE)
    after_end(fd, 4096, "")
    # a step of a batch
    cases.refused("ETIMEDOUT", "batch: step 0: ", op="batch", steps=[dict(spec, timeout_ms=300)])
    eventually("a request that has ended", lambda: not polled(fd))
    talk(path, fd)


@case
def a_host_runs_programs(d):
    paths = [asker(f"cb_nest{i}") for i in range(6)]  # a device has four slots, or more
    plain = program("cb_plain", f"func.func @main(%x: {VECTOR}) -> {VECTOR} {{ "
                                f"return %x : {VECTOR} }}\n")
    fds = [host(path) for path in paths]
    waiting = [Execution(path, X) for path in paths]
    for fd in fds:
        waits(fd)
    Execution(plain, X).gives(X)
    for fd, e in zip(fds, waiting):
        serve(fd, e)


@root_case
def rights(d):
    path = asker("cb_rights")
    file = f"{cases.mnt}/programs/cb_rights.mlir"
    os.chown(file, 1001, 1001)
    os.chmod(file, 0o664)

    def may_not():
        for name in "0", "0.txt":
            refused("EACCES", "may write the program", host, path, name)

    as_user(1001, host, path)
    as_user(1002, host, path, groups=[1001])
    as_user(1002, may_not)
    fd = host(path)
    make(f"{cases.buffers}/cb_rights_i.npy", X)
    os.chmod(cases.buffers, 0o777)
    # who may read the program may run it
    pid = child(as_user, 1002, make, f"{path}/run", b"cb_rights_i -> cb_rights_o\n")
    callback_request(fd)
    write_all(fd, Y)
    end_well(pid)


class Iocb(ctypes.Structure):
    """A write of linux/aio_abi.h."""

    _fields_ = [("data", ctypes.c_uint64), ("key", ctypes.c_uint64), ("opcode", ctypes.c_uint16),
                ("prio", ctypes.c_int16), ("fd", ctypes.c_uint32), ("buf", ctypes.c_uint64),
                ("bytes", ctypes.c_uint64), ("offset", ctypes.c_int64), ("more", ctypes.c_uint64 * 2)]


IO_SETUP, IO_SUBMIT = {"x86_64": (206, 209)}.get(os.uname().machine, (0, 2))
PWRITE = 1


def submit(path, line):
    """Write a line by asynchronous, direct I/O; the end of the process waits for it."""
    context = ctypes.c_ulong()
    buf = ctypes.create_string_buffer(line)
    control = Iocb(opcode=PWRITE, fd=opened(path, os.O_RDWR | os.O_DIRECT),
                   buf=ctypes.addressof(buf), bytes=len(line))
    one = (ctypes.c_void_p * 1)(ctypes.addressof(control))
    equal("io_setup", cases.libc.syscall(IO_SETUP, 1, ctypes.byref(context)), 0)
    equal("io_submit", cases.libc.syscall(IO_SUBMIT, context, ctypes.c_long(1), one), 1)


def read_pages(path):
    fd = opened(path, os.O_RDONLY)
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as pages:
        holds("all bytes", pages[:].endswith(bytes(MIB)))


@case
def direct_writes_leave_room_for_pages(d):
    """The kernel has a dozen places for what happens in the background of the whole mount."""
    n = 16
    path = asker("cb_direct")
    fd = host(path)
    make(f"{d}/x.npy", X)
    at = os.path.relpath(d, cases.buffers)
    pids = [child(submit, f"{path}/run", f"{at}/x -> {at}/y{i}\n".encode()) for i in range(n)]
    queue = f"{cases.mnt}/devices/{cases.plugin}/0/queue"
    eventually("a dozen run", lambda: content(queue).count(b"cb_direct") >= 12)
    # the kernel reads a large file ahead, which is in the background too
    reader = child(read_pages, make(f"{d}/large.npy", floats(*[0] * (MIB // 4))))
    try:
        eventually("pages are read", os.waitid, os.P_PID, reader,
                   os.WEXITED | os.WNOHANG | os.WNOWAIT)
    finally:
        for _ in range(n):
            callback_request(fd)
            write_all(fd, Y)
    end_well(reader, *pids)


if __name__ == "__main__":
    cases.main()
