# SPDX-License-Identifier: Apache-2.0
"""Operations of users that reach the functions of the faulty plugin, by the words of
tests/faults/plugin/calls.h, which is read here, too.

The mount has no cache, and the plugin "faulty" with PJRTFS_FAULTY_CALLS.
"""

import errno
import itertools
import os
import re

import cases
from cases import Refused, content, eventually, make, npy, ok

path_of_faults = None  # the plugin's file of faults
native = two_devices = None  # a compiled program, and a topology, as bytes

NAMES = {**errno.errorcode, errno.EOPNOTSUPP: "EOPNOTSUPP"}

X = npy("<f4", (2, 3), bytes(24))
ODD = npy("<f4", (2, 3), bytes(24)).replace(b"          \n", b"         \n", 1)
ODD = ODD[:8] + bytes([ODD[8] - 1]) + ODD[9:]  # data that are not aligned are copied
ADD = cases.adder("tensor<2x3xf32>")
compiles = itertools.count()


def set_faults(*faults):
    """Besides, programs can be serialized."""
    with open(path_of_faults + ".new", "w", encoding="utf-8") as f:
        f.write("\n".join(faults + ("serialize=works", "")))
    os.rename(path_of_faults + ".new", path_of_faults)


# --- the operations -----------------------------------------------------------------------------


def upload():
    make(cases.buffers + "/u.npy", ODD)


def compile_program():
    """A new program each time: one just compiled may give another what it is compiled to."""
    make(cases.mnt + "/programs/p.mlir", ADD + b"\n// %d\n" % next(compiles))


def run():
    ok(op="execute", executable="add", inputs=["x", "y"], outputs=["z"])
    content(cases.buffers + "/z.npy")


def fetch():
    """A result whose address the plugin does not give."""
    ok(op="execute", executable="add", inputs=["x", "y"], outputs=["f"])
    content(cases.buffers + "/f.npy")


def copy():
    ok(op="copy", buffer="result", **{"as": "faulty:1/c"})


def move():
    """In the background."""
    ok(op="execute", executable="add", inputs=["x", "y"], outputs=["m"])
    os.setxattr(cases.buffers + "/m.npy", "user.pjrtfs.memory", b"pinned_host")
    eventually("it has moved", lambda: cases.state(cases.buffers + "/m.npy") != "transferring")
    about = cases.about(cases.buffers + "/m.npy")
    if about["state"] != "ready":
        raise Refused(None, about["error"])


def create():
    ok(op="create", buffer="n", dtype="F32", shape=[2, 3], uninitialized=True)


def stats():
    content(cases.mnt + "/devices/faulty/0/memory_stats.json")


def clear_stats():
    with open(cases.mnt + "/devices/faulty/0/memory_stats.json", "w", encoding="utf-8") as f:
        f.write("\n")


def serialize():
    content(cases.mnt + "/executables/add/serialized")


def load():
    make(cases.mnt + "/programs/n.pjrtexe", native)


def devices():
    content(cases.mnt + "/plugins/faulty/topology.json")


def topology():
    content(cases.mnt + "/plugins/faulty/topology.pb")


def make_topology():
    make(cases.mnt + "/topologies/m.txt", b"two\n")


def check_topology():
    make(cases.mnt + "/topologies/t.pb", two_devices)


def elsewhere():
    """Compile for the topology of the mount's start."""
    with open(cases.mnt + "/executables/other/options.json", "w", encoding="utf-8") as f:
        f.write('{"topology":"two"}')


OPERATIONS = {
    "UPLOAD": upload,
    "COMPILE": compile_program,
    "RUN": run,
    "FETCH": fetch,
    "COPY": copy,
    "MOVE": move,
    "CREATE": create,
    "STATS": stats,
    "CLEAR": clear_stats,
    "SERIALIZE": serialize,
    "LOAD": load,
    "DEVICES": devices,
    "TOPOLOGY": topology,
    "MAKE": make_topology,
    "CHECK": check_topology,
    "ELSEWHERE": elsewhere,
}
BASE = {"FETCH": ["PJRT_Buffer_OpaqueDeviceMemoryDataPointer=error:UNIMPLEMENTED",
                  "PJRT_Buffer_UnsafePointer=error:UNIMPLEMENTED"]}


def clear():
    for path in ("buffers/u.npy", "buffers/z.npy", "buffers/f.npy", "buffers/m.npy",
                 "buffers/n.npy", "buffers/n.raw", "devices/faulty/1/buffers/c.npy",
                 "programs/p.mlir", "programs/n.pjrtexe", "topologies/t.pb",
                 "topologies/m.txt", "topologies/m.pb"):
        try:
            os.unlink(f"{cases.mnt}/{path}")
        except FileNotFoundError:
            pass


def attempt(operation):
    """The errno's name and the sentence; None: it succeeded."""
    try:
        OPERATIONS[operation]()
    except Refused as e:
        return e.args
    except OSError as e:
        return NAMES[e.errno], content(cases.mnt + "/error").decode()
    return None


def outcome(operation, *faults):
    """The same with FAULTS, which end with it."""
    set_faults(*faults)
    try:
        return attempt(operation)
    finally:
        set_faults()


def rows_of(calls_h):
    """The rows of CALLS_H: (name, operation, effect, gives)."""
    return re.findall(r"^(?:CALL|NEWER)\((\w+), (\w+), (\w+), (\w+)", content(calls_h).decode(), re.M)


def renew():
    """Execute, so that there is an array on the device."""
    ok(op="execute", executable="add", inputs=["x", "y"], outputs=["result"])


def prepare(mnt, faults):
    """Make what the operations need, in the mount at MNT, whose plugin reads FAULTS."""
    global path_of_faults, native, two_devices
    cases.use(mnt)
    path_of_faults = faults
    set_faults()
    make(cases.buffers + "/x.npy", X)
    make(cases.buffers + "/y.npy", X)
    make(mnt + "/programs/add.mlir", ADD)
    renew()
    two_devices = content(mnt + "/plugins/faulty/topology.pb")
    make(mnt + "/topologies/two.pb", two_devices)
    make(mnt + "/programs/other.mlir", ADD)
    native = content(mnt + "/executables/add/serialized")
