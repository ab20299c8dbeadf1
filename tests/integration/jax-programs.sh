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

# runs NAME: the program in this directory does what it did in JAX
runs()
{
	local line results
	read -r line <"$1/run"
	read -ra results <<<"${line#*->}"
	bounded cp "$1/program.mlirbc" "$mnt/programs/$1.mlirbc" &&
		bounded cp "$1"/*.npy "$mnt/buffers/" && run "$1" "$line" &&
		tells "$mnt/executables/$1/run" '^ok: ' &&
		bounded "$python" -B "$top/tests/tools/compare_arrays.py" "$mnt/buffers" "$1/expected" "${#results[@]}" 2e-5
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
	bounded "$python" -B "$top/tests/tools/compare_arrays.py" "$mnt/buffers" "$training/$1" 14 1e-4
}
trained expected

# Two halves are the whole; what is made in between can be looked at.
bounded rm -r "$mnt/buffers/state"
bounded cp -r "$training/start" "$mnt/buffers/state"
run step 'state/ x y -> state/ loss repeat=400'
shows "$mnt/buffers/state/count.txt" 400
run step 'state/ x y -> state/ loss repeat=600'
trained expected
