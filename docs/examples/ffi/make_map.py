#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""List the FFI handlers of modules of Python, for pjrtfs --ffi-library.

    python3 make_map.py PLATFORM MODULE.so... > FILE.json

Each module has a function registrations(), as those of jax-cuda13-plugin and jax-rocm7-plugin; this Python must be
one that can import it.  PLATFORM is CUDA, ROCM or Host.  Paths in the list are relative to the current folder,
in which FILE.json must lie.
"""
import ctypes
import hashlib
import importlib.util
import json
import os
import sys


class Place(ctypes.Structure):
    """What dladdr(3) says of an address."""
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("symbol", ctypes.c_char_p),
                ("address", ctypes.c_void_p)]


def pointer_of(capsule):
    name_of, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, name_of(capsule))


def address_of(capsule, path):
    """The handler's address in the module's file; None: it is elsewhere."""
    place = Place()
    at = pointer_of(capsule)
    found = ctypes.CDLL(None).dladdr(ctypes.c_void_p(at), ctypes.byref(place))
    return at - place.base if found and os.path.samefile(os.fsdecode(place.file), path) else None


def targets_of(path):
    spec = importlib.util.spec_from_file_location(os.path.basename(path).split(".")[0], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    targets = {}
    for target, handler in module.registrations().items():
        # Some have a function for each stage; pjrtfs registers one, which executes.
        stages = handler if isinstance(handler, dict) else {"execute": handler}
        address = address_of(stages["execute"], path) if set(stages) == {"execute"} else None
        if address is None:
            print(f"{path}: {target} is left out: it has other stages, or is in another file", file=sys.stderr)
        else:
            targets[target] = f"+0x{address:x}"
    return targets


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    libraries = []
    for path in sys.argv[2:]:
        with open(path, "rb") as file:
            sha256 = hashlib.sha256(file.read()).hexdigest()
        libraries.append({"path": os.path.relpath(path), "sha256": sha256, "platform": sys.argv[1],
                          "targets": targets_of(os.path.abspath(path))})
    print(json.dumps({"ffi_libraries": libraries}, indent=1))


main()
