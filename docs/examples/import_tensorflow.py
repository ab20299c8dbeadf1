#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a model of Keras or TensorFlow into a mount of pjrtfs.

    import_tensorflow.py MODEL.py NET X [X...] MOUNTPOINT

The file MODEL.py has the model in a variable NET and tensors in variables X, as in NET(X).  The files are called as
the variables: programs/NET.mlirbc, buffers/NET/..., buffers/X.npy.

TensorFlow calls each weight XLA_Args, in the order in which the model uses them: the names become input_names in
options.json.
"""
import json
import pathlib
import runpy
import sys

import numpy
import tensorflow


def export(directory, name, net, **inputs):
    """For a model that is not in a file: export("/mnt/pjrt", "net", net, x=x)"""
    function = tensorflow.function(net, jit_compile=True)
    concrete = function.get_concrete_function(*inputs.values())
    program = function.experimental_get_compiler_ir(*inputs.values())(stage="stablehlo_serialized")

    directory = pathlib.Path(directory)
    # A weight of Keras has a path, and its variable as the value.
    weights = {id((one.value if hasattr(one, "path") else one).handle): one for one in net.variables}
    names = list(inputs)
    for i, handle in enumerate(concrete.captured_inputs):
        weight = weights.get(id(handle))
        leaf = f"constant{i}" if weight is None else getattr(weight, "path", weight.name.removesuffix(":0"))
        names.append(f"{name}/{leaf}")
        file = directory / "buffers" / f"{name}/{leaf}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        numpy.save(file, handle if weight is None else weight)
    for one, array in inputs.items():
        numpy.save(directory / f"buffers/{one}.npy", array)

    # The options come first, so the program is compiled with them, and none that was there has other inputs.
    (directory / "programs").mkdir(exist_ok=True)
    file = directory / "programs" / f"{name}.mlirbc"
    file.unlink(missing_ok=True)
    file.touch()
    options = directory / "executables" / name / "options.json"
    options.parent.mkdir(parents=True, exist_ok=True)
    options.write_text(json.dumps({"input_names": names}))
    try:
        file.write_bytes(program)
    except OSError:  # the plugin refuses it, or the names
        sys.exit((directory / "error").read_text())
    outputs = " ".join(f"y{i or ''}" for i, _ in enumerate(tensorflow.nest.flatten(concrete.structured_outputs)))
    return f"{' '.join([name, *inputs])} -> {outputs}"


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    model, module, *tensors, target = sys.argv[1:]
    variables = runpy.run_path(model)
    line = export(target, module, variables[module], **{one: variables[one] for one in tensors})
    print(f"echo '{line}' > {target}/executables/{module}/run")
