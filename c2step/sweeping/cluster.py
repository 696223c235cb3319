"""Jobs on the workers of a Dask scheduler that is already there; the only user of dask.distributed.

Each worker process keeps its jobs, which are processes of their own, from one input to the next: as many as it has
threads.  A worker that dies takes its jobs along, and the scheduler gives their inputs to another one.  Workers
must see model, reference and inputs under the same paths, and have c2step.
"""

import contextlib
import os
import shutil
import threading
import time
from dataclasses import replace
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

from ..errors import C2StepError, RuntimeMissing, UsageError
from .items import Item, Items
from .job import Answer, Job
from .local import Answers
from .plan import Plan
from .scratch import new_folder

__all__ = ["DaskJobs"]

_WAIT = 15  # seconds for a scheduler to answer, and for a first worker
_IDLE = 120  # seconds after which a worker ends a job that nobody asks for: the sweep may have been killed
_AHEAD = 2  # inputs under way for each thread, so that no worker waits for the next one
_JOBS = "c2step_jobs"


class _Found(NamedTuple):
    """What a worker sends back."""

    answer: Answer
    warnings: List[str]
    drawn: Optional[bytes]


class DaskJobs:
    """See `LocalJobs`; `count` inputs are under way at once, None for as many as the workers can take."""

    def __init__(self, address: str, plan: Plan, count: Optional[int], warn: Callable[[str], None], drawn: str) -> None:
        self.plan, self.warn = replace(plan, drawn=None), warn
        self._drawn = drawn
        self._sweep = "c2step-%d-%d" % (os.getpid(), time.time() * 1e6)
        self._client = _connected(address)
        self._values: Any = None
        self._send(plan.drawn)
        threads = sum(self._client.nthreads().values())
        self.count = count or _AHEAD * threads
        said = "dask: %d workers with %d threads" % (len(self._client.nthreads()), threads)
        if plan.max_memory is not None:
            said += "; the jobs of each worker are kept within --max-memory"
        warn(said)

    def declares(self) -> Dict[str, Any]:
        """What the model takes."""
        found: Dict[str, Any] = self._result(self._submit(_declares, "declares"))
        return found

    def first(self, items: Items, position: int) -> Answer:
        """Measure one input, before the others."""
        found: _Found = self._result(self._submit(_measure, "first-%d" % position, items[position]))
        if found.drawn:
            with open(self._drawn, "wb") as file:
                file.write(found.drawn)
        return self._heard(found)

    def run(self, plan: Plan, items: Items, todo: Iterator[int]) -> Answers:
        """Measure inputs and give each answer with its position as it comes."""
        from distributed import as_completed

        self._send(plan.drawn)
        positions: Dict[str, int] = {}
        ready = as_completed(loop=self._client.loop)
        for _ in range(self.count):
            self._more(items, todo, positions, ready)
        for future in ready:
            position = positions.pop(future.key)
            answer = self._answer(future, items[position])
            future.release()
            self._more(items, todo, positions, ready)
            yield position, answer

    def _send(self, drawn: Optional[str]) -> None:
        """Give the workers what init_net drew at random."""
        if drawn and self._values is None:
            with open(drawn, "rb") as file:
                self._values = self._client.scatter(file.read(), hash=False)

    def _more(self, items: Items, todo: Iterator[int], positions: Dict[str, int], ready: Any) -> None:
        position = next(todo, None)
        if position is not None:
            future = self._submit(_measure, str(position), items[position])
            positions[future.key] = position
            ready.add(future)

    def _submit(self, do: Any, name: str, *arguments: Any) -> Any:
        key = "%s-%s" % (self._sweep, name)
        return self._client.submit(do, self._sweep, self.plan, self._values, *arguments, key=key, pure=False)

    def _answer(self, future: Any, item: Item) -> Answer:
        """What a task gave; one whose workers kept dying is reported and not tried for ever."""
        from distributed import KilledWorker

        try:
            return self._heard(self._result(future))
        except KilledWorker as error:
            words = "the Dask workers that had it ended, one after another"
            self.warn("%s: %s (%s)" % (item.id, words, error))
            return Answer({"input": item.id, "sha256": item.digest(), "status": "lost", "error": words})

    def _heard(self, found: _Found) -> Answer:
        for words in found.warnings:
            self.warn(words)
        return found.answer

    def _result(self, future: Any) -> Any:
        try:
            return future.result()
        except ImportError as error:
            raise RuntimeMissing("the Dask workers cannot run c2step: %s" % error,
                                 "install this c2step where they run") from error  # fmt: skip

    def close(self) -> None:
        """Let go of what is under way, and end the jobs on the workers."""
        with contextlib.suppress(Exception):  # a worker that died meanwhile cannot be asked
            self._client.run(_close, self._sweep)
        self._client.close()


def _connected(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError("--dask needs dask.distributed: %s" % error, "pip install 'c2step[dask]'") from error
    try:
        client = Client(address, timeout=_WAIT, set_as_default=False, name="c2step")
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        raise C2StepError("no Dask scheduler answers at %s: %s" % (address, error or type(error).__name__),
                          "start one with `dask scheduler`; --dask tcp://HOST:8786") from error  # fmt: skip
    try:
        client.wait_for_workers(1, timeout=_WAIT)
    except Exception as error:  # TimeoutError, of which Dask has its own
        client.close()
        raise C2StepError(
            "the Dask scheduler at %s has no workers" % address, "start some: dask worker %s" % address
        ) from error
    return client


# -- on the workers ------------------------------------------------------------------------------


class _Pool:
    """The jobs of one sweep in one worker process; as many at once as threads ask for one."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.folder = new_folder()
        self.drawn = os.path.join(self.folder, "drawn.npz")
        self._idle: List[Job] = []
        self._all: List[Job] = []
        self._changed = threading.Condition()
        self._used = time.monotonic()
        self._closed = False
        threading.Thread(target=self._reap, daemon=True).start()

    @contextlib.contextmanager
    def job(self, warn: Callable[[str], None]) -> Iterator[Job]:
        """A job for one input."""
        with self._changed:
            while not self._idle and not self._room():
                self._changed.wait()
            if not self._idle:
                self._idle.append(Job(self.plan, len(self._all) + 1, warn, None if self.plan.drawn else self.drawn))
                self._all.append(self._idle[-1])
            job = self._idle.pop()
        job.warn, job.plan = warn, self.plan
        try:
            yield job
        finally:
            with self._changed:
                self._idle.append(job)
                self._used = time.monotonic()
                self._changed.notify()

    def _room(self) -> bool:
        """Whether one more job fits into the limit on memory, by what those here have taken."""
        need = max((job.peak for job in self._all), default=0)
        limit = self.plan.max_memory
        return not self._all or limit is None or (len(self._all) + 1) * need <= limit

    def take(self, drawn: Optional[bytes]) -> None:
        """What init_net drew on the first worker."""
        with self._changed:
            if drawn and not self.plan.drawn:
                with open(self.drawn + ".first", "wb") as file:
                    file.write(drawn)
                self.plan = replace(self.plan, drawn=self.drawn + ".first")

    def _reap(self) -> None:
        """End jobs that have been idle for long."""
        while not self._closed:
            time.sleep(_IDLE / 10)
            with self._changed:
                if time.monotonic() - self._used > _IDLE and len(self._idle) == len(self._all):
                    self._end()

    def _end(self) -> None:
        for job in self._all:
            job.close()
        self._all, self._idle = [], []

    def close(self) -> None:
        """End all jobs."""
        with self._changed:
            self._closed = True
            for job in self._all:
                job.interrupt()
            self._end()
        shutil.rmtree(self.folder, ignore_errors=True)


def _pool(sweep: str, plan: Plan, drawn: Optional[bytes]) -> _Pool:
    """The pool of a sweep in this worker process."""
    from distributed import get_worker

    pools: Dict[str, Any] = get_worker().__dict__.setdefault(_JOBS, {})
    with pools.setdefault("", threading.Lock()):
        if sweep not in pools:
            pools[sweep] = _Pool(plan)
    pool: _Pool = pools[sweep]
    pool.take(drawn)
    return pool


def _declares(sweep: str, plan: Plan, drawn: Optional[bytes]) -> Dict[str, Any]:
    with _pool(sweep, plan, drawn).job(lambda text: None) as job:
        return job.declares()


def _measure(sweep: str, plan: Plan, drawn: Optional[bytes], item: Item) -> _Found:
    warnings: List[str] = []
    pool = _pool(sweep, plan, drawn)
    with pool.job(warnings.append) as job:
        answer = job.measure(item)
    made = None
    if answer.facts and os.path.exists(pool.drawn):
        with open(pool.drawn, "rb") as file:
            made = file.read()
    return _Found(answer, warnings, made)


def _close(sweep: str, dask_worker: Any = None) -> None:
    pool = getattr(dask_worker, _JOBS, {}).pop(sweep, None)
    if pool is not None:
        pool.close()
