"""Jobs on this machine: each a process with its own Caffe2 and its own engine, fed one input at a time."""

import queue
import threading
from typing import Any, Callable, Dict, Iterator, List, Tuple, Union

from ..errors import UsageError
from ..sizes import size_text
from .items import Items
from .job import PATIENCE, Answer, Job, peak_of
from .plan import Plan

__all__ = ["Answers", "LocalJobs"]

Answers = Iterator[Tuple[int, Answer]]
_Said = Tuple[int, Union[Answer, BaseException, None]]


class LocalJobs:
    """Up to `count` jobs, fewer where they would take more than the plan's `max_memory` together.

    `warn` gets what happened to them, `drawn` is where the first one writes what init_net drew at random.
    """

    def __init__(self, plan: Plan, count: int, warn: Callable[[str], None], drawn: str) -> None:
        self.plan, self.count, self.warn = plan, count, warn
        self._jobs = [Job(plan, 1, warn, drawn)]
        self._threads: List[threading.Thread] = []
        self._results: "queue.Queue[_Said]" = queue.Queue()
        self._lock = threading.Lock()

    def declares(self) -> Dict[str, Any]:
        """What the model takes."""
        return self._jobs[0].declares()

    def first(self, items: Items, position: int) -> Answer:
        """Measure one input, before the others; what a job needs is known afterwards."""
        return self._jobs[0].measure(items[position])

    def run(self, plan: Plan, items: Items, todo: Iterator[int]) -> Answers:
        """Measure inputs and give each answer with its position as it comes; `plan` is what later jobs go by."""
        self.plan = self._jobs[0].plan = plan
        self._fit()
        self._jobs += [Job(plan, number, self.warn) for number in range(2, self.count + 1)]
        for job in self._jobs:
            self._threads.append(threading.Thread(target=self._work, args=(job, items, todo), daemon=True))
            self._threads[-1].start()
        running = len(self._jobs)
        while running:
            position, said = self._results.get()
            if isinstance(said, BaseException):
                raise said
            if said is None:
                running -= 1
            else:
                self._shrink()
                yield position, said

    def _work(self, job: Job, items: Items, todo: Iterator[int]) -> None:
        """What one thread does: feed a job until nothing is left or there are too many jobs."""
        try:
            while job.number <= self.count:
                with self._lock:
                    position = next(todo, None)
                if position is None:
                    break
                self._results.put((position, job.measure(items[position])))
            job.close()
            self._results.put((0, None))
        except BaseException as error:  # it is raised where the answers are read
            self._results.put((0, error))

    # -- memory -------------------------------------------------------------------------------

    def _fit(self) -> None:
        """As many jobs as the limit has room for, said before they start; UsageError where it has none."""
        limit = self.plan.max_memory
        if limit is None:
            return
        need, here = self._jobs[0].peak, peak_of([])
        fits = (limit - here) // need if need else self.count
        said = "memory: a job takes %s, measured, and this process %s" % (size_text(need), size_text(here))
        if fits < 1:
            raise UsageError("%s: that is more than %s" % (said, size_text(limit)), "allow more: --max-memory 2G")
        self.count = min(self.count, fits)
        self.warn("%s; %d of them at once within %s" % (said, self.count, size_text(limit)))

    def _shrink(self) -> None:
        """Do with fewer jobs where an input took more than those before."""
        limit = self.plan.max_memory
        if limit is None or self.count == 1:
            return
        need = max(job.peak for job in self._jobs)
        fits = max((limit - peak_of([])) // need, 1) if need else self.count
        if fits < self.count:
            self.warn("memory: a job takes %s now; %d at once from here on" % (size_text(need), fits))
            self.count = fits

    def close(self) -> None:
        """End all jobs, in the middle of an input too."""
        for job in self._jobs:
            job.interrupt()
        for job, thread in zip(self._jobs, self._threads):
            thread.join(PATIENCE)
            job.kill()
            thread.join()
        for job in self._jobs:
            job.close()
