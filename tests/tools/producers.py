# SPDX-License-Identifier: Apache-2.0
"""Plays tests/data/producers/cases.mlir, on one mount: each program runs right or is refused with a sentence.

    producers.py CASES MOUNTPOINT [NAME...]

A case begins with "// ----- NAME"; the file NAME.mlirbc beside the cases is the program of one that is otherwise empty.  It has
one of

    // runs ARRAYS: NUMBERS    the inputs, of those below, and all results, one after the other
    // ERRNO: SENTENCE         a regular expression, with which the sentence behind "compile NAME: " begins

and perhaps "// options JSON", which is written to options.json first.
"""

import json
import os
import re
import struct
import sys

import cases
from cases import content, equal, fails, floats, holds, make, npy

ARRAYS = {
    "x": floats(1, 2, 3, 4),
    "row": cases.f32((1, 4), 1, 2, 3, 4),
    "square": cases.f32((2, 2), 1, 2, 3, 4),
    "kernel": cases.f32((4, 2), 1, 0, 0, 1, 1, 0, 0, -1),
    "bias": floats(0.5, -0.5),
    "two": npy("<i4", (), struct.pack("<i", 2)),
    "twos": npy("<i4", (2,), struct.pack("<2i", 2, 2)),
}


def runs(d, program, inputs, want):
    for name in inputs:
        make(f"{d}/{name}.npy", ARRAYS[name])
    where = os.path.basename(d)
    outputs = [f"y{i}" for i in range(len(signature(program)["outputs"]))]
    make(f"{cases.mnt}/executables/{program}/run", " ".join(
        [*(f"{where}/{name}" for name in inputs), "->", *(f"{where}/{name}" for name in outputs)]).encode())
    got = [float(word) for name in outputs for word in content(f"{d}/{name}.txt").split()]
    holds(f"{got} is {want}", len(got) == len(want) and all(abs(g - w) <= 1e-5 * abs(w) for g, w in zip(got, want)))


def signature(program):
    return json.loads(content(f"{cases.mnt}/executables/{program}/signature.json"))


def play(d, folder, text, verdict):
    name = os.path.basename(d)
    at = f"{folder}/{name}.mlirbc"
    program = content(at) if os.path.exists(at) else text.encode()
    path = f"{cases.mnt}/programs/{name}.mlir{'bc' if os.path.exists(at) else ''}"
    options = re.search(r"^// options (.*)$", text, re.M)
    if options:
        make(path)
        make(f"{cases.mnt}/executables/{name}/options.json", options[1].encode())
    head, rest = verdict.split(":", 1)
    if head.startswith("runs"):
        make(path, program)
        runs(d, name, head.split()[1:], [float(word) for word in rest.split()])
    else:
        fails(head, make, path, program)
        error = content(f"{cases.mnt}/executables/{name}/error").decode()
        holds(f"{error!r} begins with{rest!r}", re.match(f"compile {name}: {rest.strip()}", error))
    equal("restarts", content(f"{cases.mnt}/plugins/{cases.plugin}/restarts"), b"0\n")


def main():
    table = sys.argv.pop(1)
    with open(table, encoding="utf-8") as f:
        parts = re.split(r"^// ----- (\S+)\n", f.read(), flags=re.M)
    for name, text in zip(parts[1::2], parts[2::2]):
        cases.row(name, play, os.path.dirname(table), text, re.search(r"^// ((?:runs|E[A-Z]+)[^:\n]*:.*)$", text, re.M)[1])
    cases.main()


if __name__ == "__main__":
    main()
