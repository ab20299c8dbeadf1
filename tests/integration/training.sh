#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# A training of 1,000 steps, exported from JAX, is one command: its state stays on the device,
# each step takes the memory of the one before, and the numbers are JAX's.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
training=$data/jax/training

bounded cp "$training/step.jax_exported" "$mnt/programs/"
bounded cp -r "$training/start" "$mnt/buffers/state"
bounded cp "$training/x.npy" "$training/y.npy" "$mnt/buffers/"
run step 'state/ x y -> state/ loss repeat=1000'
tells "$mnt/executables/step/run" '^ok: state/count S32\[\], state/first/b1 F32\[24\], .*, loss F32\[\] on '
shows "$mnt/buffers/state/count.txt" 1000

# Another XLA adds in another order; a step that was lost or done twice shows a thousandfold.
cat >compare.py <<'END'
import array, os, sys

def numbers(path):
    data = open(path, "rb").read()
    return array.array("f", data[10 + int.from_bytes(data[8:10], "little"):])

got, want = sys.argv[1:]
files = [os.path.relpath(os.path.join(d, f), want) for d, _, fs in os.walk(want) for f in fs]
assert len(files) == 14, files
for f in files:
    a, b = (numbers(f"{folder}/{f}") for folder in (got, want))
    assert len(a) == len(b), f
    largest = max(map(abs, b))
    for i, (x, y) in enumerate(zip(a, b)):
        assert abs(x - y) <= 1e-4 * largest, f"{f}: {x} instead of {y} at {i}"
END
bounded python3 compare.py "$mnt/buffers" "$training/expected"
if bounded python3 compare.py "$mnt/buffers" "$training/start" 2>/dev/null; then
	fail "the comparison sees no difference to the start"
fi

# Two halves are the whole; what is made in between can be looked at.
bounded rm -r "$mnt/buffers/state"
bounded cp -r "$training/start" "$mnt/buffers/state"
run step 'state/ x y -> state/ loss repeat=400'
shows "$mnt/buffers/state/count.txt" 400
run step 'state/ x y -> state/ loss repeat=600'
bounded python3 compare.py "$mnt/buffers" "$training/expected"
