# SPDX-License-Identifier: Apache-2.0
"""Every element type in every format and several shapes, against encoders of our own.

The written bytes are read back unchanged; every other view is compared with an encoding made here
from the definitions of the types and formats; and each view's bytes are
written to another buffer, which must hold the same elements then.
"""

import json
import math
import os
import random
import re
import struct
from fractions import Fraction

import cases
from cases import (about, command, content, equal, fails, holds, make, of_plugin,
                   program)

# --- the types --------------------------------------------------------------------------

# name: kind, bits, .npy's descr, .safetensors' name
INTEGERS = {"PRED": ("pred", 8, "|b1", "BOOL")}
for _bits in 1, 2, 4, 8, 16, 32, 64:
    for _kind in "iu":
        _descr = f"<{_kind}{_bits // 8}" if _bits > 8 else f"|{_kind}1"
        INTEGERS["SU"[_kind == "u"] + str(_bits)] = ("su"[_kind == "u"], _bits, _descr,
                                                    _kind.upper() + str(_bits))

# name: bits, of the exponent, bias, what is special, .npy's descr, .safetensors' name
# "ieee": the last exponent means inf and nan; "fn": the last code is nan; "fnuz": the code
# of -0 is nan; "fnu": no sign, no zero, the last code is nan; "all": all are numbers
FLOATS = {
    "F16": (16, 5, 15, "ieee", "<f2", "F16"),
    "BF16": (16, 8, 127, "ieee", "<V2", "BF16"),
    "F32": (32, 8, 127, "ieee", "<f4", "F32"),
    "F64": (64, 11, 1023, "ieee", "<f8", "F64"),
    "F8E5M2": (8, 5, 15, "ieee", "|V1", "F8_E5M2"),
    "F8E4M3": (8, 4, 7, "ieee", "<V1", "F8_E4M3IEEE"),
    "F8E3M4": (8, 3, 3, "ieee", "<V1", "F8_E3M4"),
    "F8E4M3FN": (8, 4, 7, "fn", "<V1", "F8_E4M3"),
    "F8E5M2FNUZ": (8, 5, 16, "fnuz", "<V1", "F8_E5M2FNUZ"),
    "F8E4M3FNUZ": (8, 4, 8, "fnuz", "<V1", "F8_E4M3FNUZ"),
    "F8E4M3B11FNUZ": (8, 4, 11, "fnuz", "<V1", "F8_E4M3B11FNUZ"),
    "F8E8M0FNU": (8, 8, 127, "fnu", "<V1", "F8_E8M0"),
    "F4E2M1FN": (4, 2, 1, "all", "<V1", "F4"),
}

COMPLEX = {"C64": ("F32", "<c8", "C64"), "C128": ("F64", "<c16", "C128")}

# Programs' names of the types.
MLIR = {"PRED": "i1", "C64": "complex<f32>", "C128": "complex<f64>"}

SHAPES = ([], [0], [2, 0, 3], None, [2, 3, 5], [1, 2, 1, 3, 1, 2, 1, 2])


class Type:
    """An element type; an element is a code: its bits as a number."""

    def __init__(self, name):
        self.name = name
        self.part = None  # of a complex number
        self.kind = "f"
        if name in INTEGERS:
            self.kind, self.bits, self.descr, self.safetensors = INTEGERS[name]
        elif name in FLOATS:
            self.bits, self.ebits, self.bias, self.special = FLOATS[name][:4]
            self.descr, self.safetensors = FLOATS[name][4:]
            self.mbits = self.bits - self.ebits - (self.special != "fnu")
        else:
            part, self.descr, self.safetensors = COMPLEX[name]
            self.part = Type(part)
            self.bits = 2 * self.part.bits
            self.kind = "c"
        self.size = max(1, self.bits // 8)

    def value(self, code):
        """A number, an exact Fraction for finite floats, or "nan", "inf", "-inf", "-0"."""
        if self.kind in "pred u":
            return code
        if self.kind == "s":
            return code - (1 << self.bits) if code >> (self.bits - 1) else code
        if self.kind == "c":
            mask = (1 << self.part.bits) - 1
            return self.part.value(code & mask), self.part.value(code >> self.part.bits)
        if self.special == "fnu":
            return "nan" if code == 255 else Fraction(2) ** (code - self.bias)
        sign = code >> (self.bits - 1)
        rest = code & ((1 << (self.bits - 1)) - 1)
        exponent, mantissa = rest >> self.mbits, rest & ((1 << self.mbits) - 1)
        if self.special == "ieee" and exponent == (1 << self.ebits) - 1:
            return "nan" if mantissa else "-inf" if sign else "inf"
        if self.special == "fn" and rest == (1 << (self.bits - 1)) - 1:
            return "nan"
        if rest == 0:
            if sign:
                return "nan" if self.special == "fnuz" else "-0"
            return Fraction(0)
        if exponent:
            mantissa += 1 << self.mbits
        number = mantissa * Fraction(2) ** (max(exponent, 1) - self.bias - self.mbits)
        return -number if sign else number

    def codes(self, n):
        """N codes: all of them if there are few, else special values and random ones."""
        chance = random.Random(f"{self.name} {n}")
        top = 1 << self.bits
        if self.kind == "pred":
            pool = [0, 1]
        elif self.bits <= 8:
            pool = list(range(top))
        elif self.kind == "c":
            parts = self.part.codes(16)
            pool = [chance.choice(parts) | chance.choice(parts) << self.part.bits
                    for _ in range(40)]
        else:
            half = top >> 1
            pool = [0, 1, 2, half - 1, half, half + 1, top - 1, top - 2]
            if self.kind == "f":
                inf = ((1 << self.ebits) - 1) << self.mbits
                one = self.bias << self.mbits
                pool += [inf, inf | half, inf - 1, inf - 1 | half, inf | 1 << self.mbits - 1,
                         one, one | half, one + 1, 1 << self.mbits, (1 << self.mbits) - 1]
                pool += [_code(self, x) for x in (0.1, -0.3, 3.14159, 65504, 100, 1e-3)]
            pool += [chance.getrandbits(self.bits) for _ in range(16)]
        if n == 1:
            return [chance.choice(pool)]
        return [pool[i % len(pool)] for i in range(n)]

    def unpacked(self, codes):
        """Bytes in .npy and .raw: what is less than a byte takes one."""
        if self.bits >= 8:
            return b"".join(c.to_bytes(self.size, "little") for c in codes)
        if self.kind == "s":
            return bytes(self.value(c) & 0xFF for c in codes)
        return bytes(codes)

    def packed(self, codes):
        """Bytes in .safetensors: element 0 in the lowest bits."""
        if self.bits >= 8:
            return self.unpacked(codes)
        number = 0
        for i, c in enumerate(codes):
            number |= c << (self.bits * i)
        return number.to_bytes((len(codes) * self.bits + 7) // 8, "little")


def _code(t, number):
    """The code of a float that another format of struct's rounds as well."""
    if t.name == "BF16":
        return int.from_bytes(struct.pack("<f", number), "little") >> 16
    letter = {"F16": "e", "F32": "f", "F64": "d"}[t.name]
    return int.from_bytes(struct.pack("<" + letter, number), "little")


TYPES = [Type(name) for name in (*INTEGERS, *FLOATS, *COMPLEX)]

# --- the formats ------------------------------------------------------------------------


class Array:
    def __init__(self, t, shape):
        self.type = t
        self.shape = [256 if t.bits <= 8 else 40] if shape is None else shape
        self.codes = t.codes(math.prod(self.shape))

    def npy(self, descr=None):
        return cases.npy(descr or self.type.descr, tuple(self.shape),
                         self.type.unpacked(self.codes))

    def raw(self):
        return self.type.unpacked(self.codes)

    def safetensors(self, name="t"):
        data = self.type.packed(self.codes)
        head = json.dumps({name: {"dtype": self.type.safetensors, "shape": self.shape,
                                  "data_offsets": [0, len(data)]}}).encode()
        return struct.pack("<Q", len(head)) + head + data


def _check_text(text, a):
    """TEXT shows A: its rows, the blank lines between blocks, and the numbers."""
    if math.prod(a.shape) == 0:
        equal("text of nothing", text.strip(), "")
        return
    row = a.shape[-1] if a.shape else 1
    rows = len(a.codes) // row
    block = a.shape[-2] if len(a.shape) > 1 else 1
    lines = []
    for i in range(rows):
        if len(a.shape) > 2 and i and i % block == 0:
            lines.append(0)
        lines.append(row)
    holds("a newline at the end", text.endswith("\n"))
    got = text[:-1].split("\n")
    equal("numbers in the lines", [len(line.split()) for line in got], lines)
    holds("single blanks", all(line == " ".join(line.split()) for line in got))
    for word, code in zip(text.split(), a.codes):
        _check_word(word, a.type, code)


def _check_word(word, t, code):
    want = t.value(code)
    if t.kind == "pred":
        equal("word", word, "true" if code else "false")
    elif t.kind in "su":
        equal("word", word, str(want))
    elif t.kind == "c":
        m = re.fullmatch(r"([+-]?(?:inf|nan|[\d.]+(?:e[+-]\d+)?))"
                         r"([+-](?:inf|nan|[\d.]+(?:e[+-]\d+)?))j", word)
        holds(f"a complex number: {word}", m)
        mask = (1 << t.part.bits) - 1
        _check_word(m[1], t.part, code & mask)
        _check_word(m[2].removeprefix("+"), t.part, code >> t.part.bits)
    elif want == "nan":
        # The sign of a nan is not compared.
        equal("word", word.removeprefix("-"), "nan")
    elif isinstance(want, str):
        equal("word", word, want)
    else:
        _check_decimal(word, t, code, want)


def _check_decimal(word, t, code, want):
    """The word reads back as the number, and none with fewer digits does."""
    m = re.fullmatch(r"-?(\d+)(?:\.(\d+))?(?:e([+-]\d+))?", word)
    holds(f"a decimal: {word}", m)
    got = Fraction(word)
    digits = (m[1] + (m[2] or "")).strip("0")
    if got == want and len(digits) <= 1:
        return
    sign = code & 1 << (t.bits - 1) if t.special != "fnu" else 0
    below, above = (t.value(sign | (code & ~sign) + step) for step in (-1, 1))
    low = Fraction(0) if below in ("-0", "nan") or code == 0 else below
    high = above if isinstance(above, Fraction) else 2 * want - low
    low, high = sorted(((abs(low) + abs(want)) / 2, (abs(high) + abs(want)) / 2))
    want, got = abs(want), abs(got)
    holds(f"{t.name}: {word} reads back as code {code:#x}", low <= got <= high)
    if len(digits) > 1:
        scale = Fraction(10) ** (_exponent(want) - len(digits) + 2)
        holds(f"{t.name}: {word} is the shortest of code {code:#x}",
              not (low / scale // 1 + 1) * scale < high)


def _exponent(x):
    """The power of ten of the first digit."""
    e = 0
    while x >= 10:
        x /= 10
        e += 1
    while x < 1:
        x *= 10
        e -= 1
    return e


# --- the cases --------------------------------------------------------------------------


def _check_views(path, a, written=None):
    """All views of the buffer but the one that was written, which is in the first place."""
    stem = path[: path.rindex(".")]
    told = about(path)
    equal("state", told["state"], "ready")
    equal("dtype and shape", (told["dtype"], told["shape"]), (a.type.name, a.shape))
    equal("bytes", told["bytes"], len(a.raw()))
    if written is not None:
        equal("what was written", content(path), written)
    for view, want in (("raw", a.raw()), ("npy", a.npy())):
        if not path.endswith(view):
            equal(view, content(f"{stem}.{view}"), want)
    if not path.endswith(".txt"):
        _check_text(content(stem + ".txt").decode(), a)
    if not path.endswith(".safetensors"):
        got = content(stem + ".safetensors")
        n = struct.unpack("<Q", got[:8])[0]
        equal("tensors", json.loads(got[8 : 8 + n]),
              {os.path.basename(stem): {"dtype": a.type.safetensors, "shape": a.shape,
                                        "data_offsets": [0, len(got) - 8 - n]}})
        equal("padding", (8 + n) % 8, 0)
        equal("packed", got[8 + n :], a.type.packed(a.codes))
    for view in ("npy", "raw", "safetensors"):
        equal("size of " + view, os.stat(f"{stem}.{view}").st_size,
              len(content(f"{stem}.{view}")))


def _declare(path, a):
    """An empty buffer of the array's type and shape, by command."""
    name = os.path.relpath(path[: path.rindex(".")], cases.buffers)
    reply = command(op="create", buffer=name, dtype=a.type.name, shape=a.shape)
    equal("create", reply.get("ok"), True)


def _attribute(path, a):
    """The same with attributes of an empty file."""
    make(path)
    os.setxattr(path, "user.pjrtfs.dtype", a.type.name.encode())
    os.setxattr(path, "user.pjrtfs.shape", json.dumps(a.shape).encode())


def _upload(d, a, label):
    t = a.type
    for how in (_declare, _attribute):
        path = f"{d}/raw-{label}-{how.__name__}.raw"
        how(path, a)
        make(path, a.raw())
        _check_views(path, a, a.raw())

    # .npy: names the type, or not
    path = f"{d}/npy-{label}.npy"
    if t.descr[1:] != "V1" and t.bits >= 8:
        make(path, a.npy())
        _check_views(path, a, a.npy())
    else:
        for descr in ("<V1", "|V1"):
            _declare(path, a)
            make(path, a.npy(descr))
            _check_views(path, a, a.npy(descr))
            os.unlink(path)
        if a.codes:
            fails("EINVAL", make, path, a.npy("<V1"))
    if t.name == "BF16":
        path = f"{d}/void-{label}.npy"
        _declare(path, a)
        make(path, a.npy("|V2"))
        _check_views(path, a, a.npy("|V2"))

    path = f"{d}/st-{label}.safetensors"
    make(path, a.safetensors())
    _check_views(path, a, a.safetensors())
    return path[: path.rindex(".")]


def _again(d, a, label, stem):
    """A view's bytes make the same array when written to another buffer."""
    for view in ("npy", "raw", "safetensors", "txt"):
        if view == "txt" and not a.codes:
            continue
        path = f"{d}/again-{label}-{view}.{view}"
        data = content(f"{stem}.{view}")
        if view == "npy" and a.type.bits < 8 and a.type.kind in "su":
            # The header says 8 bits, and 8 bits it is.
            make(path, data)
            equal("raw", content(path[:-3] + "raw"), a.raw())
            equal("dtype", about(path)["dtype"], a.type.name[0] + "8")
            continue
        if view != "safetensors":
            _declare(path, a)
        make(path, data)
        equal("what was written", content(path), data)
        told = about(path)
        equal(f"from {view}", (told["state"], told["dtype"], told["shape"]),
              ("ready", a.type.name, a.shape))
        if view == "txt":
            _same_values(a, content(path[:-3] + "raw"))
        else:
            equal("raw", content(path[: -len(view)] + "raw"), a.raw())


def _same_values(a, raw):
    t = a.type
    mask = (1 << t.bits) - 1
    for i, code in enumerate(a.codes):
        got = int.from_bytes(raw[i * t.size : (i + 1) * t.size], "little") & mask
        equal(f"element {i}", t.value(got), t.value(code))


def _computed(d, a):
    """Through the device: a program that gives back what it takes."""
    t = a.type
    element = MLIR.get(t.name) or re.sub("^S", "i", re.sub("^U", "ui", t.name))
    if t.kind == "f":
        element = "bf16" if t.name == "BF16" else "f" + t.name[1:]
    shape = "".join(f"{n}x" for n in a.shape)
    tensor = f"tensor<{shape}{element}>"
    program(f"same_{t.name}",
            f"func.func @main(%x: {tensor}) -> {tensor} {{ return %x : {tensor} }}")
    rel = os.path.relpath(d, cases.buffers)
    make(f"{d}/in.safetensors", a.safetensors())
    reply = command(op="execute", executable=f"same_{t.name}", inputs=[rel + "/in"],
                    outputs=[rel + "/out"])
    equal("run", (reply.get("ok"), reply.get("error")), (True, None))
    _check_views(f"{d}/out.npy", a, a.npy())


def api():
    return int(of_plugin("api_version").split(".")[1])


def whole(d, t):
    if t.bits == 1 and api() < 100:
        refused(d, t)
        return
    for i, shape in enumerate(SHAPES):
        a = Array(t, shape)
        try:
            _again(d, a, i, _upload(d, a, i))
        except Exception as e:
            raise AssertionError(f"{t.name}{a.shape}: {e}") from e
    if t.bits > 1:  # programs have none smaller
        _computed(d, Array(t, None))


def refused(d, t):
    """A plugin that does not know the type: a sentence, wherever it is named."""
    a = Array(t, [4])
    reply = command(op="create", buffer=os.path.relpath(d, cases.buffers) + "/x",
                    dtype=t.name, shape=[4])
    equal("create", reply.get("ok"), False)
    holds("a sentence that names the type", t.name in reply["error"]["message"])
    fails("EINVAL EOPNOTSUPP", make, d + "/x.safetensors", a.safetensors())
    told = about(d + "/x.safetensors")
    equal("state", told["state"], "error")
    holds("a sentence that names the type", t.name in told["error"])
    make(d + "/y.raw")
    fails("EINVAL EOPNOTSUPP", os.setxattr, d + "/y.raw", "user.pjrtfs.dtype",
          t.name.encode())


for _t in TYPES:
    cases.row(_t.name, whole, _t)
cases.main()
