#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Change names in MOUNT at random for SECONDS, then wait until DIR, its state directory, is the same.

usage: state_dir_names.py MOUNT DIR SECONDS PATIENCE SEED
"""
import ctypes
import os
import random
import shutil
import sys
import time

mount, state = (arg + "/buffers" for arg in sys.argv[1:3])
seconds, patience = float(sys.argv[3]), float(sys.argv[4])
random.seed(int(sys.argv[5]))
libc = ctypes.CDLL(None)


def directories():
    return [path for path, _, _ in os.walk(mount)]


def files():
    return [os.path.join(path, f) for path, _, names in os.walk(mount) for f in names]


def some_directory():
    return f"{random.choice(directories())}/d{random.randrange(5)}"


def some_file():
    return f"{random.choice(directories())}/f{random.randrange(12)}.raw"


def write():
    with open(some_file(), "wb") as file:
        file.write(random.randbytes(24))


def exchange():
    a, b = random.sample(files(), 2)
    libc.renameat2(-100, a.encode(), -100, b.encode(), 2)


def move_directory():
    os.rename(random.choice(directories()[1:]), some_directory())


def remove_directory():
    if random.random() < 0.1:
        shutil.rmtree(random.choice(directories()[1:]), ignore_errors=True)


operations = [
    write,
    write,
    write,
    lambda: os.rename(random.choice(files()), some_file()),
    lambda: os.rename(random.choice(files()), some_file()),
    lambda: os.unlink(random.choice(files())),
    lambda: os.mkdir(some_directory()),
    exchange,
    move_directory,
    remove_directory,
]


def tree(root):
    """The directories below ROOT, and the files with their bytes; None: it changes meanwhile."""
    found = {}
    try:
        for path, _, names in os.walk(root):
            found[os.path.relpath(path, root)] = None
            for name in names:
                at = os.path.join(path, name)
                with open(at, "rb") as file:
                    found[os.path.relpath(at, root)] = file.read()
    except FileNotFoundError:
        return None
    return found


def await_same():
    want = tree(mount)
    end = time.monotonic() + patience
    while tree(state) != want:
        if time.monotonic() > end:
            found = tree(state) or {}
            for name in sorted(want.keys() | found.keys()):
                if want.get(name, 0) != found.get(name, 0):
                    print(f"{name}: {want.get(name, 'not')} in MOUNT, {found.get(name, 'not')} in DIR")
            sys.exit("the state directory differs")
        time.sleep(0.1)


def write_all(paths):
    for path in paths:
        with open(path, "wb") as file:
            file.write(random.randbytes(24))


end = time.monotonic() + seconds
while time.monotonic() < end:
    try:
        random.choice(operations)()
    except (OSError, IndexError, ValueError):
        pass  # no such name, or a name that is taken
    if random.random() < 0.02:
        time.sleep(random.random())  # real time: files are written a while later
await_same()

# files that are kept, and new again, get other names between their comparison and their writing
many = [f"{mount}/m{i}.raw" for i in range(600)]
write_all(many)
await_same()
write_all(many)
end = time.monotonic() + 1.5  # real time: at least one comparison
while time.monotonic() < end:
    a, b = random.sample(many, 2)
    libc.renameat2(-100, a.encode(), -100, b.encode(), 2)
await_same()
for path in many:
    os.unlink(path)
await_same()
