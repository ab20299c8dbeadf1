# SPDX-License-Identifier: Apache-2.0
"""exec_ahead.py FILE DAEMON: a process writes FILE, has its pages read ahead, and executes another program.

The daemon is stopped meanwhile, so that it reads the requests for pages while the process, which has a lock
for which readers of its stat file wait, waits for the answer to its close of FILE.
"""

import os
import signal
import sys

sys.dont_write_bytecode = True
from cases import eventually  # noqa: E402

AHEAD = 8  # requests in the background; beyond 9 the kernel may not read ahead
STEP = 1 << 17
PAGES = 60 << 10  # below what another thread of the daemon would answer
EVERY = 50  # requests after which the daemon looks where its client runs
file, daemon = sys.argv[1], int(sys.argv[2])


def client(turn, ready, go):
    fd = os.open(file, os.O_RDWR)
    for _ in range(EVERY + turn * AHEAD):
        os.pwrite(fd, b"x", 0)
    os.write(ready, b"x")
    os.read(go, 1)
    for i in range(AHEAD):
        os.posix_fadvise(fd, (turn * AHEAD + i) * STEP, PAGES, os.POSIX_FADV_WILLNEED)
    os.execv("/bin/true", ["true"])


def executes(pid):
    """Has the process the memory of the next program, a few pages?"""
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[0]) < 512


for turn in range(EVERY // AHEAD + 1):
    (ready, is_ready), (going, go) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        client(turn, is_ready, going)
    os.read(ready, 1)
    os.kill(daemon, signal.SIGSTOP)
    try:
        os.write(go, b"x")
        eventually("it executes", executes, pid)
    finally:
        os.kill(daemon, signal.SIGCONT)
    eventually("it has ended", os.waitid, os.P_PID, pid, os.WEXITED | os.WNOHANG)
    for end in ready, is_ready, going, go:
        os.close(end)
