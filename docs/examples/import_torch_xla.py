#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what torch_xla.stablehlo saved into a mount of pjrtfs; this needs no package.

    import_torch_xla.py SAVED NAME MOUNTPOINT

torch_xla puts the weights in an order of its own and leaves their names out of the program: they are in forward.meta, and
become input_names in options.json.
"""
import json
import pathlib
import shutil

import into_mount


def export(saved, name, directory):
    meta = json.loads((saved / "functions/forward.meta").read_text())
    names, inputs, arrays = [], {}, {}
    for one in meta["input_locations"]:
        if one["type_"] == "input_arg":
            names.append(f"x{one['position'] or ''}")
            inputs[one["position"]] = names[-1]
            continue
        leaf = one["name"] or f"constant{one['position']}"
        names.append(f"{name}.{leaf}")
        arrays[leaf] = saved / "data" / leaf if one["name"] else saved / "constants" / str(one["position"])

    program = (saved / "functions/forward.mlir").read_bytes()
    with into_mount.Destination(directory) as into:
        into.program(f"{name}.mlir", program, json.dumps({"input_names": names}))
        for leaf, file in arrays.items():
            with open(file, "rb") as array:
                into.write(f"buffers/{name}/{leaf}.npy", lambda to, array=array: shutil.copyfileobj(array, to))
    words = [name, *(inputs[position] for position in sorted(inputs))]
    outputs = " ".join(f"y{i or ''}" for i, _ in enumerate(meta["output_signature"]))
    return f"{' '.join(words)} -> {outputs}"


def imports(saved, name, target):
    with into_mount.explained(f"cannot import {saved}, as torch_xla.stablehlo saves a module"):
        return target, name, export(pathlib.Path(saved), name, target)


if __name__ == "__main__":
    into_mount.main(__doc__, 3, imports, most=3)
