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
    NAME.npy        one file an argument; NAME.safetensors: an argument that is a dict
    run             the line for executables/MODEL/run: "inputs -> outputs", in order
    expected/       what the outputs must be, computed by JAX here
The transformer's folder step has the program that demo/continue runs for each letter.
"""
import json
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


def write_program(path, function, arguments, donate=()):
    """Write the program of FUNCTION.  ARGUMENTS is a dict in order; of an argument that is a
    dict itself, the names are its keys."""
    names = [name for argument, value in arguments.items()
             for name in (sorted(value) if isinstance(value, dict) else [argument])]
    jitted = jax.jit(function, keep_unused=True, donate_argnums=donate)
    text = jitted.lower(*arguments.values()).as_text()
    path.write_text(name_parameters(text, names))


def write_safetensors(path, arrays):
    """Write a dict of arrays as one file: a JSON header, then their bytes."""
    types = {"float32": "F32", "int32": "I32"}
    header, at = {}, 0
    for name, x in arrays.items():
        header[name] = {"dtype": types[str(x.dtype)], "shape": list(x.shape),
                        "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(np.ascontiguousarray(x).tobytes() for x in arrays.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def export(model, function, arguments, results):
    """Write one model's folder.  ARGUMENTS is a dict in order, RESULTS names outputs."""
    folder = HERE / model
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "expected").mkdir(parents=True)
    arguments = {name: jax.tree_util.tree_map(np.asarray, value)
                 for name, value in arguments.items()}
    write_program(folder / "program.mlir", function, arguments)
    for name, value in arguments.items():
        if isinstance(value, dict):
            write_safetensors(folder / (name + ".safetensors"), value)
        else:
            np.save(folder / (name + ".npy"), np.ascontiguousarray(value))
    for name, value in zip(results, jax.jit(function)(*arguments.values())):
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


def turn(x, places):
    """Rotary positions: turn pairs of each head's numbers, x[n,heads,16], by the places."""
    half = x.shape[-1] // 2
    angle = places[:, None, None] * 1000.0 ** (-jnp.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle),
                            a * jnp.sin(angle) + b * jnp.cos(angle)], axis=-1)


def project(p, codes, places):
    """What the block makes of letters[n]: the sum so far, and a query, key and value."""
    h = p["codes"][codes.astype(jnp.int32)]
    x = normalize(h, p["ln1_g"], p["ln1_b"])
    q, k, v = ((x @ p[w]).reshape(-1, HEADS, WIDTH // HEADS) for w in ("wq", "wk", "wv"))
    return h, turn(q, places), turn(k, places), v


def conclude(p, h, q, k, v, seen):
    """The logits [n,128] of n queries, each of which sees some of m keys: seen[n,m]."""
    scores = jnp.einsum("nhd,mhd->hnm", q, k) / np.sqrt(WIDTH // HEADS).astype(np.float32)
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9))
    h = h + jnp.einsum("hnm,mhd->nhd", weights, v).reshape(-1, WIDTH) @ p["wo"]
    x = normalize(h, p["ln2_g"], p["ln2_b"])
    h = h + jax.nn.gelu(x @ p["w_up"] + p["b_up"]) @ p["w_down"] + p["b_down"]
    return normalize(h, p["ln3_g"], p["ln3_b"]) @ p["w_out"]


def likeliest(logits):
    return jnp.argmax(logits, axis=1).astype(jnp.uint8)


def transformer(weights, prompt):
    """One block over one line of text, u8[32]: logits f32[32,128], and the likeliest next
    character after each one, u8[32]."""
    h, q, k, v = project(weights, prompt, jnp.arange(LENGTH, dtype=jnp.float32))
    seen = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    logits = conclude(weights, h, q, k, v, seen)
    return logits, likeliest(logits)


def step(weights, cache, letter):
    """The same for one letter, u8[1], with the keys and values of the LENGTH letters before
    it in a cache, whose oldest entry is replaced: the next cache, the likeliest letter."""
    at = cache["at"]
    h, q, k, v = project(weights, letter, at.astype(jnp.float32)[None])
    slot = at % LENGTH
    keys = jax.lax.dynamic_update_index_in_dim(cache["keys"], k[0], slot, 0)
    values = jax.lax.dynamic_update_index_in_dim(cache["values"], v[0], slot, 0)
    seen = (jnp.arange(LENGTH) <= at)[None]
    logits = conclude(weights, h, q, keys, values, seen)
    return {"at": at + 1, "keys": keys, "values": values}, likeliest(logits)


def transformer_weights(rng):
    def dense(rows, columns):
        return rng.normal(0, rows ** -0.5, (rows, columns))

    up = 2 * WIDTH
    weights = {"codes": rng.normal(0, 0.1, (CODES, WIDTH)),
               "ln1_g": np.ones(WIDTH), "ln1_b": np.zeros(WIDTH),
               "wq": dense(WIDTH, WIDTH), "wk": dense(WIDTH, WIDTH),
               "wv": dense(WIDTH, WIDTH), "wo": dense(WIDTH, WIDTH),
               "ln2_g": np.ones(WIDTH), "ln2_b": np.zeros(WIDTH),
               "w_up": dense(WIDTH, up), "b_up": np.zeros(up),
               "w_down": dense(up, WIDTH), "b_down": np.zeros(WIDTH),
               "ln3_g": np.ones(WIDTH), "ln3_b": np.zeros(WIDTH),
               "w_out": dense(WIDTH, CODES)}
    return {k: jnp.asarray(v, jnp.float32) for k, v in weights.items()}


def make_transformer():
    rng = np.random.default_rng(SEED + 1)
    text = np.frombuffer(POEM.encode("ascii"), np.uint8)

    def loss(p, batch):
        def one(line):
            logs = jax.nn.log_softmax(transformer(p, line[:-1])[0])
            return -jnp.mean(logs[jnp.arange(LENGTH), line[1:].astype(jnp.int32)])
        return jnp.mean(jax.vmap(one)(batch))

    def batch():
        # The poem begins again after its end.
        starts = rng.integers(0, len(text), 32)
        return np.stack([np.roll(text, -s)[:LENGTH + 1] for s in starts])

    weights = adam(loss, transformer_weights(rng), (batch() for _ in range(1500)), 2e-3)
    empty = np.zeros((LENGTH, HEADS, WIDTH // HEADS), np.float32)
    cache = {"at": np.int32(0), "keys": empty, "values": empty}
    prompt = text[:LENGTH]
    letter = prompt[:1]
    export("transformer", transformer, {"weights": weights, "prompt": prompt},
           ["logits", "next"])
    folder = HERE / "transformer" / "step"
    folder.mkdir()
    write_program(folder / "program.mlir", step,
                  {"weights": weights, "cache": cache, "letter": letter}, donate=(1,))
    write_safetensors(folder / "cache.safetensors", cache)
    np.save(folder / "letter.npy", letter)
    print("recites: %r" % recite(weights, cache, prompt, 120))


def recite(weights, cache, prompt, count):
    """Let the model go on, a character at a time."""
    go = jax.jit(step)
    said = bytes(prompt)
    for i in range(LENGTH + count):
        cache, letter = go(weights, cache, np.frombuffer(said[i:i + 1], np.uint8))
        if i >= LENGTH - 1:
            said += bytes(np.asarray(letter))
    return said[LENGTH:].decode("ascii", "replace")


if __name__ == "__main__":
    make_mlp()
    make_transformer()
