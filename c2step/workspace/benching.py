"""How long operators take: the worker's side of `c2step bench`.

Operators run in the net's order, so that each finds the caches as in a run.  What calling into Caffe2
costs by itself is measured on a net without operators and taken off.  Caffe2's own BenchmarkNet, which times
inside C++, is the check; it takes its turn in every round, so that whatever else the machine does meets all alike.
"""

import contextlib
import ctypes
import os
import time
from typing import Any, Dict, Iterator, List

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace

from ..importer.writing import list_inputs
from .status import RUN

__all__ = ["bench"]

C = workspace.C


def bench(local: Any, warmup: int, runs: int) -> Dict[str, Any]:
    """Seconds of every operator in every run, of whole runs, and by BenchmarkNet, on the blobs as they are fed."""
    with local._current():
        net = local._model().predict_net
        names = [local._net_of(index, op) for index, op in enumerate(net.op)]
        whole = caffe2_pb2.NetDef()
        whole.CopyFrom(net)
        whole.name = "c2step/bench"
        whole.type = "simple"
        list_inputs(whole)
        C.create_net(whole.SerializeToString(), True)
        for number in range(warmup):
            local._status.enter(RUN, -1, "warm-up %d of %d" % (number + 1, warmup))
            _each(names)
            C.run_net(whole.name, 1, False)
        operators, totals, own = [], [], []
        for number in range(runs):
            local._status.enter(RUN, -1, "round %d of %d" % (number + 1, runs))
            operators.append(_each(names))
            totals.append(_timed(whole.name))
            with _unheard():
                own.append(float(C.benchmark_net(whole.name, 0, 1, False)[0]) / 1e3)  # it says milliseconds
        return {"operators": operators, "totals": totals, "overhead": _overhead(runs), "caffe2": own}


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Let what is printed go nowhere: BenchmarkNet tells each step of its own."""
    flush = ctypes.CDLL(None).fflush
    flush(None)
    kept = [(descriptor, os.dup(descriptor)) for descriptor in (1, 2)]
    with open(os.devnull, "w") as nothing:
        for descriptor, _ in kept:
            os.dup2(nothing.fileno(), descriptor)
    try:
        yield
    finally:
        flush(None)
        for descriptor, copy in kept:
            os.dup2(copy, descriptor)
            os.close(copy)


def _each(names: List[str]) -> List[float]:
    return [_timed(name) for name in names]


def _timed(name: str) -> float:
    start = time.perf_counter()
    C.run_net(name, 1, False)
    return time.perf_counter() - start


def _overhead(runs: int) -> float:
    empty = caffe2_pb2.NetDef(name="c2step/bench/empty", type="simple")
    C.create_net(empty.SerializeToString(), True)
    return float(np.median([_timed(empty.name) for _ in range(max(runs, 50))]))
