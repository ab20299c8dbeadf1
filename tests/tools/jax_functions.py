#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everyday functions of JAX through mounts, as the text, the bytecode and the .jax_exported that
jax.export writes: each gives the numbers that JAX gets.

    jax_functions.py [--all-forms] MOUNT...

Without the option the forms take turns: each function is tried in one of them on each mount.
The last line is 'JAX VERSION, StableHLO VERSION: N functions on K mounts, M programs, F failed'.  Signs of
singular vectors and eigenvectors are free: the functions take absolute values, or products.
"""
import os
import re
import sys

import jax
import jax.export
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax

rng = np.random.default_rng(20261127)


def normal(*shape):
    return rng.normal(size=shape).astype(np.float32)


def positive(n, *batch):
    """Symmetric matrices of n x n whose eigenvalues are from 1 to about 5."""
    a = normal(*batch, n, n)
    return (a @ np.swapaxes(a, -1, -2) / n + np.eye(n)).astype(np.float32)


def svd(a):
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    return s, (u * s) @ vt


def eigh(a):
    w, v = jnp.linalg.eigh(a)
    return w, (v * w) @ v.T


def eig(a):
    w, v = jnp.linalg.eig(a)
    return jnp.sort(w.real), jnp.abs(a.astype(v.dtype) @ v - v * w)


def schur(a):
    t, z = jsp.linalg.schur(a)
    return z @ t @ z.T


def qr(a):
    q, r = jnp.linalg.qr(a)
    return q @ r, q.T @ q, jnp.abs(r)


def fori(x):
    return lax.fori_loop(0, 10, lambda i, y: 0.5 * y + i, x)


def collatz(n):
    return lax.while_loop(lambda s: s[0] != 1, lambda s: (
        jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, jnp.int32(0)))


def rolled(xs):
    return lax.scan(lambda c, x: (0.9 * c + x, c.sum()), jnp.zeros_like(xs[0]), xs)


def layer(w, x):
    return jax.nn.gelu(x @ w)


def mlp_loss(w, x):
    return jnp.mean(jax.checkpoint(layer)(w, x) ** 2)


def attention(q, k, v):
    scores = jnp.einsum("hqd,hkd->hqk", q, k) / jnp.sqrt(q.shape[-1])
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores), v)


def conv(x, w):
    return lax.conv_general_dilated(x, w, (1, 2), "SAME")


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def norm(x, g, b):
    return g * (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) + b


def key(seed):
    return jax.random.key(seed)


def bf16(x, y):
    return lax.dot(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16),
                   preferred_element_type=jnp.float32)


def quantized(x):
    scale = jnp.max(jnp.abs(x)) / 127
    return jnp.round(x / scale).astype(jnp.int8), scale


SQUARE, TALL, ROW, SPD = normal(6, 6), normal(9, 4), normal(12), positive(6)
SEED = np.uint32(7)

# name: function, arguments
FUNCTIONS = {
    # LAPACK
    "cholesky": (jnp.linalg.cholesky, SPD),
    "cholesky_batch": (jnp.linalg.cholesky, positive(3, 4)),
    "cho_solve": (lambda a, b: jsp.linalg.cho_solve(jsp.linalg.cho_factor(a), b), SPD, normal(6, 2)),
    "cond": (jnp.linalg.cond, SPD),
    "det": (jnp.linalg.det, SQUARE),
    "eig": (eig, SQUARE),
    "eigh": (eigh, SPD),
    "eigvalsh": (jnp.linalg.eigvalsh, SPD),
    "expm": (jsp.linalg.expm, normal(4, 4)),
    "funm_sqrt": (lambda a: jsp.linalg.sqrtm(a).real, SPD),
    "grad_cholesky": (jax.grad(lambda a: jnp.linalg.cholesky(a).sum()), SPD),
    "grad_solve": (jax.grad(lambda a, b: jnp.linalg.solve(a, b).sum()), SPD, normal(6)),
    "inv": (jnp.linalg.inv, SPD),
    "lstsq": (lambda a, b: jnp.linalg.lstsq(a, b)[0], TALL, normal(9)),
    "lu": (jsp.linalg.lu, SQUARE),
    "matrix_power": (lambda a: jnp.linalg.matrix_power(a, -2), SPD),
    "matrix_rank": (jnp.linalg.matrix_rank, TALL),
    "multivariate_normal": (lambda s, c: jax.random.multivariate_normal(
        key(s), jnp.zeros(6), c, method="cholesky"), SEED, SPD),
    "pinv": (jnp.linalg.pinv, TALL),
    "qr": (qr, TALL),
    "schur": (schur, SQUARE),
    "slogdet": (jnp.linalg.slogdet, SQUARE),
    "solve": (jnp.linalg.solve, SPD, normal(6)),
    "solve_triangular": (lambda a, b: jsp.linalg.solve_triangular(a, b, lower=True), SPD, normal(6)),
    "svd": (svd, TALL),
    "svdvals": (jnp.linalg.svdvals, normal(3, 5, 4)),
    "tridiagonal_solve": (lax.linalg.tridiagonal_solve, ROW, ROW + 9, ROW, normal(12, 1)),
    # other products and sums
    "attention": (attention, *(normal(2, 6, 4) for _ in range(3))),
    "bf16": (bf16, np.rint(normal(4, 8) * 4), np.rint(normal(8, 4) * 4)),
    "conv": (conv, normal(2, 3, 8, 8), normal(4, 3, 3, 3)),
    "cross": (jnp.cross, normal(5, 3), normal(5, 3)),
    "cumsum": (lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x, 0)), normal(4, 9)),
    "dot_int8": (lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32),
                 np.int8(normal(4, 8) * 30), np.int8(normal(8, 4) * 30)),
    "einsum": (lambda a, b: jnp.einsum("bij,bjk->ik", a, b), normal(3, 4, 5), normal(3, 5, 2)),
    "fft": (jnp.fft.fft, normal(4, 16)),
    "fft2": (jnp.fft.fft2, normal(8, 8)),
    "grad": (jax.value_and_grad(mlp_loss), normal(4, 8), normal(6, 4)),
    "hessian": (jax.hessian(lambda x: jnp.sum(jnp.sin(x) ** 2 * x[::-1])), normal(5)),
    "irfft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), normal(4, 16)),
    "jacfwd": (jax.jacfwd(lambda x: jnp.tanh(x) * x.sum()), normal(5)),
    "jvp": (lambda x, t: jax.jvp(jnp.sin, (x,), (t,)), normal(5), normal(5)),
    "kron": (jnp.kron, normal(2, 3), normal(3, 2)),
    "layer_norm": (norm, normal(4, 8), normal(8), normal(8)),
    "logsumexp": (jax.nn.logsumexp, normal(9)),
    "max_pool": (pool, normal(1, 2, 8, 8)),
    "polyfit": (lambda x, y: jnp.polyfit(x, y, 2), np.linspace(-1, 1, 12, dtype=np.float32), ROW),
    "softmax": (jax.nn.softmax, normal(3, 9)),
    "vmap": (jax.vmap(jnp.dot, (0, None)), normal(5, 7), normal(7)),
    # elements and their order
    "argmax": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), normal(5, 7)),
    "bits": (lambda x: (lax.population_count(x), x << 3, lax.bitcast_convert_type(x, jnp.float32)),
             np.uint32([1, 2, 255, 1 << 30])),
    "complex": (lambda x, y: jnp.exp(lax.complex(x, y)), normal(7), normal(7)),
    "erf": (lambda x: (jsp.special.erf(x), jsp.special.gammaln(jnp.abs(x) + 1)), ROW),
    "gather": (lambda x, i: x[i], normal(9, 3), np.int32([8, 0, 3, 3])),
    "histogram": (lambda x: jnp.histogram(x, bins=5, range=(-2, 2))[0], ROW),
    "interp": (jnp.interp, normal(8), np.linspace(-2, 2, 9, dtype=np.float32), normal(9)),
    "median": (lambda x: (jnp.median(x), jnp.quantile(x, 0.3)), ROW),
    "one_hot": (lambda i: jax.nn.one_hot(i, 5), np.int32([0, 4, 2])),
    "quantized": (quantized, ROW),
    "roll": (lambda x: (jnp.roll(x, 3), jnp.pad(x, (1, 2), mode="reflect"), x[::-1]), ROW),
    "scatter": (lambda x, i, y: x.at[i].add(y), normal(10), np.int32([1, 3, 3, 9]), normal(4)),
    "searchsorted": (jnp.searchsorted, np.sort(normal(20)), normal(6)),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(x), lax.sort((x, -x), num_keys=1)), ROW),
    "top_k": (lambda x: lax.top_k(x, 4), normal(3, 20)),
    "where": (lambda x: jnp.where(x > 0, jnp.log1p(x), -x), jnp.abs(ROW)),
    # control flow, random numbers
    "associative_scan": (lambda x: lax.associative_scan(jnp.maximum, x), ROW),
    "categorical": (lambda s, x: jax.random.categorical(key(s), x, shape=(20,)), SEED, normal(5)),
    "fori": (fori, normal(3)),
    "if": (lambda c, x: lax.cond(c > 0, jnp.sin, jnp.negative, x), np.int32(1), ROW),
    "map": (lambda x: lax.map(jnp.cumsum, x), normal(4, 5)),
    "normal": (lambda s: jax.random.normal(key(s), (64,)), SEED),
    "permutation": (lambda s: jax.random.permutation(key(s), 32), SEED),
    "scan": (rolled, normal(20, 4)),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), np.int32(2), ROW),
    "uniform": (lambda s: (jax.random.uniform(key(s), (9,)), jax.random.bits(key(s), (9,))), SEED),
    "while": (collatz, np.int32(27)),
}


def differs(got, want):
    """Why the array is not the one that JAX got, or None."""
    want = np.asarray(want)
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    finite = np.abs(want[np.isfinite(want)])
    if np.allclose(got, want, rtol=0, atol=1e-4 * max(1, finite.max(initial=0)), equal_nan=True):
        return None
    return f"{got} instead of {want}"


def execute(mount, form, program, arguments, wants):
    """Run the program of this form in the mount; why its results are wrong, or None."""
    path = f"{mount}/programs/f.{form}"
    inputs = [f"a{i}" for i in range(len(arguments))]
    outputs = [f"r{i}" for i in range(len(wants))]
    made = []
    try:
        made.append(path)
        with open(path, "wb") as file:
            file.write(program)
        for name, argument in zip(inputs, arguments):
            made.append(f"{mount}/buffers/{name}.npy")
            np.save(made[-1], argument)
        with open(f"{mount}/executables/f/run", "w", encoding="utf-8") as file:
            file.write(f"{' '.join(inputs)} -> {' '.join(outputs)}\n")
        made += [f"{mount}/buffers/{name}.npy" for name in outputs]
        for name, want in zip(outputs, wants):
            why = differs(np.load(f"{mount}/buffers/{name}.npy"), want)
            if why:
                return f"{name}: {why}"
    except OSError as error:
        with open(f"{mount}/error", encoding="utf-8") as file:
            return f"{error}: {file.read()}"
    finally:
        for name in made:
            if os.path.exists(name):
                os.remove(name)
    return None


def flat(function):
    """The function with a list of arrays as its result: an export does not know every named tuple."""
    return jax.jit(lambda *arguments: jax.tree.leaves(function(*arguments)))


def main(all_forms, mounts):
    failed, versions, tried = 0, set(), 0
    for number, (name, (function, *arguments)) in enumerate(FUNCTIONS.items()):
        function = flat(function)
        exported = jax.export.export(function)(*arguments)
        wants = function(*arguments)
        forms = {"mlir": exported.mlir_module().encode(), "mlirbc": exported.mlir_module_serialized,
                 "jax_exported": exported.serialize()}
        versions.update(re.findall(rb"StableHLO_v([0-9.]+)", forms["mlirbc"]))
        for at, mount in enumerate(mounts):
            chosen = list(forms) if all_forms else [list(forms)[(number + at) % len(forms)]]
            for form in chosen:
                tried += 1
                why = execute(mount, form, bytes(forms[form]), arguments, wants)
                if why:
                    failed += 1
                    print(f"{name}.{form} on {os.path.basename(mount)}: {why}")
    print(f"JAX {jax.__version__}, StableHLO {b' '.join(versions).decode()}: {len(FUNCTIONS)} functions on "
          f"{len(mounts)} mounts, {tried} programs, {failed} failed")
    return 1 if failed else 0


sys.exit(main("--all-forms" in sys.argv[1:], [word for word in sys.argv[1:] if word != "--all-forms"]))
