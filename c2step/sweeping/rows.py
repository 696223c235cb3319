"""One input's result as a row of JSON: what is the same whoever computes it, and no value of a blob.

A blame's row has for each operator its label and both errors, a plain run's row the summary of each output.
"""

from typing import Any, Dict, List, Mapping, Optional

import numpy as np

from ..analyses.channels import channel_figures
from ..blob import STRING, TENSOR, Blob
from ..compare.blame import Blame, Judged, Side
from ..compare.verdict import Verdict
from ..errors import C2StepError
from ..history import Step
from ..stepper import Session, Stop

__all__ = ["FIGURES", "STATISTICS", "add_channels", "blame_row", "died", "error_row", "fed", "run_row"]

FIGURES = ("max_abs", "rel_l2", "ratio")
"""The errors of an operator that a row keeps: the largest difference, the relative L2, the share of what is allowed."""
STATISTICS = ("min", "max", "mean", "std", "zeros", "nan", "inf")
"""The figures of an output that a row keeps."""


def fed(arrays: Mapping[str, np.ndarray]) -> Dict[str, Any]:
    """What tells inputs apart: shape, dtype and figures of each."""
    found = {}
    for name, array in arrays.items():
        summary = Blob(name, STRING if array.dtype.kind in "OSU" else TENSOR, array).summary()
        figures = {key: getattr(summary, key) for key in ("min", "max", "mean", "std") if summary.min is not None}
        found[name] = dict(figures, dtype=summary.dtype, shape=list(summary.shape))
    return found


def blame_row(found: Blame) -> Dict[str, Any]:
    """A blame as a row."""
    tally = found.tally
    return {
        "status": "ok",
        "verdict": str(found.verdict),
        "compared": tally.compared,
        "failed": tally.failed,
        "skipped": tally.skipped,
        "missing": tally.missing,
        "outputs": found.outputs,
        "operators": [_judged(judged) for judged in found.operators],
    }


def _judged(judged: Judged) -> Dict[str, Any]:
    row = _operator(judged)
    row["label"] = judged.label
    if judged.reason:
        row["reason"] = judged.reason
    return dict(row, run=_side(judged.run), alone=_side(judged.alone))


def _operator(judged: Any) -> Dict[str, Any]:
    op = judged.operator
    return {"index": op.index, "type": op.type, "outputs": list(op.outputs)}


def _side(side: Side) -> Dict[str, Any]:
    row: Dict[str, Any] = {"status": side.status}
    worst = side.worst
    if side.error:
        row["error"] = side.error
    if worst is not None:
        row["verdict"] = str(Verdict.worst(c.verdict for c in side.comparisons.values()))
        row.update((key, _plain(getattr(worst, key))) for key in FIGURES if getattr(worst, key) is not None)
        if worst.equal:
            row.update(dict.fromkeys(FIGURES, 0.0))
    return row


def _plain(value: Any) -> Any:
    """A number that JSON has; Inf and NaN as text, which `float` reads."""
    return value if not isinstance(value, float) or np.isfinite(value) else str(value)


def run_row(session: Session, stop: Stop) -> Dict[str, Any]:
    """A plain run as a row; `stop` ended it."""
    operators = [_step(step) for step in stop.steps]
    row: Dict[str, Any] = {"status": "ok", "operators": operators}
    if stop.reason != "end" and stop.operator is not None:
        row["stopped"] = {"index": stop.position, "type": stop.operator.type, "status": stop.reason,
                          "error": stop.detail}  # fmt: skip
    return row


def _step(step: Step) -> Dict[str, Any]:
    return dict(_operator(step), status=step.status, blobs=[_blob(out.name, out.version, out.summary)
                for out in step.outputs])  # fmt: skip


def _blob(name: str, version: int, summary: Any) -> Dict[str, Any]:
    row = {"name": name, "version": version, "kind": summary.kind, "dtype": summary.dtype, "shape": list(summary.shape)}
    if summary.min is not None or summary.nan or summary.inf:
        row.update((key, _plain(getattr(summary, key))) for key in STATISTICS if getattr(summary, key) is not None)
    return row


def add_channels(row: Dict[str, Any], session: Session, stop: Stop) -> None:
    """Add to the row of a run what each channel of its blobs did."""
    for operator, step in zip(row["operators"], stop.steps):
        for said, out in zip(operator["blobs"], step.outputs):
            blob = session.kept(out)
            figures = None if blob is None else channel_figures(blob)
            if figures is not None:
                said["channels"] = dict(
                    figures, **{key: [_plain(v) for v in figures[key]] for key in ("sum", "largest")}
                )


def error_row(error: C2StepError) -> Dict[str, Any]:
    """The row of an input that could not be run or compared, and why."""
    return {"status": "error", "kind": type(error).__name__, "error": error.message, "hint": error.hint}


def died(row: Mapping[str, Any]) -> Optional[str]:
    """What ended its process or was stopped for taking too long on the way to this row, None where nothing did."""
    if row.get("kind") in ("WorkerDied", "WorkerTimeout"):
        return str(row["error"])
    stopped = row.get("stopped") or {}
    if stopped.get("status") in ("died", "timeout"):
        return str(stopped["error"])
    sides: List[Mapping[str, Any]] = [op[side] for op in row.get("operators", ()) for side in ("run", "alone")
                                      if side in op]  # fmt: skip
    return next((str(side.get("error", "")) for side in sides if side["status"] == "died"), None)
