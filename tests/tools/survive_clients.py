# SPDX-License-Identifier: Apache-2.0
"""Clients of all kinds while the daemon gets a signal N times, and another one serves.

    survive_clients.py MOUNT N KILL|USR2 [CLIENT...]

Fails if a file that was closed is lost, a byte is wrong, or a client hangs.  A call that is under
way when the daemon is killed may fail with EIO; so may the first one of a conversation after that.
With USR2 the daemon is replaced in order, and nothing fails.
"""
import errno
import json
import mmap
import multiprocessing
import os
import random
import select
import signal
import statistics
import struct
import sys
import threading
import time

from cases import content, floats, write_all

mount = sys.argv[1]
N = int(sys.argv[2])
SIGNAL = signal.Signals["SIG" + sys.argv[3]]
buffers = mount + "/buffers/"
PATIENCE = 60
stop = multiprocessing.Event()
results = multiprocessing.Queue()


class Wrong(Exception):
    pass


def pattern(size):
    start = random.randrange(1000)
    return floats(*[(start + i) % 65536 for i in range(size)])


def put(path, data, pieces=1):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        step = len(data) // pieces + 1
        for at in range(0, len(data), step):
            write_all(fd, data[at:at + step])
            if pieces > 1:
                time.sleep(0.02)  # real time: the daemon dies between two pieces
    finally:
        os.close(fd)


class Failures:
    """A call that was under way at a death fails with EIO, and no other failure is allowed."""

    def __init__(self):
        self.n = 0

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, OSError) and error.errno == errno.EIO:
            self.n += 1
            if SIGNAL != signal.SIGKILL:
                with open(mount + "/error") as f:
                    print("%s: %s" % (error, f.read().strip()), flush=True)
            return True
        return False


def expect(what, got, *wanted):
    if got not in wanted:
        raise Wrong("%s: %d bytes, which are not those that were written" %
                    (what, len(got)))


def again(call, *arguments):
    """A read that fails with EIO is repeated."""
    while True:
        try:
            return call(*arguments)
        except OSError as e:
            if e.errno != errno.EIO:
                raise
            time.sleep(0.01)


def writer(failures, number, pieces):
    known = {}  # what the files may have
    while not stop.is_set():
        name = buffers + "w%d_%d.npy" % (number, random.randrange(4))
        data = pattern(random.choice((1, 100, 5000, 100000)))
        before = known.pop(name, None)
        with failures:
            put(name, data, pieces)
            known[name] = data
            expect(name, content(name), data)
        if name not in known:  # it failed: write it anew
            continue
        if before:
            other = random.choice(list(known))
            expect(other, again(content, other), known[other])
        yield
    for name, data in known.items():
        expect(name, again(content, name), data)


def renamer(failures):
    name, old = buffers + "r.npy", None
    while not stop.is_set():
        data = pattern(1000)
        with failures:
            put(buffers + "r.part", data)
            try:
                os.rename(buffers + "r.part", name)
            except OSError:
                now = again(content, name)
                expect(name, now, data, *([old] if old else []))
                old = now
                raise
            old = data
        if old:
            expect(name, again(content, name), old)
        yield


def holder(failures, unlinked):
    name, data = buffers + "held%d.npy" % unlinked, pattern(50000)
    again(put, name, data)
    fd = os.open(name, os.O_RDONLY)
    if unlinked:
        os.unlink(name)
    inode = os.fstat(fd).st_ino
    while not stop.is_set():
        with failures:
            at = random.randrange(len(data))
            expect("held", os.pread(fd, 4096, at), data[at:at + 4096])
            if os.fstat(fd).st_ino != inode:
                raise Wrong("another inode number")
        yield


def lister(failures):
    names = ["stay%d.npy" % i for i in range(100)]
    for name in names:
        again(put, buffers + name, pattern(1))
    while not stop.is_set():
        with failures:
            there = set(os.listdir(buffers))
            if not there.issuperset(names):
                raise Wrong("not listed: %s" % sorted(set(names) - there))
        yield


def ask(fd, command):
    os.write(fd, command)
    reply = os.read(fd, 1 << 16)
    if not reply:
        raise Wrong("no reply to %s" % command)
    return json.loads(reply)


EXECUTE = b'{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["%s"]%s}\n'


def commander(failures):
    fd = os.open(mount + "/control", os.O_RDWR)
    while not stop.is_set():
        with failures:
            reply = ask(fd, EXECUTE % (b"commanded", b""))
            if not reply["ok"] and (SIGNAL != signal.SIGKILL or reply["error"]["errno"] != "EIO"):
                raise Wrong(str(reply))
        yield


def poller(failures):
    fd = os.open(mount + "/control", os.O_RDWR)
    while not stop.is_set():
        with failures:
            reply = ask(fd, EXECUTE % (b"polled", b',"repeat":2000,"async":true'))
            if "job" not in reply:
                raise Wrong(str(reply))
            state = os.open(mount + "/jobs/%d/state" % reply["job"], os.O_RDONLY)
            try:
                poll = select.poll()
                poll.register(state, select.POLLIN)
                if not poll.poll(PATIENCE * 1000):
                    raise Wrong("job %d: not ended" % reply["job"])
                text = again(os.pread, state, 100, 0)
                if text not in (b"done\n", b"failed\n"):
                    raise Wrong("job %d: %s" % (reply["job"], text))
            finally:
                os.close(state)
        yield


def mapper(failures):
    name, size = buffers + "mapped.raw", 1 << 16
    again(put, name, bytes(size))
    fd = os.open(name, os.O_RDWR)
    memory = mmap.mmap(fd, size)
    n = 0
    while not stop.is_set():
        n += 1
        at = random.randrange(size // 8) * 8
        memory[at:at + 8] = struct.pack("<Q", n)
        with failures:
            memory.flush()
            expect("the mapped file", os.pread(fd, 8, at), struct.pack("<Q", n))
        yield


def caller(failures):
    x, y = content(buffers + "x.npy"), content(buffers + "y.npy")
    add = struct.unpack("<6f", x[-24:]), struct.unpack("<6f", y[-24:])
    sums = struct.pack("<6f", *map(sum, zip(*add)))
    path = mount + "/executables/add/call"
    fd, failed = os.open(path, os.O_RDWR), 0
    while not stop.is_set():
        with failures:
            os.write(fd, x)
            os.write(fd, y)
            result = os.read(fd, 1 << 16)
            expect("a call", result[-24:], sums)
        if failures.n > failed:  # it fails until it is opened again
            failed = failures.n
            os.close(fd)
            fd = os.open(path, os.O_RDWR)
        yield


def run(name, client, *arguments):
    failures = Failures()
    n = 0
    try:
        for _ in client(failures, *arguments):
            n += 1
        results.put((name, n, failures.n, None))
    except BaseException as e:
        stop.set()
        results.put((name, n, failures.n, "%s: %s" % (type(e).__name__, e)))


def pid():
    with open(mount + "/pid") as f:
        return int(f.read())


def end(why):
    """Print WHY, and end the connection with its processes: a call that nobody answers cannot be
    interrupted."""
    print(why, flush=True)
    with open("/proc/%d/task/%d/children" % (holder_pid, holder_pid)) as f:
        children = f.read().split()
    for one in [holder_pid, *map(int, children)]:
        os.kill(one, signal.SIGKILL)


def replace():
    """Seconds from the signal until another daemon has answered."""
    old = pid()
    bound = threading.Timer(PATIENCE, end, ["no daemon answers within %d s" % PATIENCE])
    bound.start()
    start = time.monotonic()
    os.kill(old, SIGNAL)
    while SIGNAL != signal.SIGKILL and pid() == old:
        time.sleep(0.001)
    os.stat(buffers)
    os.listdir(buffers)
    bound.cancel()
    return time.monotonic() - start


clients = {
    "writer": (writer, 0, 1),
    "writer in pieces": (writer, 1, 20),
    "renamer": (renamer,),
    "holder of a name": (holder, False),
    "holder without a name": (holder, True),
    "lister": (lister,),
    "commander": (commander,),
    "poller": (poller,),
    "mapper": (mapper,),
    "caller": (caller,),
}
clients = {name: clients[name] for name in sys.argv[4:] or clients}
processes = [multiprocessing.Process(target=run, args=(name, *arguments), daemon=True)
             for name, arguments in clients.items()]
for p in processes:
    p.start()
with open("/proc/%d/status" % pid()) as f:
    holder_pid = next(int(line[5:]) for line in f if line.startswith("PPid:"))
time.sleep(1)  # real time: the clients work, before, between and after the deaths
times = []
while len(times) < N and not stop.is_set():
    time.sleep(random.uniform(0.05, 0.5))  # real time: as above
    times.append(replace())
time.sleep(0.5)  # real time: as above
stop.set()
wrong = 0
for _ in processes:
    try:
        name, n, failed, error = results.get(timeout=PATIENCE)
    except Exception:
        end("a client hangs: %s" % [name for name, p in zip(clients, processes)
                                    if p.is_alive()])
        wrong += 1
        break
    print("%-22s %6d times, %3d failed with EIO%s" %
          (name, n, failed, ": " + error if error else ""))
    wrong += error is not None or n == 0 or (failed > 0 and SIGNAL != signal.SIGKILL)
times = [1000 * t for t in times]
print("%d daemons ended; the next listing after %.0f ms (median), %.0f ms (longest)" %
      (len(times), statistics.median(times), max(times)))
sys.exit(wrong != 0)
