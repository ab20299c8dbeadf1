#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read events as programs do, at MOUNT: each case is a word of the command line.

    check       every line is an object with its time, event, user and object, in time's order
    poll        poll(2), select(2) and epoll(7) wait for an event and wake for one
    job N       waits for job N, by its state
"""

import json
import os
import re
import select
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


def provoke():
    """A command that fails."""
    fd = os.open(os.path.join(mount, "control"), os.O_RDWR)
    os.write(fd, b'{"op":"none"}\n')
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
        other = threading.Timer(0.3, provoke)
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


for i, word in enumerate(sys.argv):
    if word in ("check", "poll"):
        globals()[word]()
    elif word == "job":
        job(sys.argv[i + 1])
