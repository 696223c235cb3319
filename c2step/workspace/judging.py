"""Conditions that stop a run, evaluated where the operators run: from summaries alone.  Worker side only."""

import math
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ..blob import TENSOR, Blob, BlobSummary, summarize
from ..conditions import Condition, Facts
from . import Event, LargeEvent, SmallEvent, reader

__all__ = ["Judging"]


class Judging:
    """The conditions of one run, by operator."""

    def __init__(self, conditions: Sequence[Dict[str, Any]], watched: Sequence[str]) -> None:
        self.any = bool(conditions or watched)
        self._watched = set(watched)
        self._by_index: Dict[int, List[Condition]] = {}
        for row in conditions:
            condition = Condition(row["text"])
            for index in row["indices"]:
                self._by_index.setdefault(index, []).append(condition)
        self._inputs: Dict[str, BlobSummary] = {}

    def see_inputs(self, index: int, op: Any) -> None:
        """Summarise the inputs before the operator may overwrite them, where a condition asks for that."""
        conditions = self._by_index.get(index)
        if conditions is None:
            return
        wanted = any(condition.reads_inputs for condition in conditions)
        self._inputs = {name: _summary(name) for name in op.input if name} if wanted else {}

    def hit(self, index: int, op: Any, event: Event) -> bool:
        """Whether the run should stop after this operator."""
        touched = _touched(event) if isinstance(event, dict) else ()
        if touched and not self._watched.isdisjoint(touched):
            return True
        conditions = self._by_index.get(index)
        if conditions is None:
            return False
        facts = _Facts(op, touched, _written(op, event), self._inputs)
        return any(condition.holds(facts) for condition in conditions)


def _touched(event: Dict[str, Any]) -> Tuple[str, ...]:
    """The blobs that an operator changed without naming them."""
    return tuple(row["name"] for row in event.get("touched", ()) if not row["new"])


def _written(op: Any, event: Event) -> Dict[str, "Figures"]:
    """The figures of what an operator wrote."""
    if isinstance(event, SmallEvent):
        return {op.only: _Small(event)}
    if isinstance(event, LargeEvent):
        return {op.only: event.summary}
    return {row["name"]: BlobSummary.from_json(row["summary"]) for row in event["outputs"]}


def _summary(name: str) -> BlobSummary:
    return summarize(reader.read(name, view=True))


class _Facts(Facts):
    def __init__(
        self, op: Any, touched: Tuple[str, ...], written: Mapping[str, "Figures"], inputs: Mapping[str, BlobSummary]
    ) -> None:
        self.inputs: Tuple[str, ...] = op.input
        self.outputs: Tuple[str, ...] = op.output + touched
        self._inputs = inputs
        self._written = written

    def summary(self, name: str, side: str) -> Optional["Figures"]:
        if side == "input":
            return self._inputs.get(name)
        return self._written.get(name) or _summary(name)

    def array(self, name: str, side: str) -> Any:
        return None  # only summaries are asked for here

    def compared(self, name: str) -> Optional[Mapping[str, Any]]:
        return None


class _Small:
    """The figures of a small tensor as `BlobSummary` has them, those that are asked for; the ends tell the most."""

    def __init__(self, event: SmallEvent) -> None:
        self.kind, self.dtype, self.shape = TENSOR, event.dtype, event.shape
        self._array: np.ndarray = np.frombuffer(event.data, event.dtype)
        self.min, self.max = np.minimum.reduce(self._array).item(), np.maximum.reduce(self._array).item()
        self.nan = self.inf = 0
        if not (math.isfinite(self.min) and math.isfinite(self.max)):
            whole = self._whole()
            self.min, self.max, self.nan, self.inf = whole.min, whole.max, whole.nan, whole.inf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole(), name)

    def _whole(self) -> BlobSummary:
        return summarize(Blob("", self.kind, self._array.reshape(self.shape)))


Figures = Union[BlobSummary, _Small]
