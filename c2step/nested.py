"""Step the nets inside an operator: time steps of a RecurrentNetwork, branches of If, turns of While, the net of Do.

What the operator would do with its nets runs in a session of its own, on copies of its blobs, so that the
outer session stays as it is.  Leaving runs the operator itself and says whether it gave the same bytes.
"""

import os
import shutil
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from .capture import read_blob
from .errors import C2StepError, UsageError
from .leftovers import scratch_folder
from .net import Net, Operator
from .stepper import Keep, Session, Stop

__all__ = ["Inside", "Leaving", "can_enter", "enter", "nets_inside"]

_LARGEST = 1 << 30  # bytes of blobs that an inner session keeps


class Leaving(NamedTuple):
    """How an operator was left: the outer session's Stop, and for each output how it compares, in words."""

    stop: Stop
    same: bool
    lines: Tuple[str, ...]


def can_enter(operator: Optional[Operator]) -> bool:
    """Whether an operator has nets inside."""
    return operator is not None and any(argument.kind == "net" for argument in operator.arguments)


def nets_inside(session: Session, where: str) -> List[Tuple[str, Net]]:
    """The nets inside an operator, each with the argument that holds it; UsageError where there are none."""
    operator = session.operator(where)
    if not can_enter(operator):
        raise UsageError("%s has no net inside" % operator)
    return [(row["argument"], Net.from_json(row["net"])) for row in session.workspace.inside(operator.index)]


def enter(session: Session) -> "Inside":
    """Enter the next operator; UsageError with the reason where that cannot be done."""
    operator = session.next_operator()
    if operator is None or not can_enter(operator):
        raise UsageError("%s has no net inside" % (operator or "the end of the net"))
    return Inside(session, operator)


class Inside:
    """An operator that was entered: `session` steps what happens inside; a context that closes it."""

    def __init__(self, outer: Session, operator: Operator) -> None:
        self.outer = outer
        self.operator = operator
        self._place = self._where()
        self._directory = scratch_folder("inside")
        try:
            made = outer.protected(lambda: outer.workspace.enter(operator.index, self._directory))
            self.session = self._opened(made)
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise
        self.results: Dict[str, str] = made["results"]
        self.spans: List[Tuple[str, int, int]] = [(label, first, last) for label, first, last in made["spans"]]

    def _opened(self, made: Dict[str, Any]) -> Session:
        values = {row["name"]: read_blob(row["file"], row["name"], row["kind"]).array for row in made["values"]}
        arrays = {name: np.asarray(array) for name, array in values.items()}
        keep = Keep(os.path.join(self._directory, "capture"), max_bytes=_LARGEST)
        workspace = self.outer.workspace.sibling()
        header = {"inside": str(self.operator)}
        try:
            session = Session(workspace, {"predict_net": made["net"]}, arrays, keep, header)
        except BaseException:
            workspace.close()
            raise
        session.number_breaks_with(self.outer)
        return session

    @property
    def stale(self) -> bool:
        """Whether the outer session has moved on since, so that this is no longer where it stands."""
        return self._place != self._where()

    def _where(self) -> Tuple[int, int, int]:
        return self.outer.iteration, len(self.outer.steps), self.outer.position

    @property
    def done(self) -> bool:
        """Whether everything inside has run."""
        return self.session.position >= self.session.net_size

    def label(self, position: Optional[int] = None) -> str:
        """Which time step, branch or turn the next operator inside belongs to."""
        at = self.session.position if position is None else position
        return next((label for label, first, last in self.spans if first <= at < last), "end")

    def finish(self) -> Stop:
        """Run the rest inside, whatever breakpoints there are; stops where an operator fails."""
        while True:
            stop = self.session.cont()
            if stop.reason != "breakpoint":
                return stop

    def leave(self) -> Leaving:
        """Run the operator itself in the outer session, compare what it gave with what was stepped, and close."""
        stop = self.outer.step()
        lines: List[str] = []
        comparable = self.done and bool(stop.steps) and stop.steps[-1].status == "ok"
        if comparable:
            lines = [line for line in map(self._compare, self.results.items()) if line]
        self.close()
        return Leaving(stop, comparable and not lines, tuple(lines))

    def _compare(self, result: Tuple[str, str]) -> str:
        """How the operator's own output differs from the one that was stepped; empty where it does not."""
        name, inner = result
        try:
            theirs, ours = self.outer.fetch(name).array, self.session.fetch(inner).array
        except C2StepError as error:
            return "%s: %s" % (name, error.message)
        if theirs is None or ours is None:
            return "" if theirs is ours else "%s has a value on one side only" % name
        if theirs.dtype != ours.dtype or theirs.shape != ours.shape:
            return "%s is %s %s, stepped it is %s %s" % (name, theirs.dtype, theirs.shape, ours.dtype, ours.shape)
        if theirs.dtype.kind in "OSU":
            return "" if np.array_equal(theirs, ours) else "%s differs" % name
        if theirs.tobytes() == ours.tobytes():
            return ""
        difference = np.abs(theirs.astype(np.float64) - ours.astype(np.float64))
        return "%s differs by up to %g" % (name, np.nanmax(difference))

    def close(self) -> None:
        """End the inner session."""
        self.session.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> "Inside":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
