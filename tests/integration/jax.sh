#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# docs/jax.md, docs/quickstart.md, the model of docs/languages.md and docs/examples/import_jax.py: what they show works as it stands
# there, with JAX.
. "$srcdir/tests/words.sh"
export PYTHONPATH=$plugins/jax
mkdir bin home
ln -s /usr/bin/python3 bin/python3
export PATH=$work/bin:$PATH
requires python3 -c 'import jax'
mount_pjrtfs

# The quick start's mount is ~/pjrt.
ln -s "$mnt" home/pjrt
export HOME=$work/home
run_page docs/quickstart.md '## A function of JAX' '## A batch of one'
tells said '^0\.26894[0-9]* 0\.73105[0-9]*$'
if command -v node; then
	bounded rm "$mnt/buffers/y.npy"
	run_page docs/languages.md '## A model of your own' '## Julia'
	tells said '^0\.26894[0-9]* 0\.73105[0-9]*$'
fi
run_page docs/quickstart.md '## A batch of one' '## A module of PyTorch'
tells said 'short is F32\[3\], the program wants F32\[1,4\]$'

run_page docs/jax.md '## A function' '## Arrays'
tells said '^ready$'
run_page docs/jax.md '## Arrays' '## A training'
tells said '^2\.0$'
bounded cat "$mnt/buffers/y.txt" >y
/usr/bin/python3 - y <<'END'
import math, sys
z = [math.exp(math.tanh(2 + b)) for b in range(3)]
for line in open(sys.argv[1]):
    got = [float(x) for x in line.split()]
    assert len(got) == 3 and all(abs(g - x / sum(z)) < 1e-5 for g, x in zip(got, z)), (got, z)
END
run_page docs/jax.md '## A training' '## What else'
head -n 1 said >weights
/usr/bin/python3 - weights <<'END'
import sys
got = [float(x) for x in open(sys.argv[1]).read().split()]
assert all(abs(g - w) < 1e-2 for g, w in zip(got, (1, 2, 3, 4), strict=True)), got
END

# -- docs/examples/import_jax.py: a function of a file, with a list of twelve equal layers
cat >model.py <<'END'
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(1)
stack = {"layers": [rng.normal(size=(4, 4)).astype("f4") for _ in range(12)], "scale": 2.0, "unused": np.zeros(3)}
x = rng.normal(size=(3, 4)).astype("f4")


def f(w, x):
    for layer in w["layers"]:
        x = jnp.tanh(x @ layer)
    return w["scale"] * x, x.sum()


if __name__ == "__main__":
    print(*np.asarray(f(stack, x)[0]).ravel())
END
imports=$top/docs/examples/import_jax.py
"$patient" $((patience * 3)) python3 -B "$imports" model.py f stack x "$mnt" >said 2>&1 || fail "import_jax.py: $(cat said)"
equal 'the line to run' "$(cat said)" "echo 'stack x -> y y1' > $mnt/executables/f/run"
bounded bash -eu said
tells "$mnt/executables/f/run" ', by name$'
bounded cat "$mnt/buffers/y.txt" >y
bounded python3 model.py >want
/usr/bin/python3 - y want <<'END'
import sys
got, want = ([float(x) for x in open(one).read().split()] for one in sys.argv[1:])
assert all(abs(g - w) < 1e-4 for g, w in zip(got, want, strict=True)), (got, want)
END
fails_with 'import_jax.py F.jax_exported SIZE=NUMBER' python3 -B "$imports" model.py f
