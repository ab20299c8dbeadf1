#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Export a function with an ordered effect: jax.export refuses callbacks, and has no other such ones.

    python3 -m venv venv && venv/bin/pip install jax==0.10.2 jaxlib==0.10.2 flatbuffers
    venv/bin/python - < ordered.py > ordered.jax_exported    # by "-" no path gets into the file
"""
import sys

import jax
import jax.export
import jax.numpy as jnp
from jax import lax
from jax._src import effects
from jax._src.lib.mlir.dialects import hlo
from jax.extend import core
from jax.interpreters import mlir


class Ordered(effects.Effect):
    def __eq__(self, other):
        return isinstance(other, Ordered)

    def __hash__(self):
        return 1


ORDERED = Ordered()
effects.lowerable_effects.add_type(Ordered)
effects.ordered_effects.add_type(Ordered)
effectful = core.Primitive("effectful")
effectful.def_effectful_abstract_eval(lambda x: (x, {ORDERED}))


def lower(ctx, x):
    token = ctx.tokens_in.get(ORDERED)
    ctx.set_tokens_out(mlir.TokenSet({ORDERED: hlo.after_all([token])}))
    return [x]


mlir.register_lowering(effectful, lower)


def step(state, x):
    k = lax.platform_dependent(jnp.float32(0), cuda=lambda z: z + 3, tpu=lambda z: z + 5,
                               cpu=lambda z: z + 2)
    return state + k * effectful.bind(x), jnp.sum(x)


s = jax.ShapeDtypeStruct((2, 3), "float32")
exported = jax.export.export(jax.jit(step, donate_argnums=0),
                             platforms=("cuda", "tpu", "cpu"))(s, s)
sys.stdout.buffer.write(exported.serialize())
