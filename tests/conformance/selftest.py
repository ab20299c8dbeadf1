#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the conformance runner would find, without a mount: decoding, comparing, counting, packing."""
import hashlib
import importlib.machinery
import importlib.util
import io
import json
import os
import shutil
import sys
import tempfile
import types
import unittest
from contextlib import redirect_stdout

import numpy as np

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import caselib  # noqa: E402


def load(name):
    """A script of this directory as a module."""
    loader = importlib.machinery.SourceFileLoader("conformance_" + name, os.path.join(HERE, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


run = load("run")
pack = load("pack")
NAN, INF = np.nan, np.inf
GOOD = io.BytesIO()
np.save(GOOD, np.arange(6, dtype="<f4").reshape(2, 3))
GOOD = GOOD.getvalue()

# type, bytes, numbers
DECODED = [
    ("F8E5M2", b"\x3c\x7b\x01\x7c\xfc\x7d\xff", [1, 57344, 2**-16, INF, -INF, NAN, NAN]),
    ("F8E4M3", b"\x77\x78\x79\xff", [240, INF, NAN, NAN]),
    ("F8E4M3FN", b"\x38\x7e\x01\x7f\xff", [1, 448, 2**-9, NAN, NAN]),
    ("F8E4M3FNUZ", b"\x7f\x40\x80", [240, 1, NAN]),
    ("F8E4M3B11FNUZ", b"\x7f\x58\x80", [30, 1, NAN]),
    ("F8E5M2FNUZ", b"\x7f\x40\x80", [57344, 1, NAN]),
    ("F8E3M4", b"\x6f\x70\x30\x71", [15.5, INF, 1, NAN]),
    ("F4E2M1FN", b"\x07\x0f\x01", [6, -6, 0.5]),
    ("F8E8M0FNU", b"\x7f\x00\xff", [1, 2.0**-127, NAN]),
    ("BF16", b"\x80\x3f\x80\xff\xc0\x7f", [1, -INF, NAN]),
    ("S4", b"\x0f\xff\x07\x08", [-1, -1, 7, -8]),
    ("U4", b"\x0f\xff\x1f", [15, 15, 15]),
    ("S2", b"\x03\x02\x01", [-1, -2, 1]),
]
# bytes, type, shape
BAD_RAW = [(b"123", "BF16", [2]), (b"", "S4", []), (b"1", "U8", [0]), (b"12345678", "C128", [])]
BAD_NPY = [(GOOD, "F64", [2, 3]), (GOOD, "F32", [3, 2]), (GOOD + b"x", "F32", [2, 3]),
           (GOOD[:-1], "F32", [2, 3]), (b"", "F32", [2, 3]), (b"junk" * 50, "F32", [])]
# type, what came, what was expected, rtol, atol
EQUAL = [
    ("i8", [1, 2], [1, 2], 0, 0), ("f4", np.zeros((0, 2)), np.zeros((0, 2)), 0, 0),
    ("f4", [NAN, INF, -INF, 0.0], [NAN, INF, -INF, -0.0], 0, 0),
    ("f8", [110.0], [100.0], 0.1, 0), ("f8", [0.5], [0.0], 0.1, 0.5),
    ("f2", [60000], [65504], 0.1, 0),
    ("c16", [100 + 1j], [100 + 0j], 0.01, 0), ("c8", complex(NAN, 1), complex(NAN, 1), 0, 0),
    ("c8", complex(INF, 1), complex(INF, 1), 0.1, 0.1),
]
DIFFERENT = [
    ("i8", [1, 2], [1, 3], 0, 0), ("u8", [2**63], [2**63 + 1], 1, 1), ("?", True, False, 0, 0),
    ("i4", [1], [[1]], 0, 0), ("f4", [NAN], [1], 1, 1), ("f4", [1], [NAN], 1, 1),
    ("f4", [INF], [-INF], 1, 1), ("f4", [3e38], [INF], 1, 1), ("f4", [INF], [3e38], 1, 1),
    ("f8", [110.1], [100.0], 0.1, 0), ("c16", [100 + 1.1j], [100 + 0j], 0.01, 0),
    ("c8", complex(INF, 9), complex(INF, 1), 0.1, 0.1),
]
KNOWN = {"program.mlir": {"status": "mismatch", "message": "m"}}
# label of the plugin, its record, how the case ended; passed, failed, expected
TALLIES = [(label, KNOWN, *ends) for label in ("106", "0.106", "P106")
           for ends in (("mismatch", (1, 0, 1)), ("error", (0, 1, 0)), ("pass", (0, 1, 0)))] + [
    ("P0.106", {"program.mlir": "a custom call: no kind, and so an error"}, "error", (1, 0, 1)),
    ("P0.106", {"program.mlir": "a custom call: no kind, and so an error"}, "mismatch", (0, 1, 0)),
    ("081", {"program.mlir": "mismatch"}, "mismatch", (0, 1, 0)),
    ("081", {"program.mlir": "mismatch"}, "pass", (1, 0, 0)),
]


def write_case(root, name, **meta):
    os.makedirs(os.path.join(root, name))
    meta = {"name": name, "programs": ["program.mlir"], "inputs": [], "outputs": [], **meta}
    for leaf, text in (("program.mlir", "module {}"), ("case.json", json.dumps(meta))):
        with open(os.path.join(root, name, leaf), "w", encoding="utf-8") as f:
            f.write(text)
    return caselib.Case(os.path.join(root, name))


class Selftest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def test_decoding(self):
        for dtype, data, want in DECODED:
            got = caselib.decode_raw(data, dtype, [len(want)])
            np.testing.assert_array_equal(got, np.array(want, float), dtype)

    def test_what_is_not_decoded(self):
        for decode, rows in ((caselib.decode_raw, BAD_RAW), (caselib.decode_npy, BAD_NPY)):
            for row in rows:
                with self.subTest(row), self.assertRaises(caselib.BadCase):
                    decode(*row)

    def test_comparing(self):
        for rows, good in ((EQUAL, True), (DIFFERENT, False)):
            for dtype, got, want, *tolerances in rows:
                why = caselib.compare(np.array(got, dtype), np.array(want, dtype), *tolerances)
                self.assertEqual(why is None, good, f"{dtype} {got} {want} {tolerances}")

    def outcome(self, told=None, data=GOOD, state="donated"):
        """How a form of a case ends whose output is DATA, and TOLD of in the reply."""
        class Mount:
            def read(self, name):
                return json.dumps({"state": state}).encode() if name.endswith("json") else data

        with open(os.path.join(self.root, "out0.npy"), "wb") as f:
            f.write(GOOD)
        array = {"file": "out0.npy", "dtype": "F32", "shape": [2, 3]}
        case = write_case(self.root, "g/one", outputs=[array])
        case.path = self.root
        form = run.FormRun(Mount(), "cpu", case, "program.mlir", "stem")
        form.check_donated("in0")
        form.check(0, "out0", {**array, **(told or {})}, array)
        return form.digest.hexdigest()

    def test_what_fails_a_form(self):
        self.assertEqual(self.outcome(), hashlib.sha256(GOOD).hexdigest())
        for wrong in ({"told": {"dtype": "F64"}}, {"told": {"shape": [3, 2]}}, {"data": GOOD[:-1]},
                      {"data": GOOD[:-1] + b"A"}, {"state": "ready"}):
            with self.subTest(wrong), self.assertRaises(run.Failure) as raised:
                shutil.rmtree(os.path.join(self.root, "g"), ignore_errors=True)
                self.outcome(**wrong)
            self.assertEqual(raised.exception.kind, "mismatch")

    def test_what_happens_after_a_form(self):
        """A plugin that died, what is not removed, and what does not end fail it."""
        def ring():
            raise run.Alarm

        child = run.Child.__new__(run.Child)
        for ended, left, died, want in (
                ("pass", lambda: [], False, "pass"), ("pass", lambda: ["x"], False, "error"),
                ("error", lambda: [], True, "abort"), ("pass", ring, False, "timeout"),
                ("mismatch", lambda: ["x"], False, "mismatch")):
            child.mount = types.SimpleNamespace(hang_up=lambda: None)
            child.plugin_died = lambda died=died: died
            kind, _ = child.after(types.SimpleNamespace(remove=left), ended, "")
            self.assertEqual(kind, want)

    def test_counting(self):
        for i, (label, known, kind, want) in enumerate(TALLIES):
            case = write_case(self.root, f"g/c{i}", known_failures={label: known})
            tally = run.Tally({"cpu-0.106", "0.106", "106"})
            with redirect_stdout(io.StringIO()):
                tally.add(case, [("program.mlir", kind, "why", "")])
            self.assertEqual((tally.passed, tally.failed, tally.expected), want, f"{label} {kind}")

    def test_packing(self):
        for i in range(40):
            dtype = "F32" if i % 7 else "S%d" % (8 << i % 4)
            array = {"file": "in0.npy", "dtype": dtype, "shape": [1]}
            write_case(self.root, f"g{i % 3}/c{i}", inputs=[array], ops=[f"op{i % 11}"])
        found = caselib.find_cases(self.root)
        picked = pack.choose(found, 12)
        for strata in (lambda c: {c.group}, lambda c: c.dtypes, lambda c: set(c.meta["ops"])):
            self.assertEqual(set().union(*map(strata, picked)), set().union(*map(strata, found)))
        self.assertEqual(pack.archive(picked), pack.archive(list(reversed(picked))))
        self.assertEqual(pack.blank_paths(b"ML\xefR\x00/tmp/x/conf/gen.py\x00/usr/lib/a b"),
                         b"ML\xefR\x00_________" + b"_" * 3 + b"gen.py\x00/usr/lib/a b")


if __name__ == "__main__":
    unittest.main()
