#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Upload two arrays, execute a program with them, and print the result: Python without packages.

    control.py /mnt/pjrt
"""
import json
import sys

mnt = sys.argv[1]
for name, numbers in (("x", "1 2 3\n4 5 6\n"), ("y", "10 20 30\n40 50 60\n")):
    with open(f"{mnt}/buffers/{name}.txt", "w") as file:
        file.write(numbers)
with open(f"{mnt}/control", "r+b", buffering=0) as control:
    control.write(json.dumps({"op": "execute", "executable": "add", "inputs": ["x", "y"],
                              "outputs": ["z"]}).encode() + b"\n")
    reply = json.loads(control.read(65536))
if not reply["ok"]:
    sys.exit(reply["error"]["message"])
print(open(f"{mnt}/buffers/z.txt").read(), end="")
