"""Conditions that stop a run, evaluated where the operators run: from summaries alone.  Worker side only."""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..blob import BlobSummary, summarize
from ..conditions import Condition, Facts
from . import reader

__all__ = ["Judging"]


class Judging:
    """The conditions of one run, by operator."""

    def __init__(self, conditions: Sequence[Dict[str, Any]], watched: Sequence[str]) -> None:
        self._watched = set(watched)
        self._by_index: Dict[int, List[Condition]] = {}
        for row in conditions:
            condition = Condition(row["text"])
            for index in row["indices"]:
                self._by_index.setdefault(index, []).append(condition)
        self._inputs: Dict[str, BlobSummary] = {}

    def looks_at(self, index: int) -> bool:
        """Whether what this operator writes must be looked at at once."""
        return bool(self._watched) or index in self._by_index

    def see_inputs(self, index: int, op: Any) -> None:
        """Summarise the inputs before the operator may overwrite them, where a condition asks for that."""
        if index not in self._by_index:
            return
        wanted = any(condition.reads_inputs for condition in self._by_index[index])
        self._inputs = {name: _summary(name) for name in op.input if name} if wanted else {}

    def hit(self, index: int, op: Any, event: Dict[str, Any]) -> bool:
        """Whether the run should stop after this operator."""
        if self._watched and any(row["name"] in self._watched for row in event.get("touched", ()) if not row["new"]):
            return True
        conditions = self._by_index.get(index)
        return bool(conditions) and any(c.holds(_Facts(op, event, self._inputs)) for c in conditions or ())


def _summary(name: str) -> BlobSummary:
    return summarize(reader.read(name, view=True))


class _Facts(Facts):
    def __init__(self, op: Any, event: Dict[str, Any], inputs: Mapping[str, BlobSummary]) -> None:
        self.inputs: Tuple[str, ...] = tuple(op.input)
        touched = [row for row in event.get("touched", ()) if not row["new"]]
        self.outputs: Tuple[str, ...] = tuple(op.output) + tuple(row["name"] for row in touched)
        self._inputs = inputs
        self._rows = {row["name"]: row["summary"] for row in event["outputs"]}

    def summary(self, name: str, side: str) -> Optional[BlobSummary]:
        if side == "input":
            return self._inputs.get(name)
        return BlobSummary.from_json(self._rows[name]) if name in self._rows else _summary(name)

    def array(self, name: str, side: str) -> Any:
        return None  # only summaries are asked for here

    def compared(self, name: str) -> Optional[Mapping[str, Any]]:
        return None
