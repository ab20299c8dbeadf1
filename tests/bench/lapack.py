#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compare libpjrtfs-lapack.so with jaxlib's handlers of the same targets, both in this process.

    tests/bench/lapack.py [--quick] [--library PATH] [--rounds N]

Each target is called on one matrix of 512 x 512 and on 10,000 of 4 x 4, by turns with one library and
the other; times are of the processor, the ratio is the median over the rounds.  jaxlib brings SciPy's OpenBLAS, pjrtfs uses the
system's liblapack.so.3: the first lines say which these are.  Both use one thread.  Run it with a
python that has jaxlib; another one compares single matrices with calls of LAPACK itself.
"""
import argparse
import ctypes
import os
import statistics
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
try:
    import numpy as np  # noqa: E402
except ImportError:
    sys.exit("bench: numpy is missing: apt install python3-numpy, or another bench_python")

P, I, I64, SZ = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t
DTYPES = {"s": (np.float32, 11), "d": (np.float64, 12)}
EXECUTE = 3


def struct(*fields):
    return type("Struct", (ctypes.Structure,), {"_fields_": list(fields)})


Buffer = struct(("size", SZ), ("ext", P), ("dtype", I), ("data", P), ("rank", I64), ("dims", P))
Buffers = struct(("size", SZ), ("ext", P), ("n", I64), ("types", P), ("buffers", P))
Text = struct(("data", ctypes.c_char_p), ("len", SZ))
Scalar = struct(("dtype", I), ("value", P))
Attrs = struct(("size", SZ), ("ext", P), ("n", I64), ("types", P), ("names", P), ("values", P))
Version = struct(("size", SZ), ("ext", P), ("major", I), ("minor", I))
Api = struct(("size", SZ), ("ext", P), ("version", Version), ("internal", P), ("error", P),
             ("more", P * 10), ("schedule", P), ("threads", P), ("rest", P * 5))
Frame = struct(("size", SZ), ("ext", P), ("api", P), ("context", P), ("stage", I),
               ("operands", Buffers), ("results", Buffers), ("attrs", Attrs), ("future", P))
ErrorArgs = struct(("size", SZ), ("ext", P), ("message", ctypes.c_char_p), ("code", I))
Targets = struct(("size", SZ), ("n", SZ), ("targets", P))
Target = struct(("name", ctypes.c_char_p), ("handler", P), ("platform", ctypes.c_char_p),
                ("traits", ctypes.c_uint32))


@ctypes.CFUNCTYPE(P, ctypes.POINTER(ErrorArgs))
def error_create(args):
    print("bench: " + args.contents.message.decode(), file=sys.stderr, flush=True)
    os._exit(1)  # an exception cannot leave a function that C calls


# jaxlib divides a batch among XLA's threads; here there is one.
ThreadArgs = struct(("size", SZ), ("ext", P), ("context", P), ("number", ctypes.POINTER(I64)))
TaskArgs = struct(("size", SZ), ("ext", P), ("context", P), ("task", ctypes.CFUNCTYPE(None, P)),
                  ("data", P))


@ctypes.CFUNCTYPE(P, ctypes.POINTER(ThreadArgs))
def one_thread(args):
    args.contents.number[0] = 1


@ctypes.CFUNCTYPE(P, ctypes.POINTER(TaskArgs))
def run_task(args):
    args.contents.task(args.contents.data)


class Call:
    """A frame: arrays as operands and results, letters as attributes."""

    def __init__(self, operands, results, **letters):
        self.keep = [operands, results]
        api = Api(size=ctypes.sizeof(Api), error=ctypes.cast(error_create, P))
        api.schedule, api.threads = ctypes.cast(run_task, P), ctypes.cast(one_thread, P)
        api.version = Version(ctypes.sizeof(Version), None, 0, 3)
        frame = self.frame = Frame(size=Frame.future.offset, stage=EXECUTE)
        frame.api = self.at(api)
        frame.operands = self.buffers(operands)
        frame.results = self.buffers(results)
        names = sorted(letters)
        values = [Scalar(6, self.at(ctypes.c_uint8(ord(letters[n])))) for n in names]
        frame.attrs = Attrs(ctypes.sizeof(Attrs), None, len(names), self.ints([3] * len(names)),
                            self.pointers([Text(n.encode(), len(n)) for n in names]),
                            self.pointers(values))

    def at(self, thing):
        self.keep.append(thing)
        return ctypes.addressof(thing)

    def ints(self, values):
        return self.at((I * max(1, len(values)))(*values))

    def pointers(self, things):
        return self.at((P * max(1, len(things)))(*[self.at(t) for t in things]))

    def buffers(self, arrays):
        codes = {np.dtype(np.float32): 11, np.dtype(np.float64): 12, np.dtype(np.int32): 4}
        them = [Buffer(ctypes.sizeof(Buffer), None, codes[a.dtype], a.ctypes.data, a.ndim,
                       self.at((I64 * max(1, a.ndim))(*a.shape))) for a in arrays]
        return Buffers(ctypes.sizeof(Buffers), None, len(them), self.ints([1] * len(them)),
                       self.pointers(them))

    def time(self, handler):
        begin = time.thread_time()
        handler(ctypes.addressof(self.frame))
        return time.thread_time() - begin


def handler_at(address):
    return ctypes.CFUNCTYPE(P, P)(address)


def our_handlers(path):
    library = ctypes.CDLL(path)
    library.pjrtfs_ffi_library.restype = ctypes.POINTER(Targets)
    why = ctypes.c_char_p()
    table = library.pjrtfs_ffi_library(ctypes.byref(why))
    if not table:
        sys.exit("bench: " + why.value.decode())
    targets = (Target * table.contents.n).from_address(table.contents.targets)
    return {t.name.decode(): handler_at(t.handler) for t in targets}


def jaxlib_handlers():
    from jaxlib import lapack
    lapack._lapack.initialize()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = P, [ctypes.py_object, ctypes.c_char_p]
    return {name: handler_at(pointer(capsule, b"xla._CUSTOM_CALL_TARGET"))
            for name, capsule, *_ in lapack.registrations()["cpu"]}


def calls(letter, batch, n):
    """(routine, operand, results, letters) for each target."""
    dtype, _ = DTYPES[letter]
    shape = (batch, n, n) if batch > 1 else (n, n)
    lead = shape[:-2]
    random = np.random.default_rng(7).standard_normal(shape).astype(dtype)
    definite = random @ np.swapaxes(random, -1, -2) + n * np.eye(n, dtype=dtype)

    def new(*dims, of=dtype):
        return np.zeros(lead + dims, of)

    info = new(of=np.int32)
    yield "potrf", definite, [new(n, n), info], {"uplo": "L"}
    yield "geqrf", random, [new(n, n), new(n)], {}
    yield "gesdd", random, [new(n, n), new(n), new(n, n), new(n, n), info], {"mode": "S"}
    yield "syevd", definite, [new(n, n), new(n), info], {"mode": "V", "uplo": "L"}


def direct(letter, routine, results, n):
    """LAPACK itself on the copy of the operand in the first result; a function without arguments."""
    lapack = ctypes.CDLL("liblapack.so.3")
    f = getattr(lapack, letter + routine + "_")
    a, n_, length = results[0].ctypes.data, ctypes.byref(I(n)), SZ(1)
    out = [r.ctypes.data for r in results]
    info, minus = ctypes.byref(I()), I(-1)
    optimum, ints = np.zeros(4, results[0].dtype), np.zeros(max(8 * n, 3 + 5 * n), np.int32)

    def invoke(work, lwork, liwork):
        work, lwork, liwork = P(work.ctypes.data), ctypes.byref(lwork), ctypes.byref(liwork)
        if routine == "potrf":
            f(b"L", n_, P(a), n_, info, length)
        elif routine == "geqrf":
            f(n_, n_, P(a), n_, P(out[1]), work, lwork, info)
        elif routine == "gesdd":
            f(b"S", n_, n_, P(a), n_, P(out[1]), P(out[2]), n_, P(out[3]), n_, work, lwork,
              P(ints.ctypes.data), info, length)
        else:
            f(b"V", b"L", n_, P(a), n_, P(out[1]), work, lwork, P(ints.ctypes.data), liwork, info,
              length, length)

    invoke(optimum, minus, minus)
    lwork = max(1, int(optimum[0]))
    work = np.zeros(lwork, results[0].dtype)
    return lambda: invoke(work, I(lwork), I(ints.size))


def measure(rounds, ours, theirs, letter, batch, n):
    for routine, operand, results, letters in calls(letter, batch, n):
        target = "lapack_%s%s_ffi" % (letter, routine)
        call = Call([operand], results, **letters)
        samples = {"ours": [], "other": []}
        base = None if theirs or batch > 1 else direct(letter, routine, results, n)
        checked = []
        for _ in range(rounds):
            samples["ours"].append(call.time(ours[target]))
            checked.append(np.abs(results[1]).sum() if routine != "potrf" else
                           np.tril(results[0]).sum())
            if theirs:
                samples["other"].append(call.time(theirs[target]))
                checked.append(np.abs(results[1]).sum() if routine != "potrf" else
                               np.tril(results[0]).sum())
            elif base:
                begin = time.thread_time()
                np.copyto(results[0], operand)
                base()
                samples["other"].append(time.thread_time() - begin)
        if not np.allclose(checked, checked[0], rtol=1e-3):
            sys.exit("bench: %s: the results differ: %s" % (target, checked))
        ms = {k: 1000 * statistics.median(v) for k, v in samples.items() if v}
        line = "  %-18s %9.3f ms" % (letter + routine, ms["ours"])
        if samples["other"]:
            ratio = statistics.median(a / b for a, b in zip(samples["ours"], samples["other"]))
            line += "  %9.3f ms  %5.2f" % (ms["other"], ratio)
        print(line, flush=True)


def openblas(handle):
    for prefix in "", "scipy_":
        for suffix in "", "64_":
            try:
                config = getattr(handle, prefix + "openblas_get_config" + suffix)
            except AttributeError:
                continue
            config.restype = ctypes.c_char_p
            return config().decode()
    return "no OpenBLAS"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true", help="ignored")
    parser.add_argument("--json", help="ignored: the programs in C write it")
    parser.add_argument("--library", default="./libpjrtfs-lapack.so")
    parser.add_argument("--rounds", type=int, default=9)
    o = parser.parse_args()
    ours, theirs = our_handlers(os.path.abspath(o.library)), {}
    print("LAPACK in handlers, one thread")
    print("  pjrtfs: %s" % openblas(ctypes.CDLL("liblapack.so.3")))
    try:
        theirs = jaxlib_handlers()
        import jaxlib
        with open("/proc/self/maps") as maps:
            paths = sorted({line.split()[-1] for line in maps if "/scipy.libs/" in line})
        paths = [path for path in paths if "openblas" in path]
        print("  jaxlib %s: %s" % (jaxlib.__version__,
                                   openblas(ctypes.CDLL(paths[0])) if paths else "?"))
    except ImportError as e:
        print("  no jaxlib (%s): compared with calls of LAPACK itself" % e)
    for n, batch in ((512, 1), (4, 10000)) if not o.quick else ((32, 1), (4, 100)):
        print("%d x (%d x %d)%22s %12s  ratio" % (batch, n, n, "pjrtfs",
                                               "jaxlib" if theirs else "LAPACK"))
        for letter in DTYPES:
            measure(3 if o.quick else o.rounds, ours, theirs, letter, batch, n)


main()
