#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make ordered.tar.xz: programs of JAX with ordered effects, and what JAX asks and computes.

    python3 -m venv venv && venv/bin/pip install jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
    venv/bin/python - < tests/conformance/ordered.py > tests/conformance/ordered.tar.xz

By "-" no path gets into the files.  Each case has three forms: text, MLIR bytecode, and the
portable artifact that jax.export would write.  JAX runs each function once, and its calls of the
host are the case's.
"""
import functools
import io
import json
import lzma
import sys
import tarfile

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.export import _export
from jax.experimental import io_callback
from jax.sharding import NamedSharding, PartitionSpec as P

rng = np.random.default_rng(20240301)
calls = []      # of the host, while JAX runs a function


def normal(*shape):
    return rng.normal(size=shape).astype(np.float32)


def host(index, answer=None):
    """The callback of a place in a program, which notes what it is asked and answers."""
    def ask(*args):
        result = () if answer is None else answer(*[np.asarray(a) for a in args])
        results = result if isinstance(result, tuple) else (result,)
        calls.append((index, [np.asarray(a) for a in args], [np.asarray(r) for r in results]))
        return None if answer is None else result
    return ask


def of(dtype, *shape):
    return jax.ShapeDtypeStruct(shape, dtype)


def total(x):
    return np.float32(x.sum())


def one_write(x):
    io_callback(host(0), None, x, ordered=True)
    return x * 2


def two_kinds(x, y):
    n = io_callback(host(0, lambda x: np.int32(x.size)), of(jnp.int32), x, ordered=True)
    jax.debug.callback(host(1), y, ordered=True)
    return x * n, y + 1


def donated(state, step):
    before = io_callback(host(0, total), of(jnp.float32), state, ordered=True)
    state = {"a": state * step, "b": jnp.float32(7), "c": state + before}
    io_callback(host(1), None, state["a"], ordered=True)
    return state


def loop(x):
    def step(i, x):
        return x + io_callback(host(0, lambda i, x: np.float32(i) * x), of(jnp.float32, 3),
                               i, x, ordered=True)
    return lax.fori_loop(0, 5, step, x)


def branches(choose, x):
    def ask(index):
        return lambda x: io_callback(host(index, lambda x: x - 1), of(jnp.float32, 4), x,
                                     ordered=True)
    return (lax.cond(choose > 0, ask(0), lambda x: x * 3, x),
            lax.cond(choose > 1, ask(1), jnp.sin, x))


def both(x):
    y = io_callback(host(0, lambda x: x[::-1].copy()), of(jnp.float32, 3), x, ordered=True)
    z = jax.pure_callback(host(1, lambda y: y * 3), of(jnp.float32, 3), y)
    io_callback(host(2), None, z, ordered=False)
    jax.debug.callback(host(3), z + 1)
    io_callback(host(4), None, x + z, ordered=True)
    return y, z


@jax.jit
def main(x):
    return io_callback(host(0, total), of(jnp.float32), x, ordered=True) + x


@jax.jit
def main_with_tokens_0(x):
    return main(x) * 2


def names(main, tokens):
    return main_with_tokens_0(main) + tokens


def no_arguments():
    return io_callback(host(0, lambda: np.int32([4, 5, 6])), of(jnp.int32, 3), ordered=True) + 1


def no_results(x):
    io_callback(host(0), None, jnp.cos(x), ordered=True)


def rest_of(arguments):
    return io_callback(host(0, total), of(jnp.float32), sum(arguments), ordered=True) * jnp.stack(
        arguments), *(x + 1 for x in arguments[:130])


def rolled(carry, x):
    jax.debug.callback(host(0), carry, x, ordered=True)
    carry = 0.9 * carry + x
    return carry, carry.sum()


mesh = jax.make_mesh((1, 1), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


@functools.partial(jax.jit, in_shardings=(None, NamedSharding(mesh, P("x", "y"))),
                   out_shardings=NamedSharding(mesh, P("y")))
def sharded(x, y):
    return y * io_callback(host(0, total), of(jnp.float32), x, ordered=True)


# name: function, arguments, numbers of those that are donated
CASES = {
    "one_write": (one_write, [normal(3)], ()),
    "two_kinds": (two_kinds, [normal(3), normal(2, 2)], ()),
    "donated": (donated, [normal(4), normal(4)], (0,)),
    "loop": (loop, [normal(3)], ()),
    "branches": (branches, [np.int32(1), normal(4)], ()),
    "both": (both, [normal(3)], ()),
    "names": (names, [normal(3), normal(3)], ()),
    "no_arguments": (no_arguments, [], ()),
    "no_results": (no_results, [normal(5)], ()),
    "many": (lambda *xs: rest_of(xs), [np.float32(i) for i in range(150)], ()),
    "sharded": (sharded, [normal(3), normal(2, 2)], ()),
    "scan": (lambda c, xs: lax.scan(rolled, c, xs), [normal(2), normal(4, 2)], ()),
}
DTYPES = {"float32": "F32", "int32": "S32"}


def npy(array):
    file = io.BytesIO()
    np.save(file, np.asarray(array))
    return file.getvalue()


def files(name, function, arguments, donate):
    """The files of one case, by their names."""
    compiled = (function if hasattr(function, "lower")
                else jax.jit(function, donate_argnums=donate))
    lowered = compiled.lower(*arguments)
    module = lowered.compiler_ir("stablehlo")
    bytecode = io.BytesIO()
    module.operation.write_bytecode(bytecode)
    yield "program.mlir", lowered.as_text().encode()
    yield "program.mlirbc", bytecode.getvalue()
    yield "program.vhlo.mlirbc", _export._module_to_bytecode(module)

    def listed(prefix, arrays):
        for i, array in enumerate(arrays):
            array = np.asarray(array)
            saved.append((f"{prefix}{i}.npy", npy(array)))
            yield {"file": saved[-1][0], "dtype": DTYPES[array.dtype.name],
                   "shape": list(array.shape)}

    saved = []
    calls.clear()
    results = jax.tree.leaves(jax.jit(function)(*arguments))
    jax.effects_barrier()
    case = {
        "name": "ordered/" + name,
        "source": f"jax {jax.__version__}",
        "programs": ["program.mlir", "program.mlirbc", "program.vhlo.mlirbc"],
        "inputs": list(listed("in", arguments)),
        "outputs": [{**o, "rtol": 1e-6, "atol": 1e-6} for o in listed("out", results)],
        "donate": list(donate),
        "calls": [{"index": index, "args": list(listed(f"call{i}_arg", args)),
                   "results": list(listed(f"call{i}_res", answers))}
                  for i, (index, args, answers) in enumerate(calls)],
        "call_order": "fixed" if name not in ("two_kinds", "both") else "free",
        "known_failures": {"cpu-0.115": {
            "program.mlirbc": "plain MLIR bytecode with a custom call"}},
    }
    yield "case.json", (json.dumps(case, indent=1) + "\n").encode()
    yield from saved


archive = io.BytesIO()
with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
    for name, case in sorted(CASES.items()):
        for path, data in sorted(files(name, *case)):
            info = tarfile.TarInfo(f"cases/ordered/{name}/{path}")
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
sys.stdout.buffer.write(lzma.compress(archive.getvalue(), preset=9 | lzma.PRESET_EXTREME))
