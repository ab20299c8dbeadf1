#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what JAX has into a mount of pjrtfs, or into a directory that is copied there.

    import_jax.py MODEL.py F W [X...] DIRECTORY

The file MODEL.py has a function F, its weights W, any tree of arrays, and arrays X, as in F(W, X).  The files are called as
the variables: programs/F.mlirbc, buffers/W/..., buffers/X.npy.

    import_jax.py F.jax_exported SIZE=NUMBER [SIZE=NUMBER...] DIRECTORY

An export with symbolic shapes becomes programs/F.mlirbc, with these sizes.
"""
import pathlib
import runpy
import sys

import jax
import jax.export
import numpy
from jax._src.interpreters import mlir  # has what JAX itself replaces symbolic shapes with


def write(directory, name, program, words, outputs):
    (directory / "programs").mkdir(parents=True, exist_ok=True)
    try:
        (directory / f"programs/{name}.mlirbc").write_bytes(program)
    except OSError:  # the plugin refuses it
        sys.exit((directory / "error").read_text())
    results = " ".join(f"y{i or ''}" for i in range(outputs))
    return f"{' '.join(words)} -> {results}"


def export(directory, name, function, **arguments):
    """For what is not in a file: export(pathlib.Path("/mnt/pjrt"), "f", f, w=w, x=x)"""
    exported = jax.export.export(jax.jit(function))(*arguments.values())
    for word, tree in arguments.items():
        for path, array in jax.tree_util.tree_leaves_with_path(tree):
            steps = jax.tree_util.keystr(path, simple=True, separator="/")
            file = directory / "buffers" / f"{word}/{steps}"
            file.parent.mkdir(parents=True, exist_ok=True)
            numpy.save(f"{file}.npy", jax.numpy.asarray(array))
    leaves = [word for word, tree in arguments.items() for _ in jax.tree_util.tree_leaves(tree)]
    used = dict.fromkeys(leaves[i] for i in exported.module_kept_var_idx)
    return write(directory, name, exported.mlir_module_serialized, used, len(exported.out_avals))


def make_concrete(directory, file, sizes):
    exported = jax.export.deserialize(bytearray(file.read_bytes()))

    def number(size):
        return size if isinstance(size, int) else size._evaluate(sizes)

    try:
        shapes = [jax.ShapeDtypeStruct([number(size) for size in one.shape], one.dtype) for one in exported.in_avals]
    except Exception:
        sizes = ", ".join(sorted({str(one) for one in exported.in_avals if not all(isinstance(n, int) for n in one.shape)}))
        sys.exit(f"{file} takes {sizes}: write SIZE=NUMBER for each of its sizes")
    arguments, named = jax.tree_util.tree_unflatten(exported.in_tree, shapes)
    # The numbers are those of the arguments only, so far; those within the program follow from them.
    lowered = jax.jit(exported.call).lower(*arguments, **named)
    module = mlir.refine_polymorphic_shapes(lowered.compiler_ir("stablehlo"))
    words = [f"X{i}" for i, _ in enumerate([*arguments, *named])]
    return write(directory, file.stem, mlir.module_to_bytecode(module), words, len(exported.out_avals))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    source, *names, target = sys.argv[1:]
    target = pathlib.Path(target)
    if source.endswith(".jax_exported"):
        program = pathlib.Path(source).stem
        line = make_concrete(target, pathlib.Path(source), {size: int(n) for size, n in (pair.split("=") for pair in names)})
    else:
        program, *names = names
        variables = runpy.run_path(source)
        line = export(target, program, variables[program], **{name: variables[name] for name in names})
    print(f"echo '{line}' > {target}/executables/{program}/run")
