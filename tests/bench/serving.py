#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Images one by one through a CNN whose weights stay on the device: a mount, and JAX in process.

    tests/bench/serving.py [--quick] [--pjrtfs PROGRAM] [--plugins DIR] [--plugin NAME]

The same program, exported by JAX, and the same 0.8 million weights.  In each round the images go
through jax.jit in this process, through call.raw and through call of a mount, whose inputs but the
image are bound, and through call with all inputs written.  The ratio is to jax.jit, the median over the
rounds.  Run it with a python that has jax and numpy; another one prints no ratio.
"""
import argparse
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import jax
    import jax.export
    import numpy as np
except ImportError:
    sys.exit("bench: jax is missing: scripts/setup --tests puts it into plugins/jax, for PYTHONPATH")

parser = argparse.ArgumentParser()
parser.add_argument("--quick", action="store_true")
parser.add_argument("--full", action="store_true", help="ignored")
parser.add_argument("--json", help="ignored: the programs in C write it")
parser.add_argument("--pjrtfs", default="./pjrtfs")
parser.add_argument("--plugins", default="../plugins")
parser.add_argument("--plugin", default="cpu")
options = parser.parse_args()
ROUNDS, IMAGES = (2, 50) if options.quick else (9, 1000)


def cnn(params, x):
    for layer in ("conv1", "conv2"):
        x = jax.lax.conv_general_dilated(x, params[layer + "_w"], (1, 1), "SAME",
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + params[layer + "_b"])
        x = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
    x = jax.nn.relu(x.reshape(x.shape[0], -1) @ params["dense1_w"] + params["dense1_b"])
    return x @ params["dense2_w"] + params["dense2_b"]


rng = np.random.default_rng(1)
params = {name: (rng.normal(size=shape) * 0.1).astype("float32") for name, shape in {
    "conv1_w": (3, 3, 1, 32), "conv1_b": (32,), "conv2_w": (3, 3, 32, 64), "conv2_b": (64,),
    "dense1_w": (3136, 256), "dense1_b": (256,), "dense2_w": (256, 10), "dense2_b": (10,)}.items()}
images = rng.normal(size=(IMAGES, 1, 28, 28, 1)).astype("float32")
program = jax.export.export(jax.jit(cnn))(params, images[0]).mlir_module_serialized


# --- the ways ---------------------------------------------------------------------------------


def by_jax():
    jitted, resident = jax.jit(cnn), jax.device_put(params)
    return lambda x: np.asarray(jitted(resident, x))


def by_raw(path):
    call = os.open(path + "/call.raw", os.O_RDWR)

    def run(x):
        os.write(call, x)
        return np.frombuffer(os.read(call, 40), "f4").reshape(1, 10)

    return run


def by_call(path, first, line=b""):
    call = open(path + "/call", "r+b", buffering=0)
    if line:
        call.write(line)

    def run(x):
        message = io.BytesIO()
        for array in [*first, x]:
            np.save(message, array)
        call.write(message.getbuffer())
        return np.load(io.BytesIO(call.readall()))

    return run


def measure(way):
    start = time.perf_counter()
    results = [way(x) for x in images]
    return time.perf_counter() - start, np.concatenate(results)


with tempfile.TemporaryDirectory() as top:
    mnt = top + "/mnt"
    os.mkdir(mnt)
    subprocess.run([options.pjrtfs, options.plugin, mnt, "--plugin-dir", options.plugins], check=True)
    try:
        with open(mnt + "/programs/cnn.mlirbc", "wb") as file:
            file.write(program)
        os.mkdir(mnt + "/buffers/params")
        for name, array in params.items():
            np.save(f"{mnt}/buffers/params/{name}.npy", array)
        path = mnt + "/executables/cnn"
        with open(path + "/bind", "w") as file:
            file.write("params * -> *\n")
        ways = {"jax.jit in process": by_jax(), "call.raw, weights bound": by_raw(path),
                "call, weights bound": by_call(path, ()),
                "call, weights sent": by_call(path, [params[k] for k in sorted(params)], b"bind\n")}
        times = {name: [] for name in ways}
        want = measure(ways["jax.jit in process"])[1]
        for _ in range(ROUNDS):
            for name, way in ways.items():
                seconds, got = measure(way)
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
                times[name].append(seconds)
        base = times["jax.jit in process"]
        for name, t in times.items():
            ratio = statistics.median(a / b for a, b in zip(t, base))
            print(f"{name:26} {statistics.median(t) / IMAGES * 1e6:8.1f} us an image, "
                  f"{ratio:6.2f} x jax.jit", flush=True)
        del ways
    finally:
        subprocess.run(["fusermount3", "-u", "-z", mnt], check=True)
        while os.path.ismount(mnt):
            time.sleep(0.05)
