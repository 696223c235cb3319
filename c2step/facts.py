"""What a step read and wrote, for conditions, wherever its values are by now."""

from typing import Any, Callable, Mapping, Optional

import numpy as np

from .blob import BlobSummary
from .capture import read_blob
from .conditions import Facts
from .history import Step
from .net import BlobVersion
from .timeline import Timeline

__all__ = ["StepFacts", "changed_blob"]

Compare = Callable[[Step, str], Optional[Mapping[str, Any]]]


class StepFacts(Facts):
    """The facts of one step; versions that are no longer live come from the capture."""

    def __init__(self, timeline: Timeline, step: Step, compare: Optional[Compare]) -> None:
        self._timeline = timeline
        self._step = step
        self._compare = compare
        self.inputs = [name for name in step.operator.inputs if name]
        self.outputs = list(step.operator.outputs) + [out.name for out in step.touched]

    def _version(self, name: str, side: str) -> int:
        found = self._of_step(name, side)
        history, place = self._timeline.history, self._step.tick
        if found is not None or place >= len(history.steps) - 1:
            return found if found is not None else history.version(name)
        return history.version_at(name, place)

    def _of_step(self, name: str, side: str) -> Optional[int]:
        for known in self._step.inputs if side == "input" else reversed(self._step.written):
            if known.name == name:
                return known.version
        return None

    def _was(self, name: str, side: str) -> bool:
        """Whether the blob had a value then."""
        return self._timeline.has_been(name) and (
            name in self._timeline.history.initial or self._version(name, side) != 0
        )

    def summary(self, name: str, side: str) -> Optional[BlobSummary]:
        """The summary of the version that was read or written."""
        if not self._was(name, side):
            return None
        return self._timeline.summary(name, self._version(name, side))

    def array(self, name: str, side: str) -> Optional[np.ndarray]:
        """The value of that version, as numbers."""
        if not self._was(name, side):
            return None
        return self._timeline.array(BlobVersion(name, self._version(name, side)))

    def compared(self, name: str) -> Optional[Mapping[str, Any]]:
        """The figures against the loaded reference."""
        if self._compare is None:
            return None
        self._timeline.settle()
        return self._compare(self._step, name)


def changed_blob(timeline: Timeline, step: Step, name: str) -> str:
    """How a step changed a blob, in words; empty where it did not."""
    out = next((out for out in step.written if out.name == name), None)
    if out is None:
        return ""
    label = str(BlobVersion(name, out.version))
    if out in step.touched:
        label += " (%s)" % step.how_touched(name)
    before = BlobVersion(name, out.version - 1)
    if out.version - 1 not in timeline.history.known(name):
        return "%s is written" % label
    kept = [timeline.history.kept.get(version) for version in (before, BlobVersion(name, out.version))]
    if kept[0] is None or kept[1] is None:
        return "%s is written over %s" % (label, before)
    timeline.settle()
    old, new = [read_blob(k.file, name, k.kind, mapped=True).array for k in kept if k is not None]
    assert old is not None and new is not None
    if old.shape != new.shape or old.dtype != new.dtype:
        return "%s: %s %s, was %s %s" % (label, new.dtype, new.shape, old.dtype, old.shape)
    scales = [(k.summary.scale, k.summary.zero_point) for k in kept if k is not None]
    if scales[0] != scales[1]:
        return "%s: scale %s and zero point %s, was %s and %s" % (label, *scales[1], *scales[0])
    differ = int(np.count_nonzero(_bits(old) != _bits(new)))
    return "%s: %d of %d values changed" % (label, differ, new.size) if differ else ""


def _bits(array: np.ndarray) -> np.ndarray:
    """Values that compare bit for bit, so that a NaN equals itself."""
    if array.dtype.kind not in "fc":
        return array
    flat = np.ascontiguousarray(array).reshape(-1)
    return (
        flat.view("V%d" % array.dtype.itemsize) if array.dtype.kind == "c" else flat.view("u%d" % array.dtype.itemsize)
    )
