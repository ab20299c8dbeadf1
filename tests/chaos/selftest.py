# SPDX-License-Identifier: Apache-2.0
"""Do the disturbances of tests/chaos.py disturb, and are they gone afterwards?"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import chaos  # pylint: disable=wrong-import-position # where it lies

PATIENCE = float(os.environ.get("PJRTFS_TEST_PATIENCE", "20"))


def check(what, good):
    if not good:
        sys.exit(f"FAIL: {what}")


def disturbance(mode, seed=1):
    return chaos.Disturbance(mode, seed, tempfile.mkdtemp(dir=work))


def eventually(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        check(f"not within {PATIENCE:.0f} s: {what}", time.monotonic() < end)
        time.sleep(0.02)


def lines_of(disturbed):
    with open(disturbed.log, encoding="utf-8") as f:
        return f.read().splitlines()


def late():
    """The same seed makes the same commands late, another one others; programs are not late."""
    os.makedirs(f"{work}/tests")
    script = f"{work}/tests/commands.sh"
    with open(script, "w", encoding="utf-8") as f:
        f.write("set -eu\nstep() {\n\ttrue\n}\n" + "step\n" * 15 + 'exit $((RANDOM * 0 + $1))\n')
    shutil.copy(script, f"{work}/program.sh")

    def pauses(seed, path=script):
        d = disturbance("late", seed)
        done = subprocess.run(["bash", path, "7"], env=dict(os.environ, **d.environment),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        check(f"late changes what a script says or its status: {done}",
              done.returncode == 7 and not done.stdout)
        return [line.split(": ", 1)[1] for line in d.stop()]

    first = pauses(1)
    check(f"late has late commands: {first}", first)
    check("the same seed has the same pauses", pauses(1) == first)
    check("another seed has others", pauses(2) != first)
    check("a program of the tree is not late", not pauses(1, f"{work}/program.sh"))


def used(pid):
    """The processor time that the process has had, in seconds."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as f:
        return int(f.read().split()[0]) / 1e9


def slow_daemon():
    """pjrtfs does not run in its pauses, a client is never meant, and nothing stays frozen."""
    for name in ("pjrtfs", "client"):
        shutil.copy(shutil.which("bash"), f"{work}/{name}")
    parent = subprocess.Popen(["bash", "-c", '"$1/client" -c "while :; do sleep 0.01; done" & '
                               '"$1/pjrtfs" -c "while :; do :; done" & wait', "-", work])
    children = f"/proc/{parent.pid}/task/{parent.pid}/children"
    d = disturbance("slow-daemon")
    d.start(None, parent.pid)
    samples = []

    def daemon():
        found = [int(pid) for pid in chaos.get(children).split()
                 if os.path.basename(chaos.Disturber.program(pid)) == "pjrtfs"]
        return found[0] if found else None

    def enough():
        samples.append((time.time(), used(pid)))
        return len(lines_of(d)) >= 5

    try:
        eventually("pjrtfs begins", daemon)
        pid = daemon()
        eventually("five pauses", enough)
        lines = lines_of(d)
        d.stop()
        before = used(pid)
        eventually("pjrtfs runs again", lambda: used(pid) > before)
    finally:
        d.stop()
        pids = chaos.get(children).split()
        parent.kill()
        for child in pids:
            os.kill(int(child), signal.SIGKILL)
        parent.wait()
    seen = 0
    for line in lines:
        begun, who, ms = re.match(r"([\d.]+): (\S+) .* for (\d+) ms", line).groups()
        check(f"only the daemon stands still: {line}", who == "pjrtfs")
        inside = [ran for at, ran in samples
                  if float(begun) + 0.02 < at < float(begun) + int(ms) / 1000 - 0.02]
        if len(inside) > 2:
            seen += 1
            check(f"pjrtfs ran for {inside[-1] - inside[0]} s: {line}",
                  inside[-1] - inside[0] < 0.01)
    check(f"a pause was observed: {lines}", seen)


def load():
    """The loops run beside the test, and are gone when it ends."""
    test = subprocess.Popen(["sleep", "1000"])
    d = disturbance("load")
    d.start(None, test.pid)

    def loops():
        return chaos.get(f"/proc/{d.process.pid}/task/{d.process.pid}/children").split()

    try:
        eventually("the loops", lambda: len(loops()) == chaos.LOOPS)
        pids = loops()
        eventually("they run", lambda: all(used(pid) > 0.01 for pid in pids))
    finally:
        d.stop()
        test.kill()
        test.wait()
    check("the loops are gone", not any(os.path.exists(f"/proc/{pid}") for pid in pids))


work = tempfile.mkdtemp()
try:
    late()
    if os.geteuid() == 0:
        load()
        if chaos.mounted("freezer"):
            slow_daemon()
        else:
            print("slow-daemon: not tried without a freezer of version 1 of control groups")
finally:
    shutil.rmtree(work)
