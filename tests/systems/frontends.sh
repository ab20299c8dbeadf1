#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: deep
# SANITIZE: none
# NEEDS: net
# COST: 900 CPU-s
# LIMIT: 7200 s
# docs/frontends.md, and what docs/quickstart.md has of PyTorch, pasted as they stand, pip's lines first: each script imports a model,
# and the mount gives the numbers of the framework; so do the models of tests/data/frontends, imported anew. PJRTFS_TEST_FRONTENDS can
# name a folder whose environments torch, tensorflow and onnx have the packages already.
. "$srcdir/tests/words.sh"
. "$top/tests/models.sh"
requires find_numpy
mount_pjrtfs
ln -s "$top/docs" docs
# The page's mount is ~/pjrt.
mkdir home
ln -s "$mnt" home/pjrt
export PIP_CACHE_DIR=${PIP_CACHE_DIR:-$HOME/.cache/pip} HOME=$work/home
export PYTHONDONTWRITEBYTECODE=1 JAX_PLATFORMS=cpu TF_CPP_MIN_LOG_LEVEL=3
system_path=$PATH

# environment NAME: of Python, with the packages of the page's lines that follow
environment()
{
	local env=${PJRTFS_TEST_FRONTENDS-}/$1
	if [ ! -x "$env/bin/python3" ]; then
		env=$work/$1
		"$patient" $((patience * 6)) "$python" -m venv "$env"
	fi
	PATH=$env/bin:$system_path
}

# part FROM TO [PAGE]: the page's lines; those of pip only where the packages are missing. What they print is in the file said.
part()
{
	page "${3-docs/frontends.md}" "$1" "$2" >lines
	sed -i 's/^python3 -m venv ~\/venv && \. ~\/venv\/bin\/activate && //' lines # it is in another place here
	if [ "${PATH#"$work"}" != "$PATH" ]; then
		sed -n 's/^pip install /python3 -m pip install -q --no-compile /p' lines >pip
		"$patient" $((patience * 180)) bash -eu pip >out 2>&1 || fail "$1: $(cat out)"
	fi
	sed -i '/^pip install /d' lines
	"$patient" $((patience * 15)) bash -eu lines >said 2>err </dev/null || fail "$1: $(cat said err)"
}

# numbers FILE: in its lines that have nothing but numbers, one in a line
numbers()
{
	grep -E '^[]0-9., e+[-]+$' "$1" | grep -oE '[0-9.e+-]+'
}

# prints MODEL: what the part has printed are the numbers that the file prints
prints()
{
	numbers said >got
	"$patient" $((patience * 15)) python3 "$1" 2>/dev/null | numbers /dev/stdin >want
	[ -s want ] || fail "$1 prints no numbers"
	paste got want | awk '{ d = $1 - $2; if (NF != 2 || d * d > 1e-8) exit 1 }' || fail "$1: $(paste got want)"
}

# anew PACKAGES: the models of tests/data/frontends
anew()
{
	"$patient" $((patience * 30)) python3 "$data/frontends/programs.py" "$1" models >out 2>&1 || fail "$1: $(cat out)"
	rm -rf models/saved
	for line in models/*/run; do
		runs "${line%/run}"
	done
	rm -rf models
}

environment torch
part '## PyTorch' 'A training step'
prints model.py
# The quick start takes the script of the wheel.
mkdir -p home/venv/share/doc/pjrtfs
ln -s "$top/docs/examples" home/venv/share/doc/pjrtfs/
part '## A module of PyTorch' 'With the package' docs/quickstart.md
prints home/model.py
part 'A training step' '## torch_xla'
awk '$1 < 0.01 { found = 1 } END { exit !found }' said || fail "the training ends with $(cat said)"
part '## torch_xla' '## Keras'
prints model.py
anew torch
anew torch_xla

environment tensorflow
part '## Keras' 'A step of a training'
prints keras_model.py
part 'A step of a training' '## ONNX'
awk '$1 < 0.01 { found = 1 } END { exit !found }' said || fail "Keras's training ends with $(cat said)"
anew tensorflow
# custom calls, which each version has in another form in its bytecode
cat >solve.py <<'END'
import tensorflow


def solve(a):
    return tensorflow.linalg.solve(a, 2 * a)


solve.variables = []
a = tensorflow.constant([[1.0, 2.0], [3.0, 4.0]])
END
"$patient" $((patience * 15)) python3 docs/examples/import_tensorflow.py solve.py solve a "$mnt" >said 2>err || fail "solve: $(cat err)"
run solve 'a -> b'
awk '{ for (i = 1; i <= 2; i++) { d = $i - 2 * (i == NR); if (d * d > 1e-8) exit 1 } }' "$mnt/buffers/b.txt" ||
	fail "solve: $(cat "$mnt/buffers/b.txt")"

environment onnx
cp "$data/jax/symbolic.jax_exported" f.jax_exported
part '## An export' '## Weights'
tells said "^echo 'X0 X1 -> y' > /.*/executables/f/run$"
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run f 'x y -> z'
shows "$mnt/buffers/z.txt" $'12 24 36\n48 60 72'
# what is not the same in the bytecode of each version
python3 - <<'END'
import jax, jax.export
shape = jax.export.symbolic_shape("n,3")
top = jax.export.export(jax.jit(lambda x: jax.lax.top_k(x, 2)[1]))(jax.ShapeDtypeStruct(shape, "float32"))
open("top.jax_exported", "wb").write(top.serialize())
END
bounded python3 docs/examples/import_jax.py top.jax_exported n=2 "$mnt"
run top 'x -> places'
shows "$mnt/buffers/places.txt" $'2 1\n2 1'
fails_with 'f.jax_exported takes float32[n,3]: write SIZE=NUMBER for each of its sizes' \
	python3 docs/examples/import_jax.py f.jax_exported m=2 "$mnt"
page docs/frontends.md '## ONNX' '## An export' | grep '^pip' | sed 's/^pip/python3 -m pip/' >pip
[ -x "${PJRTFS_TEST_FRONTENDS-}/onnx/bin/python3" ] || "$patient" $((patience * 60)) bash -eu pip >out 2>&1 || fail "onnx: $(cat out)"
anew onnx
