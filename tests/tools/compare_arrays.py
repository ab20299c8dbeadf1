#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_arrays.py GOT WANT N TOLERANCE: the N arrays below WANT are in GOT, with their types, shapes and numbers."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance"))
import caselib

got_in, want_in, n, tolerance = *sys.argv[1:4], float(sys.argv[4])
files = [os.path.relpath(os.path.join(d, f), want_in) for d, _, fs in os.walk(want_in) for f in fs]
assert len(files) == int(n), files
for f in files:
    got, want = np.load(f"{got_in}/{f}"), np.load(f"{want_in}/{f}")
    assert got.dtype == want.dtype, f"{f} is {got.dtype} instead of {want.dtype}"
    largest = np.abs(want).max(initial=1)
    why = caselib.compare(got, want, rtol=tolerance, atol=tolerance * largest)
    assert not why, f"{f}: {why}"
