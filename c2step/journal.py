"""Steps as lines of a capture's journal."""

import json
import math
from typing import Dict

from .blob import TENSOR, BlobSummary
from .history import Step
from .unsummarised import Waiting

__all__ = ["Journal"]

_LINE = (
    '{"index": %d, "type": %s, "name": %s, "node": %s, "status": "ok", "error": null, "inputs": [%s], '
    '"outputs": [{"name": %s, "version": %d, "kind": "tensor", "dtype": "%s", "shape": %s, "file": %s}], '
    '"tick": %d, "iteration": %d, "seconds": %r}\n'
)
_SUMMARY = (
    '{"kind": "tensor", "dtype": "%s", "shape": %s, "min": %r, "max": %r, "mean": %r, "std": %r, '
    '"zeros": %d, "nan": %d, "inf": %d, "text": ""}'
)


class Journal:
    """Writes the usual line, of an operator whose only output is a tensor, in less time than json.dumps."""

    def __init__(self) -> None:
        self._names: Dict[str, str] = {}  # as JSON has them

    def line(self, step: Step) -> str:
        """A step's line; a blob in the pack has no summary there, since whoever reads its bytes can make it."""
        op = step.operator
        if len(step.outputs) != 1 or op.inner or step.status != "ok" or step.touched or step.shares:
            return json.dumps(step.to_json()) + "\n"
        written, version, kind, figures, file = step.outputs[0]
        waiting = isinstance(figures, Waiting)
        if kind != TENSOR and not waiting:
            return json.dumps(step.to_json()) + "\n"
        told = '"%s"' % file if file else "null"
        if not file or not waiting:
            told += ', "summary": %s' % _summary_text(step.outputs[0].summary)
        quoted = self._quoted
        return _LINE % (
            op.index,
            quoted(op.type),
            quoted(op.name),
            quoted(op.node.label) if op.node else "null",
            ", ".join(['{"name": %s, "version": %d}' % (quoted(name), read) for name, read in step.inputs]),
            quoted(written),
            version,
            figures.dtype,
            list(figures.shape),
            told,
            step.tick,
            step.iteration,
            step.seconds,
        )

    def _quoted(self, name: str) -> str:
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = json.dumps(name)
        return found


def _summary_text(summary: BlobSummary) -> str:
    """What json.dumps would say of a tensor's summary, in less time in the usual case."""
    if summary.mean is None or not math.isfinite(float(summary.std or 0)) or summary.text:
        return json.dumps(summary.to_json())
    return _SUMMARY % (summary.dtype, list(summary.shape), *summary[3:10])
