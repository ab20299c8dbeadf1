#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# COST: 5 CPU-s
# Models of PyTorch, torch_xla, Keras and ONNX, as docs/examples/import_*.py write them: each is copied in, runs by the
# line that the script printed, with its weights by their names, and gives the numbers of its framework.
. "$srcdir/tests/models.sh"
requires find_numpy
mount_pjrtfs
tar -xf "$data/frontends/programs.tar.xz"
count=0
for line in */run; do
	runs "${line%/run}"
	count=$((count + 1))
done
equal 'models' "$count" 11

# -- the comparison sees what is wrong: two weights of one shape that have changed places
weights=$mnt/buffers/backwards
bounded mv "$weights/0.weight.npy" "$weights/other.npy"
bounded mv "$weights/2.weight.npy" "$weights/0.weight.npy"
bounded mv "$weights/other.npy" "$weights/2.weight.npy"
bounded cp backwards/buffers/x.npy "$mnt/buffers/"
run backwards "$(<backwards/run)"
fails_with 'y.npy: ' compares backwards
