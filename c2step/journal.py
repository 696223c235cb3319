"""Steps as lines of a capture's journal."""

import json
from typing import Dict, Tuple

from .capture import PACK
from .history import Step
from .net import Operator

__all__ = ["Journal"]


class Journal:
    """Writes the usual line, of an operator whose only output is in the pack, by a form that is made once."""

    def __init__(self) -> None:
        self._forms: Dict[int, Tuple[Operator, str]] = {}

    def line(self, step: Step) -> str:
        """A step's line; a blob in the pack has no summary there, since whoever reads its bytes can make it."""
        if len(step.outputs) != 1 or step.operator.inner or step.status != "ok" or step.touched or step.shares:
            return json.dumps(step.to_json()) + "\n"
        out = step.outputs[0]
        if not out.file or PACK not in out.file:
            return json.dumps(step.to_json()) + "\n"
        values = [version.version for version in step.inputs]
        values += (out.version, out.summary.dtype, list(out.summary.shape), out.file)  # type: ignore[arg-type]
        values += (step.tick, step.iteration, step.seconds)  # type: ignore[arg-type]
        return self._form(step.operator) % tuple(values)

    def _form(self, op: Operator) -> str:
        known = self._forms.get(op.index)
        if known is None or known[0] is not op:
            known = self._forms[op.index] = (op, _form_of(op))
        return known[1]


def _form_of(op: Operator) -> str:
    head = {"index": op.index, "type": op.type, "name": op.name, "node": op.node.label if op.node else None}
    return '%s, "status": "ok", "error": null, "inputs": [%s], "outputs": [%s], %s}\n' % (
        _quoted(head)[:-1],
        ", ".join('{"name": %s, "version": %%d}' % _quoted(name) for name in op.inputs if name),
        '{"name": %s, "version": %%d, "kind": "tensor", "dtype": "%%s", "shape": %%s, "file": "%%s"}'
        % _quoted(op.outputs[0]),
        '"tick": %d, "iteration": %d, "seconds": %r',
    )


def _quoted(value: object) -> str:
    return json.dumps(value).replace("%", "%%")
