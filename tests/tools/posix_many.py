# SPDX-License-Identifier: Apache-2.0
"""Many files in one directory, and listings while names come and go."""

import os
import sys
import threading
import time

import cases
from cases import case, content, equal, eventually, floats, holds, make, used

MANY = int(os.environ.get("MANY", "10000"))
A = floats(1, 2, 3)


class Within:
    """A step that takes about so many seconds; ten times that shows a growing cost."""

    def __init__(self, what, seconds):
        self.what, self.seconds = what, 10 * seconds * cases.PATIENCE / 20

    def __enter__(self):
        self.began = time.monotonic()

    def __exit__(self, kind, *_):
        took = time.monotonic() - self.began
        print(f"  {self.what}: {took:.2f} s")
        if not kind and took > self.seconds:
            raise AssertionError(f"{self.what} took {took:.1f} s of {self.seconds:.1f} s")


@case
def ten_thousand(d):
    before = used()
    with Within("make", 10):
        for i in range(MANY):
            make(f"{d}/b{i}.npy", A)
    names = {f"b{i}.npy" for i in range(MANY)}
    with Within("list", 1):
        got = os.listdir(d)
    equal("number", len(got), MANY)
    equal("names", set(got), names)
    with Within("stat", 5):
        inodes = {os.stat(f"{d}/{name}").st_ino for name in got}
    equal("inodes", len(inodes), MANY)
    with Within("scan", 5):
        size = sum(e.stat().st_size for e in os.scandir(d))
    equal("sizes", size, MANY * len(A))
    with Within("look at some", 5):
        for i in range(0, MANY, 100):
            equal("bytes", content(f"{d}/b{i}.npy"), A)
            equal("text", content(f"{d}/b{i}.txt"), b"1 2 3\n")
    with Within("rename", 5):
        for i in range(0, MANY, 10):
            os.rename(f"{d}/b{i}.npy", f"{d}/c{i}.npy")
    equal("number", len(os.listdir(d)), MANY)
    with Within("remove", 10):
        for name in os.listdir(d):
            os.unlink(f"{d}/{name}")
    equal("number", os.listdir(d), [])
    eventually("df as before", lambda: used() <= before + (1 << 20))


@case
def listings_while_names_change(d):
    """A name that exists all the time is listed once, while other names change."""
    stable = {f"s{i}.npy" for i in range(0, 3000)}
    for name in stable:
        make(d + "/" + name, A)
    stop = threading.Event()
    failed = []
    rounds = [0]

    def churn(who):
        try:
            while not stop.is_set():
                for i in range(50):
                    make(f"{d}/{who}{i}.npy", A)
                for i in range(50):
                    os.rename(f"{d}/{who}{i}.npy", f"{d}/r{who}{i}.npy")
                for i in range(50):
                    os.unlink(f"{d}/r{who}{i}.npy")
                rounds[0] += 1
        except OSError as e:
            failed.append(e)

    threads = [threading.Thread(target=churn, args=(who,)) for who in "at"]
    for t in threads:
        t.start()
    n = 0
    try:
        while n < 100 * cases.TIMES or rounds[0] < 10 * cases.TIMES and not failed:
            got = os.listdir(d)
            mine = [name for name in got if name.startswith("s")]
            equal("names", len(mine), len(stable))
            equal("names", set(mine), stable)
            holds("no other name twice", len(got) == len(set(got)))
            n += 1
    finally:
        stop.set()
        for t in threads:
            t.join()
    equal("failed", failed, [])
    print(f"  {n} listings, {rounds[0]} rounds")


@case
def one_listing_while_names_change(d):
    """Also when it is read in small pieces, with much in between, and from the begin again."""
    stable = {f"s{i}.npy" for i in range(1000)}
    for i in range(1000):
        make(f"{d}/s{i}.npy", A)
    for i in range(1000):
        make(f"{d}/t{i}.npy", A)
    with os.scandir(d) as entries:
        got = []
        for i, e in enumerate(entries):
            got.append(e.name)
            if i % 2 == 0 and i // 2 < 1000:
                os.unlink(f"{d}/t{i // 2}.npy")
                make(f"{d}/n{i // 2}.npy", A)
    mine = [name for name in got if name.startswith("s")]
    equal("names", len(mine), len(stable))
    equal("names", set(mine), stable)
    equal("no name twice", len(got), len(set(got)))
    equal("afterwards", len(os.listdir(d)), 2000)


@case
def deep_and_wide(d):
    """Directories: 1000 in one directory, 50 nested; removed as rm -r does."""
    for i in range(1000):
        os.mkdir(f"{d}/d{i}")
        make(f"{d}/d{i}/x.npy", A)
    equal("links", os.stat(d).st_nlink, 1002)
    deep = d
    for i in range(50):
        deep += "/n"
        os.mkdir(deep)
        make(deep + "/x.npy", A)
    equal("walked", sum(len(files) for _, _, files in os.walk(d)), 1050)
    # one deep down by name in a command
    reply = cases.command(op="stat", buffer=deep[len(cases.buffers) + 1 :] + "/x")
    equal("a command's name", reply.get("ok"), True)


sys.setswitchinterval(0.001)
cases.main()
