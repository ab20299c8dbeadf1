#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read events as programs do, at MOUNT: each case is a word of the command line.

    check       every line is an object with its time, event, user and object, in time's order
    poll        poll(2), select(2) and epoll(7) wait for an event and wake for one
    job N       waits for job N, by its state
    flood N     N events with a slow reader: it reads each one or the count of lost ones; memory
    stays flat
"""

import json
import os
import re
import select
import subprocess
import sys
import threading
import time

mount = sys.argv[1]
path = os.path.join(mount, "events")


def lines_of(data):
    assert data.endswith(b"\n"), data[-200:]
    return [json.loads(line) for line in data.splitlines()]


def check():
    with open(path, "rb") as file:
        events = lines_of(file.read())
    last = 0
    for event in events:
        assert list(event)[:4] == ["time", "event", "user", "object"], event
        assert re.fullmatch(r"[a-z]+\.[a-z]+", event["event"]), event
        assert isinstance(event["user"], int), event
        if event["event"] != "events.dropped":
            assert last <= event["time"] <= time.time() + 1, event
            last = event["time"]
    assert os.stat(path).st_mtime >= last - 1


def provoke(n, each=200):
    """N events: commands that fail, each with its number as its id."""
    fd = os.open(os.path.join(mount, "control"), os.O_RDWR)
    for first in range(0, n, each):
        count = min(each, n - first)
        text = "".join('{"op":"none","id":%d}\n' % i for i in range(first, first + count))
        data = text.encode()
        while data:
            data = data[os.write(fd, data) :]
        got = 0
        while got < count:
            got += os.read(fd, 1 << 16).count(b"\n")
    os.close(fd)


def by_poll(fd, seconds):
    p = select.poll()
    p.register(fd, select.POLLIN)
    return bool(p.poll(seconds * 1000))


def by_select(fd, seconds):
    return bool(select.select([fd], [], [], seconds)[0])


def by_epoll(fd, seconds):
    with select.epoll() as p:
        p.register(fd, select.EPOLLIN)
        return bool(p.poll(seconds))


def poll():
    for wait in (by_poll, by_select, by_epoll):
        fd = os.open(path, os.O_RDONLY)
        assert wait(fd, 10), "there is something to read"
        while os.read(fd, 1 << 16):
            pass
        assert not wait(fd, 0.2), "all was read"
        assert os.read(fd, 100) == b""
        other = threading.Timer(0.3, provoke, (1,))
        start = time.monotonic()
        other.start()
        assert wait(fd, 20), "nobody woke us"
        assert time.monotonic() - start > 0.2
        assert json.loads(os.read(fd, 1 << 16).splitlines()[0])["event"] == "command.failed"
        other.join()
        os.close(fd)


def job(number):
    """Sleep until the job has ended, then rewind and read how."""
    fd = os.open(os.path.join(mount, "jobs", number, "state"), os.O_RDONLY)
    assert by_poll(fd, 20)
    assert os.pread(fd, 100, 0) == b"done\n"
    os.close(fd)


def memory():
    with open(os.path.join(mount, "pid")) as file:
        pid = int(file.read())
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))


def mine(events):
    return [e for e in events if e["event"] == "command.failed" and "id" in e]


def flood(n):
    never = os.open(path, os.O_RDONLY)
    slow = os.open(path, os.O_RDONLY)
    data = os.read(slow, 100)  # in the midst of a line
    size = os.stat(path).st_size
    provoke(n)
    before = memory()
    provoke(n)
    after = memory()
    grown = os.stat(path).st_size
    assert grown > size + 2 * n * 100, "its size grows"
    while True:
        piece = os.read(slow, 77777)
        if not piece:
            break
        data += piece
    events = lines_of(data)
    dropped = [e for e in events if e["event"] == "events.dropped"]
    assert len(dropped) == 1, dropped
    kept = mine(events)
    # It read the last events, in order and without a gap; a line has the count of the others.
    ids = [e["id"] for e in kept]
    assert ids[-1] == n - 1
    assert all((b - a) % n == 1 for a, b in zip(ids, ids[1:])), "a gap"
    with open(os.path.join(mount, "metrics.prom")) as file:
        total = int(re.search(r"^pjrtfs_events_total (\d+)$", file.read(), re.M).group(1))
    assert len(events) - 1 + dropped[0]["lines"] == total, (len(events), dropped, total)
    # cat's view: a line with the count of dropped events, then all kept events
    fresh = lines_of(subprocess.check_output(["cat", path]))
    assert fresh[0]["event"] == "events.dropped", fresh[0]
    assert fresh[0]["lines"] + len(fresh) - 1 == total
    assert len(fresh) > 10000
    # tail's: from the end, and more than there is
    last = subprocess.check_output(["tail", "-n", "3", path])
    assert [e["id"] for e in lines_of(last)] == [n - 3, n - 2, n - 1]
    more = subprocess.check_output(["tail", "-n", "1000000", path])
    assert lines_of(more) == fresh
    tail = subprocess.check_output(["tail", "-c", "1000", path])
    assert len(tail) == 1000 and last.endswith(tail[-100:])
    assert int(subprocess.check_output(["grep", "-c", "none", path])) > 10000
    os.close(slow)
    os.close(never)
    print(after - before)


for i, word in enumerate(sys.argv):
    if word in ("check", "poll"):
        globals()[word]()
    elif word == "job":
        job(sys.argv[i + 1])
    elif word == "flood":
        flood(int(sys.argv[i + 1]))
    elif word == "provoke":
        provoke(int(sys.argv[i + 1]))
