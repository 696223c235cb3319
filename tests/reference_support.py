"""For tests of golden values: small ONNX graphs, the naive oracle, and an engine without a process."""

import json
import os
import sys
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from c2step.references import making

PYTHON = sys.executable


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """A node from space-separated names; `-` stands for one left out."""
    ins, outs = ([name if name != "-" else "" for name in names.split()] for names in (inputs, outputs))
    return helper.make_node(kind, ins, outs, **attributes)


def write_model(
    path: Any,
    nodes: Sequence[Any],
    inputs: Dict[str, Any],
    outputs: Iterable[str],
    weights: Optional[Dict[str, np.ndarray]] = None,
    opset: int = 11,
    **more: Any,
) -> str:
    """Write a model whose inputs are declared as the example arrays or the given ValueInfoProtos."""
    declared = [_declared(name, value) for name, value in inputs.items()]
    graph = helper.make_graph(
        list(nodes),
        "g",
        declared,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
        **more,
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("my.domain", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=7)
    onnx.save_model(model, str(path))
    return str(path)


def _declared(name: str, value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    kind = TensorProto.STRING if value.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, kind, value.shape)


def every_value(path: str, inputs: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """The oracle: onnxruntime on the whole graph, optimisations off, with every value exposed at once."""
    model = onnx.load(path)
    had = {value.name for value in model.graph.output}
    for made in model.graph.node:
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made.output if name and name not in had)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [out.name for out in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def golden(case: str) -> Dict[str, np.ndarray]:
    """The values that a shared case holds."""
    with open(os.path.join(case, "ref_names.json"), encoding="utf-8") as file:
        names = json.load(file)
    with np.load(os.path.join(case, "ref.npz")) as archive:
        return {name: archive["r%d" % number] for number, name in enumerate(names)}


def fed(folder: str) -> Dict[str, np.ndarray]:
    """The inputs of a shared case or model."""
    name = "inputs.npz" if os.path.exists(os.path.join(folder, "inputs.npz")) else "input.npz"
    with np.load(os.path.join(folder, name)) as archive:
        return {key: archive[key] for key in archive.files}


class InThisProcess:
    """The engine's handlers called directly: for what has nothing to do with processes."""

    version = sys.version.split()[0]

    def __init__(self, python: str, module: str, name: str, shown: Any = None) -> None:
        from c2step.references.engines import onnx_engine, torch_engine

        engines: Any = {"onnx_engine": onnx_engine._Engine, "torch_engine": torch_engine.TorchEngine}
        self._engine: Any = engines[module]()

    def __enter__(self) -> "InThisProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is open."""

    def ask(
        self,
        request: Dict[str, Any],
        heard: Optional[Callable[[Dict[str, Any]], None]] = None,
        timeout: Optional[float] = None,
    ) -> Dict[str, Any]:
        as_sent = json.loads(json.dumps(request))
        return getattr(self._engine, request["do"])(as_sent, heard or (lambda event: None))


def quick(monkeypatch: Any) -> None:
    """Make golden values without starting a process."""
    monkeypatch.setattr(making, "Engine", InThisProcess)


def differing(reference: Any, wanted: Dict[str, np.ndarray], rtol: float = 0.0) -> List[str]:
    """The names whose dtype, shape or values are not those wanted."""
    return [name for name, value in wanted.items() if not same(reference.find(name), value, rtol)]


def same(got: Optional[np.ndarray], wanted: np.ndarray, rtol: float) -> bool:
    """Equal in shape and dtype, and bit for bit or within `rtol` of the largest magnitude; NaN equals NaN."""
    if got is None or got.shape != wanted.shape:
        return False
    if wanted.dtype.kind in "OSU":
        return [w.decode() if isinstance(w, bytes) else w for w in got.ravel()] == list(wanted.ravel())
    if got.dtype != wanted.dtype:
        return False
    if not rtol or wanted.dtype.kind != "f":
        return bool(
            np.array_equal(got, wanted)
            or (wanted.dtype.kind == "f" and np.array_equal(got.view(np.uint8), wanted.view(np.uint8)))
            or _equal_with_nan(got, wanted)
        )
    scale = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0.0)
    return bool(np.allclose(got, wanted, rtol=rtol, atol=rtol * scale, equal_nan=True))


def _equal_with_nan(got: np.ndarray, wanted: np.ndarray) -> bool:
    return wanted.dtype.kind == "f" and bool(
        np.array_equal(np.isnan(got), np.isnan(wanted))
        and np.array_equal(got[~np.isnan(got)], wanted[~np.isnan(wanted)])
    )
