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
import sys


def export(saved, name, directory):
    meta = json.loads((saved / "functions/forward.meta").read_text())
    buffers = directory / "buffers" / name
    buffers.mkdir(parents=True, exist_ok=True)
    names, inputs = [], {}
    for one in meta["input_locations"]:
        if one["type_"] == "input_arg":
            names.append(f"x{one['position'] or ''}")
            inputs[one["position"]] = names[-1]
            continue
        leaf = one["name"] or f"constant{one['position']}"
        names.append(f"{name}.{leaf}")
        array = saved / "data" / leaf if one["name"] else saved / "constants" / str(one["position"])
        shutil.copyfile(array, buffers / f"{leaf}.npy")

    # The options come first, so the program is compiled with them, and none that was there has other inputs.
    (directory / "programs").mkdir(exist_ok=True)
    program = directory / "programs" / f"{name}.mlir"
    program.unlink(missing_ok=True)
    program.touch()
    options = directory / "executables" / name / "options.json"
    options.parent.mkdir(parents=True, exist_ok=True)
    options.write_text(json.dumps({"input_names": names}))
    try:
        shutil.copyfile(saved / "functions/forward.mlir", program)
    except OSError:  # the plugin refuses it
        sys.exit((directory / "error").read_text())
    words = [name, *(inputs[position] for position in sorted(inputs))]
    outputs = " ".join(f"y{i or ''}" for i, _ in enumerate(meta["output_signature"]))
    return f"{' '.join(words)} -> {outputs}"


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    line = export(pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]))
    print(f"echo '{line}' > {sys.argv[3]}/executables/{sys.argv[2]}/run")
