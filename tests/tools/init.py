# SPDX-License-Identifier: Apache-2.0
"""The first process of a test's namespaces: init.py GROUP COMMAND...

It enters the control group (- for none), brings the loopback device up, runs the command, reaps
what becomes an orphan, and ends with the command's status: 128 and the signal, if one ended it.
What the command leaves running makes the test fail.
"""
import fcntl
import os
import re
import socket
import struct
import sys
import time

IFF_UP = 1
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
PATIENCE = 10  # seconds for what still ends, without those in which it had no processor


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(s, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def others():
    """The other processes of this namespace that are alive, with what they run."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                state = f.read().rpartition(")")[2].split()[0]
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if int(pid) != 1 and state not in "ZX" and words:
            found[pid] = words
    return found


def waited(group):
    """Seconds for which a process of the group could have run, but had no processor."""
    try:
        with open(group + "/cpu.pressure", encoding="ascii") as f:
            return int(re.search(r"some .*total=(\d+)", f.read())[1]) / 1e6
    except (OSError, TypeError):
        return 0.0


def reap(child):
    """The status of the child, if it has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def main():
    group, command = sys.argv[1], sys.argv[2:]
    if group != "-":
        with open(group + "/cgroup.procs", "w", encoding="ascii") as f:
            f.write("0")
    if os.getpid() != 1:  # not in namespaces: the test shares the machine
        os.execvp(command[0], command)
    try:
        loopback_up()
    except OSError:
        pass  # of the host's network
    child = os.fork()
    if child == 0:
        os.setsid()
        os.execvp(command[0], command)
    status = None
    while status is None:
        pid, ended = os.waitpid(-1, 0)
        if pid == child:
            status = os.waitstatus_to_exitcode(ended)
    begun, before = time.monotonic(), waited(group)
    while others() and \
            time.monotonic() - begun - min(waited(group) - before, 4 * PATIENCE) < PATIENCE:
        reap(child)
        time.sleep(0.02)
    for pid, words in others().items():
        print(f"left over: the test ended, and process {pid} runs: {words}", flush=True)
        status = status or 1
    sys.exit(status if status >= 0 else 128 - status)


main()
