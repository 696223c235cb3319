"""Run a sweep: find the inputs, do those that are not done yet, and report on all of them."""

import contextlib
import os
import shutil
import signal
import threading
from dataclasses import replace
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .. import __version__
from ..compare.standing import Source, open_source
from ..errors import InputError, RuntimeMissing, UsageError
from ..launch import declared_inputs
from .folder import SweepFolder
from .items import Inputs, Items, digest_of, find_items
from .job import Answer
from .local import LocalJobs
from .plan import Plan
from .report import Report
from .result import Sweep
from .scratch import new_folder

__all__ = ["run_sweep"]

Tell = Callable[[str], None]
Progress = Callable[[int, int], None]
_JOBS = 4  # at most, unless told
_SHOWN = 3


def run_sweep(
    plan: Plan,
    inputs: Inputs,
    directory: Optional[str] = None,
    jobs: Optional[int] = None,
    dask: Optional[str] = None,
    batch: Optional[int] = None,
    tell: Tell = lambda text: None,
    progress: Progress = lambda done, of: None,
) -> Sweep:
    """Measure every input and report on them; see `c2step.sweep`.

    What is already in `directory` is not done again.  `tell` gets what is worth a line, `progress` how many
    inputs are done.  Whatever ends it, the rows of the inputs that were done stay in `directory`.
    """
    if jobs is not None and jobs < 1:
        raise UsageError("%d jobs are none" % jobs, "--jobs 2")
    if isinstance(inputs, str) and not os.path.exists(inputs):
        raise InputError("there is no %s" % inputs, "a folder, a list of paths, or one .npy or .npz of many inputs")
    path = directory or new_folder()
    try:
        with _scratch() as scratch, _opened(path) as folder:
            folder.check("options", plan.matters())
            if folder.has_drawn:
                plan = replace(plan, drawn=folder.drawn)
            sweep = _Sweeping(plan, folder, tell, progress)
            with _workers(plan, jobs, dask, folder, tell) as workers:
                items = find_items(inputs, declared_inputs(workers.declares()), batch, scratch)
                report, places = sweep.run(items, workers)
    except BaseException:
        if directory is None:
            shutil.rmtree(path, ignore_errors=True)
        raise
    return Sweep(report, path, places, directory is None)


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    path = new_folder()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[SweepFolder]:
    folder = SweepFolder(path)
    try:
        yield folder
    finally:
        folder.close()


@contextlib.contextmanager
def _workers(plan: Plan, jobs: Optional[int], dask: Optional[str], folder: SweepFolder, tell: Tell) -> Iterator[Any]:
    """Local jobs, or those of a cluster; in the end they are let go of, whatever is pressed meanwhile."""
    if dask:
        from .cluster import DaskJobs

        workers: Any = DaskJobs(dask, plan, jobs, tell, folder.drawn)
    else:
        workers = LocalJobs(plan, jobs or min(os.cpu_count() or 1, _JOBS), tell, folder.drawn)
    try:
        yield workers
    finally:
        with _uninterrupted():
            workers.close()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Sweeping:
    def __init__(self, plan: Plan, folder: SweepFolder, tell: Tell, progress: Progress) -> None:
        self.plan, self.folder, self.tell, self.progress = plan, folder, tell, progress
        self.said: Dict[str, Any] = {}
        self.done = 0

    def run(self, items: Items, workers: Any) -> Tuple[Dict[str, Any], List[int]]:
        """Do what is missing; the report, and where each input's row is."""
        if items.note:
            self.tell(items.note)
        todo = self._begin(items, self._missing(items), workers)
        if todo:
            drawn = self.folder.drawn if self.folder.has_drawn else None
            for _, answer in workers.run(replace(self.plan, drawn=drawn), items, iter(todo)):
                self._take(answer)
                self.progress(self.done, len(items))
        return self._report(items)

    # -- what is there ------------------------------------------------------------------------

    def _missing(self, items: Items) -> List[int]:
        """The positions of the inputs that have no row, or have changed since."""
        index = self.folder.index() if self.folder.header else {}
        source = self._files()
        missing, changed = [], []
        for position, item in enumerate(items):
            place = index.get(item.id)
            if place is None:
                missing.append(position)
                continue
            row = next(self.folder.read(self.folder.path, [place]))
            if row["sha256"] != item.digest():
                changed.append(item.id)
                missing.append(position)
            elif source is not None and "reference" in row:
                self._check_golden(item.id, row, source.file(item.key))
        self.done = len(items) - len(missing)
        self._tell_missing(len(items), len(missing), changed)
        return missing

    def _files(self) -> Optional[Source]:
        """The references, where they are files: those of rows that are there must be the same."""
        if self.plan.kind != "files" or not self.folder.header:
            return None
        return open_source(self.plan.against, {}, self.plan.names)

    def _check_golden(self, name: str, row: Dict[str, Any], path: Optional[str]) -> None:
        if path is None or digest_of(path) != row["reference"]:
            raise UsageError("the golden values of %s are others than those that its row was made with" % name,
                             "name a new folder with -o")  # fmt: skip

    def _tell_missing(self, count: int, missing: int, changed: List[str]) -> None:
        there = ", %d are done already" % (count - missing) if count > missing else ""
        self.tell("%d inputs%s, %d to do" % (count, there, missing))
        if changed:
            named = ", ".join(changed[:_SHOWN]) + (", ..." if len(changed) > _SHOWN else "")
            self.tell("%d of them changed since they were done: %s" % (len(changed), named))

    # -- doing it -----------------------------------------------------------------------------

    def _begin(self, items: Items, todo: List[int], workers: Any) -> List[int]:
        """Do inputs until one could be run: then it is known what the rows are made with. Returns the rest."""
        waiting: List[Answer] = []
        order = todo + [position for position in range(len(items)) if not todo]
        for number, position in enumerate(order):
            answer: Answer = workers.first(items, position)
            waiting.append(answer)
            if answer.facts is not None:
                self._agree(answer)
                for ready in waiting if todo else ():
                    self._take(ready)
                return order[number + 1 :] if todo else []
        raise InputError("none of the %d inputs could be run; the first: %s" % (len(items), waiting[0].row["error"]),
                         waiting[0].row.get("hint", ""))  # fmt: skip

    def _agree(self, answer: Answer) -> None:
        """What a process runs must be what all others run."""
        assert answer.facts is not None
        if answer.facts["c2step"] != __version__:
            raise RuntimeMissing("a worker has c2step %s, here is %s" % (answer.facts["c2step"], __version__),
                                 "install the same one everywhere")  # fmt: skip
        self.folder.begin(self.plan.matters(), answer.facts)
        if not self.said:
            self.said = answer.said or {}
            for note in self.said.get("notes", ()):
                self.tell("note: %s" % note)

    def _take(self, answer: Answer) -> None:
        if answer.facts is not None:
            self._agree(answer)
        self.folder.add(answer.row)
        self.done += 1

    # -- reporting ----------------------------------------------------------------------------

    def _report(self, items: Items) -> Tuple[Dict[str, Any], List[int]]:
        index = self.folder.index()
        places = [index[item.id] for item in items]
        report = Report(len(items), lambda position: items[position].id)
        for position, row in enumerate(self.folder.read(self.folder.path, places)):
            report.add(position, row)
        notes = report.notes()
        for note in notes:
            self.tell("note: " + note)
        about = {"model": self.said.get("model"), "against": self.plan.against}
        about["notes"] = [*self.said.get("notes", ()), *notes]
        return dict(about, **report.to_json()), places
