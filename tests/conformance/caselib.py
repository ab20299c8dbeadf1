# SPDX-License-Identifier: Apache-2.0
"""Conformance cases: reading them, decoding element types, comparing arrays.

A case is a directory that holds case.json, one or more forms of a program, its inputs and
its expected outputs; README.md in this folder describes the format.  Needs only NumPy 1.24, and no
mount.
"""
import io
import json
import os
import tarfile

import numpy as np

# Types that a .npy file names, by their PJRT name.
NPY_TYPES = {
    "PRED": "?", "S8": "i1", "S16": "<i2", "S32": "<i4", "S64": "<i8",
    "U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8",
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8", "C128": "<c16",
}
# Integers narrower than a byte: one element a byte, the value in the low bits.
SMALL_INTS = {"S1": 1, "U1": 1, "S2": 2, "U2": 2, "S4": 4, "U4": 4}
# Small floats: exponent bits, mantissa bits, bias, and what the top codes mean.
#   ieee: infinities and NaNs; fn: no infinity, NaN is all ones; fnuz: no infinity, no -0,
#   NaN is the code of -0; finite: every code is a number
SMALL_FLOATS = {
    "F8E5M2": (5, 2, 15, "ieee"), "F8E4M3": (4, 3, 7, "ieee"),
    "F8E3M4": (3, 4, 3, "ieee"), "F8E4M3FN": (4, 3, 7, "fn"),
    "F8E4M3FNUZ": (4, 3, 8, "fnuz"), "F8E4M3B11FNUZ": (4, 3, 11, "fnuz"),
    "F8E5M2FNUZ": (5, 2, 16, "fnuz"), "F4E2M1FN": (2, 1, 1, "finite"),
}


class BadCase(Exception):
    """The files of a case are not what case.json says."""


def decode_code(code, ebits, mbits, bias, kind):
    """The value of one code of a small float type."""
    width = 1 + ebits + mbits
    sign = -1.0 if code >> (width - 1) else 1.0
    exponent = (code >> mbits) & ((1 << ebits) - 1)
    mantissa = code & ((1 << mbits) - 1)
    top = (1 << ebits) - 1
    if kind == "ieee" and exponent == top:
        return float("nan") if mantissa else sign * float("inf")
    if kind == "fn" and exponent == top and mantissa == (1 << mbits) - 1:
        return float("nan")
    if kind == "fnuz" and code == 1 << (width - 1):
        return float("nan")
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mbits)
    return sign * (1 + mantissa / (1 << mbits)) * 2.0 ** (exponent - bias)


def small_float_table(dtype):
    """256 float64 values, by byte; high bits that the type does not use are ignored."""
    ebits, mbits, bias, kind = SMALL_FLOATS[dtype]
    mask = (1 << (1 + ebits + mbits)) - 1
    return np.array([decode_code(i & mask, ebits, mbits, bias, kind) for i in range(256)])


def element_size(dtype):
    """Bytes of one element in host memory."""
    if dtype in NPY_TYPES:
        return np.dtype(NPY_TYPES[dtype]).itemsize
    if dtype == "BF16":
        return 2
    if dtype in SMALL_INTS or dtype in SMALL_FLOATS or dtype == "F8E8M0FNU":
        return 1
    raise BadCase("unknown element type %r" % (dtype,))


def decode_raw(data, dtype, shape):
    """Dense row-major little-endian bytes as an array that NumPy can compute with."""
    count = 1
    for extent in shape:
        count *= extent
    want = count * element_size(dtype)
    if len(data) != want:
        raise BadCase("%d bytes, %s%s has %d" % (len(data), dtype, list(shape), want))
    if dtype in NPY_TYPES:
        return np.frombuffer(data, NPY_TYPES[dtype]).reshape(shape)
    if dtype == "BF16":
        wide = np.frombuffer(data, "<u2").astype(np.uint32) << 16
        return wide.view(np.float32).reshape(shape)
    codes = np.frombuffer(data, np.uint8)
    if dtype in SMALL_FLOATS:
        return small_float_table(dtype)[codes].reshape(shape)
    if dtype == "F8E8M0FNU":
        values = 2.0 ** (codes.astype(np.float64) - 127)
        return np.where(codes == 255, np.nan, values).reshape(shape)
    bits = SMALL_INTS[dtype]
    values = (codes & ((1 << bits) - 1)).astype(np.int16)
    if dtype.startswith("S"):
        values = np.where(values >= 1 << (bits - 1), values - (1 << bits), values)
    return values.reshape(shape)


def decode_npy(data, dtype, shape):
    """The bytes of a .npy file; its type and shape must be those expected."""
    stream = io.BytesIO(data)
    try:
        array = np.load(stream, allow_pickle=False)
    except (ValueError, EOFError, OSError) as e:
        raise BadCase("no .npy file: %s" % e) from e
    if stream.read(1):
        raise BadCase("bytes after the end of the .npy array")
    if dtype in NPY_TYPES and array.dtype != np.dtype(NPY_TYPES[dtype]):
        raise BadCase("the file says %s, expected %s" % (array.dtype, dtype))
    if list(array.shape) != list(shape):
        raise BadCase("the file says shape %s, expected %s"
                      % (list(array.shape), list(shape)))
    return array


def decode(data, name, dtype, shape):
    """Decode by the file's extension: .npy, or raw bytes."""
    return (decode_npy if name.endswith(".npy") else decode_raw)(data, dtype, shape)


def parts_close(got, exp, magnitude, rtol, atol):
    """Where got equals exp within atol + rtol * magnitude, element by element."""
    got = got.astype(np.float64)
    exp = exp.astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(exp) & np.isfinite(got)
        near = np.abs(got - exp) <= atol + rtol * magnitude
        return (finite & near) | (got == exp) | (np.isnan(got) & np.isnan(exp))


def equal_elements(got, exp, rtol, atol):
    """A boolean array: which elements are right."""
    if exp.dtype.kind in "biu":
        return got == exp
    with np.errstate(all="ignore"):
        magnitude = np.abs(exp).astype(np.float64)
        if exp.dtype.kind != "c":
            return parts_close(got, exp, magnitude, rtol, atol)
        real = np.where(np.isfinite(magnitude), magnitude, np.abs(exp.real))
        imag = np.where(np.isfinite(magnitude), magnitude, np.abs(exp.imag))
    return (parts_close(got.real, exp.real, real, rtol, atol)
            & parts_close(got.imag, exp.imag, imag, rtol, atol))


def compare(got, exp, rtol, atol):
    """None when equal by the rule, else a sentence about the first difference.

    The rule: |got - exp| <= atol + rtol * |exp|; NaN equals NaN, infinities must be equal,
    -0 equals +0; each part of a complex number against |exp|; integers and PRED exactly.
    """
    if got.shape != exp.shape:
        return "shape %s, expected %s" % (list(got.shape), list(exp.shape))
    right = equal_elements(got, exp, rtol, atol)
    if right.all():
        return None
    at = tuple(int(i) for i in np.argwhere(~right)[0])
    where = "[%s]" % ",".join(map(str, at)) if at else "the scalar"
    return ("%d of %d elements differ, first %s: got %s, expected %s (rtol %g, atol %g)"
            % (np.count_nonzero(~right), right.size, where, got[at], exp[at], rtol, atol))


class Case:
    """One case: its directory and what case.json says."""

    def __init__(self, path):
        self.path = path
        try:
            with open(os.path.join(path, "case.json"), encoding="utf-8") as f:
                self.meta = json.load(f)
        except (OSError, ValueError) as e:
            raise BadCase("%s: case.json: %s" % (path, e)) from e
        parent, leaf = os.path.split(path.rstrip("/"))
        self.name = self.meta.get("name") or os.path.basename(parent) + "/" + leaf
        self.group = self.name.split("/")[0]

    @property
    def multi(self):
        """Needs more than one device."""
        return "inputs_per_device" in self.meta

    @property
    def forms(self):
        """File names of the program's forms that must work."""
        forms = self.meta.get("programs") or [self.meta.get("program", "program.mlir")]
        # cases.tar.xz and linalg.tar.xz leave these out
        exported = [f for f in [self.meta.get("jax_exported")]
                    if f and os.path.exists(os.path.join(self.path, f))]
        # what JAX makes of ordered effects: pjrtfs takes the tokens off main
        return forms + exported + self.meta.get("programs_with_token", [])

    @property
    def rows(self):
        """[(inputs, outputs)], one row a device; one row where one device is enough."""
        if self.multi:
            return list(zip(self.meta["inputs_per_device"],
                            self.meta["outputs_per_device"]))
        return [(self.meta.get("inputs", []), self.meta.get("outputs", []))]

    @property
    def options(self):
        """The JSON compile options that the case needs; {} for the defaults."""
        options = dict(self.meta.get("compile_options") or {})
        for key in ("num_replicas", "num_partitions"):
            if self.meta.get(key, 1) != 1:
                options[key] = self.meta[key]
        return options

    @property
    def dtypes(self):
        """Every element type among the inputs and outputs."""
        return {a["dtype"] for row in self.rows for arrays in row for a in arrays}

    def read(self, name):
        """The bytes of one of the case's files."""
        with open(os.path.join(self.path, name), "rb") as f:
            return f.read()

    def known_failure(self, aliases, form):
        """The recorded failure of a form under one of a plugin's names: error, mismatch,
        abort; None when it should pass."""
        for label, forms in (self.meta.get("known_failures") or {}).items():
            if label not in aliases and api_number(label) not in aliases:
                continue
            # a form with tokens fails where the same one without them does
            record = (forms.get(form) or forms.get(form.replace(".", "_notoken.", 1))
                      if isinstance(forms, dict) else forms)
            if isinstance(record, dict):
                record = record.get("status", "error")
            if record and record != "pass":
                kind = record.split(":")[0].strip().lower()
                return kind if kind in ("error", "mismatch", "abort") else "error"
        return None


def api_number(label):
    """The minor API version at the end of a plugin label: 0.106, P106, cpu-0.106, 106
    are all "106", 081 and 0.81 are "81"; "" if the label has no version."""
    digits = label.rstrip()
    start = len(digits)
    while start and digits[start - 1].isdigit():
        start -= 1
    return digits[start:].lstrip("0")


def unpack(archive, target):
    """Extract the regular files of a tar archive under TARGET, nothing outside it."""
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = member.name.split("/")
            if not member.isfile() or member.name.startswith("/") or ".." in parts:
                continue
            path = os.path.join(target, *parts)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(tar.extractfile(member).read())


def find_cases(root):
    """Every case under ROOT, sorted by name.  Raises BadCase."""
    found = []
    for directory, subdirs, files in os.walk(root):
        subdirs.sort()
        if "case.json" in files:
            found.append(Case(directory))
    found.sort(key=lambda case: case.name)
    return found


def open_cases(source, scratch):
    """The cases of a directory or of an archive, which is extracted under SCRATCH."""
    if os.path.isdir(source):
        return find_cases(source)
    try:
        unpack(source, scratch)
    except (OSError, tarfile.TarError) as e:
        raise BadCase("%s: %s" % (source, e)) from e
    return find_cases(scratch)
