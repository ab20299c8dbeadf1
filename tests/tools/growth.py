# SPDX-License-Identifier: Apache-2.0
"""Very many commands of all sorts, and the memory that they leave in use.

    growth.py MOUNTPOINT PLUGIN COMMANDS MAX-GROWTH

The executable add, of two F32[], and the buffers x and y must be there, 2 and 3.  Every
reply is checked.  The memory of the daemon and of its worker is printed ten times.  After the
second half it may be MAX-GROWTH KiB above the most of the first one, in which the histories that are kept
become full and malloc may give memory back and take it again; or after one of three further halves above the
most of the one before.  Otherwise the exit status is 1.
"""

import json
import os
import re
import struct
import sys
import time

import cases

mnt, plugin, commands, most = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
control = os.open(mnt + "/control", os.O_RDWR)
call = os.open(mnt + "/executables/add/call", os.O_RDWR)
ADD = {"op": "execute", "executable": "add", "inputs": ["x", "y"]}
HEAD = len(cases.npy("<f4", (), b""))


def ask(want, fd=control, **request):
    """The reply to a command, which must have WANT in it."""
    return exchange(fd, json.dumps(request).encode() + b"\n", want)


def exchange(fd, line, want):
    written = os.write(fd, line)
    reply = os.read(fd, 65536)
    if written != len(line) or want not in reply:
        sys.exit(f"growth: {line} gave {reply}")
    return reply


def do_execute(i):
    # names that are new, and names that are taken over
    ask(b'"ok":true', **ADD, outputs=[f"z{i % 64}"], id=i)


def do_call(i):
    x = float(i % 1000)
    inputs = b"".join(cases.npy("<f4", (), struct.pack("<f", value)) for value in (x, 1))
    if os.write(call, inputs) != len(inputs):
        sys.exit("growth: a call was not taken whole")
    output = os.read(call, 65536)
    if len(output) != HEAD + 4 or struct.unpack_from("<f", output, HEAD) != (x + 1,):
        sys.exit(f"growth: {x} + 1 gave {output}")


def do_refused(_):
    ask(b"ENOENT", **{**ADD, "inputs": ["x", "none"]}, outputs=["z"])


def do_batch(_):
    ask(b'"ok":true', op="batch", steps=[
        {**ADD, "outputs": ["b"]}, {**ADD, "inputs": ["b", "b"], "outputs": ["b"], "repeat": 3},
        {"op": "delete", "buffer": "b"}])


def do_job(_):
    reply = ask(b'"job":', **ADD, outputs=["j"], **{"async": True})
    ask(b'"state":"done"', op="wait", job=json.loads(reply)["job"])


def do_session(_):
    fd = os.open(mnt + "/executables/add/run", os.O_RDWR)
    exchange(fd, b"x y -> r\n", b"ok: r F32[]")
    os.close(fd)


def do_create(_):
    ask(b'"ok":true', op="create", buffer="c", dtype="S8", shape=[7], fill=1)
    ask(b'"ok":true', op="delete", buffer="c")


MIX = (do_call, do_execute, do_call, do_execute, do_refused,
       do_call, do_execute, do_session, do_execute, do_batch,
       do_call, do_execute, do_job, do_execute, do_create)


def taken_by(pid_file):
    """KiB that a process has for itself, in pages of its own and in shared ones."""
    pid = cases.content(f"{mnt}/{pid_file}").decode().strip()
    with open(f"/proc/{pid}/status") as f:
        return sum(map(int, re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", f.read(), re.M)))


began = time.time()
print("commands  daemon KiB  worker KiB  seconds")
number = 0


def run(count):
    """Give COUNT commands; the most memory that was in use at a fifth of them, and that at the end."""
    global number
    found = []
    for at in range(1, count + 1):
        number += 1
        MIX[number % len(MIX)](number)
        if at % (count // 5) == 0:
            daemon, worker = taken_by("pid"), taken_by(f"plugins/{plugin}/pid")
            print(f"{number:8}  {daemon:10}  {worker:10}  {time.time() - began:7.0f}", flush=True)
            found.append(daemon + worker)
    return max(found), found[-1]


peak, _ = run(commands // 2)
# On a busy machine the kernel and malloc take longer to come to rest; what is lost grows in each half.
for _ in range(4):
    before = peak
    peak, now = run(commands // 2)
    if now - before <= most:
        sys.exit(0)
sys.exit(f"growth: memory grew by {now - before} KiB, more than {most}, and in each half before that")
