# SPDX-License-Identifier: Apache-2.0
"""Commands at control and run: what they mean, and what is refused."""

import json
import os
import re
import signal
import threading

import cases
from cases import (ADD, COUNT, about, ask, case, child, command, content, device, end_of, end_well,
                   equal, eventually, fails, holds, make, of_plugin, ok, on, opened, program,
                   read_all, refused, write_all)

# two results, three parameters
STEP = b"""func.func @main(%p: tensor<3xf32>, %n: tensor<i32>, %g: tensor<3xf32>)
    -> (tensor<3xf32>, tensor<i32>) {
  %0 = stablehlo.subtract %p, %g : tensor<3xf32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %1 = stablehlo.add %n, %one : tensor<i32>
  return %0, %1 : tensor<3xf32>, tensor<i32>
}
"""
def text(path):
    return content(path + ".txt")


def numbers(d, **arrays):
    for name, values in arrays.items():
        make(f"{d}/{name}.txt", (" ".join(map(str, values)) + "\n").encode())


def scalar(name, fill, dtype="S32"):
    ok(op="create", buffer=name, dtype=dtype, shape=[], fill=fill)


def line(executable, words):
    """The reply to one line."""
    fd = os.open(f"{cases.mnt}/executables/{executable}/run", os.O_RDWR)
    os.write(fd, words.encode() + b"\n")
    reply = os.read(fd, 10000)
    os.close(fd)
    return reply.decode()


def queue():
    return content(f"{cases.mnt}/devices/{cases.plugin}/0/queue")


@case
def batch(d):
    program("add", ADD)
    numbers(d, x=(1, 2, 3), y=(10, 20, 30))
    step = {"op": "execute", "executable": "add", "outputs": ["batch/t"]}
    reply = ok(op="batch", id="all", steps=[
        {**step, "inputs": ["batch/x", "batch/y"], "id": 1},
        {**step, "inputs": ["batch/t", "batch/y"], "id": 2},
        {"op": "stat", "buffer": "batch/t"},
        {"op": "delete", "buffer": "batch/x"}])
    equal("id", reply["id"], "all")
    equal("ids", [r.get("id") for r in reply["replies"]], [1, 2, None, None])
    equal("t", text(d + "/t"), b"21 42 63\n")
    fails("ENOENT", os.stat, d + "/x.npy")
    # stops at the first failure, and reports its number
    reply = refused("ENOENT", "step 1: delete", op="batch", steps=[
        {"op": "stat", "buffer": "batch/t"},
        {"op": "delete", "buffer": "batch/none"},
        {"op": "delete", "buffer": "batch/t"}])
    equal("replies", [r["ok"] for r in reply["replies"]], [True, False])
    equal("t is there", text(d + "/t"), b"21 42 63\n")
    equal("none", ok(op="batch", steps=[])["replies"], [])
    # many: no deep stack, no lost reply; to compare all with the schema takes a minute
    fd = opened(cases.mnt + "/control", os.O_RDWR)
    cases.send(fd, {"op": "batch", "steps": [{"op": "stat", "buffer": "batch/t"}] * 10000})
    replies = json.loads(cases.receive(fd))["replies"]
    os.close(fd)
    equal("replies", (len(replies), all(r["ok"] for r in replies)), (10000, True))
    ok(op="batch", steps=[{**step, "inputs": ["batch/t", "batch/y"]}] * 1000)
    equal("t", text(d + "/t"), b"10021 20042 30063\n")


@case
def batch_names(d):
    """Names mean in a step what the steps before made of them."""
    program("add", ADD)
    numbers(d, x=(1, 2, 3), y=(10, 20, 30))
    os.mkdir(d + "/args")
    here = "batch_names/"
    at = device(0, "/" + here)

    def step(inputs, outputs, **o):
        return {"op": "execute", "executable": "add", "inputs": inputs, "outputs": outputs, **o}

    for i in range(2):
        # one name, in all the ways that it can be said
        reply = ok(op="batch", steps=[
            step([here + "x", here + "y"], [here + "t"]),
            step([at + "t", here + "t.npy"], [at + "t.npy"]),
            step([here + "t.raw", here + "y"], [here + "u"]),
            step([here + "u", here + "t"], [here + "u"]),
            {"op": "stat", "buffer": here + "u"},
            step([here + "u", here + "x"], [here + "v"])])
        equal("names", [r["outputs"][0]["name"] for r in reply["replies"] if "outputs" in r],
              [here + "t", at + "t.npy", here + "u", here + "u", here + "v"])
        equal("t", text(d + "/t"), b"22 44 66\n")
        equal("u", text(d + "/u"), b"54 108 162\n")
        equal("v", text(d + "/v"), b"55 110 165\n")
        # what a directory has is what steps before put there
        ok(op="batch", steps=[
            step([here + "x", here + "x"], [here + "args/0"]),
            step([here + "x", here + "args/0"], [here + "args/1"]),
            step([here + "args"], [here + "w"]),
            step([here + "args/"], [here + f"new{i}/"]),
            step([here + "w", here + f"new{i}/0"], [here + "w"])])
        equal("w", text(d + "/w"), b"10 20 30\n")
        os.unlink(d + "/args/0.npy")
        os.unlink(d + "/args/1.npy")
        # only steps after that one no longer see the old value
        os.chmod(d + "/t.npy", 0o600)
        ok(op="batch", steps=[
            step([here + "t", here + "y"], [here + "before"]),
            step([here + "x", here + "y"], [here + "t"]),
            step([here + "t", here + "y"], [here + "after"])])
        equal("before", text(d + "/before"), b"32 64 96\n")
        equal("after", text(d + "/after"), b"21 42 63\n")
        equal("mode", os.stat(d + "/t.npy").st_mode & 0o777, 0o600)


@case
def batch_stops(d):
    """Results of steps before the failed one are kept; steps after it have not begun."""
    program("add", ADD)
    numbers(d, x=(1, 2, 3), y=(10, 20, 30), short=(1, 2))
    here = "batch_stops/"

    def step(a, b, out, **o):
        return {"op": "execute", "executable": "add", "inputs": [here + a, here + b],
                "outputs": [here + out], **o}

    ok(op="batch", steps=[step("x", "y", "t")] * 2)
    for errno_name, message, bad in (
            ("EINVAL", "F32[2]", step("t", "short", "u")),
            ("ENOENT", "none", step("t", "none", "u")),
            ("ENOENT", "nobody", {**step("t", "y", "u"), "executable": "nobody"}),
            ("EINVAL", "donated", step("gone", "y", "u")),
            ("EINVAL", "not an input", step("t", "y", "u", donate=[here + "x"])),
            ("EINVAL", "unknown key", step("t", "y", "u", steps=1))):
        numbers(d, gone=(1, 1, 1))
        reply = refused(errno_name, message, op="batch", steps=[
            step("x", "y", "t"), step("t", "y", "t"),
            step("gone", "t", "t", donate=[here + "gone"]), bad,
            step("t", "y", "t", donate=[here + "y"]), step("x", "x", "never")])
        holds("where", reply["error"]["message"].startswith("batch: step 3: "))
        equal("replies", [r["ok"] for r in reply["replies"]], [True, True, True, False])
        equal("t", text(d + "/t"), b"22 43 64\n")
        equal("y", text(d + "/y"), b"10 20 30\n")
        fails("ENOENT", os.stat, d + "/u.npy")
        fails("ENOENT", os.stat, d + "/never.npy")


@case
def repeat(d):
    """A training loop: results are fed to the inputs of their names."""
    program("step", STEP)
    numbers(d, p=(3, 2, 1), g=(0.5, 0.25, 1))
    scalar("repeat/n", 0)
    o = dict(op="execute", executable="step", inputs=["repeat/p", "repeat/n", "repeat/g"],
             outputs=["repeat/p", "repeat/n"])
    reply = ok(repeat=1000, **o)
    equal("repeat", reply["repeat"], 1000)
    equal("p", text(d + "/p"), b"-497 -248 -999\n")
    equal("n", text(d + "/n"), b"1000\n")
    equal("g", text(d + "/g"), b"0.5 0.25 1\n")
    # a line does the same
    reply = line("step", "repeat/p repeat/n repeat/g -> repeat/p repeat/n repeat=10")
    holds(reply, reply.startswith("ok: repeat/p F32[3], repeat/n S32[] on "))
    equal("n", text(d + "/n"), b"1010\n")
    # what is not fed is the same each time
    reply = ok(**{**o, "outputs": ["repeat/q", "repeat/m"]}, repeat=3)
    equal("m", text(d + "/m"), b"1011\n")
    refused("EINVAL", "gone after the first", repeat=2, donate=["repeat/g"], **o)
    # a reader of the old value keeps it
    fd = opened(d + "/n.txt", os.O_RDONLY)
    ok(repeat=5, **o)
    equal("old", os.read(fd, 100), b"1010\n")
    os.close(fd)
    equal("new", text(d + "/n"), b"1015\n")


@case
def interrupted(d):
    """A loop that is stopped keeps the state it reached."""
    program("step", STEP)
    numbers(d, p=(0, 0, 0), g=(0, 0, 0))
    scalar("interrupted/n", 0)

    state = "interrupted/p interrupted/n"
    pid = child(line, "step", f"{state} interrupted/g -> {state} repeat=100000000")
    eventually("some repetitions",
               lambda: re.search(rb" running \S+ 0 [1-9]\d*/100000000 step\n", queue()))
    os.kill(pid, signal.SIGKILL)
    equal("killed", end_of(pid), -signal.SIGKILL)
    eventually("the state", lambda: int(text(d + "/n")) > 0)
    n = int(text(d + "/n"))
    holds(f"some, not all: {n}", 0 < n < 100000000)
    equal("state", about(d + "/p.npy")["state"], "ready")


@case
def watched(d):
    """Other users can use a loop's arguments until it replaces them, unless it donates them."""
    program("add", ADD)
    numbers(d, p=(0, 0, 0), one=(1, 1, 1))
    here = "watched/"
    o = {"op": "execute", "executable": "add", "inputs": [here + "p", here + "one"],
         "outputs": [here + "p"]}
    events = opened(cases.mnt + "/events", os.O_RDONLY)
    os.lseek(events, 0, os.SEEK_END)
    read_all(events)
    done = []
    loop = threading.Thread(target=lambda: done.append(ok(repeat=100000, **o)))
    loop.start()
    seen = 0
    while not done:
        equal("p", text(d + "/p") in (b"0 0 0\n", b"100000 100000 100000\n"), True)
        ok(op="execute", executable="add", inputs=[here + "p", here + "one"],
           outputs=[here + "q"])
        ok(op="copy", buffer=here + "p", **{"as": here + "saved"})
        ok(op="delete", buffer=here + "saved")
        seen += 1
    loop.join()
    holds("it was looked at", seen)
    equal("p", text(d + "/p"), b"100000 100000 100000\n")
    # one event for all of them
    told = [json.loads(each) for each in read_all(events).splitlines()]
    equal("events", [e["event"] for e in told if e.get("repeat") == 100000],
          ["execution.finished"])
    holds("others", len(told) < 100 + 20 * seen)


@case
def shared(d):
    """Later steps cannot use a consumed value, even if other buffers share its memory."""
    program("add", ADD)
    here = "shared/"
    for copied in (False, True):
        numbers(d, a=(1, 2, 3), y=(1, 1, 1))
        step = {"op": "execute", "executable": "add", "inputs": [here + "a", here + "y"]}
        ok(outputs=[here + "z"], **step)
        if copied:
            ok(op="copy", buffer=here + "a", **{"as": here + "b"})
        reply = refused("EINVAL", "donated", op="batch", steps=[
            {**step, "outputs": [here + "z"], "donate": [here + "a"]},
            {**step, "outputs": [here + "zz"]}])
        equal("replies", [r["ok"] for r in reply["replies"]], [True, False])
        if copied:
            equal("b", text(d + "/b"), b"1 2 3\n")


@case
def signals(d):
    """After a handled signal each command has run exactly once."""
    program("add", ADD)
    numbers(d, one=(1, 1, 1))
    here = "signals/"
    o = {"op": "execute", "executable": "add", "inputs": [here + "n", here + "one"],
         "outputs": [here + "n"]}
    commands = {
        "repeat": (json.dumps({**o, "repeat": 20000}), 20000, 1),
        "batch": (json.dumps({"op": "batch", "steps": [o] * 2000}), 2000, 1),
        "many": (json.dumps(o) * 900, 900, 900),
    }
    fired = []
    before = signal.signal(signal.SIGALRM, lambda *args: fired.append(1))
    for what, (written, n, replies) in commands.items():
        numbers(d, n=(0, 0, 0))
        del fired[:]
        fd = opened(cases.mnt + "/control", os.O_RDWR)
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        write_all(fd, written.encode())  # EINTR, Python writes again by itself
        signal.setitimer(signal.ITIMER_REAL, 0)
        got = [json.loads(cases.receive(fd))["ok"] for _ in range(replies)]
        equal(what + ": the end", os.read(fd, 100), b"")
        os.close(fd)
        equal(what + ": replies", got, [True] * replies)
        equal(what + ": n", text(d + "/n"), f"{n} {n} {n}\n".encode())
        holds("signals came", fired)
    signal.signal(signal.SIGALRM, before)


@case
def names(d):
    program("step", STEP)
    numbers(d, p=(3, 2, 1), g=(1, 1, 1))
    numbers(on(1), far=(1, 1, 1))
    scalar("names/n", 0)
    make(d + "/nothing.raw", b"")
    params = [p["name"] for p in json.loads(
        content(cases.mnt + "/executables/step/signature.json"))["inputs"]]
    equal("parameters", len(set(params)), 3)
    given = dict(zip(reversed(params), ["names/g", "names/n", "names/p"]))
    o = dict(op="execute", executable="step", inputs=["names/p", "names/n", "names/g"],
             outputs=["names/a", "names/b"])
    ok(**{**o, "inputs": given})
    equal("a", text(d + "/a"), b"2 1 0\n")
    far = dict(inputs=["names/p", "names/n", device(1, "/far")])
    for code, why, other in (
            ("EINVAL", f"({params[2]}) was not given",
             dict(inputs={p: given[p] for p in params[:2]})),
            ("EINVAL", "no input called nobody", dict(inputs={**given, "nobody": "names/p"})),
            # a mismatch names the argument
            ("EINVAL", f"input 2 ({params[2]}): names/n is S32[], the program wants",
             dict(inputs=["names/p", "names/n", "names/n"])),
            # names that buffers cannot have; check_buffer_names.c has them
            ("EINVAL", "is what is known of a buffer", dict(outputs=["names/a", "x.json"])),
            ("EINVAL", "both called", dict(outputs=["names/a", "names/a.npy"])),
            # nor an array
            ("ENODATA", "input 0: names/nothing: it is empty",
             dict(inputs=["names/nothing", "names/n", "names/g"])),
            # another device
            ("EINVAL", f"is on device {device(1)}, the program runs on {device(0)}", far),
            ("EINVAL", "another device", dict(outputs=["names/a", device(1, "/b")])),
            ("EINVAL", "compiled for other devices", dict(device=device(1))),
            ("ENODEV", "no device " + device(77), dict(device=device(77)))):
        refused(code, why, **{**o, **other})
    refused("ENODATA", "copy: names/nothing: it is empty", op="copy", buffer="names/nothing",
            **{"as": "names/a"})
    refused("EINVAL", 'an integer of at most 64 bits, found "9999999999999999', op="create",
            dtype="U64", shape=[], buffer="names/wide", fill=99999999999999999999)
    ok(move=True, **{**o, **far})
    equal("a", text(d + "/a"), b"2 1 0\n")
    equal("far", about(on(1, "far.txt"))["device"], device(1))


@case
def directories(d):
    """A directory as an argument means its buffers in JAX's order."""
    arguments = ", ".join(f"%a{i}: tensor<i32>" for i in range(12))
    pieces = "\n".join(f"%c{i} = stablehlo.reshape %a{i} : (tensor<i32>) -> tensor<1xi32>"
                       for i in range(12))
    all_of = ", ".join(f"%c{i}" for i in range(12))
    one = ", ".join(["tensor<1xi32>"] * 12)
    results = ", ".join(["tensor<i32>"] * 12)
    program("list", f"""func.func @main({arguments}) -> (tensor<12xi32>, {results}) {{
      {pieces}
      %0 = stablehlo.concatenate {all_of}, dim = 0 : ({one}) -> tensor<12xi32>
      return %0, {", ".join(f"%a{i}" for i in range(12))} : tensor<12xi32>, {results}
    }}""".encode())
    # by number where all are numbers, else by name; depth first
    order = ["W/0", "W/2", "W/10", "W/11", "a", "b/B", "b/a", "b/c/x", "b/c/y", "c", "c2", "é"]
    for folder in ("p", "p/W", "p/b", "p/b/c"):
        os.mkdir(f"{d}/{folder}")
    for i, name in sorted(enumerate(order), key=lambda e: e[1][::-1]):
        scalar(f"directories/p/{name}", i)
    make(d + "/p/scratch", b"not an array")
    o = dict(op="execute", executable="list")
    ok(inputs=["directories/p"], outputs=["directories/all", "directories/q/"], **o)
    equal("in order", text(d + "/all"), b"0 1 2 3 4 5 6 7 8 9 10 11\n")
    equal("new directory", sorted(os.listdir(d + "/q"), key=lambda n: int(n[:-4])),
          [f"{i}.npy" for i in range(12)])
    equal("q/7", text(d + "/q/7"), b"7\n")
    # a device's directory, and all of a device
    ok(inputs=[device(0, "/directories/p/")],
       outputs=["directories/all", device(0, "/directories/p//")], **o)
    equal("in order", text(d + "/all"), b"0 1 2 3 4 5 6 7 8 9 10 11\n")
    for i in range(12):
        ok(op="create", buffer=str(i), device=device(1), dtype="S32", shape=[], fill=11 - i)
    ok(inputs=[device(1, "/")], outputs=["directories/all", "directories/far/"], move=True, **o)
    equal("all of a device", text(d + "/all"), b"11 10 9 8 7 6 5 4 3 2 1 0\n")
    refused("EINVAL", "is on another device", inputs=["directories/p"],
            outputs=["directories/all", device(1, "/")], **o)
    refused("ENODEV", "there is no device", inputs=["directories/p"],
            outputs=["directories/all", device(77, "/")], **o)
    for i in range(12):
        os.unlink(on(1, f"{i}.npy"))
    holds("no such directory", not os.path.exists(f"{cases.buffers}/{device(1)}"))
    # what cannot be
    refused("EINVAL", "only one output can be a new directory", inputs=["directories/p"],
            outputs=["directories/all", "directories/s/", "directories/t/"], **o)
    refused("EINVAL", "the program takes 12 inputs, 13 were", outputs=["directories/q/"],
            inputs=["directories/p", "directories/all"], **o)
    refused("ENOENT", "no directory", inputs=["directories/p"],
            outputs=["directories/all", "directories/no/q/"], **o)
    holds("none of them is there", not os.path.exists(d + "/s"))


@case
def several_devices(d):
    there = on(1, "several_devices")
    os.mkdir(there)
    program("sum", content(cases.DATA + "/sum.mlir"))
    make(cases.mnt + "/executables/sum/options.json", b'{"num_replicas":2}')
    numbers(d, x=(1, 2, 3))
    numbers(there, x=(10, 20, 30))
    o = dict(op="execute", executable="sum")
    here = "several_devices/"
    # one word means that name on each device
    reply = ok(inputs=[here + "x"], outputs=[here + "s"], **o)
    equal("devices", [row[0]["device"] for row in reply["outputs"]], [device(0), device(1)])
    equal("here", text(d + "/s"), b"11 22 33\n")
    equal("there", text(there + "/s"), b"11 22 33\n")
    # rows
    reply = ok(inputs=[[here + "x"], [here + "x"]], outputs=[[here + "a"], [here + "b"]],
               repeat=2, **o)
    equal("there", text(there + "/b"), b"11 22 33\n")
    # fed on one of them: the other's array is its own in every repetition
    numbers(d, x1=(1, 1, 1))
    numbers(there, x1=(10, 10, 10))
    ok(inputs=[[here + "x1"], [here + "x1"]], outputs=[[here + "x1"], [here + "c"]],
       repeat=2, **o)
    equal("fed", text(d + "/x1"), b"21 21 21\n")
    equal("not fed", text(there + "/x1"), b"10 10 10\n")
    equal("its result", text(there + "/c"), b"21 21 21\n")
    # an array is made on the device that its name selects
    ok(op="create", buffer=device(1, "/") + here + "made", dtype="F32", shape=[3], fill=7)
    equal("made there", about(there + "/made.txt")["device"], device(1))
    ok(inputs=[[here + "x"], [here + "made"]], outputs=[here + "s"], **o)
    equal("used there", text(there + "/s"), b"8 9 10\n")
    # fed, on both
    ok(inputs=[here + "x"], outputs=[here + "x"], repeat=3, **o)
    equal("here", text(d + "/x"), b"44 88 132\n")
    equal("there", text(there + "/x"), b"44 88 132\n")
    # a missing row, too many, unequal ones: before anything is launched
    for rows in (1, 3):
        refused("EINVAL", "runs on 2 devices at once: expected 2 rows",
                inputs=[[here + "x"]] * rows, outputs=[[here + "s"]] * rows, **o)
    refused("EINVAL", "row 1 has 2", inputs=[[here + "x"], [here + "x"] * 2],
            outputs=[[here + "s"]] * 2, **o)
    refused("ENOENT", "row 1: input 0", inputs=[[here + "x"], [here + "none"]],
            outputs=[[here + "s"]] * 2, **o)
    refused("EINVAL", "row 1: input 0", inputs=[[here + "x"], [device(0, "/") + here + "x"]],
            outputs=[[here + "s"]] * 2, **o)
    reply = line("sum", f"{here}x -> {here}y")
    holds(reply, reply.startswith(f"ok: {here}y F32[3] on {device(0)}; {here}y F32[3] on {device(1)} in "))


@case
def copies(d):
    there = on(1)
    numbers(d, x=(1, 2, 3))
    ok(op="copy", buffer="copies/x", **{"as": "copies/y"})
    equal("y", text(d + "/y"), b"1 2 3\n")
    of_arrays = [[s for s in about(d + name)["segments"] if not s["id"].startswith("file ")]
                 for name in ("/x.txt", "/y.npy")]
    equal("one segment", of_arrays[0][-1:], of_arrays[1])
    ok(op="copy", buffer="copies/x", **{"as": device(1, "/far")})
    equal("far", text(there + "far"), b"1 2 3\n")
    equal("device", about(there + "far.npy")["device"], device(1))
    # back, over a name that is there
    numbers(there, far=(4, 5, 6))
    ok(op="copy", buffer="far", device=device(1), **{"as": device(0, "/copies/y")})
    equal("y", text(d + "/y"), b"4 5 6\n")
    refused("ENOENT", "no buffer", op="copy", buffer="copies/none", **{"as": "copies/z"})
    refused("ENOENT", "no directory", op="copy", buffer="copies/x", **{"as": "none/z"})
    refused("EINVAL", "as", op="copy", buffer="copies/x")


def job_of(reply):
    return f"{cases.mnt}/jobs/{reply['job']}"


@case
def jobs(d):
    program("add", ADD)
    numbers(d, x=(1, 2, 3), y=(10, 20, 30))
    o = {"op": "execute", "executable": "add", "inputs": ["jobs/x", "jobs/y"],
         "outputs": ["jobs/z"], "async": True}
    reply = ok(**o, id="mine")
    equal("keys", sorted(reply), ["id", "job", "ok"])
    ended = ok(op="wait", job=reply["job"])
    equal("ended", (ended["state"], ended["result"]["ok"], ended["result"]["id"]),
          ("done", True, "mine"))
    equal("z", text(d + "/z"), b"11 22 33\n")
    job = job_of(reply)
    equal("state", content(job + "/state"), b"done\n")
    equal("request", json.loads(content(job + "/request.json")), {**o, "id": "mine"})
    equal("result", json.loads(content(job + "/result.json"))["result"], ended["result"])
    # one that fails
    reply = ok(**{**o, "inputs": ["jobs/x"]})
    ended = ok(op="wait", job=reply["job"])
    equal("state", ended["state"], "failed")
    holds("why", "takes 2 inputs" in ended["result"]["error"]["message"])
    # by a line
    number = int(line("add", "jobs/x jobs/y -> jobs/w async").removeprefix("ok: job "))
    equal("state", ok(op="wait", job=number)["state"], "done")
    # a batch as a whole
    o.pop("async")
    reply = ok(**{"op": "batch", "async": True, "steps": [o, o]})
    equal("replies", len(ok(op="wait", job=reply["job"])["result"]["replies"]), 2)
    # all it takes, at once
    o["async"] = True
    numbers_of = [ok(**o)["job"] for _ in range(200)]
    holds("each has a number", len(set(numbers_of)) == 200)
    for number in numbers_of:
        equal("state", ok(op="wait", job=number)["state"], "done")
    refused("ENOENT", "no job 99999", op="wait", job=99999)
    refused("EINVAL", "job", op="wait")
    refused("EINVAL", "job", op="wait", job="1")
    refused("EINVAL", "job", op="cancel", job=-1)
    # only so many are remembered
    for _ in range(1100):
        command(**{"op": "stat", "buffer": "jobs/x", "async": True})
    holds("not all of them", len(os.listdir(cases.mnt + "/jobs")) <= 1001)


@case
def long_ones(d):
    """Waiting, cancelling, timeouts: other commands are not delayed."""
    program("count", COUNT)
    program("add", ADD)
    numbers(d, x=(1, 2, 3))
    o = {"op": "execute", "executable": "count", "outputs": ["long_ones/n"]}
    # almost a second, and more than a minute, on the fastest of machines; not two of the latter
    # at once: they might be all that the plugin has threads for
    for name, n in (("long", 10**11), ("medium", 10**9), ("short", 1000)):
        scalar(f"long_ones/{name}", n, "S64")
    # a time limit answers at once; a running execution continues, and its results are dropped
    refused("ETIMEDOUT", "within 200 ms; what had begun goes on", timeout_ms=200,
            **{**o, "inputs": ["long_ones/medium"], "outputs": ["long_ones/never"]})
    holds("it continues", b" running " in queue())
    ok(timeout_ms=100000, **{**o, "inputs": ["long_ones/short"]})
    holds("n", text(d + "/n") != b"0\n")
    # a job, while other commands are answered
    reply = ok(**{**o, "inputs": ["long_ones/long"], "async": True})
    equal("state", content(job_of(reply) + "/state"), b"running\n")
    refused("ETIMEDOUT", "within 100 ms; the job goes on", op="wait", job=reply["job"],
            timeout_ms=100)
    # one that waits for it can be cancelled; what waits for itself is refused
    waiter = ok(op="wait", job=reply["job"], **{"async": True})
    batch = ok(**{"op": "batch", "async": True, "steps": [{"op": "wait", "job": waiter["job"]}]})
    equal("told", ok(op="cancel", job=batch["job"])["state"], "cancelled")
    holds("why", "job %d, which it waited for, goes on" % waiter["job"]
          in ok(op="wait", job=batch["job"])["result"]["error"]["message"])
    equal("told", ok(op="cancel", job=waiter["job"])["state"], "cancelled")
    equal("the first", content(job_of(reply) + "/state"), b"running\n")
    number = waiter["job"] + 2
    ended = ok(op="wait", job=ok(op="wait", job=number, **{"async": True})["job"])
    equal("itself", (ended["job"], ended["result"]["error"]["errno"]), (number, "EDEADLK"))
    number += 3
    one = ok(**{"op": "batch", "async": True, "steps": [
        {"op": "wait", "job": reply["job"], "timeout_ms": 100}]})
    equal("a step's limit", ok(op="wait", job=one["job"])["state"], "failed")
    # nor may two wait for each other: one gets EDEADLK, the other ends
    one = ok(**{"op": "batch", "async": True, "steps": [
        {"op": "execute", "executable": "count", "inputs": ["long_ones/medium"],
         "outputs": ["long_ones/n"]},
        {"op": "wait", "job": number}]})["job"]
    equal("the number", number, one + 1)
    two = ok(op="wait", job=one, **{"async": True})["job"]
    equal("the number", number, two)
    ended = ok(op="wait", job=one)
    holds(f"told: {ended}", "EDEADLK" in json.dumps(ended) and "by way of others" in
          json.dumps(ended))
    equal("the other", ok(op="wait", job=two)["state"], "done")
    make(d + "/other.txt", b"7\n")
    equal("other", text(d + "/other"), b"7\n")
    ok(op="execute", executable="add", inputs=["long_ones/x"] * 2, outputs=["long_ones/y"])
    equal("y", text(d + "/y"), b"2 4 6\n")
    waits = []
    waiters = [threading.Thread(target=lambda: waits.append(ok(op="wait", job=reply["job"])))
               for _ in range(8)]
    for waiter in waiters:
        waiter.start()
    told = ok(op="cancel", job=reply["job"])
    holds(f"it runs: {told}, {content(job_of(reply) + '/result.json')}",
          told["state"] == "running")
    # what a plugin cannot stop ends with its worker; arrays of users are there afterwards
    make(job_of(reply) + "/cancel", b"force\n")
    for waiter in waiters:
        waiter.join(cases.PATIENCE)
    equal("states", [w["state"] for w in waits], ["cancelled"] * len(waiters))
    holds("why", "its worker was ended" in waits[0]["result"]["error"]["message"])
    eventually("restarted", lambda: of_plugin("restarts") == "1\n")
    ok(op="execute", executable="add", inputs=["long_ones/x"] * 2, outputs=["long_ones/y"])
    equal("y", text(d + "/y"), b"2 4 6\n")
    holds("nothing of the one that timed out", not os.path.exists(d + "/never.npy"))


@case
def at_once(d):
    """Fifty at once, on descriptors of their own: each reply is its own's."""
    program("add", ADD)
    numbers(d, one=(1, 1, 1))

    def work(k):
        numbers(d, **{f"x{k}": (k, k, k)})
        fd = opened(cases.mnt + "/control", os.O_RDWR)
        for i in range(5):
            name = f"at_once/x{k}"
            reply = ask(fd, {"op": "execute", "executable": "add", "id": [k, i],
                             "inputs": [name, "at_once/one"], "outputs": [name]})
            equal("id", reply["id"], [k, i])
        os.close(fd)
        equal("sum", text(f"{d}/x{k}"), f"{k + 5} {k + 5} {k + 5}\n".encode())

    end_well(*[child(work, k) for k in range(50)])


cases.main()
