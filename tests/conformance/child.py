"""One case in one mode, in a process that may die."""

import json
import os
import signal
import warnings
from typing import Any, Callable, Dict, List, Tuple

import numpy as np
from caffe2.python import workspace
from caffe2.python.onnx.backend import Caffe2Backend

from c2step.importer import backend  # imports onnx before caffe2
from c2step.importer.lint import lint

from .cases import Case, data_of, same

__all__ = ["MODES", "run_case"]

MODES = ("stock", "faithful", "repaired")
_SECONDS = 600


def run_case(case: Case, mode: str, pipe: int) -> None:
    """Run it, writing each stage and then the outcome as lines of JSON to `pipe`; never returns."""
    signal.alarm(_SECONDS)
    _silence()

    def say(**row: Any) -> None:
        os.write(pipe, (json.dumps(row) + "\n").encode())

    try:
        outcome, detail = _lint(case) if mode == "lint" else _run(case, mode, lambda stage: say(stage=stage))
    except BaseException as error:  # anything that Caffe2, onnx or we raise is the case's outcome
        outcome, detail = _failed(error)
    say(outcome=outcome, detail=detail)
    os._exit(0)


def _silence() -> None:
    warnings.simplefilter("ignore")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _failed(error: BaseException) -> Tuple[str, str]:
    lines = str(error).strip().splitlines() or [""]
    refused = type(error).__name__ == "ConversionError"
    return ("refused" if refused else "error"), "%s: %s" % (
        type(error).__name__,
        " | ".join(lines[: 3 if refused else 1])[:300],
    )


def _lint(case: Case) -> Tuple[str, List[Any]]:
    model = backend.load(case.path)
    sets = data_of(case, model)
    inputs = sets[0][0] if sets else {}
    findings = lint(model, _shapes(inputs), _arrays(inputs))
    return "lint", [[f.code, f.node, f.op_type, f.effect, f.repair, f.message] for f in findings]


def _arrays(inputs: Dict[str, Any]) -> Dict[str, np.ndarray]:
    return {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}


def _shapes(inputs: Dict[str, Any]) -> Dict[str, Tuple[int, ...]]:
    return {name: value.shape for name, value in _arrays(inputs).items()}


def _run(case: Case, mode: str, stage: Callable[[str], None]) -> Tuple[str, str]:
    stage("load")
    model = backend.load(case.path)
    for inputs, expected in data_of(case, model):
        got = _stock(model, inputs, stage) if mode == "stock" else _ours(model, inputs, mode, stage)
        stage("compare")
        for wanted, value, declared in zip(expected, got, model.graph.output):
            difference = same(case, wanted, value)
            if difference:
                return "wrong", "%s: %s" % (declared.name, difference)
    return "pass", ""


def _stock(model: Any, inputs: Dict[str, Any], stage: Callable[[str], None]) -> List[Any]:
    stage("prepare")
    prepared = Caffe2Backend.prepare(model)
    stage("run")
    return list(prepared.run(list(inputs.values())))


def _ours(model: Any, inputs: Dict[str, Any], mode: str, stage: Callable[[str], None]) -> List[Any]:
    stage("import")
    repaired = mode == "repaired"
    made = backend.import_model(model, repaired, input_shapes=_shapes(inputs), input_values=_arrays(inputs))
    stage("feed")
    workspace.ResetWorkspace()
    for name, array in made.blobs():
        workspace.FeedBlob(name, array)
    stage("init")
    for op in made.init_ops:
        workspace.RunOperatorOnce(op)
    for name, value in inputs.items():
        if not isinstance(value, np.ndarray):
            raise TypeError("input %s is no tensor, and Caffe2 has nothing else" % name)
        workspace.FeedBlob(name, np.array(value, order="C"))
    stage("run")
    made.predict.name = made.predict.name or "net"
    workspace.CreateNet(made.predict, True)
    workspace.RunNet(made.predict.name)
    return [workspace.FetchBlob(name) for name in made.predict.external_output]
