"""The second run of a blame: every operator on golden inputs.

What an operator wrote is kept and compared, then its golden outputs take its place.  Where these lie in files as they
are needed, the worker puts them in by itself, so that a whole stretch of the net is one request, and comparing goes on
beside it.  Operators that come out wrong are looked at once more afterwards, from the last one back to the first.
"""

from typing import TYPE_CHECKING, Dict, List, Sequence, Tuple

import numpy as np

from ..blob import INT8, TENSOR, Blob
from ..history import Kept, Output, Step
from ..net import Operator, is_random
from ..stepper import Stop
from .golden import Slot
from .hints import explain
from .verdict import Verdict

if TYPE_CHECKING:
    from .blame import Judge, Judged

__all__ = ["Alone"]


class Alone:
    """Runs a judge's session from its start to the end of the net, golden value by golden value."""

    def __init__(self, judge: "Judge", made: Dict[Slot, Output]) -> None:
        """`made` are the outputs of the first run, which tell in which form Caffe2 holds each of them."""
        self._judge, self._session, self._golden = judge, judge.session, judge.golden
        self._net = judge.net
        self._made = made
        self._dead: Dict[str, str] = {}  # blobs without a value, and what that comes from
        self._plan: Dict[int, List[Tuple[str, Kept]]] = {}
        self._pauses = {op.index for op in self._net.operators if self._needs_a_pause(op)}
        self._bad: List[Step] = []

    def run(self) -> None:
        """Run, compare, and look closer at what is wrong."""
        session = self._session
        session.replace_after(self._plan)
        session.on_step = self._took
        if self._judge.absent.names:
            self._dead.update(self._judge.absent.feed(session, self._golden))
        try:
            while session.position < len(self._net):
                self._stretch()
        finally:
            session.on_step = lambda step: None
            session.replace_after({})
        for step in reversed(self._bad if self._judge.hints else []):
            self._look_closer(self._judge.judged[step.index], step)

    def _needs_a_pause(self, op: Operator) -> bool:
        """Whether the run has to stop after an operator to replace its outputs; else the plan has the golden files."""
        for slot, name in enumerate(op.outputs):
            kept, made = self._golden.kept((op.index, slot)), self._made.get((op.index, slot))
            if (op.index, slot) not in self._golden or (made or kept) and INT8 in {x.kind for x in (made, kept) if x}:
                continue
            if not (kept and made and kept.kind == made.kind == TENSOR and kept.summary.dtype == made.summary.dtype):
                self._plan.pop(op.index, None)
                return True
            self._plan.setdefault(op.index, []).append((name, kept))
        return False

    def _stretch(self) -> None:
        """Go on to the next operator that needs a pause, that fails, or that has an input without a value."""
        session = self._session
        judged = self._judge.judged[session.position]
        lost = [self._dead[name] for name in judged.operator.inputs if name in self._dead]
        if lost:
            judged.reason = "its input has no value: %s" % lost[0]
            self._pass_over(judged, lost)
            return
        stop = session.step(self._end() - session.position)
        if stop.reason == "interrupted":
            raise KeyboardInterrupt
        if stop.reason in ("failed", "died", "timeout"):
            self._failed(stop)
        elif stop.steps and stop.steps[-1].index in self._pauses:
            self._judge.replace(stop.steps[-1].operator, stop.steps[-1].outputs)

    def _end(self) -> int:
        dead = set(self._dead)
        operators = self._net.operators
        for index in range(self._session.position, len(operators)):
            if not dead.isdisjoint(operators[index].inputs):
                return index
            dead.difference_update(operators[index].outputs)
            if index in self._pauses:
                return index + 1
        return len(operators)

    def _took(self, step: Step) -> None:
        judged = self._judge.judged[step.index]
        self._judge.take(step, judged.alone, "alone")
        if judged.alone.bad:
            self._bad.append(step)
        self._bury(judged, [])

    def _failed(self, stop: Stop) -> None:
        judged = self._judge.judged[self._session.position]
        self._judge.take_failure(stop, judged.alone)
        self._pass_over(judged, [])

    def _pass_over(self, judged: "Judged", lost: Sequence[str]) -> None:
        self._session.skip()
        self._judge.replace(judged.operator, [])
        self._bury(judged, lost)

    def _bury(self, judged: "Judged", lost: Sequence[str]) -> None:
        """Note which blobs have no value, since what writes them failed and nothing could take its place."""
        op = judged.operator
        for slot, name in enumerate(op.outputs):
            if (judged.alone.error or lost) and not self._has_value((op.index, slot)):
                self._dead[name] = lost[0] if lost else "operator %d failed and has no golden output" % op.index
            else:
                self._dead.pop(name, None)

    def _has_value(self, slot: Slot) -> bool:
        golden = self._golden.blob(slot)
        return golden is not None and golden.array is not None

    def _look_closer(self, judged: "Judged", step: Step) -> None:
        """Hints at what would explain a wrong value, and whether the operator gives it again on the same inputs."""
        for slot, comparison in judged.alone.comparisons.items():
            golden = self._golden.blob((step.index, slot))
            made = self._session.kept(step.outputs[slot])
            if comparison.verdict is Verdict.FAIL and golden and made and not _no_numbers(golden, made):
                judged.values[slot] = np.array(made.real())
                judged.hints += explain(judged.values[slot], np.asarray(golden.real()))
        first = [self._bytes(output) for output in step.outputs]
        self._session.back(len(self._session.steps) - step.tick)
        again = self._session.step()
        if not again.steps or again.steps[-1].status != "ok":
            return
        if [self._bytes(output) for output in again.steps[-1].outputs] != first and not is_random(step.operator):
            judged.hints.append(
                "not repeatable: it gives another value each time, so it reads memory that is not its own"
            )

    def _bytes(self, output: Output) -> bytes:
        blob = self._session.kept(output)
        return blob.array.tobytes() if blob is not None and blob.array is not None else b""


def _no_numbers(*blobs: Blob) -> bool:
    return any(blob.array is None or blob.array.dtype.kind in "OSU" for blob in blobs)
