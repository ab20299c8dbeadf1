# SPDX-License-Identifier: Apache-2.0
"""For Python in a test that tests/chaos.py disturbs: as late.sh, for the tests' own programs.

Their calls that open files, change names or start processes begin 0.7 s late.
"""
import os
import sys
import time
import zlib

EVENTS = {"open", "subprocess.Popen", "os.chmod", "os.exec", "os.fork", "os.getxattr", "os.kill",
          "os.link", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir",
          "os.setxattr", "os.symlink", "os.truncate", "os.utime", "mmap.__new__",
          "socket.connect"}
visits = {}


def place():
    """The line of a test's program that led here, or None."""
    frame = sys._getframe(1).f_back
    for _ in range(8):
        if not frame:
            break
        name = frame.f_code.co_filename
        if name == __file__ or name.startswith("<frozen"):
            break  # the log, an import
        if "/tests/" in name and "-packages/" not in name or \
                name in ("<stdin>", "<string>") and not frame.f_back:
            return f"{os.path.basename(name)}, line {frame.f_lineno}"
        frame = frame.f_back
    return None


def late(event, _):
    if event not in EVENTS:
        return
    at = place()
    if not at:
        return
    visit = visits[at] = visits.get(at, 0) + 1
    if visit <= 10 and \
            zlib.crc32(f"{seed} {at} {visit}".encode()) % (15 if visit == 1 else 60) == 0:
        try:
            with open(log, "a", encoding="utf-8") as f:
                f.write(f"{time.time():.3f}: {at}, {event}, visit {visit}: 700 ms late\n")
        except OSError:
            pass  # of another user's file system
        time.sleep(0.7)  # real time: this is the disturbance


seed, log = os.environ.get("LATE_SEED"), os.environ.get("LATE_LOG")
if seed and log:
    sys.addaudithook(late)
