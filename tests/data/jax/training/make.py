#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Export one step of a training from JAX, with where it starts and where JAX gets to.

    python3 -m venv venv && venv/bin/pip install jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 flatbuffers
    venv/bin/python - < make.py        # in this folder; by "-" no path gets into the files

A network of two layers learns from 64 points which of two spirals each lies on, by Adam.

    step.jax_exported   step(state, x, y) -> state, loss; the state is donated
    start/              the state: three nested dictionaries and a count, as JAX orders them
    x.npy y.npy         the points and their spirals
    expected/           state and loss after 1,000 steps, computed by JAX one after another
"""
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

HERE = pathlib.Path(".")
STEPS = 1000


def loss_of(weights, x, y):
    hidden = jnp.tanh(x @ weights["w1"] + weights["b1"])
    logit = (hidden @ weights["w2"] + weights["b2"])[:, 0]
    return jnp.mean(jnp.logaddexp(0.0, -y * logit))


def step(state, x, y):
    t = state["count"] + 1
    loss, grads = jax.value_and_grad(loss_of)(state["weights"], x, y)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["first"], grads)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["second"], grads)
    scale = jnp.sqrt(1 - 0.99 ** t.astype(jnp.float32)) / (1 - 0.9 ** t.astype(jnp.float32))
    weights = jax.tree.map(lambda w, m, v: w - 0.003 * scale * m / (jnp.sqrt(v) + 1e-8),
                           state["weights"], first, second)
    return {"count": t, "first": first, "second": second, "weights": weights}, loss


def save(where, tree):
    """A dictionary is a directory, an array a file."""
    if isinstance(tree, dict):
        where.mkdir(exist_ok=True)
        for name, value in tree.items():
            save(where / name, value)
    else:
        np.save(f"{where}.npy", np.asarray(tree))


rng = np.random.default_rng(20240229)
turn = np.linspace(0.25, 1.0, 32, dtype=np.float32)
arm = np.stack([turn * np.cos(7 * turn), turn * np.sin(7 * turn)], axis=1)
x = np.concatenate([arm, 0.2 - arm[::-1]]).astype(np.float32)
y = np.concatenate([np.ones(32), -np.ones(32)]).astype(np.float32)
weights = {"w1": rng.normal(size=(2, 24)).astype(np.float32),
           "b1": np.zeros(24, np.float32),
           "w2": (rng.normal(size=(24, 1)) / 5).astype(np.float32),
           "b2": np.zeros(1, np.float32)}
zeros = jax.tree.map(np.zeros_like, weights)
state = {"count": np.int32(0), "first": zeros, "second": zeros, "weights": weights}

compiled = jax.jit(step, donate_argnums=0)
pathlib.Path("step.jax_exported").write_bytes(
    jax.export.export(compiled)(state, x, y).serialize())
save(HERE / "start", state)
np.save("x.npy", x)
np.save("y.npy", y)
for _ in range(STEPS):
    state, loss = compiled(state, x, y)
save(HERE / "expected", {"state": state, "loss": loss})
print("loss %.6f" % loss)
