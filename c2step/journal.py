"""Steps as lines of a capture's journal."""

import functools
import json
import math
from typing import Dict, Tuple

from .blob import BlobSummary
from .history import Step
from .net import Operator
from .unsummarised import Waiting

__all__ = ["Journal"]

_SUMMARY = (
    '{"kind": "tensor", "dtype": "%s", "shape": %s, "min": %r, "max": %r, "mean": %r, "std": %r, '
    '"zeros": %d, "nan": %d, "inf": %d, "text": ""}'
)


class Journal:
    """Writes the usual line, of an operator whose only output is a small tensor, by a form that is made once."""

    def __init__(self) -> None:
        self._forms: Dict[int, Tuple[Operator, str]] = {}

    def line(self, step: Step) -> str:
        """A step's line; a blob in the pack has no summary there, since whoever reads its bytes can make it."""
        if len(step.outputs) != 1 or step.operator.inner or step.status != "ok" or step.touched or step.shares:
            return json.dumps(step.to_json()) + "\n"
        _, version, _, figures, file = step.outputs[0]
        if not isinstance(figures, Waiting):
            return json.dumps(step.to_json()) + "\n"
        told = '"%s"' % file if file else 'null, "summary": %s' % _summary_text(figures.summary)
        values = [version.version for version in step.inputs]
        values += (version, figures.dtype, list(figures.shape), told)  # type: ignore[arg-type]
        values += (step.tick, step.iteration, step.seconds)  # type: ignore[arg-type]
        return self._form(step.operator) % tuple(values)

    def _form(self, op: Operator) -> str:
        known = self._forms.get(op.index)
        if known is None or known[0] is not op:
            known = self._forms[op.index] = (op, _form_of(op))
        return known[1]


def _form_of(op: Operator) -> str:
    return '{"index": %d, "type": %s, "name": %s, "node": %s, %s, "inputs": [%s], "outputs": [%s], %s}\n' % (
        op.index,
        _quoted(op.type),
        _quoted(op.name),
        _quoted(op.node.label) if op.node else "null",
        '"status": "ok", "error": null',
        ", ".join('{"name": %s, "version": %%d}' % _quoted(name) for name in op.inputs if name),
        '{"name": %s, "version": %%d, "kind": "tensor", "dtype": "%%s", "shape": %%s, "file": %%s}'
        % _quoted(op.outputs[0]),
        '"tick": %d, "iteration": %d, "seconds": %r',
    )


def _summary_text(summary: BlobSummary) -> str:
    """What json.dumps would say of a small tensor's summary, in less time where all its values are finite."""
    if summary.mean is None or not math.isfinite(float(summary.std or 0)):
        return json.dumps(summary.to_json())
    return _SUMMARY % (summary.dtype, list(summary.shape), *summary[3:10])


@functools.lru_cache(maxsize=1024)
def _quoted(value: str) -> str:
    return json.dumps(value).replace("%", "%%")
