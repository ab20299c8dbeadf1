#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# COST: 11 CPU-s
# Everyday programs as jax.export writes them: each is copied in with its arguments, runs by one
# line, and gives JAX's numbers.
. "$srcdir/tests/lib.sh"
requires find_numpy
mount_pjrtfs
tar -xf "$data/jax/programs.tar.xz"

# compare NAME RESULT...: the results in buffers/ have JAX's types, shapes and numbers.
cat >compare.py <<'END2'
import os, sys
import numpy as np

sys.path.insert(0, os.environ["top"] + "/tests/conformance")
import caselib

mnt, name, *results = sys.argv[1:]
assert results and len(results) == len(os.listdir(f"{name}/expected")), results
for result in results:
    got, want = np.load(f"{mnt}/buffers/{result}.npy"), np.load(f"{name}/expected/{result}.npy")
    assert got.dtype == want.dtype, f"{result} is {got.dtype} instead of {want.dtype}"
    largest = np.abs(want).max(initial=1)
    why = caselib.compare(got, want, rtol=2e-5, atol=2e-5 * largest)
    assert not why, f"{result}: {why}"
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
		bounded "$python" -B compare.py "$mnt" "$1" "${results[@]}"
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
fails_with 'sorted: ' runs sort
