#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train and export the two models of this folder.

    python3 -m venv venv && venv/bin/pip install jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
    venv/bin/python demo/make_models.py

Needed only to make the files again, never to run them: they are in the repository.  Both
models are trained here, from fixed seeds, in about a minute on a CPU; the same machine
gives the same bytes, another one may differ in the last digits of the weights.

Each model's folder gets
    program.mlir    the StableHLO that jax.jit lowers, its parameters named as the files
    NAME.npy        one file a parameter: the weights and an input
    run             the line for executables/MODEL/run: "inputs -> outputs", in order
    expected/       what the outputs must be, computed by JAX here
"""
import pathlib
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20240229


# ---- training and export ---------------------------------------------------------------

def adam(loss, params, batches, rate):
    """Train PARAMS (a dict of arrays) on BATCHES; returns the trained dict."""
    first = {k: jnp.zeros_like(v) for k, v in params.items()}
    second = dict(first)

    @jax.jit
    def step(params, first, second, t, batch):
        value, grad = jax.value_and_grad(loss)(params, batch)
        out = {}
        for k, g in grad.items():
            first[k] = 0.9 * first[k] + 0.1 * g
            second[k] = 0.99 * second[k] + 0.01 * g * g
            m, v = first[k] / (1 - 0.9 ** t), second[k] / (1 - 0.99 ** t)
            out[k] = params[k] - rate * m / (jnp.sqrt(v) + 1e-8)
        return out, first, second, value

    order = list(params)    # JAX sorts the keys of the dicts that it returns
    for t, batch in enumerate(batches, 1):
        params, first, second, value = step(params, first, second, float(t), batch)
    print("loss %.4f after %d steps" % (value, t))
    return {k: params[k] for k in order}


def name_parameters(text, names):
    """Write the parameters' names where MLIR keeps names: in their locations."""
    head = re.search(r"func\.func public @main\((.*?)\) -> ", text, re.S)
    signature = head.group(1)
    for i, name in enumerate(names):
        signature = re.sub(r"(%%arg%d: tensor<[^>]*>(?: \{[^}]*\})?)" % i,
                           r'\1 loc("%s")' % name, signature)
    return text[:head.start(1)] + signature + text[head.end(1):]


def export(model, function, arguments, results):
    """Write one model's folder.  ARGUMENTS is a dict in order, RESULTS names outputs."""
    folder = HERE / model
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "expected").mkdir(parents=True)
    values = [np.asarray(v) for v in arguments.values()]
    lowered = jax.jit(function, keep_unused=True).lower(*values)
    text = name_parameters(lowered.as_text(), list(arguments))
    (folder / "program.mlir").write_text(text)
    for name, value in zip(arguments, values):
        np.save(folder / (name + ".npy"), np.ascontiguousarray(value))
    for name, value in zip(results, jax.jit(function)(*values)):
        np.save(folder / "expected" / (name + ".npy"), np.asarray(value))
    line = " ".join(arguments) + " -> " + " ".join(results)
    (folder / "run").write_text(line + "\n")
    print("%s: %s" % (model, line))


# ---- mlp: which digit is it? -----------------------------------------------------------

FONT = {  # 5 x 7 dots a digit
    0: " ### #   ##  ### # ###  ##   # ### ", 1: "  #   ##    #    #    #    #   ### ",
    2: " ### #   #    #   #   #   #   #####", 3: " ### #   #    #  ##     ##   # ### ",
    4: "   #   ##  # # #  # #####   #    # ", 5: "######    ####     #    ##   # ### ",
    6: "  ##  #   #    #### #   ##   # ### ", 7: "#####    #   #   #   #    #    #   ",
    8: " ### #   ##   # ### #   ##   # ### ", 9: " ### #   ##   # ####    #   #  ##  ",
}


def draw(rng, digit, noise):
    """An 8 x 8 picture of a digit, a little shifted, with noise; grey from 0 to 1."""
    dots = np.array([c == "#" for c in FONT[digit]], np.float32).reshape(7, 5)
    picture = np.zeros((8, 8), np.float32)
    top, left = rng.integers(0, 2), rng.integers(0, 4)
    picture[top:top + 7, left:left + 5] = dots * rng.uniform(0.6, 1.0)
    picture += rng.normal(0, noise, (8, 8))
    return np.clip(picture, 0, 1).round(1)


def mlp_logits(w1, b1, w2, b2, x):
    hidden = jax.nn.relu(x.reshape(x.shape[0], 64) @ w1 + b1)
    return hidden @ w2 + b2


def mlp(w1, b1, w2, b2, x):
    """Pictures [n,8,8] -> how likely each digit is [n,10], the likeliest one [n]."""
    logits = mlp_logits(w1, b1, w2, b2, x)
    return jax.nn.softmax(logits), jnp.argmax(logits, axis=1).astype(jnp.int32)


def make_mlp():
    rng = np.random.default_rng(SEED)
    params = {"w1": rng.normal(0, 0.15, (64, 48)), "b1": np.zeros(48),
              "w2": rng.normal(0, 0.2, (48, 10)), "b2": np.zeros(10)}
    params = {k: jnp.asarray(v, jnp.float32) for k, v in params.items()}

    def loss(p, batch):
        x, y = batch
        logs = jax.nn.log_softmax(mlp_logits(**p, x=x))
        return -jnp.mean(logs[jnp.arange(len(y)), y])

    def sample(n, noise):
        y = rng.integers(0, 10, n)
        return np.stack([draw(rng, d, noise) for d in y]), y

    params = adam(loss, params, (sample(128, 0.15) for _ in range(800)), 3e-3)
    x, y = sample(2000, 0.1)
    right = np.mean(np.asarray(mlp(*params.values(), x)[1]) == y)
    print("right on %.1f %% of 2000 new pictures" % (100 * right))
    pictures = np.stack([draw(rng, d, 0.05) for d in (3, 1, 4, 1, 5, 9, 2, 6)])
    export("mlp", mlp, dict(params, x=pictures), ["probs", "digits"])


# ---- transformer: which character comes next? ------------------------------------------

# Lewis Carroll, Jabberwocky (1871)
POEM = """'Twas brillig, and the slithy toves
Did gyre and gimble in the wabe:
All mimsy were the borogoves,
And the mome raths outgrabe.

"Beware the Jabberwock, my son!
The jaws that bite, the claws that catch!
Beware the Jubjub bird, and shun
The frumious Bandersnatch!"

He took his vorpal sword in hand;
Long time the manxome foe he sought --
So rested he by the Tumtum tree
And stood awhile in thought.
"""
LENGTH, WIDTH, HEADS, CODES = 32, 48, 3, 128


def normalize(x, gain, bias):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * gain + bias


def transformer_logits(codes, places, ln1_g, ln1_b, wq, wk, wv, wo, ln2_g, ln2_b, w_up,
                       b_up, w_down, b_down, ln3_g, ln3_b, w_out, prompt):
    """One block over one line of text: prompt u8[32] -> logits f32[32,128]."""
    h = codes[prompt.astype(jnp.int32)] + places
    x = normalize(h, ln1_g, ln1_b)

    def split(w):
        return (x @ w).reshape(LENGTH, HEADS, WIDTH // HEADS).transpose(1, 0, 2)

    q, k, v = split(wq), split(wk), split(wv)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(WIDTH // HEADS).astype(np.float32)
    earlier = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    weights = jax.nn.softmax(jnp.where(earlier, scores, -1e9))
    h = h + (weights @ v).transpose(1, 0, 2).reshape(LENGTH, WIDTH) @ wo
    x = normalize(h, ln2_g, ln2_b)
    h = h + jax.nn.gelu(x @ w_up + b_up) @ w_down + b_down
    return normalize(h, ln3_g, ln3_b) @ w_out


def transformer(*arguments):
    """Also the likeliest next character after each one of the prompt: u8[32]."""
    logits = transformer_logits(*arguments)
    return logits, jnp.argmax(logits, axis=1).astype(jnp.uint8)


def transformer_params(rng):
    def dense(rows, columns):
        return rng.normal(0, rows ** -0.5, (rows, columns))

    up = 2 * WIDTH
    params = {"codes": rng.normal(0, 0.1, (CODES, WIDTH)),
              "places": rng.normal(0, 0.1, (LENGTH, WIDTH)),
              "ln1_g": np.ones(WIDTH), "ln1_b": np.zeros(WIDTH),
              "wq": dense(WIDTH, WIDTH), "wk": dense(WIDTH, WIDTH),
              "wv": dense(WIDTH, WIDTH), "wo": dense(WIDTH, WIDTH),
              "ln2_g": np.ones(WIDTH), "ln2_b": np.zeros(WIDTH),
              "w_up": dense(WIDTH, up), "b_up": np.zeros(up),
              "w_down": dense(up, WIDTH), "b_down": np.zeros(WIDTH),
              "ln3_g": np.ones(WIDTH), "ln3_b": np.zeros(WIDTH),
              "w_out": dense(WIDTH, CODES)}
    return {k: jnp.asarray(v, jnp.float32) for k, v in params.items()}


def make_transformer():
    rng = np.random.default_rng(SEED + 1)
    text = np.frombuffer(POEM.encode("ascii"), np.uint8)

    def loss(p, batch):
        def one(line):
            logits = transformer_logits(**p, prompt=line[:-1])
            logs = jax.nn.log_softmax(logits)
            return -jnp.mean(logs[jnp.arange(LENGTH), line[1:].astype(jnp.int32)])
        return jnp.mean(jax.vmap(one)(batch))

    def batch():
        starts = rng.integers(0, len(text) - LENGTH, 32)
        return np.stack([text[s:s + LENGTH + 1] for s in starts])

    params = adam(loss, transformer_params(rng), (batch() for _ in range(1500)), 2e-3)
    prompt = text[:LENGTH]
    export("transformer", transformer, dict(params, prompt=prompt), ["logits", "next"])
    print("recites: %r" % recite(params, prompt, 120))


def recite(params, prompt, count):
    """Let the model go on, a character at a time."""
    step = jax.jit(transformer)
    said = bytes(prompt)
    for _ in range(count):
        window = np.frombuffer(said[-LENGTH:], np.uint8)
        said += bytes([int(step(*params.values(), window)[1][-1])])
    return said[LENGTH:].decode("ascii", "replace")


if __name__ == "__main__":
    make_mlp()
    make_transformer()
