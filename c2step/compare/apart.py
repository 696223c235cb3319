"""Work on values in a process of its own, beside what this one does.

The process is a fork: it has everything there, and numpy is the very same, so that its figures are too.  Threads would
not do, since the calls of numpy that compare chunks are too short for them to take turns.
"""

import contextlib
import ctypes
import os
import pickle
import signal
import sys
import warnings
from typing import Any, Callable, List, Optional, Sequence

__all__ = ["Apart"]

Job = Callable[[], Any]


class Apart:
    """The results of some jobs, in order; where the process does not give them, they are made here when asked for."""

    def __init__(self, jobs: Sequence[Job], forked: bool = True) -> None:
        """Begin; without `forked`, on one processor, or where there is no fork, nothing happens before `results`."""
        self._jobs = list(jobs)
        self._pid = 0
        self._answer: Any = None
        if forked and jobs and sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1:
            with contextlib.suppress(OSError):
                self._fork()

    def _fork(self) -> None:
        there, here = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads: the child does what needs no lock
            pid = os.fork()
        if not pid:
            os.close(there)
            _work(self._jobs, here)
        os.close(here)
        self._pid, self._answer = pid, os.fdopen(there, "rb")

    def results(self) -> List[Any]:
        """Wait for them."""
        found = self._received()
        self.close()
        return _done(self._jobs) if found is None else found

    def _received(self) -> Optional[List[Any]]:
        if self._answer is None:
            return None
        with contextlib.suppress(EOFError, pickle.UnpicklingError):
            found: List[Any] = pickle.load(self._answer)
            return found
        return None

    def close(self) -> None:
        """End the process, where it has not ended."""
        pid, self._pid = self._pid, 0
        if pid:
            self._answer.close()
            self._answer = None
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _work(jobs: List[Job], answer: int) -> None:
    """In the child: do the jobs, send what came of them, and end whatever happens."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # it ends with its parent
        found = _done(jobs)
        with os.fdopen(answer, "wb") as stream:
            pickle.dump(found, stream)
    finally:
        os._exit(0)


def _done(jobs: List[Job]) -> List[Any]:
    """What came of the jobs; each is let go of with the values that it holds, before the next one opens its own."""
    jobs.reverse()
    found = []
    while jobs:
        found.append(jobs.pop()())
    return found
