#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Give a program of a pjrtfs mount its data, one batch for each step.

    loader.py /mnt/pjrt/executables/train/callbacks/0 data.npy

The program calls callback 0 with the number of the step, and gets so many rows of data.npy as its
result has; the first row follows the last one.  Needs NumPy.
"""
import io
import json
import sys

import numpy as np


def take(reader):
    """The next request, and its arguments."""
    request = json.loads(reader.readline())
    data = io.BytesIO(reader.read(request["bytes"]))
    return request, [np.load(data) for _ in request["args"]]


def give(file, array):
    """Answer with one result."""
    data = io.BytesIO()
    np.save(data, array)
    rest = data.getbuffer()
    while rest:
        rest = rest[file.write(rest):]


def main(callback, rows):
    rows = np.load(rows, mmap_mode="r")
    with open(callback, "r+b", buffering=0) as file:
        reader = io.BufferedReader(file)  # the system never gives it more than one request
        while True:
            request, (step,) = take(reader)
            n = request["results"][0]["shape"][0]
            at = np.arange(step * n, (step + 1) * n) % len(rows)
            give(file, rows[at])


if __name__ == "__main__":
    main(*sys.argv[1:])
