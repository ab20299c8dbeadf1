# SPDX-License-Identifier: Apache-2.0
"""Operations of a daemon whose allocations fail: each of them once, at the Nth allocation.

    FAILING_MALLOC=FILE no_memory.py MOUNTPOINT [CASE...]

FILE is that of tests/tools/failing_malloc.c, which the daemon was started with.  An operation is
a generator: it prepares, yields, does what memory may fail in, yields, and checks what it made.
For N = 1, 2, 3 ... the Nth allocation fails, until an operation makes fewer than N.  Then either
it has failed with ENOMEM (or another errno that it lists, with the reason), or it has done all.
After each N the daemon answers, the files that were there before have their bytes, and the same
operation succeeds; nothing is leaked.

PJRTFS_TEST_NO_MEMORY: the step of N (1: all), and the variants: "1 once all every larger".
"""

import errno
import itertools
import json
import mmap
import os
import select
import shutil
import struct
import sys
import time

import cases
from cases import (Refused, case, command, content, equal, eventually, floats, holds, make, ok, used)

SETTINGS = os.environ.get("PJRTFS_TEST_NO_MEMORY",
                          f"{max(1, 10 // cases.TIMES)} once all every larger").split()
STEP, VARIANTS = int(SETTINGS[0]), SETTINGS[1:]
OFF, ONCE, ALL_FROM, EVERY, LARGER = range(5)
MOST = 20000  # allocations of an operation that are tried
# The mount has this state directory: then the operations that need one run, else the others.
STATE = os.environ.get("PJRTFS_TEST_STATE")

X = floats(1, 2, 3)
Y = floats(10, 20, 30)
Z = floats(11, 22, 33)
TEXT = b"1 2 3\n4 5 6\n"
BYTES = bytes(range(256)) * 64
EXECUTE = {"op": "execute", "executable": "kept", "inputs": ["kept/x", "kept/y"]}


# --- the switch -----------------------------------------------------------------------------

_file = os.open(os.environ["FAILING_MALLOC"], os.O_RDWR)
_map = mmap.mmap(_file, 32)


def set_mode(mode, n=0):
    """From now on allocations fail; how many did since the last time."""
    failed = struct.unpack_from("l", _map, 24)[0]
    struct.pack_into("l", _map, 0, OFF)
    struct.pack_into("lll", _map, 8, n, 0, 0)
    struct.pack_into("l", _map, 0, mode)
    return failed


# --- one operation --------------------------------------------------------------------------


def clear(d):
    """Remove what an operation left in its directories."""
    name = os.path.basename(d)
    for at in (d, f"{cases.mnt}/programs/{name}", f"{cases.mnt}/executables/{name}"):
        for path in [at + "/" + name for name in os.listdir(at)]:
            if at.startswith(cases.mnt + "/executables"):
                os.rmdir(path)
            elif os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)


def attempt(op, d, mode, n):
    """Run OP while memory fails.  The errno that it failed with, or None; did an allocation fail?"""
    run = op(d)
    next(run)
    why = None
    set_mode(mode, n)
    try:
        next(run)
    except Refused as e:
        why = e.args[0]
    except OSError as e:
        why = errno.errorcode.get(e.errno, str(e.errno))
    finally:
        failed = set_mode(OFF)
    if why is None:
        for _ in run:
            pass
    return why, failed


def whole(kept):
    """The daemon answers, and files that were closed before have their bytes."""
    for path, data in kept.items():
        equal(path, content(path), data)


def succeed(op, d):
    for _ in op(d):
        pass
    clear(d)


def sweep(op, d, kept, allowed, stays, mode, numbers):
    """Let OP's allocations fail as MODE says, for each N; how many."""
    swept, before = 0, used()
    for n in numbers:
        why, failed = attempt(op, d, mode, n)
        holds(f"{op.__name__}, {mode}, {n}: {why} is ENOMEM or one of {allowed}",
              why is None or why == "ENOMEM" or why in allowed)
        if not failed:
            holds(f"{op.__name__}, {mode}, {n}: {why} though nothing failed", why is None)
        clear(d)
        whole(kept)
        succeed(op, d)
        swept += 1
        if used() > before and not stays:
            eventually(f"{op.__name__}, {mode}, {n}: the memory of files that are gone is free",
                       lambda: used() <= before)
        if mode == ONCE and not failed:
            break
    return swept


def operation(allowed="", once=None, stays=False, state=False):
    """Have main() sweep the operation, whose failures may be ALLOWED, too.  ONCE: only these
    allocations fail, once.  STAYS: what it leaves counts as memory in use, as the jobs that have
    ended do.  STATE: it needs the mount with the state directory."""

    def register(op):
        if state != bool(STATE):
            return op

        def run(d):
            os.mkdir(cases.mnt + "/programs/" + os.path.basename(d))
            kept = keep()
            succeed(op, d)
            numbers = {
                "once": (ONCE, once or range(1, MOST, STEP)),
                "all": (ALL_FROM, range(1 + STEP // 2, 60, STEP)),
                "every": (EVERY, range(2, 40, (STEP + 1) // 2)),
                "larger": (LARGER, [1 << i for i in range(20, 3, -((STEP + 1) // 2))]),
            }
            swept = 0
            for variant in ["once"] if once else VARIANTS:
                swept += sweep(op, d, kept, allowed.split(), stays, *numbers[variant])
            shutil.rmtree(cases.mnt + "/programs/" + os.path.basename(d))
            print(f"{op.__name__}: {swept} times")

        run.__name__ = op.__name__
        return case(run)

    return register


def keep():
    """Files that no failure may touch: {path: bytes}."""
    at = cases.buffers + "/kept"
    programs = cases.mnt + "/programs/kept.mlir"
    if not os.path.exists(at):
        os.mkdir(at)
        make(at + "/x.npy", X)
        make(at + "/y.npy", Y)
        make(at + "/t.txt", TEXT)
        make(at + "/scratch", BYTES)
        make(programs, cases.ADD)
        ok(**EXECUTE, outputs=["kept/z"])
    return {at + "/x.npy": X, at + "/y.npy": Y, at + "/z.npy": Z, at + "/t.txt": TEXT,
            at + "/scratch": BYTES, programs: cases.ADD}


def rel(d, name):
    return os.path.basename(d) + "/" + name


def program_at(d, name):
    return f"{cases.mnt}/programs/{rel(d, name)}"


def executable_at(d, name):
    return f"{cases.mnt}/executables/{rel(d, name)}"


# --- arrays ---------------------------------------------------------------------------------


@operation()
def upload(d):
    yield
    make(d + "/x.npy", X)
    yield
    equal("x", content(d + "/x.npy"), X)


@operation()
def upload_large(d):
    data = bytes(range(256)) * 4096 * 3
    yield
    make(d + "/x.raw", data)
    yield
    equal("x", content(d + "/x.raw") == data, True)


@operation()
def replace(d):
    make(d + "/x.npy", X)
    make(d + "/part", Y)
    yield
    os.rename(d + "/part", d + "/x.npy")
    yield
    equal("x", content(d + "/x.npy"), Y)


@operation()
def text(d):
    yield
    make(d + "/x.txt", TEXT)
    yield
    equal("x", content(d + "/x.txt"), TEXT)


@operation()
def views(d):
    make(d + "/x.npy", X)
    yield
    got = [content(f"{d}/x.{view}") for view in ("npy", "raw", "txt", "json", "safetensors")]
    yield
    equal("npy", got[0], X)
    equal("raw", got[1], X[-12:])
    equal("txt", got[2], b"1 2 3\n")
    equal("json", json.loads(got[3])["shape"], [3])
    equal("safetensors", got[4][-12:], X[-12:])


@operation()
def long_text(d):
    n = 200000
    make(d + "/x.raw", b"\x01" * n)
    yield
    got = content(d + "/x.txt")
    yield
    equal("txt", got, b"1 " * (n - 1) + b"1\n")


@operation()
def attributes(d):
    make(d + "/x.raw", bytes(24))
    yield
    os.setxattr(d + "/x.raw", "user.pjrtfs.dtype", b"F32")
    os.setxattr(d + "/x.raw", "user.pjrtfs.shape", b"2,3")
    names = os.listxattr(d + "/x.raw")
    got = os.getxattr(d + "/x.raw", "user.pjrtfs.shape")
    yield
    equal("shape", got, b"[2,3]")
    holds(f"names: {names}", "user.pjrtfs.state" in names)


@operation()
def names(d):
    make(d + "/x.npy", X)
    yield
    os.mkdir(d + "/dir")
    os.rename(d + "/x.npy", d + "/dir/y.npy")
    os.chmod(d + "/dir/y.npy", 0o600)
    os.utime(d + "/dir/y.npy")
    listed = os.listdir(d + "/dir")
    os.rename(d + "/dir/y.npy", d + "/z.npy")
    os.rmdir(d + "/dir")
    yield
    equal("listed", listed, ["y.npy"])
    equal("z", content(d + "/z.npy"), X)


@operation()
def remove(d):
    make(d + "/x.npy", X)
    yield
    os.unlink(d + "/x.npy")
    yield
    equal("left", os.listdir(d), [])


TENSORS = json.dumps({
    name: {"dtype": "F32", "shape": [3], "data_offsets": [12 * i, 12 * i + 12]}
    for i, name in enumerate(["a.b", "layers/0/w", "layers/1/w"])
}).encode()
CHECKPOINT = struct.pack("<Q", len(TENSORS)) + TENSORS + X[-12:] + Y[-12:] + Z[-12:]


@operation()
def checkpoint(d):
    yield
    make(d + "/m.safetensors", CHECKPOINT)
    got = content(d + "/m/layers/0/w.npy")
    yield
    equal("w", got, Y)
    equal("the file", content(d + "/m.safetensors"), CHECKPOINT)


@operation()
def shards(d):
    make(d + "/x.raw", X[-12:])
    name = rel(d, "x")
    made = [cases.on(i, os.path.basename(d)) for i in (1, 2)]
    for at in made:
        os.makedirs(at, exist_ok=True)
    yield
    ok(op="shard", buffer=name, mesh={"i": 3}, spec=["i"], **{"as": rel(d, "s")})
    ok(op="gather", buffer=rel(d, "s"), **{"as": rel(d, "g")})
    described = content(d + "/s.sharding.json")
    yield
    equal("g", content(d + "/g.raw"), X[-12:])
    equal("mesh", json.loads(described)["mesh"], {"i": 3})
    for at in made:
        shutil.rmtree(at)


# --- commands -------------------------------------------------------------------------------


@operation()
def buffer_commands(d):
    yield
    ok(op="create", buffer=rel(d, "a"), dtype="F32", shape=[2, 3], fill=1)
    ok(op="create", buffer=rel(d, "b"), dtype="F32", shape=[2, 3])
    ok(op="create", buffer=rel(d, "u"), dtype="F32", shape=[2], uninitialized=True)
    ok(op="copy", buffer=rel(d, "a"), **{"as": rel(d, "c")})
    about = ok(op="stat", buffer=rel(d, "c"))
    ok(op="delete", buffer=rel(d, "a"))
    yield
    equal("c", content(d + "/c.txt"), b"1 1 1\n1 1 1\n")
    equal("dtype", about["buffer"]["dtype"], "F32")


@operation()
def execute(d):
    yield
    reply = ok(**EXECUTE, outputs=[rel(d, "z")], id={"a": [1, "b"]})
    yield
    equal("z", content(d + "/z.npy"), Z)
    equal("id", reply["id"], {"a": [1, "b"]})
    equal("outputs", [o["name"] for o in reply["outputs"]], [rel(d, "z")])


@operation()
def run(d):
    yield
    make(cases.mnt + "/executables/kept/run", f"kept/x kept/y -> {rel(d, 'z')}\n".encode(),
         flags=os.O_WRONLY)
    reply = content(cases.mnt + "/executables/kept/run")
    yield
    equal("z", content(d + "/z.npy"), Z)
    holds(f"{reply}", reply.startswith(b"ok: "))


@operation()
def repeat(d):
    make(d + "/a.npy", X)
    yield
    ok(op="execute", executable="kept", inputs=[rel(d, "a"), "kept/y"], outputs=[rel(d, "a")],
       repeat=3)
    yield
    equal("a", content(d + "/a.npy"), floats(31, 62, 93))


def called(file, data):
    """What a call with DATA gives."""
    fd = os.open(f"{cases.mnt}/executables/kept/{file}", os.O_RDWR)
    try:
        os.write(fd, data)
        return os.read(fd, 65536)
    finally:
        os.close(fd)


@operation()
def call(d):
    yield
    got = called("call", X + Y)
    yield
    equal("z", got, Z)


@operation()
def call_bound(d):
    bind = cases.mnt + "/executables/kept/bind"
    yield
    make(bind, b"kept/x *\n")
    try:
        got = called("call.raw", Y[-12:])
    finally:
        make(bind, b"\n")
    yield
    equal("z", got, Z[-12:])


# ENOSPC: the plugin's error says RESOURCE_EXHAUSTED
@operation("ENOSPC")
def callback(d):
    name = os.path.basename(d)
    text = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.custom_call @pjrtfs_callback(%x) {api_version = 4 : i32,
         backend_config = {index = 0 : ui64}} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
"""
    make(f"{cases.mnt}/programs/{name}/ask.mlir", text.encode())
    at = f"{cases.mnt}/executables/{name}/ask"
    got = {}
    yield
    fds = []
    try:
        fds.append(os.open(at + "/call", os.O_RDWR))
        for file, answer in (("0", Y), ("0.txt", b"11 22 33\n")):
            host = os.open(f"{at}/callbacks/{file}", os.O_RDWR)
            fds.append(host)
            os.write(fds[0], X)
            poll = select.poll()
            poll.register(fds[0], select.POLLIN)
            poll.register(host, select.POLLIN | select.POLLOUT)
            while True:
                ready = dict(poll.poll(cases.PATIENCE * 1000))
                holds("something happens", ready)
                if any(events & select.POLLERR for events in ready.values()):
                    raise OSError(errno.ENOMEM, "no memory for poll(2)")
                if fds[0] in ready:
                    break
                if ready[host] & select.POLLIN:
                    os.read(host, 4096)
                else:
                    os.write(host, answer)
            got[file] = os.read(fds[0], 4096)
            os.close(fds.pop())
    finally:
        for fd in fds:
            os.close(fd)
    yield
    equal("results", got, {"0": Y, "0.txt": Z})


@operation()
def batch(d):
    yield
    reply = ok(op="batch",
               steps=[{**EXECUTE, "outputs": [rel(d, "z")]},
                      {**EXECUTE, "inputs": [rel(d, "z"), "kept/y"], "outputs": [rel(d, "w")]},
                      {"op": "delete", "buffer": rel(d, "z")}])
    yield
    equal("replies", [r["ok"] for r in reply["replies"]], [True] * 3)
    equal("w", content(d + "/w.npy"), floats(21, 42, 63))


def end_well(job):
    """Wait for the end of the job; raises Refused."""
    result = ok(op="wait", job=job)["result"]
    if not result["ok"]:
        raise Refused(result["error"]["errno"], result["error"]["message"])


@operation(stays=True)
def job(d):
    yield
    n = ok(**EXECUTE, outputs=[rel(d, "z")], **{"async": True})["job"]
    ok(op="wait", job=n)
    at = f"{cases.mnt}/jobs/{n}"
    facts = [content(f"{at}/{name}") for name in ("state", "request.json", "result.json")]
    holds("listed", str(n) in os.listdir(cases.mnt + "/jobs"))
    end_well(n)
    yield
    equal("z", content(d + "/z.npy"), Z)
    equal("state", facts[0], b"done\n")
    equal("request", json.loads(facts[1])["op"], "execute")
    equal("result", json.loads(facts[2])["result"]["ok"], True)


@operation(stays=True)
def batch_job(d):
    yield
    steps = [{**EXECUTE, "outputs": [rel(d, "z")]}]
    end_well(ok(op="batch", steps=steps, **{"async": True})["job"])
    yield
    equal("z", content(d + "/z.npy"), Z)


# --- programs -------------------------------------------------------------------------------

_numbers = itertools.count()


@operation()
def compile_again(d):
    """What the cache has."""
    yield
    make(program_at(d, "p.mlir"), cases.ADD)
    yield
    equal("state", content(executable_at(d, "p/state")), b"ready\n")
    equal("p", content(program_at(d, "p.mlir")), cases.ADD)


@operation()
def compile_new(d):
    program = cases.ADD + b"// %d\n" % next(_numbers)
    yield
    make(program_at(d, "p.mlir"), program)
    yield
    equal("state", content(executable_at(d, "p/state")), b"ready\n")
    equal("p", content(program_at(d, "p.mlir")), program)
    for entry in os.listdir(f"{cases.mnt}/cache/entries"):
        holds(f"the cache's {entry} has its facts",
              "inputs" in json.loads(content(f"{cases.mnt}/cache/entries/{entry}")))


@operation()
def options(d):
    make(program_at(d, "p.mlir"), cases.ADD)
    yield
    make(executable_at(d, "p/options.json"),
         json.dumps({"num_replicas": 1, "device": cases.device(1)}).encode())
    yield
    equal("options", json.loads(content(executable_at(d, "p/options.json")))["num_replicas"], 1)
    equal("state", content(executable_at(d, "p/state")), b"ready\n")


@operation()
def compile_as(d):
    yield
    ok(op="compile", program="kept.mlir", options={"device": cases.device(1)}, **{"as": rel(d, "q")})
    yield
    equal("state", content(executable_at(d, "q/state")), b"ready\n")


@operation()
def facts(d):
    x = cases.mnt + "/executables/kept"
    yield
    got = {name: content(f"{x}/{name}") for name in
           ("signature.json", "info.json", "cost.json", "memory.json", "estimate.json",
            "optimized.hlo.pb", "serialized", "state", "error", "options.json")}
    about = ok(op="stat", executable="kept")
    yield
    equal("inputs", len(json.loads(got["signature.json"])["inputs"]), 2)
    equal("replicas", json.loads(got["info.json"])["num_replicas"], 1)
    equal("outputs", about["executable"]["num_outputs"], 1)
    holds("optimized", len(got["optimized.hlo.pb"]) > 100)
    holds("serialized", len(got["serialized"]) > 100)


@operation()
def native(d):
    data = content(cases.mnt + "/executables/kept/serialized")
    yield
    make(program_at(d, "n.pjrtexe"), data)
    yield
    ok(**{**EXECUTE, "executable": rel(d, "n")}, outputs=[rel(d, "z")])
    equal("z", content(d + "/z.npy"), Z)


@operation()
def program_names(d):
    make(program_at(d, "p.mlir"), cases.ADD)
    yield
    os.mkdir(program_at(d, "dir"))
    os.rename(program_at(d, "p.mlir"), program_at(d, "dir/q.mlir"))
    listed = os.listdir(executable_at(d, "dir"))
    os.unlink(program_at(d, "dir/q.mlir"))
    os.rmdir(program_at(d, "dir"))
    yield
    equal("listed", listed, ["q"])


# --- the rest -------------------------------------------------------------------------------


@operation()
def listing(d):
    mnt, plugin = cases.mnt, cases.plugin
    yield
    listed = {at: os.listdir(f"{mnt}/{at}") for at in
              ("", "plugins", f"plugins/{plugin}", "devices", f"devices/{plugin}",
               f"devices/{plugin}/0", "buffers", "programs", "executables", "executables/kept",
               "cache", "cache/entries", "jobs")}
    yield
    holds("devices", "0" in listed[f"devices/{plugin}"])
    holds("buffers", "kept" in listed["buffers"])


@operation()
def small_files(d):
    mnt, plugin = cases.mnt, cases.plugin
    paths = [f"{mnt}/{name}" for name in
             ("README", "version", "pid", "health", "error", "events", "metrics.prom",
              "cache/stats.json", "cache/max", f"plugins/{plugin}/attributes.json",
              f"plugins/{plugin}/alive.json", f"plugins/{plugin}/log",
              f"plugins/{plugin}/extensions", f"plugins/{plugin}/options.json",
              f"devices/{plugin}/0/memory_stats.json", f"devices/{plugin}/0/attributes.json",
              f"devices/{plugin}/0/executables", f"devices/{plugin}/0/kind")]
    paths += [f"{mnt}/cache/entries/{name}" for name in os.listdir(f"{mnt}/cache/entries")[:1]]
    yield
    got = [content(path) for path in paths]
    yield
    holds("README", b"pjrtfs" in got[0])
    equal("health", got[3], b"ok\n")


@operation("ENOENT EINVAL EEXIST")
def refusals(d):
    """What is refused, with the sentence."""
    yield
    for path, data in (("x.npy", b"no array"), ("x.txt", b"1 2\n3\n"), ("x.csv", b"")):
        try:
            make(f"{d}/{path}", data)
        except OSError:
            pass
    command(op="execute", executable="none", inputs=[], outputs=[])
    content(cases.mnt + "/error")
    yield


@operation(once=(2, 20, 80))  # each death makes the next start later
def worker_dies(d):
    """The next instance starts, and has everything again."""
    at = f"{cases.mnt}/plugins/{cases.plugin}"
    eventually("a worker", lambda: content(at + "/state") == b"ready\n")
    pid, restarts = content(at + "/pid"), content(at + "/restarts")
    yield
    os.kill(int(pid), 9)
    # an execution that the worker has when it dies would be suspected
    eventually("its end", lambda: content(at + "/restarts") != restarts)
    ok(**EXECUTE, outputs=[rel(d, "z")], timeout_ms=60000)
    yield
    equal("z", content(d + "/z.npy"), Z)


# --- with a state directory, topologies and maxima ------------------------------------------


@operation(state=True)
def topology(d):
    at, name = f"{cases.mnt}/topologies", os.path.basename(d)
    data = content(f"{cases.mnt}/plugins/{cases.plugin}/topology.pb")
    for left in sorted(os.listdir(at)):  # NAME.json goes with NAME.pb
        os.unlink(f"{at}/{left}")
    yield
    make(f"{at}/before.pb", data)
    os.rename(f"{at}/before.pb", f"{at}/{name}.pb")
    ok(op="compile", program="kept.mlir", options={"topology": name}, **{"as": rel(d, "q")})
    listed = sorted(os.listdir(at))
    yield
    equal("listed", listed, [f"{name}.json", f"{name}.pb"])
    equal("bytes", content(f"{at}/{name}.pb"), data)
    equal("state", content(executable_at(d, "q/state")), b"compiled\n")


# EOPNOTSUPP: plugins for CPUs make no topologies
@operation("EOPNOTSUPP", state=True)
def topology_request(d):
    at = f"{cases.mnt}/topologies/{os.path.basename(d)}"
    request = {"name": "", "options": {"target_config": "h100_sxm", "sizes": [1, 2]}}
    yield
    for path, data in (at + ".json", json.dumps(request).encode()), (at + ".txt", b"two\n"):
        try:
            make(path, data)
        except OSError as e:
            if e.errno != errno.EOPNOTSUPP:
                raise
        else:
            holds("it is refused", False)
        os.unlink(path)
    yield


# EDQUOT: what it is for
@operation("EDQUOT", state=True)
def maxima(d):
    at = f"{cases.mnt}/users/{next(_numbers) + 5000}"
    here = f"{cases.mnt}/users/{os.getuid()}"
    yield
    os.mkdir(at)
    make(at + "/jobs.max", b"7\n", flags=os.O_WRONLY)
    facts = [content(f"{here}/{name}") for name in os.listdir(here)
             if name.endswith((".current", ".max"))]
    holds("listed", os.path.basename(at) in os.listdir(cases.mnt + "/users"))
    number = int(content(here + "/buffers.current"))
    make(here + "/buffers.max", b"%d\n" % number, flags=os.O_WRONLY)
    try:
        make(d + "/x.npy", X)
    except OSError as e:
        if e.errno != errno.EDQUOT:
            raise
    else:
        holds("the maximum of buffers", False)
    finally:
        set_mode(OFF)
        make(here + "/buffers.max", b"max\n", flags=os.O_WRONLY)
    yield
    holds("facts", len(facts) > 4)
    equal("max", content(at + "/jobs.max"), b"7\n")


@operation(state=True, stays=True)
def from_disk(d):
    """Arrays that an earlier mount has left are read from the state directory, and stay."""
    at = f"{cases.buffers}/disk/{next(_numbers)}"
    yield
    got = content(at + ".npy"), content(at + ".txt")
    ok(op="execute", executable="kept", inputs=[f"disk/{os.path.basename(at)}", "kept/y"],
       outputs=[rel(d, "z")])
    yield
    equal("read", got, (X, b"1 2 3\n"))
    equal("z", content(d + "/z.npy"), Z)


@operation(state=True, once=range(1, MOST, 20 * STEP))  # each takes more than a second
def to_disk(d):
    """Files are written behind."""
    program = program_at(d, "p.mlir")
    yield
    os.mkdir(d + "/dir")
    make(d + "/dir/x.npy", X)
    make(program, cases.ADD)
    time.sleep(1.2)  # real time: the files are written after a second
    yield
    for path, data in (d + "/dir/x.npy", X), (program, cases.ADD):
        on_disk = path.replace(cases.mnt, STATE, 1)
        eventually(f"{on_disk} is whole",
                   lambda: os.path.exists(on_disk) and content(on_disk) == data)


if __name__ == "__main__":
    cases.use(sys.argv[1])
    keep()  # before all cases, none of which removes them
    cases.main()
