#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# docs/jax.md and the README's first example: what they show works as it stands there, with JAX.
. "$srcdir/tests/lib.sh"
export PYTHONPATH=$plugins/jax
mkdir bin
ln -s /usr/bin/python3 bin/python3
export PATH=$work/bin:$PATH
requires python3 -c 'import jax'
mount_pjrtfs

# run_page FILE FROM TO: run its indented lines between two headings
run_page()
{
	sed -n "/^## $2/,/^## $3/s/^    //p" "$top/$1" | sed "s|/mnt/pjrt|$mnt|g" >block
	grep -q "$mnt" block || fail "$1 has no '$2'"
	timeout -k 5 $((patience * 2)) bash -eu block >out 2>&1 || fail "$1, $2: $(cat out)"
}
run_page README.md 'From JAX' 'Try it'
tells out '^11 22 33$'
run_page docs/jax.md 'A function' 'Arrays'
tells out '^ready$'
run_page docs/jax.md 'Arrays' 'A training'
tells out '^2\.0$'
bounded cat "$mnt/buffers/y.txt" >y
/usr/bin/python3 - y <<'END'
import math, sys
z = [math.exp(math.tanh(2 + b)) for b in range(3)]
for line in open(sys.argv[1]):
    got = [float(x) for x in line.split()]
    assert len(got) == 3 and all(abs(g - x / sum(z)) < 1e-5 for g, x in zip(got, z)), (got, z)
END
run_page docs/jax.md 'A training' 'What else'
head -n 1 out >weights
/usr/bin/python3 - weights <<'END'
import sys
got = [float(x) for x in open(sys.argv[1]).read().split()]
assert all(abs(g - w) < 1e-2 for g, w in zip(got, (1, 2, 3, 4), strict=True)), got
END
