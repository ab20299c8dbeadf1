# SPDX-License-Identifier: Apache-2.0
"""docs/commands.schema.json and the daemon agree on what a command is, and a reply."""

import copy
import json
import os
import shutil

import cases
import schema
from cases import ADD, ask, case, content, equal, holds, make, opened

OF_GROUPS = {"send", "receive"}  # tests/faults/group-transfers.sh has examples of these
OTHERS = [None, True, 7, -1, 1.5, 10**12, "", "word", [], [7], ["x", []], [[]], {}, {"a": 1}]
fd = -1
libraries = 0  # copies of the FFI library in $FFI_LIBRARY


def register():
    """Register a library that the mount does not have."""
    global libraries
    libraries += 1
    path = f"{os.environ['FFI_LIBRARY']}.{libraries}"
    shutil.copy(os.environ["FFI_LIBRARY"], path)
    return {"op": "register", "library": path, "plugin": cases.plugin, "platform": "Host",
            "traits": 0, "targets": {f"target_{libraries}": "leaky_relu"}}


def examples(d):
    """A command of each op that succeeds, also when repeated, but for register."""
    here = os.path.basename(d) + "/"
    job = ask(fd, {"op": "stat", "buffer": here + "x", "async": True})["job"]
    ask(fd, {"op": "wait", "job": job})
    yield {"op": "execute", "executable": "add", "inputs": [here + "x", here + "y"],
           "outputs": [here + "z"], "donate": [], "move": False,
           "positional": False, "repeat": 2, "launch_id": 7, "id": 1,
           "device": cases.plugin + ":0", "timeout_ms": 100000}
    yield {"op": "stat", "buffer": here + "x", "device": cases.plugin + ":0"}
    yield {"op": "stat", "executable": "add"}
    yield {"op": "wait", "job": job, "id": {"a": [1]}}
    yield {"op": "cancel", "job": job, "force": False}
    yield {"op": "compile", "program": "add", "options": {}}
    yield {"op": "copy", "buffer": here + "x", "as": here + "w", "layout": [0],
           "device": cases.plugin + ":0"}
    yield {"op": "batch", "steps": [{"op": "stat", "buffer": here + "x", "id": None}]}
    yield {"op": "shard", "buffer": here + "y", "as": "ys", "mesh": {"x": 3},
           "spec": ["x"], "device": cases.plugin + ":0"}
    yield {"op": "shard", "buffer": here + "y", "as": "ys", "memory": "device",
           "sharding": "{devices=[3]<=[3]}"}
    yield {"op": "shard", "buffer": here + "y", "as": "ys",
           "sharding": {"mesh": {"x": 3}, "spec": ["x"]}}
    yield {"op": "reshard", "buffer": "ys", "as": "yr", "sharding": "{replicated}"}
    yield {"op": "assemble", "buffer": "ys", "mesh": {"x": 3}, "spec": ["x"]}
    yield {"op": "copy", "buffers": [here + "x"], "as": [here + "v"]}
    yield {"op": "reshard", "buffers": ["ys"], "as": ["yr"], "sharding": ["{replicated}"]}
    yield {"op": "gather", "buffer": "ys", "as": here + "all"}
    name = here + "made"
    create = {"op": "create", "buffer": name, "dtype": "F32", "shape": [2], "fill": 1,
              "memory": "device", "layout": [0], "device": cases.plugin + ":0"}
    delete = {"op": "delete", "buffer": name, "device": cases.plugin + ":0"}
    yield create
    yield delete
    ask(fd, {**create, "uninitialized": False})
    yield register()
    yield {"op": "settle"}


def changed(request):
    """REQUEST with one thing changed."""
    for key in request:
        yield {k: v for k, v in request.items() if k != key}
        for value in OTHERS:
            yield {**request, key: value}
    yield {**request, "unknown": 1}
    for key in ("async", "timeout_ms", "id"):
        for value in OTHERS:
            yield {**request, key: value}


def begin(d):
    global fd
    make(cases.mnt + "/programs/add.mlir", ADD)
    make(d + "/x.txt", b"1 2 3\n")
    make(d + "/y.txt", b"10 20 30\n")
    fd = opened(cases.mnt + "/control", os.O_RDWR)


@case
def what_the_schema_refuses_is_refused(d):
    begin(d)
    accepted = refused = 0
    for request in examples(d):
        reply = ask(fd, request)
        holds(f"{request}: {reply}", reply["ok"])
        equal("id", reply.get("id"), request.get("id"))
        for other in changed(request):
            # ask() also makes sure that what is accepted is valid
            reply = ask(fd, other)
            if reply["ok"] and "job" in reply and other.get("async") is True:
                ask(fd, {"op": "wait", "job": reply["job"]})
            if schema.errors(other, "#/$defs/command"):
                holds(f"{other} is refused: {reply}", not reply["ok"])
                refused += 1
            else:
                accepted += 1
    holds(f"both happen: {accepted}, {refused}", accepted > 50 and refused > 500)


@case
def lines_of_json(d):
    """executables/NAME/run takes the same, without what names the executable."""
    begin(d)
    here = os.path.basename(d) + "/"
    run = opened(cases.mnt + "/executables/add/run", os.O_RDWR)
    o = {"inputs": [here + "x", here + "y"], "outputs": [here + "z"], "id": 5}
    for request in [o, *changed(o)]:
        cases.send(run, request)
        reply = json.loads(cases.receive(run))
        wrong = schema.reply_errors("execute", reply, request.get("async", False))
        holds(f"{request}: {reply}: {wrong}", not wrong)
        if schema.errors(request, "#/$defs/run"):
            holds(f"{request} is refused", not reply["ok"])
    os.close(run)
    os.close(fd)
    equal("z", content(d + "/z.txt"), b"11 22 33\n")


@case
def wrong_replies_are_found(d):
    """A reply that lacks a key, or has another, or another type, is not valid."""
    begin(d)
    seen = set()
    for request in examples(d):
        reply = ask(fd, request)
        seen.add(request["op"])
        op = schema.reply_of(request)
        for key in reply:
            less = {k: v for k, v in reply.items() if k != key}
            if key not in ("id", "repeat"):
                holds(f"{op} without {key} is found", schema.reply_errors(op, less))
            if key != "id":
                more = {**reply, key: object}
                more[key] = {"no": "such"} if not isinstance(reply[key], dict) else 7
                holds(f"{op} with another {key} is found", schema.reply_errors(op, more))
        holds(f"{op} with more", schema.reply_errors(op, {**reply, "more": 1}))
    reply = ask(fd, {"op": "delete", "buffer": "none"})
    for key in ("errno", "code", "message"):
        other = copy.deepcopy(reply)
        other["error"].pop(key)
        holds(f"a failure without {key}", schema.errors(other, "#/$defs/failure"))
    # the schema has an example, a request and a reply for each op that the daemon knows
    ops = set(schema.resolve("#/$defs/requests"))
    equal("ops", ops, set(schema.resolve("#/$defs/replies")))
    equal("examples", seen | OF_GROUPS, ops)
    told = ask(fd, {"op": "none"})["error"]["message"]
    known = told.removeprefix('"op": expected one of ').removesuffix(', found "none"')
    equal("the daemon's", set(known.split(", ")), ops)
    try:
        list(schema.check(1, {"multipleOf": 2}))
        holds("an unknown keyword is an error", False)
    except ValueError:
        pass


cases.main()
