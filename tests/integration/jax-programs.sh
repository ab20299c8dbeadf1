#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# COST: 14 CPU-s
# Everyday programs as jax.export writes them: each is copied in with its arguments, runs by one
# line, and gives JAX's numbers; so does a training.
. "$srcdir/tests/lib.sh"
requires find_numpy
mount_pjrtfs
tar -xf "$data/jax/programs.tar.xz"

# compare.py GOT WANT N TOLERANCE: the N arrays below WANT are in GOT, with their types, shapes and numbers.
cat >compare.py <<'END2'
import os, sys
import numpy as np
sys.path.insert(0, os.environ["top"] + "/tests/conformance")
import caselib
got_in, want_in, n, tolerance = *sys.argv[1:4], float(sys.argv[4])
files = [os.path.relpath(os.path.join(d, f), want_in) for d, _, fs in os.walk(want_in) for f in fs]
assert len(files) == int(n), files
for f in files:
    got, want = np.load(f"{got_in}/{f}"), np.load(f"{want_in}/{f}")
    assert got.dtype == want.dtype, f"{f} is {got.dtype} instead of {want.dtype}"
    largest = np.abs(want).max(initial=1)
    why = caselib.compare(got, want, rtol=tolerance, atol=tolerance * largest)
    assert not why, f"{f}: {why}"
END2
export top

# runs NAME: the program in this directory does what it did in JAX
runs()
{
	local line results
	read -r line <"$1/run"
	read -ra results <<<"${line#*->}"
	bounded cp "$1/program.mlirbc" "$mnt/programs/$1.mlirbc" &&
		bounded cp "$1"/*.npy "$mnt/buffers/" && run "$1" "$line" &&
		tells "$mnt/executables/$1/run" '^ok: ' &&
		bounded "$python" -B compare.py "$mnt/buffers" "$1/expected" "${#results[@]}" 2e-5
}

# A plugin of an older StableHLO refuses operations that it does not know.
newer=
[ "${plugin:-cpu}" != cpu-0.81 ] || newer='erf top_k'
failed=
for name in */run; do
	name=${name%/run}
	if [[ " $newer " = *" $name "* ]]; then
		fails_with 'Invalid argument' cp "$name/program.mlirbc" "$mnt/programs/$name.mlirbc"
		tells "$mnt/error" 'the program is StableHLO 1\.15\.0, plugin cpu-0\.81 has 1\.13\.3'
	elif why=$(runs "$name" 2>&1); then
		bounded rm "$mnt"/buffers/*.npy
	else
		failed+="$name: $(bounded cat "$mnt/error") $why"$'\n'
	fi
done
[ -z "$failed" ] || fail "$failed"
# -- the comparison sees what is wrong
cp sort/a.npy sort/expected/sorted.npy
fails_with 'sorted.npy: ' runs sort

# -- a training of 1,000 steps is one command: its state stays on the device, and each step takes the
# memory of the one before
training=$data/jax/training
bounded cp "$training/step.jax_exported" "$mnt/programs/"
bounded cp -r "$training/start" "$mnt/buffers/state"
bounded cp "$training/x.npy" "$training/y.npy" "$mnt/buffers/"
run step 'state/ x y -> state/ loss repeat=1000'
tells "$mnt/executables/step/run" '^ok: state/count S32\[\], state/first/b1 F32\[24\], .*, loss F32\[\] on '
shows "$mnt/buffers/state/count.txt" 1000

# Another XLA adds in another order; a step that was lost or done twice shows a thousandfold.
trained()
{
	bounded "$python" -B compare.py "$mnt/buffers" "$training/$1" 14 1e-4
}
trained expected

# Two halves are the whole; what is made in between can be looked at.
bounded rm -r "$mnt/buffers/state"
bounded cp -r "$training/start" "$mnt/buffers/state"
run step 'state/ x y -> state/ loss repeat=400'
shows "$mnt/buffers/state/count.txt" 400
run step 'state/ x y -> state/ loss repeat=600'
trained expected
