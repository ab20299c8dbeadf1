# SPDX-License-Identifier: Apache-2.0
"""Disturbances of a test, for tests/run --chaos: what a busy machine does at the wrong moment.

A test that guesses a time, or a race in pjrtfs, fails under one of them sooner than by chance.
Every decision is of a seed: with the same seed, the same script lines are late, and the Nth pause
is as long.  This file run as a program is the process that disturbs; it undoes what it did when
the runner tells it to end, and also when the runner dies.
"""
import ctypes
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

MODES = {
    "late": "some commands of the script begin late; the program is not slowed",
    "load": "busy loops beside the test, and its threads change their priority at random",
    "slow-daemon": "pjrtfs and its workers, or threads of them, stand still for a moment",
    "twin": "the test runs three times at once",
    "foreign": "other programs make and end namespaces meanwhile",
}
LOOPS = 6
PR_SET_PDEATHSIG = 1


class Disturbance:
    """One test's; WORK is a folder that the test's processes, of any user, can read.

    environment is for the test; copies of it are to run at once.
    """

    def __init__(self, mode, seed, work):
        self.mode, self.seed = mode, seed
        self.copies = 3 if mode == "twin" else 1
        self.environment = {}
        self.process = None
        self.folder = os.path.join(work, "chaos")
        self.log = os.path.join(self.folder, "log")
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o755)
        with open(self.log, "w", encoding="utf-8"):
            os.chmod(self.log, 0o666)  # tests have processes of other users
        if mode == "late":
            for name in ("late.sh", "sitecustomize.py"):
                copy = os.path.join(self.folder, name)
                shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), "chaos", name),
                            copy)
                os.chmod(copy, 0o644)
            self.environment = {"BASH_ENV": os.path.join(self.folder, "late.sh"),
                                "PYTHONPATH": self.folder, "LATE_LOG": self.log,
                                "LATE_SEED": str(seed % 2**31)}

    def start(self, cgroup, init):
        """The test's first process exists: INIT; its group of the cgroup2 hierarchy, or None."""
        if self.mode in WORK and init:
            # Blocked from its first instruction: stop may come before it has set itself up.
            old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            # pylint: disable-next=consider-using-with # until stop
            self.process = subprocess.Popen(
                [sys.executable, "-SB", os.path.abspath(__file__), self.mode, str(self.seed),
                 cgroup or "-", str(init), self.log, str(os.getpid())], stdin=subprocess.DEVNULL)
            signal.pthread_sigmask(signal.SIG_SETMASK, old)

    def stop(self):
        """End it; return a line for each time at which it disturbed."""
        if self.process:
            self.process.terminate()
            if self.process.wait():
                sys.exit(f"tests/chaos.py: {self.mode} ended with {self.process.returncode}")
        with open(self.log, encoding="utf-8", errors="replace") as f:
            found = re.findall(r"^(\d+)[.,](\d{3})\d*: (.*)$", f.read(), re.M)
        return [f"{time.strftime('%T', time.localtime(int(seconds)))}.{ms}: {what}"
                for seconds, ms, what in sorted(found)]


def put(path, text):
    """Write into a file of the kernel; False if what it is about is gone."""
    try:
        with open(path, "w", encoding="ascii") as f:
            f.write(str(text))
        return True
    except OSError:
        return False


def get(path):
    """The file's text, or '' if it is gone."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def mounted(controller):
    """Where a hierarchy of version 1 has the controller, or None."""
    for line in get("/proc/mounts").splitlines():
        words = line.split()
        if words[2] == "cgroup" and controller in words[3].split(","):
            return words[1]
    return None


def group_of(pid, controller):
    """The path in the controller's hierarchy of the group of the process."""
    found = re.search(rf"^\d+:(?:[^:]*,)?{controller}(?:,[^:]*)?:/(.*)$",
                      get(f"/proc/{pid}/cgroup"), re.M)
    return found[1] if found else ""


class Disturber:
    """The process that disturbs the test whose first process is INIT."""

    def __init__(self, seed, cgroup, init, log):
        self.random = random.Random(seed)
        self.cgroup, self.init = cgroup, init
        self.log = open(log, "a", encoding="utf-8")
        self.own = set()  # processes of this disturbance
        # PIDs of two namespaces may be alike, and all namespaces have the same groups.
        self.group = f"pjrtfs-chaos-{os.getpid()}-{time.monotonic_ns()}"

    def say(self, text):
        print(f"{time.time():.3f}: {text}", file=self.log, flush=True)

    def over(self, seconds):
        """Wait; True if the disturbance is to end."""
        return signal.sigtimedwait({signal.SIGTERM}, seconds) is not None

    def processes(self):
        """The test's processes, in the order of their numbers."""
        if self.cgroup:
            pids = set()
            for folder, _, _ in os.walk(self.cgroup):
                pids |= set(map(int, get(folder + "/cgroup.procs").split()))
            return sorted(pids - self.own - {0})
        found, new = set(), {self.init}
        while new:
            found |= new
            new = {int(child) for pid in new for tid in self.threads(pid)
                   for child in get(f"/proc/{pid}/task/{tid}/children").split()} - found
        return sorted(found - self.own)

    @staticmethod
    def threads(pid):
        try:
            return sorted(map(int, os.listdir(f"/proc/{pid}/task")))
        except OSError:
            return []

    def load(self):
        """LOOPS busy loops share the test's processor time; its threads' priorities vary."""
        cpu = mounted("cpu")
        v1 = cpu and f"{cpu}/{group_of('self', 'cpu')}/{self.group}"
        quota = int(100000 * max(0.8, len(os.sched_getaffinity(0)) / 2))
        if v1:
            os.mkdir(v1)
            put(v1 + "/cpu.cfs_quota_us", quota)
            put(v1 + "/cpu.shares", 1024 * (LOOPS + 2))  # as without a group
        else:
            put(f"{self.cgroup}/cpu.max", f"{quota} 100000")
        try:
            for _ in range(LOOPS):
                seed = self.random.random()
                pid = os.fork()
                if pid == 0:
                    self.busy(random.Random(seed), v1)
                self.own.add(pid)
            self.say(f"{LOOPS} busy loops begin")
            while not self.over(self.random.uniform(0.03, 0.15)):
                for pid in self.processes():
                    if v1:
                        put(v1 + "/cgroup.procs", pid)
                    for tid in self.threads(pid):
                        try:
                            os.setpriority(os.PRIO_PROCESS, tid,
                                           self.random.choice((0, 0, 0, 5, 10, 19, 19, -5)))
                        except OSError:
                            pass  # it ended
        finally:
            for pid in self.own:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if v1:
                self.empty(v1, cpu, {})
                os.rmdir(v1)

    def busy(self, dice, v1):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for folder in (v1, self.cgroup):
            if folder:
                put(folder + "/cgroup.procs", os.getpid())
        while True:
            for _ in range(5000000 // dice.randint(1, 8)):
                pass
            if dice.random() < 0.5:
                time.sleep(dice.uniform(0, 0.2))  # real time: this is the disturbance

    @staticmethod
    def empty(group, root, homes):
        """Move the group's threads to the groups of version 1 in which they were."""
        while True:
            tids = get(group + "/tasks").split()
            if not tids:
                return
            for tid in tids:
                if not put(f"{root}/{homes.get(int(tid), '')}/tasks", tid):
                    put(f"{root}/tasks", tid)

    def slow_daemon(self):
        """Let pjrtfs, a worker, or one of their threads stand still; clients would see EINTR."""
        root = mounted("freezer")
        group = f"{root or self.cgroup}/{self.group}"
        os.mkdir(group)
        try:
            while not self.over(self.random.uniform(0, 0.15)):
                targets = [pid for pid in self.processes() if os.path.basename(
                    self.program(pid)) in ("pjrtfs", "pjrtfs-worker")]
                if targets:
                    whole, which = self.random.random() < 0.5, self.random.random()
                    thread = self.random.random()
                    seconds = self.random.uniform(0.05, self.random.choice((0.4, 0.4, 0.4, 1.5)))
                    pid = targets[int(which * len(targets))]
                    threads = self.threads(pid)
                    if threads and self.stand_still(
                            group, root, pid,
                            None if whole or not root else threads[int(thread * len(threads))],
                            seconds):
                        return
        finally:
            for inner in (group + "/freezer.state", group + "/cgroup.freeze"):
                if os.path.exists(inner):
                    put(inner, "THAWED" if root else "0")
            if root:
                self.empty(group, root, {})
            for pid in get(group + "/cgroup.procs").split():
                put(self.cgroup + "/cgroup.procs", pid)
            os.rmdir(group)

    @staticmethod
    def program(pid):
        try:
            return os.readlink(f"/proc/{pid}/exe")
        except OSError:
            return ""

    def stand_still(self, group, root, pid, tid, seconds):
        """Freeze the process, or its thread TID; True if the disturbance is to end."""
        inside = re.search(r"^NSpid:.*\t(\d+)$", get(f"/proc/{pid}/status"), re.M)
        who = f"{os.path.basename(self.program(pid))} {inside[1] if inside else pid}"
        if tid:
            who += f", thread {get(f'/proc/{pid}/task/{tid}/comm').strip()} {tid}"
        homes = {t: group_of(t, "freezer") for t in ([tid] if tid else self.threads(pid))}
        home = group_of(pid, "")
        try:
            if not put(group + ("/tasks" if tid else "/cgroup.procs"), tid or pid):
                return False
            put(group + ("/freezer.state" if root else "/cgroup.freeze"),
                "FROZEN" if root else "1")
            self.say(f"{who} stands still for {seconds * 1000:.0f} ms")
            return self.over(seconds)
        finally:
            put(group + ("/freezer.state" if root else "/cgroup.freeze"),
                "THAWED" if root else "0")
            if root:
                self.empty(group, root, homes)
            else:
                for moved in get(group + "/cgroup.procs").split():
                    if not put(f"{self.root2()}/{home}/cgroup.procs", moved):
                        put(self.cgroup + "/cgroup.procs", moved)

    @staticmethod
    def root2():
        found = re.search(r"^\S+ (\S+) cgroup2 ", get("/proc/mounts"), re.M)
        return found[1] if found else ""

    def foreign(self):
        """Up to four other programs at once have mount namespaces, or PID namespaces, too."""
        kinds = (["--mount"], ["--mount", "--propagation", "slave"],
                 ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"],
                 ["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child",
                  "--mount-proc"])
        running = []
        try:
            while not self.over(self.random.uniform(0, 0.3)):
                running = [p for p in running if p.poll() is None]
                if len(running) < 4:
                    kind = self.random.choice(kinds)
                    seconds = self.random.uniform(0.05, self.random.choice((0.3, 3)))
                    running.append(subprocess.Popen(
                        ["unshare", *kind, "sleep", f"{seconds:.2f}"]))
                    self.say(f"unshare {' '.join(kind)} for {seconds * 1000:.0f} ms")
        finally:
            for process in running:
                process.kill()
                process.wait()


WORK = {"load": Disturber.load, "slow-daemon": Disturber.slow_daemon,
        "foreign": Disturber.foreign}


def main():
    mode, seed, cgroup, init, log, runner = sys.argv[1:]
    # Blocked, and awaited by over: no step of an undoing is interrupted.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == int(runner):
        WORK[mode](Disturber(int(seed), None if cgroup == "-" else cgroup, int(init), log))


if __name__ == "__main__":
    main()
