#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a model of Keras or TensorFlow into a mount of pjrtfs.

    import_tensorflow.py MODEL.py NET X [X...] MOUNTPOINT

The file MODEL.py has the model in a variable NET and tensors in variables X, as in NET(X).  The files are called as
the variables: programs/NET.mlir, buffers/NET/..., buffers/X.npy.  NET can be a function that has the list of its weights in
NET.variables.  If it assigns some of them, as a training step does, the line writes these anew.

TensorFlow calls each weight XLA_Args, in the order in which the model uses them: the names become input_names in
options.json.
"""
import json
import re

import into_mount

with into_mount.needs("tensorflow-cpu"):
    import tensorflow


def export(directory, name, net, **inputs):
    """For a model that is not in a file: export("/mnt/pjrt", "net", net, x=x)"""
    function = tensorflow.function(net, jit_compile=True)
    concrete = function.get_concrete_function(*inputs.values())
    # The text, as TensorFlow's bytecode is for plugins of its own version of StableHLO.
    program = function.experimental_get_compiler_ir(*inputs.values())(stage="stablehlo")

    # A weight of Keras has a path, and its variable as the value.
    weights = {id((one.value if hasattr(one, "path") else one).handle): one for one in net.variables}
    arrays = dict(inputs)
    names = list(inputs)
    for i, handle in enumerate(concrete.captured_inputs):
        weight = weights.get(id(handle))
        leaf = f"constant{i}" if weight is None else getattr(weight, "path", weight.name.removesuffix(":0"))
        names.append(f"{name}/{leaf}")
        arrays[names[-1]] = handle if weight is None else weight
    with into_mount.Destination(directory) as into:
        into.program(f"{name}.mlir", program.encode(), json.dumps({"input_names": names}))
        for one, array in arrays.items():
            into.array(one, array)
    results = [one for one in tensorflow.nest.flatten(concrete.structured_outputs) if one is not None]
    outputs = [f"y{i or ''}" for i, _ in enumerate(results)]
    # An assigned weight is one more output, which the program writes where the weight was.
    assigned = re.findall(r'kind = "may_alias", parameter_index = array<i64>, parameter_number = (\d+)', program)
    outputs += [names[int(i)] for i in assigned]
    return f"{' '.join([name, *inputs])} -> {' '.join(outputs)}"


def imports(source, module, *words):
    *names, target = words
    variables = into_mount.variables(source, [module, *names])
    net = variables.pop(module)
    if not callable(net) or not hasattr(net, "variables"):
        raise into_mount.Failure(f"{module} in {source} is no model of Keras, and neither a tf.Module that can be called "
                                 f"nor a function with variables: it is of type {type(net).__name__}")
    with into_mount.explained(f"cannot import {into_mount.call(module, variables)}", source):
        return target, module, export(target, module, net, **variables)


if __name__ == "__main__":
    into_mount.main(__doc__, 4, imports)
