#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a module of PyTorch into a mount of pjrtfs, or into a directory that is copied there.

    import_torch.py MODEL.py NET X [X...] DIRECTORY

The file MODEL.py has the module in a variable NET and tensors in variables X, as in NET(X).  The files are called as
the variables: programs/NET.mlirbc, buffers/NET.safetensors, buffers/X.npy.  docs/frontends.md has an example.
"""
import inspect
import pathlib
import runpy
import sys

import jax.export
import numpy
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

    directory = pathlib.Path(directory)
    for folder in ("programs", "buffers"):
        (directory / folder).mkdir(parents=True, exist_ok=True)
    safetensors.flax.save_file(weights, directory / f"buffers/{name}.safetensors")
    for one, array in arrays.items():
        numpy.save(directory / f"buffers/{one}.npy", array)
    try:
        (directory / f"programs/{name}.mlirbc").write_bytes(exported.mlir_module_serialized)
    except OSError:  # the plugin refuses it
        sys.exit((directory / "error").read_text())
    outputs = " ".join(f"y{i or ''}" for i in range(len(exported.out_avals)))
    used = [one for i, one in enumerate(inputs, len(weights)) if i in exported.module_kept_var_idx]
    return f"{' '.join([name, *used])} -> {outputs}"


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    model, module, *tensors, target = sys.argv[1:]
    variables = runpy.run_path(model)
    line = export(target, module, variables[module], **{one: variables[one] for one in tensors})
    print(f"echo '{line}' > {target}/executables/{module}/run")
