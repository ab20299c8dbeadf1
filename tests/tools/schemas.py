# SPDX-License-Identifier: Apache-2.0
"""schemas.py MOUNT PAGE...: what the mount shows is as the schemas in docs/schema say.

Readers of a schema ignore keys that it does not have; here each of these is an error.
"""

import glob
import json
import os
import sys

import schema

DIRECTORY = os.path.join(schema.ROOT, "docs/schema")
mnt = sys.argv[1]
wrong = []


def closed(at):
    """The schema AT, without other keys than those that it has."""
    if isinstance(at, list):
        return [closed(inner) for inner in at]
    if not isinstance(at, dict):
        return at
    more = {"additionalProperties": False} if isinstance(at.get("properties"), dict) else {}
    return {**more, **{key: closed(inner) for key, inner in at.items()}}


def use(name):
    with open(os.path.join(DIRECTORY, name + ".schema.json"), encoding="utf-8") as f:
        schema.SCHEMA = closed(json.load(f))


def valid(what, value):
    wrong.extend(f"{what}: {sentence}" for sentence in schema.check(value, schema.SCHEMA))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def expect(what, holds):
    if not holds:
        wrong.append(f"expected {what}")


def files(name, pattern):
    """Compare all files of PATTERN with the schema NAME; the values."""
    use(name)
    values = []
    for path in glob.glob(f"{mnt}/{pattern}", recursive=True):
        values.append(json.loads(read(path)))
        valid(path, values[-1])
    return values


def buffers():
    """The same for the descriptions of all buffers, which a listing does not have."""
    use("buffer")
    states = set()
    for path in glob.glob(f"{mnt}/buffers/*") + [f"{mnt}/buffers/refused"]:
        about = json.loads(read(os.path.splitext(path)[0] + ".json"))
        valid(path, about)
        states.add(about["state"])
        for key in ("name", "state"):
            less = {k: v for k, v in about.items() if k != key}
            expect(f"{path} without {key} to be wrong", list(schema.check(less, schema.SCHEMA)))
        expect("another key to be wrong", list(schema.check({**about, "new": 1}, schema.SCHEMA)))
    expect(f"buffers in more states than {states}",
           states >= {"ready", "incomplete", "donated", "error"})


def events():
    use("event")
    names = set()
    for line in read(f"{mnt}/events").splitlines():
        event = json.loads(line)
        valid(line, event)
        names.add(event["event"])
    expect(f"more events than {names}", len(names) >= 15)
    manual = "".join(read(page) for page in sys.argv[2:])
    for name in schema.SCHEMA["properties"]["event"]["enum"]:
        expect(f"{name} in the manual", name in manual)


def statuses():
    """What the caller has put into status.json, of the mount, and nowhere.json, of none."""
    use("status")
    found = [json.loads(read(name)) for name in ("status.json", "nowhere.json")]
    for about in found:
        valid("--status", about)
        for key in ("mount", "jobs" if "jobs" in about else "error"):
            less = {k: v for k, v in about.items() if k != key}
            expect(f"a status without {key} to be wrong", list(schema.check(less, schema.SCHEMA)))
    expect("an answer and no answer", ["error" in about for about in found] == [False, True])


def metrics():
    """The families of metrics.prom, with their types and labels, are those of metrics.json."""
    found = {}
    for line in read(f"{mnt}/metrics.prom").splitlines():
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split()
            found[family] = {"type": kind, "labels": []}
        elif not line.startswith("#"):
            labels = line.partition("{")[2].partition("}")[0]
            keys = [part.partition("=")[0] for part in labels.split(",") if part]
            found[family]["labels"] = [k for k in keys if k != "le"]
    want = json.loads(read(os.path.join(DIRECTORY, "metrics.json")))["families"]
    for name in sorted(set(found) | set(want)):
        if found.get(name) != want.get(name):
            wrong.append(f"{name} is {found.get(name)}, and {want.get(name)} in metrics.json")


signatures = files("signature", "executables/**/signature.json")
expect("callbacks, inputs, nothing", any("callbacks" in s for s in signatures) and
       {} in signatures and any("sharding" in i for s in signatures for i in s.get("inputs", [])))
states = {info["state"] for info in files("info", "executables/**/info.json")}
expect(f"more states than {states}", states >= {"ready", "failed", "empty"})
buffers()
events()
statuses()
metrics()
print(*wrong, sep="\n")
sys.exit(1 if wrong else 0)
