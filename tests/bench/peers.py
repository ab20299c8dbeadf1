#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The addition of two numbers through a mount, and by other clients of the same plugin, by turns.

    tests/bench/peers.py --peers DIR --plugin PATH [--rounds N] [--json FILE] [--pjrtfs PROGRAM]

DIR has a folder for each peer: direct_c (main.c), gopjrt (a module of Go), ryft (a crate, with
build_stub.sh), pypjrt and jax (main.py), and programs/add.mlir.  Each is built, if its toolchain is there,
and run as "PEER PLUGIN DIR/programs warm"; it prints a line of JSON for each figure: peer, metric,
value, unit.  A peer that cannot be built or run has a row with the reason, and with what to install.  The ratio
is to direct_c's figure of the same round, the median over the rounds.
"""
import argparse
import collections
import importlib.util
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("--peers", required=True, type=pathlib.Path)
parser.add_argument("--plugin", required=True)
parser.add_argument("--include", help="the folder with pjrt_c_api.h")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--quick", action="store_true", help="one round")
parser.add_argument("--full", action="store_true", help="ignored")
parser.add_argument("--only", help="the names of some peers, with commas between")
parser.add_argument("--json", help="append a line for each figure to this file")
parser.add_argument("--pjrtfs", default="./pjrtfs")
options = parser.parse_args()
options.peers = options.peers.resolve()
options.plugin = os.path.abspath(options.plugin)
BASE, MOUNT, CALLS = "direct_c", "pjrtfs, from Python", 5000
BUILD_S, RUN_S = 600, 300


def need(program, install):
    if not shutil.which(program):
        raise OSError(f"{program} is missing: {install}")


def run(*words, cwd=None, seconds=BUILD_S, **env):
    try:
        done = subprocess.run([str(word) for word in words], cwd=cwd, env={**os.environ, **env}, text=True,
                              capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{words[0]} has not ended after {seconds} s") from error
    if done.returncode:
        raise OSError((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1])
    return done.stdout


# --- how each is built: the words that run it, before PLUGIN --------------------------------------


def direct_c(source, out):
    need("cc", "apt install gcc libc6-dev")
    include = [f"-I{options.include}"] if options.include else []
    run("cc", "-O2", *include, source / "main.c", "-o", out / "direct_c", "-ldl")
    return [out / "direct_c"]


def gopjrt(source, out):
    need("go", "install Go, of the version that go.mod names or later, from https://go.dev/dl")
    shutil.copytree(source, out / "gopjrt")
    run("go", "mod", "tidy", "-e", cwd=out / "gopjrt")
    run("go", "build", "-o", out / "peer_gopjrt", ".", cwd=out / "gopjrt")
    return [out / "peer_gopjrt"]


def ryft(source, out):
    need("cargo", "install Rust from https://rustup.rs")
    shutil.copytree(source, out / "ryft")
    run("sh", "build_stub.sh", cwd=out / "ryft")
    run("cargo", "build", "--release", cwd=out / "ryft", RYFT_XLA_SYS_ARCHIVE=str(out / "ryft/stub"))
    return [out / "ryft/target/release/peer-ryft"]


def of_python(library):
    def build(source, _):
        if not importlib.util.find_spec(library):
            raise OSError(f"{library} is missing: {sys.executable} -m pip install {library}")
        return [sys.executable, source / "main.py"]
    return build


BUILDS = {BASE: direct_c, "gopjrt": gopjrt, "ryft": ryft, "pypjrt": of_python("pypjrt"),
          "jax": of_python("jax")}


# --- one run: (metric, value, unit) ---------------------------------------------------------------


def measure_peer(words):
    text = run(*words, options.plugin, options.peers / "programs", "warm", seconds=RUN_S)
    figures = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [(figure["metric"], figure["value"], figure["unit"]) for figure in figures]


def npy(value):
    import struct
    names = "{'descr': '<f4', 'fortran_order': False, 'shape': (), }".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(names)) + names.encode() + struct.pack("<f", value)


def measure_mount(mount):
    """Medians of calls of add: of two numbers, as direct_c's upload, execute, download."""
    times = []
    call = os.open(f"{mount}/executables/add/call", os.O_RDWR)
    inputs, answer = npy(2) + npy(3), npy(5)
    for _ in range(CALLS):
        start = time.perf_counter()
        os.pwrite(call, inputs, 0)
        got = os.pread(call, 4096, 0)
        times.append((time.perf_counter() - start) * 1e6)
        if got[-4:] != answer[-4:]:
            sys.exit("bench: 2 + 3 gave another number than 5")
    os.close(call)
    times.sort()
    return [("add_roundtrip_median", times[CALLS // 2], "us"),
            ("add_roundtrip_p99", times[CALLS * 99 // 100], "us"), ("add_roundtrip_min", times[0], "us")]


# --- rounds and the table -------------------------------------------------------------------------


def build_all(out):
    ways, missing = {}, {}
    for name, build in BUILDS.items():
        if options.only and name not in options.only.split(","):
            continue
        try:
            if not (options.peers / name).is_dir():
                raise OSError("it is not in the folder of peers")
            print(f"build {name}", flush=True)
            ways[name] = build(options.peers / name, out)
        except OSError as error:
            missing[name] = error
    return ways, missing


def rounds(mount, ways, missing):
    """{(metric, unit): {name: [value of each round, or None]}}; who fails is in MISSING."""
    figures = collections.defaultdict(lambda: collections.defaultdict(list))
    for i in range(1 if options.quick else options.rounds):
        for name in [MOUNT, *ways]:
            try:
                found = measure_peer(ways[name]) if name in ways else measure_mount(mount)
            except OSError as error:
                missing[name] = f"round {i + 1}: {error}"
                continue
            for metric, value, unit in found:
                values = figures[metric, unit][name]
                values += [None] * (i - len(values)) + [value]
    return figures


def ratio(values, base):
    pairs = [a / b for a, b in zip(values, base) if a is not None and b]
    return statistics.median(pairs) if pairs else None


def show(figures, missing):
    out = open(options.json, "a") if options.json else None
    for (metric, unit), peers in sorted(figures.items()):
        if not ("roundtrip" in metric or "_exec_" in metric):
            continue
        print(f"\n{metric}, {unit}")
        for name, values in peers.items():
            median = statistics.median(value for value in values if value is not None)
            to = ratio(values, peers.get(BASE, []))
            print(f"    {name:24} {median:10.2f}" + (f"   {to:5.2f} of {BASE}" if to else ""))
            if out:
                out.write(json.dumps({"program": "peers", "bench": f"Peers: {metric}", "row": name,
                                      "unit": unit, "median": median,
                                      "ratio": {f"to {BASE}": {"lowest": to}} if to else {}}) + "\n")
        for name, why in missing.items():
            if name not in peers and MOUNT in peers:
                print(f"    {name:24} {'-':>10}   {why}")


with tempfile.TemporaryDirectory(prefix="pjrtfs-peers.") as folder:
    mount = pathlib.Path(folder, "mnt")
    mount.mkdir()
    ways, missing = build_all(pathlib.Path(folder))
    subprocess.run([options.pjrtfs, "--no-cache", "--plugin", f"plugin={options.plugin}", mount], check=True)
    try:
        (mount / "programs/add.mlir").write_bytes((options.peers / "programs/add.mlir").read_bytes())
        show(rounds(mount, ways, missing), missing)
    finally:
        subprocess.run(["fusermount3", "-u", mount], check=True)
