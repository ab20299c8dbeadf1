# SPDX-License-Identifier: Apache-2.0
"""Each function of a plugin that an operation of a user reaches ends the plugin's process, or never
returns until the process is killed; the rows are those of tests/faults/plugin/calls.h.

    plugin_calls_end.py MOUNTPOINT FAULTS CALLS_H I N

The mount is that of plugin_operations.py; FAULTS is the plugin's file of faults.  Part I of N of the
rows is tried, since a user's compiles wait after five deaths in a minute.  The operation fails with a
sentence, another client is served meanwhile, the process is restarted once, and then the operation
succeeds, twice.
"""

import os
import signal
import sys
import threading

import cases
from cases import content, equal, eventually, holds, make, of_plugin
from plugin_operations import (BASE, OPERATIONS, X, attempt, clear, outcome, prepare, renew,
                               rows_of, set_faults)

# A file that the plugin fills: it is not waited for.
BRIEF = ("STATS", "SERIALIZE", "DEVICES", "TOPOLOGY")

# The process may have died of another call: the next one does it, and if that dies, too, it fails.
RETRIED = ("UPLOAD", "CREATE")

# The array that was on the device is sent there again.
ELSEWISE = ("COPY", "MOVE")

# Called when the files of what an operation made are gone.
UNSEEN = ("Buffer_Destroy", "Executable_Destroy", "LoadedExecutable_Destroy")


def restarted(n):
    return (of_plugin("restarts"), of_plugin("state")) == (f"{n}\n", "ready\n")


def perform(name, operation):
    """The outcome of the operation, up to the call of NAME."""
    got = attempt(operation)
    if name in UNSEEN:
        clear()
    return got


def serve(name):
    """Another client reads, lists and writes, and has the worker take what it wrote while NAME hangs."""
    equal("x", content(cases.buffers + "/x.npy"), X)
    os.listdir(cases.mnt + "/executables")
    equal("state", of_plugin("state"), "ready\n")
    # Freed buffers are destroyed before the worker takes the next request.
    other = cases.buffers + ("/other" if name == "Buffer_Destroy" else "/other.npy")
    make(other, X)
    os.unlink(other)


def ends(name, operation, how, mark):
    """The operation's outcome when NAME aborts, or hangs until the process is killed."""
    ended = []
    thread = threading.Thread(target=lambda: ended.append(perform(name, operation)),
                              daemon=True)
    base = [f for f in BASE.get(operation, []) if name not in f]
    set_faults(*base, f"PJRT_{name}={how}:{mark}")
    thread.start()
    if how == "hang":
        eventually(mark, lambda: mark in of_plugin("log"))
        set_faults()
        serve(name)
        if operation in BRIEF:
            thread.join(cases.PATIENCE)
        os.kill(int(of_plugin("pid")), signal.SIGKILL)
    thread.join(cases.PATIENCE)
    holds("the operation ends", ended)
    return ended[0]


def check_outcome(name, operation, how, mark, got):
    death = "6 (Aborted)" if how == "abort" else "9 (Killed)"
    died = got and got[0] == "EIO" and f"of signal {death}; it printed last: {mark}" in got[1]
    late = got and got[0] == "ETIMEDOUT" and "no answer within 1 s; the plugin goes on" in got[1]
    if operation in ("STATS", *ELSEWISE) or (how == "hang" and operation in RETRIED):
        good = got is None
    elif name in UNSEEN:
        good = died or got is None
    elif operation in BRIEF:
        good = late or (died and how == "abort")
    else:
        good = died
    holds(f"{operation} ends as it should: {got}", good)


def check(name, operation, how, n):
    """Let NAME end the process, after N restarts; how many there are then."""
    mark = f"{name} {how}s after {n} restarts"
    got = ends(name, operation, how, mark)
    check_outcome(name, operation, how, mark, got)
    n += 2 if how == "abort" and operation in RETRIED else 1
    eventually("it is restarted", restarted, n)
    set_faults()
    clear()
    for _ in range(2):
        equal(f"{operation} after it", outcome(operation, *BASE.get(operation, [])), None)
        clear()
    renew()
    holds("it is restarted once", restarted(n))
    return n


def main():
    n, wrong = 0, 0
    rows = [row for row in rows_of(sys.argv[3]) if row[1] in OPERATIONS]
    for name, operation, _, _ in rows[int(sys.argv[4])::int(sys.argv[5])]:
        for how in ("abort", "hang"):
            try:
                n = check(name, operation, how, n)
                print(f"{name}, {how}: {operation} ended, and works")
            except AssertionError as e:
                wrong += 1
                print(f"{name}, {how}: {e}")
                set_faults()
                clear()
                n = int(of_plugin("restarts"))
    return wrong


if __name__ == "__main__":
    prepare(sys.argv[1], sys.argv[2])
    sys.exit(1 if main() else 0)
