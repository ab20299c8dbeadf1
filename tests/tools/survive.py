# SPDX-License-Identifier: Apache-2.0
"""What a mount shows, for a comparison before and after its daemon was restarted.

    survive.py dump MOUNT > FILE     every file: attributes, extended attributes, bytes
    survive.py compare FILE FILE     0: equal but for what is named here
    survive.py make MOUNT            files that a shell does not make
"""
import hashlib
import json
import os
import re
import stat
import struct
import sys

import cases

# Files whose bytes and size are the daemon's own, or a worker's: not kept.
OWN = re.compile(
    r"^(pid|restarts|last_death|error|events|trace\.json|metrics\.prom|control"
    r"|plugins/.*/(pid|restarts|log|alive\.json)"
    r"|devices/.*/memory_stats\.json"
    r"|cache/(stats\.json|clear|max)"
    r"|executables/(.*/)?(run|call|info\.json)"
    r"|users/.*/memory\.current|users/.*/(executions|compile_seconds)\.current"
    r"|jobs/\d+/cancel)$"
)
# Linked when they are used or listed, so that they have other inode numbers and times, and another order.
LINKED_ANEW = re.compile(r"^users/")
# Streams, and files that wait for new lines: not read.
UNREAD = re.compile(r"^(control|events|cache/clear|jobs/\d+/cancel"
                    r"|executables/(.*/)?(run|call)|plugins/.*/log)$")
# A plugin writes them at each open, or (for a topology) when it compiles again, not always alike or of one
# size.
WRITTEN_ANEW = re.compile(r".*/optimized\.hlo\.pb$|executables/far/.*serialized$")
EXTENSIONS = (".npy", ".txt", ".raw", ".safetensors", ".json")
# What x.json shows of the device's copy, which is made anew at the next use.
OF_THE_DEVICE = ("segments", "zero_copy", "on_device_bytes", "host_bytes", "layout")


def attributes(path, st, whole):
    facts = [st.st_ino, oct(st.st_mode), st.st_nlink, st.st_uid, st.st_gid]
    if whole:
        facts += [st.st_size if not stat.S_ISDIR(st.st_mode) else 0, st.st_mtime_ns]
    return facts


def extended(path):
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return {}
    facts = {name: os.getxattr(path, name, follow_symlinks=False).decode()
             for name in names}
    return {k: v for k, v in facts.items() if k.split(".")[-1] not in OF_THE_DEVICE}


def content(path, name):
    try:
        data = cases.told(path) if name.endswith("topology.json") else cases.content(path)
    except OSError as e:
        return "errno %d" % e.errno
    if name.endswith(".json") and "buffers/" in name:
        o = json.loads(data)
        for key in OF_THE_DEVICE:
            o.pop(key, None)
        data = json.dumps(o).encode()
    if len(data) < 1000:
        return data.decode("utf-8", "backslashreplace")
    return "%d bytes, %s" % (len(data), hashlib.sha256(data).hexdigest())


def facts_of(path, name, listed=True):
    st = os.lstat(path)
    if stat.S_ISLNK(st.st_mode):
        return [attributes(path, st, False), os.readlink(path)]
    own = OWN.match(name)
    described = name.endswith(".json") and not listed
    facts = [attributes(path, st, not (own or WRITTEN_ANEW.match(name))) if listed else 0 if described else st.st_size]
    if LINKED_ANEW.match(name):
        facts[0] = facts[0][1:5]
    if WRITTEN_ANEW.match(name):
        facts[0] = facts[0][:5]
    if stat.S_ISREG(st.st_mode) and not UNREAD.match(name):
        text = content(path, name)
        facts += ["" if own or WRITTEN_ANEW.match(name) else text, extended(path)]
    return facts


def tensors(*names):
    head = {name: {"dtype": "F32", "shape": [2], "data_offsets": [8 * i, 8 * i + 8]}
            for i, name in enumerate(names)}
    text = json.dumps(head).encode()
    data = b"".join(struct.pack("<2f", i, i + 0.5) for i in range(len(names)))
    return struct.pack("<Q", len(text)) + text + data


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def make(mount):
    buffers = mount + "/buffers/"
    os.setxattr(buffers + "r.raw", "user.pjrtfs.dtype", b"S16")
    os.setxattr(buffers + "r.raw", "user.pjrtfs.shape", b"2,2")
    write(buffers + "one.safetensors", tensors("one"))
    write(buffers + "model.safetensors", tensors("a", "layer/b", "layer/c"))
    write(buffers + "model2.safetensors", tensors("a", "b"))
    os.chmod(buffers + "model", 0o750)
    # One of its tensors is a file of its own now.
    write(buffers + "model2/a.npy", open(buffers + "x.npy", "rb").read())


def dump(mount):
    cases.mnt = mount
    for top, directories, files in os.walk(mount):
        inside = os.path.relpath(top, mount)
        if inside == "cache/entries":  # these are found in the file system
            continue
        directories.sort()
        listed = os.listdir(top)
        if LINKED_ANEW.match(inside + "/"):
            listed.sort()
        print(json.dumps([inside + "/", facts_of(top, inside + "/"), listed]))
        for file in sorted(files):
            name = os.path.normpath(os.path.join(inside, file))
            print(json.dumps([name, facts_of(os.path.join(top, file), name)]))
            stem, extension = os.path.splitext(file)
            if "buffers" not in inside.split("/") or extension not in EXTENSIONS:
                continue
            for view in EXTENSIONS:
                if stem + view in files or stem.endswith(".sharding"):
                    continue
                print(json.dumps([os.path.normpath(os.path.join(inside, stem + view)),
                                  facts_of(os.path.join(top, stem + view),
                                           name[:-len(extension)] + view, False)]))


def read(file):
    with open(file) as f:
        return {line[0]: line[1:] for line in map(json.loads, f)}


def compare(before, after):
    a, b = read(before), read(after)
    different = 0
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name):
            different += 1
            print("%s:\n  before %s\n  after  %s" %
                  (name, json.dumps(a.get(name)), json.dumps(b.get(name))))
    print("%d files, %d different" % (len(a), different))
    return different != 0


if __name__ == "__main__":
    if sys.argv[1] == "dump":
        dump(sys.argv[2])
    elif sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        sys.exit(compare(sys.argv[2], sys.argv[3]))
