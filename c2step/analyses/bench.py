"""How long every operator takes: min, median, spread, share, and FLOP where they are known."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from ..errors import UsageError
from ..net import Operator
from ..stepper import Session
from ..workspace.process import ProcessWorkspace

__all__ = ["Bench", "Timing", "bench", "flop"]

Shape = Sequence[int]


class Timing(NamedTuple):
    """One operator's seconds over all runs; `spread` is between the quartiles, `share` of the sum of medians."""

    operator: Operator
    minimum: float
    median: float
    spread: float
    share: float
    flop: Optional[int]

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON values."""
        op = self.operator
        return {"index": op.index, "type": op.type, "outputs": list(op.outputs), "min": self.minimum,
                "median": self.median, "spread": self.spread, "share": self.share, "flop": self.flop}  # fmt: skip


class Bench(NamedTuple):
    """All operators, the median of whole runs, and the median of Caffe2's BenchmarkNet as the check, in seconds."""

    operators: List[Timing]
    runs: int
    total: float
    caffe2: float

    @property
    def sum(self) -> float:
        """The medians of all operators together."""
        return sum(timing.median for timing in self.operators)

    @property
    def apart(self) -> float:
        """How many times the largest of the sum of all operators, the whole and BenchmarkNet is the smallest."""
        figures = sorted([self.sum, self.total, self.caffe2])
        return figures[-1] / max(figures[0], 1e-12)

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON values."""
        return {"runs": self.runs, "total": self.total, "benchmark_net": self.caffe2,
                "operators": [timing.to_json() for timing in self.operators]}  # fmt: skip


def bench(session: Session, warmup: int = 3, runs: int = 20) -> Bench:
    """Run the net once with its shapes noted, then `warmup` and `runs` times without looking at blobs.

    Raises OperatorError or WorkerDied where the net does not run to its end, UsageError without a worker process.
    """
    if not isinstance(session.workspace, ProcessWorkspace):
        raise UsageError("bench needs the worker process")
    stop = session.cont()
    if stop.reason != "end":
        raise stop.error("%s %s: %s" % (stop.operator, stop.reason, stop.detail), "bench needs a net that runs")
    shapes = _shapes(session)
    found = session.workspace.request("bench", warmup=warmup, runs=runs)
    seconds = np.maximum(np.array(found["operators"]) - found["overhead"], 0.0)
    medians = np.median(seconds, axis=0)
    low, high = np.percentile(seconds, [25, 75], axis=0)
    total = max(float(medians.sum()), 1e-12)
    operators = [
        Timing(op, float(seconds[:, i].min()), float(medians[i]), float(high[i] - low[i]), float(medians[i]) / total,
               flop(op, [shapes.get(name) for name in op.inputs], [shapes.get(name) for name in op.outputs]))
        for i, op in enumerate(session.model.predict_net.operators)
    ]  # fmt: skip
    whole = float(np.median(found["totals"])) - found["overhead"]
    return Bench(operators, runs, whole, float(np.median(found["caffe2"])))


def _shapes(session: Session) -> Dict[str, Shape]:
    return {row["name"]: tuple(row["shape"]) for row in session.workspace.peek() if row["kind"] in ("tensor", "int8")}


_ELEMENTWISE = {"Relu", "Add", "Sub", "Mul", "Div", "Sum", "Abs", "Neg", "Sqr", "Sqrt", "Max", "Min", "Scale", "Clip"}


def flop(op: Operator, inputs: Sequence[Optional[Shape]], outputs: Sequence[Optional[Shape]]) -> Optional[int]:
    """Multiplications and additions of one run, from the shapes; None where no formula is known."""
    if not inputs or not outputs or outputs[0] is None or any(shape is None for shape in inputs[:2]):
        return None
    made = _size(outputs[0])
    first, second = inputs[0], inputs[1] if len(inputs) > 1 else None
    if op.type == "Conv" and second is not None:
        return made * 2 * _size(second[1:]) + (made if len(inputs) > 2 else 0)
    if op.type == "ConvTranspose" and first is not None and second is not None:
        return 2 * _size(first) * _size(second[1:])
    if op.type in ("FC", "FCTransposed") and second is not None:
        return made * 2 * second[1 if op.type == "FC" else 0] + made
    if op.type in ("MatMul", "BatchMatMul") and first is not None:
        return made * 2 * first[-2 if op.argument("trans_a", 0) else -1]
    if op.type in ("MaxPool", "AveragePool") and not op.argument("global_pooling", 0):
        kernel = op.argument("kernels") or [op.argument("kernel", 0)] * 2
        return made * _size(kernel) if all(kernel) else None
    return made if op.type in _ELEMENTWISE else None


def _size(shape: Sequence[int]) -> int:
    return int(np.prod([int(dim) for dim in shape], dtype=np.int64))
