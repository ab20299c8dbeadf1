#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write an ONNX model into a mount of pjrtfs, or into a directory that is copied there.

    import_onnx.py NET.onnx [SIZE=NUMBER...] DIRECTORY

It becomes programs/NET.mlirbc and buffers/NET.safetensors, by jaxonnxruntime.  A SIZE is a name in the shapes of the inputs:
batch_size=8.
"""
import inspect
import pathlib
import re

import into_mount

with into_mount.needs("jaxonnxruntime onnx absl-py safetensors jax==0.10.2"):
    import jax.export
    import numpy
    import onnx
    import safetensors.flax
    from jaxonnxruntime import call_onnx


def input_arrays(model, sizes):
    initial = {one.name for one in model.graph.initializer}
    inputs = {}
    for one in model.graph.input:
        if one.name in initial:
            continue
        tensor = one.type.tensor_type
        shape = [size.dim_value or sizes.get(size.dim_param) for size in tensor.shape.dim]
        if None in shape:
            names = [size.dim_param or str(size.dim_value or "?") for size in tensor.shape.dim]
            raise into_mount.Failure(
                f"the shape of {one.name} is [{', '.join(names)}]: write SIZE=NUMBER for each name in it")
        inputs[one.name] = numpy.zeros(shape, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return inputs


def export(directory, file, sizes):
    with into_mount.explained(f"{file} is no model of ONNX"):
        model = onnx.load(file)
    name = file.stem
    inputs = input_arrays(model, sizes)
    function, initial = call_onnx.call_onnx_model(model, inputs)
    # A name becomes that of a file below buffers/NET.
    weights = {one.lstrip("/"): jax.numpy.asarray(array) for one, array in initial.items()}

    def call(weights, *arrays):
        return function({one: weights[one.lstrip("/")] for one in initial}, dict(zip(inputs, arrays)))

    # JAX calls the program's inputs as the arguments, which must be words.
    words = [re.sub(r"\W|^(?=\d)", "_", one) for one in (name, *inputs)]
    call.__signature__ = inspect.Signature(
        [inspect.Parameter(word, inspect.Parameter.POSITIONAL_ONLY) for word in words])
    exported = jax.export.export(jax.jit(call))(weights, *inputs.values())

    with into_mount.Destination(directory) as into:
        into.program(f"{name}.mlirbc", exported.mlir_module_serialized)
        into.checkpoint(name, lambda path: safetensors.flax.save_file(weights, path))
    used = [word for i, word in enumerate(words[1:], len(weights)) if i in exported.module_kept_var_idx]
    outputs = " ".join(f"y{i or ''}" for i, _ in enumerate(model.graph.output))
    return f"{' '.join([name, *used])} -> {outputs}"


def imports(source, *words):
    *pairs, target = words
    file = pathlib.Path(source)
    if not file.is_file():
        raise into_mount.Failure(f"{file}: there is no such file")
    sizes = into_mount.sizes(pairs)
    with into_mount.explained(f"cannot import {file}"):
        return target, file.stem, export(target, file, sizes)


if __name__ == "__main__":
    into_mount.main(__doc__, 2, imports)
