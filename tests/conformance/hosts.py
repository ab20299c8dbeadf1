# SPDX-License-Identifier: Apache-2.0
"""Hosts of a program's callbacks, which answer as the transcript of a case says."""
import io
import os
import select
import threading

import numpy as np

import caselib
import cases

TOLERANCE = 1e-5    # of arguments, compared with those of the transcript


def read_request(fd):
    """The next request of callbacks/N, a dictionary, and its arguments."""
    request, data = cases.callback_request(fd)
    stream = io.BytesIO(data)
    arrays = [np.load(stream, allow_pickle=False) for _ in request["args"]]
    if stream.read(1):
        raise caselib.BadCase("bytes after the arguments of a request")
    return request, arrays


class Transcript:
    """The calls of a case that were not made yet."""

    def __init__(self, case):
        self.case = case
        self.lock = threading.Lock()
        self.calls = list(case.meta["calls"])
        self.fixed = case.meta.get("call_order") == "fixed"
        self.wrong = []     # sentences

    def is_like(self, call, index, arrays):
        if call["index"] != index or len(call["args"]) != len(arrays):
            return False
        for want, got in zip(call["args"], arrays):
            exp = caselib.decode(self.case.read(want["file"]), want["file"], want["dtype"],
                                 want["shape"])
            if got.dtype != exp.dtype or caselib.compare(got, exp, TOLERANCE, TOLERANCE):
                return False
        return True

    def answer(self, index, request, arrays):
        """The bytes of the answer to a request."""
        with self.lock:
            calls = self.calls[:1] if self.fixed else self.calls
            call = next((c for c in calls if self.is_like(c, index, arrays)), None)
            if not call:
                self.wrong.append("callback %d: not in the transcript: %s" % (index, request))
                return b'{"error":{"code":"INTERNAL","message":"not in the transcript"}}\n'
            self.calls.remove(call)
        types = [{"dtype": a["dtype"], "shape": a["shape"]} for a in call["results"]]
        if request["index"] != index or request["results"] != types:
            self.wrong.append("callback %d: wanted %s, asked %s" % (index, types, request))
        return b"".join(self.case.read(a["file"]) for a in call["results"]) or b"{}\n"


class Hosts:
    """A thread for each callback of an executable, from its beginning to stop()."""

    def __init__(self, directory, case):
        self.transcript = Transcript(case)
        self.stopping, self.stopped = os.pipe()
        self.threads = []
        for index in sorted({c["index"] for c in case.meta["calls"]}):
            fd = os.open(os.path.join(directory, str(index)), os.O_RDWR)
            self.threads.append(threading.Thread(target=self.serve, args=(index, fd),
                                                 daemon=True))
            self.threads[-1].start()

    def serve(self, index, fd):
        try:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            poll.register(self.stopping, select.POLLIN)
            while self.stopping not in dict(poll.poll()):
                cases.write_all(fd, self.transcript.answer(index, *read_request(fd)))
        except (OSError, ValueError, AssertionError, caselib.BadCase) as e:
            self.transcript.wrong.append("callback %d: %s" % (index, e))
        finally:
            os.close(fd)

    def stop(self):
        """End the threads.  What was wrong, sentences."""
        os.write(self.stopped, b"x")
        for thread in self.threads:
            thread.join()
        os.close(self.stopping)
        os.close(self.stopped)
        wrong = self.transcript.wrong
        if self.transcript.calls:
            wrong.append("%d calls of the transcript were not made"
                         % len(self.transcript.calls))
        return wrong
