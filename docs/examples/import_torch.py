#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a module of PyTorch into a mount of pjrtfs, or into a directory that is copied there.

    import_torch.py MODEL.py NET X [X...] DIRECTORY

The file MODEL.py has the module in a variable NET and tensors in variables X, as in NET(X).  The files are called as
the variables: programs/NET.mlirbc, buffers/NET.safetensors, buffers/X.npy.  docs/frontends.md has an example.
"""
import inspect

import into_mount

with into_mount.needs("torch==2.9.0 torchax==0.0.13 jax==0.10.2 flax safetensors"):
    import jax.export
    import safetensors.flax
    import torch
    import torchax


def export(directory, name, net, **inputs):
    """For a module that is not in a file: export("/mnt/pjrt", "net", net, x=x)"""
    torchax_of = torchax.default_env()
    # The weights as the program has them: those of a checkpoint can have other names and types, and be there twice.
    weights = torchax_of.t2j_copy(dict(net.named_buffers()) | dict(net.named_parameters()))
    arrays = torchax_of.t2j_copy(inputs)

    def call(weights, *arrays):
        weights, arrays = torchax_of.j2t_iso((weights, arrays))
        with torchax_of:
            return torchax_of.t2j_iso(torch.func.functional_call(net.eval(), weights, arrays))

    # JAX calls the program's inputs as the arguments: net['0.weight'], x.
    call.__name__ = name
    call.__signature__ = inspect.Signature(
        [inspect.Parameter(one, inspect.Parameter.POSITIONAL_ONLY) for one in (name, *inputs)])
    exported = jax.export.export(jax.jit(call))(weights, *arrays.values())

    with into_mount.Destination(directory) as into:
        into.program(f"{name}.mlirbc", exported.mlir_module_serialized)
        into.checkpoint(name, lambda path: safetensors.flax.save_file(weights, path))
        for one, array in arrays.items():
            into.array(one, array)
    outputs = " ".join(f"y{i or ''}" for i in range(len(exported.out_avals)))
    used = [one for i, one in enumerate(inputs, len(weights)) if i in exported.module_kept_var_idx]
    return f"{' '.join([name, *used])} -> {outputs}"


def imports(source, module, *words):
    *names, target = words
    variables = into_mount.variables(source, [module, *names])
    net = variables.pop(module)
    if not isinstance(net, torch.nn.Module):
        raise into_mount.Failure(f"{module} in {source} is no torch.nn.Module: it is of type {type(net).__name__}")
    with into_mount.explained(f"cannot import {into_mount.call(module, variables)}", source):
        return target, module, export(target, module, net, **variables)


if __name__ == "__main__":
    into_mount.main(__doc__, 4, imports)
