#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what JAX has into a mount of pjrtfs, or into a directory that is copied there.

    import_jax.py MODEL.py F W [X...] DIRECTORY

The file MODEL.py has a function F, its weights W, any tree of arrays, and arrays X, as in F(W, X).  The files are called as
the variables: programs/F.mlirbc, buffers/W/..., buffers/X.npy.

    import_jax.py F.jax_exported SIZE=NUMBER [SIZE=NUMBER...] DIRECTORY

An export with symbolic shapes becomes programs/F.mlirbc, with these sizes.
"""
import importlib
import pathlib

import into_mount

with into_mount.needs("jax==0.10.2"):
    import jax
    import jax.export
    from jax._src.export import _export  # writes what every version of StableHLO reads
    from jax._src.interpreters import mlir  # has what JAX itself replaces symbolic shapes with


def line(words, outputs):
    results = " ".join(f"y{i or ''}" for i in range(outputs))
    return f"{' '.join(words)} -> {results}"


def export(directory, name, function, **arguments):
    """For what is not in a file: export("/mnt/pjrt", "f", f, w=w, x=x)"""
    exported = jax.export.export(jax.jit(function))(*arguments.values())
    with into_mount.Destination(directory) as into:
        into.program(f"{name}.mlirbc", exported.mlir_module_serialized)
        for word, tree in arguments.items():
            for path, array in jax.tree_util.tree_leaves_with_path(tree):
                steps = jax.tree_util.keystr(path, simple=True, separator="/")
                into.array(f"{word}/{steps}".rstrip("/"), jax.numpy.asarray(array))
    leaves = [word for word, tree in arguments.items() for _ in jax.tree_util.tree_leaves(tree)]
    used = dict.fromkeys(leaves[i] for i in exported.module_kept_var_idx)
    return line(used, len(exported.out_avals))


def make_concrete(directory, file, sizes):
    if not file.is_file():
        raise into_mount.Failure(f"{file}: there is no such file")
    with into_mount.needs("flatbuffers"):
        importlib.import_module("flatbuffers")  # for deserialize
    with into_mount.explained(f"{file} is no export of JAX"):
        exported = jax.export.deserialize(bytearray(file.read_bytes()))

    def number(size):
        return size if isinstance(size, int) else size._evaluate(sizes)

    try:
        shapes = [jax.ShapeDtypeStruct([number(size) for size in one.shape], one.dtype) for one in exported.in_avals]
    except Exception:
        sizes = ", ".join(sorted({str(one) for one in exported.in_avals if not all(isinstance(n, int) for n in one.shape)}))
        raise into_mount.Failure(f"{file} takes {sizes}: write SIZE=NUMBER for each of its sizes") from None
    arguments, named = jax.tree_util.tree_unflatten(exported.in_tree, shapes)
    # The numbers are those of the arguments only, so far; those within the program follow from them.
    lowered = jax.jit(exported.call).lower(*arguments, **named)
    module = mlir.refine_polymorphic_shapes(lowered.compiler_ir("stablehlo"))
    with into_mount.Destination(directory) as into:
        into.program(f"{file.stem}.mlirbc", _export._module_to_bytecode(module))
    return line([f"X{i}" for i, _ in enumerate([*arguments, *named])], len(exported.out_avals))


def imports(source, *words):
    *names, target = words
    if source.endswith(".jax_exported"):
        file = pathlib.Path(source)
        numbers = into_mount.sizes(names)
        with into_mount.explained(f"cannot import {file} with {' '.join(names)}"):
            return target, file.stem, make_concrete(target, file, numbers)
    if len(names) < 2:
        raise into_mount.Failure(f"{source}: expected the names of a function and of its weights after it")
    program, *names = names
    variables = into_mount.variables(source, [program, *names])
    function = variables.pop(program)
    if not callable(function):
        raise into_mount.Failure(f"{program} in {source} is no function: it is of type {type(function).__name__}")
    with into_mount.explained(f"cannot import {into_mount.call(program, variables)}", source):
        return target, program, export(target, program, function, **variables)


if __name__ == "__main__":
    into_mount.main(__doc__, 3, imports)
