"""A thread beside the one that runs operators: a large value is written while its figures are made."""

import threading
from queue import SimpleQueue
from typing import Any, Callable, Optional

__all__ = ["Alongside"]


class _Job:
    """One piece of work; who has begun it waits for it, or does it where the other thread has not got to it."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._error: Optional[BaseException] = None
        self._taken, self._running = threading.Lock(), threading.Lock()
        self._running.acquire()

    def do(self) -> None:
        """Do it, unless it was taken already."""
        if not self._taken.acquire(False):
            return
        try:
            self._work()
        except BaseException as error:
            self._error = error
        self._running.release()

    def wait(self) -> None:
        """Until it is done; raises what it raised.

        Threads of an operator that has ended may still hold every processor for a while, waiting for more work.
        """
        self.do()
        self._running.acquire()
        if self._error is not None:
            raise self._error


class Alongside:
    """The thread, which is there from the first piece of work on."""

    def __init__(self) -> None:
        self._jobs: "SimpleQueue[Any]" = SimpleQueue()
        self._thread: Optional[threading.Thread] = None

    def begin(self, work: Callable[[], object]) -> _Job:
        """Begin a piece of work, which must let others use the interpreter; `wait` for it before anything else."""
        if self._thread is None:
            self._thread = threading.Thread(target=_serve, args=(self._jobs,), name="c2step-alongside", daemon=True)
            self._thread.start()
        job = _Job(work)
        self._jobs.put(job)
        return job

    def close(self) -> None:
        """Let the thread end."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            thread.join()


def _serve(jobs: "SimpleQueue[Any]") -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        job.do()
