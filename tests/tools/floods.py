# SPDX-License-Identifier: Apache-2.0
"""Excessive, truncated and simultaneous requests: only the user who sends them is affected."""

import json
import os
import resource
import signal

import cases
from cases import (ADD, COUNT, as_user, ask, case, child, command, content, end_of, end_well, equal,
                   eventually, fails, holds, make, npy, opened, receive, root_case, send, used,
                   valid)

SANITIZED = "SANITIZED" in os.environ
MIB = 1 << 20
JOBS = 10000  # that one user may have


def begin(d):
    for name, text in (("add", ADD), ("count", COUNT)):
        make(f"{cases.mnt}/programs/{name}.mlir", text)
    make(d + "/x.txt", b"1 2 3\n")
    make(d + "/y.txt", b"10 20 30\n")


def control():
    return opened(cases.mnt + "/control", os.O_RDWR)


def memory():
    """Bytes of the daemon that do not belong to arrays."""
    pid = content(cases.mnt + "/pid").decode().strip()
    for line in content(f"/proc/{pid}/status").decode().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


def no_dearer(before, mib):
    now = memory()
    holds(f"memory: {before / MIB:.0f} MiB before, {now / MIB:.0f} now",
          SANITIZED or now < before + mib * MIB)


@case
def long_batches(d):
    begin(d)
    before = memory()
    fd = control()
    reply = ask(fd, {"op": "batch", "steps": [{}] * 100001})
    holds(f"too many steps: {reply}", "more than 100000" in reply["error"]["message"])
    equal("errno", reply["error"]["errno"], "E2BIG")
    reply = ask(fd, {"op": "batch", "steps": [{}] * 100000})
    holds(f"no op: {reply}", "step 0:" in reply["error"]["message"])
    # a command of more than a MiB is none
    send(fd, {"op": "batch", "steps": [{"op": "stat", "buffer": "long_batches/x"}] * 100000})
    reply = json.loads(receive(fd))
    equal("errno", reply["error"]["errno"], "E2BIG")
    os.close(fd)
    # what is read is whole
    fd = control()
    steps = [{"op": "delete", "buffer": "q"}] * 30000
    reply = ask(fd, {"op": "batch", "steps": steps})
    equal("stopped", len(reply["replies"]), 1)
    step = {"op": "copy", "buffer": "long_batches/x", "as": "long_batches/y"}
    n = 4000
    reply = ask(fd, {"op": "batch", "steps": [step] * n})
    equal("all of them", (reply["ok"], len(reply["replies"])), (True, n))
    # more replies than are good for anybody
    step = {"op": "stat", "executable": "add"}
    reply = ask(fd, {"op": "batch", "steps": [step] * (MIB // 40)})
    equal("errno", reply["error"]["errno"], "E2BIG")
    holds(f"which step: {reply['error']}", "replies have more than" in reply["error"]["message"])
    os.close(fd)
    no_dearer(before, 256)


@case
def each_others_outputs(d):
    """Two that take what the other makes: either value is right, none is torn."""
    begin(d)
    make(d + "/one.txt", b"1 1 1\n")
    here = "each_others_outputs/"

    def work(mine, other):
        fd = control()
        for _ in range(300):
            reply = ask(fd, {"op": "execute", "executable": "add",
                             "inputs": [here + other, here + "one"], "outputs": [here + mine]})
            holds(reply, reply["ok"])
        os.close(fd)

    end_well(*[child(work, "x", "y"), child(work, "y", "x")])
    for name in "xy":
        a, b, c = map(float, content(f"{d}/{name}.txt").split())
        holds("one array", b - a in (1, 10) and c - b in (1, 10))
        holds(f"counted: {a}", 1 < a < 700)  # the open descriptor refers to the old value


@case
def halves(d):
    """Half a command at close: EINVAL, and it never runs."""
    begin(d)
    whole = json.dumps({"op": "delete", "buffer": "halves/x"}).encode()
    for end in range(1, len(whole)):
        fd = opened(cases.mnt + "/control", os.O_WRONLY)
        equal("taken", os.write(fd, whole[:end]), end)
        fails("EINVAL", os.close, fd)
    # and what came after a whole one
    fd = opened(cases.mnt + "/control", os.O_WRONLY)
    os.write(fd, b'{"op":"delete","buffer":"halves/y"}\n' + whole[:-1])
    fails("EINVAL", os.close, fd)
    equal("x", content(d + "/x.txt"), b"1 2 3\n")
    fails("ENOENT", os.stat, d + "/y.npy")
    # writers that are killed after half a command
    for n in (1, 10, len(whole) - 1):
        def half():
            fd = opened(cases.mnt + "/control", os.O_WRONLY)
            os.write(fd, whole[:n])
            os.kill(os.getpid(), signal.SIGKILL)
        equal("killed", end_of(child(half)), -signal.SIGKILL)
    equal("x", content(d + "/x.txt"), b"1 2 3\n")


@root_case
def halves_in_many_files(d):
    """The open files of a user hold so much, and those of another one, too."""
    begin(d)
    half = b'{"x":"' + b"x" * (MIB - 7)
    fds = []

    def fill(path):
        for _ in range(300):
            fds.append(opened(path, os.O_WRONLY))
            os.write(fds[-1], half)

    def ask_once():
        holds("a command", command(op="stat", buffer="halves_in_many_files/x")["ok"])

    for name in ("control", "executables/add/options.json"):
        fails("ENOBUFS", fill, f"{cases.mnt}/{name}")
        holds(f"{name}: {len(fds)} files", len(fds) > 100)
        as_user(12345, ask_once)
        os.close(fds.pop())  # of which nothing was taken
        while fds:
            fails("EINVAL", os.close, fds.pop())
        ask_once()


@case
def a_thousand_sessions(d):
    begin(d)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    before = memory()
    fds = [control() for _ in range(1000)]
    for i, fd in enumerate(fds):
        send(fd, {"op": "execute", "executable": "add", "id": i,
                  "inputs": ["a_thousand_sessions/x", "a_thousand_sessions/y"],
                  "outputs": [f"a_thousand_sessions/z{i % 7}"]})
    # each has its own reply still
    for i, fd in reversed(list(enumerate(fds))):
        request = {"op": "execute", "executable": "add"}
        reply = valid(request, receive(fd))
        equal("id", reply["id"], i)
        equal("ok", reply["ok"], True)
    no_dearer(before, 128)
    for fd in fds:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@case
def callers_that_go(d):
    """A call whose reader closes while it runs, or before it reads, leaves no memory in use."""
    begin(d)
    count = npy("<i8", (), (2 * 10**8).to_bytes(8, "little"))
    few = npy("<i8", (), (10).to_bytes(8, "little"))
    path = cases.mnt + "/executables/count/call"
    before = used()

    def go(inputs, reads):
        fd = opened(path, os.O_RDWR)
        os.write(fd, inputs)
        os.write(1, b"")
        if reads:
            signal.alarm(1)
            os.read(fd, 4096)
        os.kill(os.getpid(), signal.SIGKILL)

    pids = [child(go, inputs, reads) for inputs in (count, few) for reads in (True, False)
            for _ in range(4)]
    for pid in pids:
        holds("ended by a signal", end_of(pid) < 0)
    fd = opened(path, os.O_RDWR)
    os.write(fd, few)
    holds("another's is answered", os.read(fd, 4096).startswith(b"\x93NUMPY"))
    os.close(fd)
    eventually("nothing is left", lambda: used() <= before)


def executed():
    """How many executions have ended."""
    for line in content(cases.mnt + "/metrics.prom").decode().splitlines():
        if line.startswith("pjrtfs_executions_total{") and 'result="ok"' in line:
            return int(float(line.split()[-1]))
    return 0


def answer(fd, request):
    """As ask(), for many: to compare a reply with its schema takes longer than the command."""
    send(fd, request)
    return json.loads(receive(fd))


def flood(n, **request):
    """Up to N jobs: their numbers, and the reply that refused one, or None."""
    fd, numbers = control(), []
    try:
        while len(numbers) < n:
            reply = answer(fd, {**request, "async": True})
            if not reply["ok"]:
                return numbers, reply
            numbers.append(reply["job"])
        return numbers, None
    finally:
        os.close(fd)


@root_case
def ten_thousand_jobs(d):
    """A user's flood delays another's single command by no more than a few executions."""
    begin(d)
    os.chmod(d, 0o777)
    for name, n in (("some", 3 * 10**7), ("few", 10)):
        command(op="create", buffer="ten_thousand_jobs/" + name, dtype="S64", shape=[], fill=n)
    o = {"op": "execute", "executable": "count", "inputs": ["ten_thousand_jobs/some"],
         "outputs": ["ten_thousand_jobs/n"]}
    numbers, refused = flood(3 * JOBS, **o)
    equal("no more than so many", refused["error"]["errno"], "EDQUOT")
    holds(f"that many: {len(numbers)}", len(numbers) >= JOBS)
    told = json.loads(content(f"{cases.mnt}/jobs/{numbers[-1]}/result.json"))
    equal("state", told["state"], "queued")
    holds(f"its place: {told}", told["position"] > JOBS / 2)
    delays = []

    def other():
        """Another user may have jobs, too."""
        fd = control()
        for i in range(10):
            request = {**o, "inputs": ["ten_thousand_jobs/few"],
                       "outputs": [f"ten_thousand_jobs/theirs{i}"], "async": i % 2 == 1}
            before = executed()
            reply = ask(fd, request)
            holds(reply, reply["ok"])
            if "job" in reply:
                reply = ask(fd, {"op": "wait", "job": reply["job"]})["result"]
                holds(reply, reply["ok"])
            delays.append(executed() - before - 1)
        os.close(fd)
        print("executions of the flood meanwhile:", delays)
        holds(f"few: {delays}", sorted(delays)[5] <= 100)

    as_user(12345, other)
    # waiting commands are cancelled at once, the last ones first, before they begin
    fd = control()
    states = []
    for n in reversed(numbers):
        reply = answer(fd, {"op": "cancel", "job": n})
        holds(reply, reply["ok"] or reply["error"]["errno"] == "ENOENT")  # forgotten
        states.append(reply.get("state"))
    holds(f"cancelled: {set(states)}", states.count("cancelled") >= 100)
    os.close(fd)
    holds("the rest ends", command(op="stat", buffer="ten_thousand_jobs/some")["ok"])


cases.main()
