# SPDX-License-Identifier: Apache-2.0
"""Each function of a plugin that pjrtfs calls fails in each way; the rows are those of
tests/faults/plugin/calls.h.

    plugin_calls.py MOUNTPOINT FAULTS CALLS_H PJRTFS PLUGIN SOURCES...

The mount has no cache, and the plugin "faulty" with PJRTFS_FAULTY_CALLS; FAULTS is its file of
faults.  After each fault the same operation succeeds, and the plugin has as many objects and the
mount uses as much memory as before.
"""

import json
import os
import re
import subprocess
import sys
import time

import cases
from cases import content, equal, holds, told, used
from plugin_operations import BASE, OPERATIONS, clear, outcome, prepare, rows_of, set_faults

CODES = {
    "CANCELLED": "ECANCELED",
    "UNKNOWN": "EIO",
    "INVALID_ARGUMENT": "EINVAL",
    "DEADLINE_EXCEEDED": "ETIMEDOUT",
    "NOT_FOUND": "ENOENT",
    "ALREADY_EXISTS": "EEXIST",
    "PERMISSION_DENIED": "EACCES",
    "RESOURCE_EXHAUSTED": "ENOSPC",
    "FAILED_PRECONDITION": "EBUSY",
    "ABORTED": "ECONNABORTED",
    "OUT_OF_RANGE": "ERANGE",
    "UNIMPLEMENTED": "EOPNOTSUPP",
    "INTERNAL": "EIO",
    "UNAVAILABLE": "ENODEV",
    "DATA_LOSS": "EIO",
    "UNAUTHENTICATED": "EACCES",
}

# What differs from the rule of the row, and why.
EXCEPTIONS = {
    # XLA's codes for mistakes in a program (pjrtfs(5), ERRORS)
    ("Client_Compile", "UNKNOWN"): "EINVAL",
    ("Client_Compile", "NOT_FOUND"): "EOPNOTSUPP",
    ("Client_Compile", "UNAVAILABLE"): "EOPNOTSUPP",
    ("Compile", "UNKNOWN"): "EINVAL",
    ("Compile", "NOT_FOUND"): "EOPNOTSUPP",
    ("Compile", "UNAVAILABLE"): "EOPNOTSUPP",
    # no plugin makes or reads topologies
    ("TopologyDescription_Create", "NOT_FOUND"): "EOPNOTSUPP",
    ("TopologyDescription_Deserialize", "NOT_FOUND"): "EOPNOTSUPP",
    # no bytes
    ("Executable_Serialize", "no-list"): "EOPNOTSUPP",
    ("TopologyDescription_Serialize", "no-list"): "EOPNOTSUPP",
    # the program's own types tell the arguments
    ("Executable_OptimizedProgram", "UNIMPLEMENTED"): None,
    # the array goes through the host's memory
    ("Buffer_CopyToDevice", "UNIMPLEMENTED"): None,
    ("Buffer_CopyToMemory", "UNIMPLEMENTED"): None,
    ("Buffer_CopyToMemory", "INVALID_ARGUMENT"): None,
    ("Buffer_ElementType", "UNIMPLEMENTED"): None,
}


def alive():
    """How many objects the plugin has."""
    set_faults("PJRT_Device_MemoryStats=alive")
    text = json.loads(told(cases.mnt + "/devices/faulty/0/memory_stats.json"))["unavailable"]
    set_faults()
    return text


def settled(objects, memory):
    """The objects and the bytes in use, once they are as wanted, or when the patience ends."""
    end = time.monotonic() + cases.PATIENCE
    while (alive(), used()) != (objects, memory) and time.monotonic() < end:
        time.sleep(0.01)
    return alive(), used()


# --- what must hold -----------------------------------------------------------------------------


def check_codes():
    """The code itself is in a reply, and the number of the launch gets to the plugin."""
    request = {"op": "execute", "executable": "add", "inputs": ["x", "y"], "outputs": ["result"]}
    before = content(cases.buffers + "/result.npy")
    for code, name in CODES.items():
        set_faults(f"execute=error:{code}:it is {code}")
        reply = cases.command(**request)
        set_faults()
        equal(f"the reply to {code}", reply.get("error"),
              {"errno": name, "code": code, "message": f"add: it is {code}"})
    cases.refused("ECONNABORTED", "add: faulty: launch 2147483647", **request, launch_id=2147483647)
    equal("what failed executions do not replace", content(cases.buffers + "/result.npy"), before)
    equal("a compile's NOT_FOUND",
          outcome("COMPILE", "compile=error:NOT_FOUND:no such function"),
          ("EOPNOTSUPP", "close programs/p.mlir: the program calls a function that the plugin "
                         "lacks: no such function\n"))
    clear()


LATE = 0.1  # seconds


def faults_of(gives):
    """The faults of a call that gives that, each with its code, "late" or "lacks"."""
    faults = [(f"error:{code}:it is {code}", code) for code in CODES] + [("nothing", None)]
    if gives == "EVENT":
        faults += [(f"event-error:{code}:it is {code}", code) for code in CODES]
        # real time: what awaits the event takes at least as long
        faults += [(f"late-event:{LATE * 1000:.0f}", "late"), ("no-event", "lacks")]
    elif gives == "LIST":
        faults += [("no-list", "lacks")]
    return faults


# An older plugin keeps what it could not give, so these come last.
SHORT = [("short", "short"), ("short:16", "short")]


def check(name, operation, effect, fault, code):
    """Let NAME fail once."""
    what = f"{name}, {fault}"
    began = time.monotonic()
    got = outcome(operation, *[f for f in BASE.get(operation, []) if name not in f],
                  f"PJRT_{name}={fault}")
    want = EXCEPTIONS.get((name, code), CODES.get(code))
    if code == "late":
        equal(what, got, None)
        holds(f"{what} is awaited", time.monotonic() - began >= LATE)
    elif code == "lacks" and effect != "LACKS":
        want = EXCEPTIONS.get((name, fault), "EIO")
        holds(f"{what} fails", got)
        holds(f"{what}: {got} is {want}", got[0] in (want, None))
        holds(f"{what}: {got} names what is lacking", f"PJRT_{name}" in got[1] or
              "to nothing" in got[1])
    elif code == "short" and effect != "LACKS":
        holds(f"{what}: {got} has a sentence", not got or got[1])
    elif effect == "LACKS" or (code and not want):
        holds(f"{what}: {got}: it works without", got is None)
    elif effect == "TELLS" and not code:
        holds(f"{what}: {got}: it works without", got is None)
    elif effect == "TELLS":
        holds(f"{what}: {got} is EOPNOTSUPP", got and got[0] == "EOPNOTSUPP")
        if code:
            holds(f"{what}: {got} has the plugin's sentence", f"it is {code}" in got[1])
    elif code:
        holds(f"{what} fails", got)
        holds(f"{what}: {got} is {want}", got[0] in (want, None))
        holds(f"{what}: {got} has the plugin's sentence", f"it is {code}" in got[1])
    elif effect == "GIVES":
        holds(f"{what} fails", got)
        holds(f"{what}: {got} is EIO", got[0] in ("EIO", None))
        holds(f"{what}: {got} names the function", f"PJRT_{name}" in got[1])


# a worker that is too busy to answer in time is asked again
OPERATIONS["DEVICES"] = lambda: told(cases.mnt + "/plugins/faulty/topology.json")
OPERATIONS["TOPOLOGY"] = lambda: told(cases.mnt + "/plugins/faulty/topology.pb")


def check_all(table):
    clear()
    for operation in OPERATIONS:
        equal(operation, outcome(operation, *BASE.get(operation, [])), None)
    clear()
    objects, memory, n, wrong = alive(), used(), 0, 0
    restarts = content(cases.mnt + "/plugins/faulty/restarts")
    # what is not destroyed is left
    tried = [row for row in table if row[1] in OPERATIONS and not row[0].endswith("_Destroy")]
    cells = [(row, *fault) for row in tried for fault in faults_of(row[3])]
    cells += [(row, *fault) for row in tried for fault in SHORT]
    for (name, operation, effect, _), fault, code in cells:
        n += 1
        try:
            check(name, operation, effect, fault, code)
            equal(f"{operation} after {name}, {fault}",
                  outcome(operation, *BASE.get(operation, [])), None)
            clear()
            if code != "short":
                equal(f"{name}, {fault}: what is left", settled(objects, memory),
                      (objects, memory))
        except AssertionError as e:
            wrong += 1
            print(e)
            clear()
            objects, memory = alive(), used()
    equal("restarts", content(cases.mnt + "/plugins/faulty/restarts"), restarts)
    print(f"{n} faults, {wrong} of them wrong")
    return wrong


def started(name, fault):
    """How --check-plugin ends: its message."""
    env = {**os.environ, "PJRTFS_FAULTY": f"PJRT_{name}={fault}"}
    env.pop("PJRTFS_FAULTY_FILE", None)
    try:
        done = subprocess.run(check_plugin, env=env, timeout=cases.PATIENCE, check=False,
                              stdin=subprocess.DEVNULL, capture_output=True)
    except subprocess.TimeoutExpired:
        return "no signal: it hangs"
    return done.stderr.decode()


# The faulty plugin does not compute, so a check that gets there ends so.
WORKS = "execute the program: faulty: argument 0"


def check_start(rows):
    """What fails when a worker starts, and functions that an older plugin lacks."""
    faults = {
        "error:INTERNAL:it is wrong": "it is wrong",
        "error:UNIMPLEMENTED:it is lacking": "it is lacking",
        "nothing": "succeeded without a result",
        "short": None,
        "abort:it is over": "it printed last: it is over",
    }
    n, wrong = 0, 0
    for name, operation, effect, gives in rows:
        wanted = {"missing": None}
        if operation == "START":
            wanted.update(faults)
        if operation == "START" and gives == "LIST":
            wanted["no-list"] = f"PJRT_{name} gave 1 elements without a list"
        for fault, want in wanted.items():
            got = started(name, fault)
            if effect == "LACKS" and not fault.startswith("abort") and operation == "START":
                good = WORKS in got
            elif fault == "nothing" and effect != "GIVES" or want is None:
                good = "signal" not in got
            else:
                good = want in got
            n += 1
            if not good:
                wrong += 1
                print(f"{name}, {fault}: {got}")
    print(f"{n} faults of starts, {wrong} of them wrong")
    return wrong


def check_rows(rows, sources):
    """Every call in the sources has a row, and every row a call."""
    called = set()
    for path in sources:
        text = content(path).decode()
        called |= set(re.findall(r"PJ_CALL(?:_NEWER)?\([^;]*?\b([A-Z]\w*_\w+),\s*[&(]", text))
        called |= set(re.findall(r"->api\.PJRT_(\w+)\(", text))
    # how errors themselves are read
    called -= {"Error_Destroy", "Error_Message", "Error_GetCode"}
    equal("calls without a row, rows without a call",
          (called - {row[0] for row in rows}, {row[0] for row in rows} - called), (set(), set()))


if __name__ == "__main__":
    mnt, path_of_faults, table = sys.argv[1:4]
    check_plugin = [sys.argv[4], "--check-plugin", sys.argv[5]]
    all_rows = rows_of(table)
    check_rows(all_rows, sys.argv[6:])
    prepare(mnt, path_of_faults)
    check_codes()
    sys.exit(1 if check_all(all_rows) + check_start(all_rows) else 0)
