#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of a pjrtfs mount as functions of NumPy arrays.

    call_numpy.py /mnt/pjrt/executables/add/call
"""

import io
import json
import sys

import numpy as np


class Program:
    def __init__(self, path):
        self.file = open(path, "r+b", buffering=0)

    def __call__(self, *inputs):
        message = io.BytesIO()
        for array in inputs:
            np.save(message, array)
        try:
            self.file.write(message.getbuffer())
            outputs = io.BytesIO(self.file.readall())
        except OSError:
            raise RuntimeError(self.why()) from None
        end = outputs.seek(0, io.SEEK_END)
        outputs.seek(0)
        arrays = []
        while outputs.tell() < end:
            arrays.append(np.load(outputs))
        return arrays

    def why(self):
        """After a failed write a read fails, too; after a failed read the next one tells why."""
        for _ in range(2):
            try:
                return json.loads(self.file.readall())["error"]["message"]
            except OSError as e:
                error = e
        return str(error)


if __name__ == "__main__":
    add = Program(sys.argv[1])
    x = np.arange(6, dtype="f4").reshape(2, 3)
    for i in range(3):
        (z,) = add(x, np.full((2, 3), i, "f4"))
        print(z.tolist())
    try:
        add(x, np.zeros(5))
    except RuntimeError as e:
        print(e)
