"""Build small ONNX models, run them repaired on Caffe2 and on onnxruntime, and compare."""

from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import onnx
import onnxruntime
from caffe2.python import workspace
from onnx import helper

from c2step.importer import backend
from c2step.importer.lint import lint
from c2step.importer.rewriter import Finding

__all__ = ["check", "findings_of", "model_of", "node", "rand", "run_caffe2", "run_onnxruntime"]

node = helper.make_node


def rand(*shape: int, dtype: str = "float32", seed: int = 0, low: float = -2, high: float = 2) -> np.ndarray:
    """Seeded values that are no ties and no special cases."""
    values = np.random.RandomState(seed + sum(shape)).uniform(low, high, shape)
    return np.asarray(values).astype(dtype)


def model_of(
    nodes: Sequence[Any],
    inputs: Dict[str, np.ndarray],
    outputs: Sequence[str],
    opset: int,
    weights: Optional[Dict[str, np.ndarray]] = None,
) -> Any:
    """A model of `nodes`; its inputs have the shapes of the example values, its weights are initializers."""

    def declared(name: str, value: np.ndarray) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)

    initializers = [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in (weights or {}).items()]
    given = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(list(nodes), "g", [declared(n, v) for n, v in inputs.items()], given, initializers)
    domains = sorted({n.domain for n in nodes} - {""})
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in domains]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def run_onnxruntime(model: Any, inputs: Dict[str, np.ndarray]) -> List[np.ndarray]:
    """What onnxruntime gives, without its optimizations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def run_caffe2(made: Any, inputs: Dict[str, np.ndarray]) -> List[np.ndarray]:
    """What the imported nets give on Caffe2."""
    workspace.ResetWorkspace()
    for name, array in list(made.blobs()) + list(inputs.items()):
        workspace.FeedBlob(name, np.array(array, order="C"))
    for op in made.init_ops:
        workspace.RunOperatorOnce(op)
    workspace.CreateNet(made.predict, True)
    workspace.RunNet(made.predict.name)
    return [workspace.FetchBlob(name) for name in made.predict.external_output]


def findings_of(model: Any, inputs: Dict[str, np.ndarray]) -> List[Finding]:
    """What lint says."""
    return lint(model, {name: value.shape for name, value in inputs.items()})


def check(
    nodes: Sequence[Any],
    inputs: Dict[str, np.ndarray],
    outputs: Sequence[str],
    opset: int,
    code: str,
    weights: Optional[Dict[str, np.ndarray]] = None,
    expected: Optional[List[np.ndarray]] = None,
    atol: float = 1e-5,
) -> None:
    """Lint must find `code` with a repair, and the repaired model must give what onnxruntime gives (or `expected`)."""
    model = model_of(nodes, inputs, outputs, opset, weights)
    found = findings_of(model, inputs)
    assert code in {f.code for f in found if f.repair}, found
    made = backend.import_model(model, True, input_shapes={n: v.shape for n, v in inputs.items()})
    assert {op.type for op in made.predict.op} <= set(workspace.RegisteredOperators()) - {"ATen"}
    wanted = expected if expected is not None else run_onnxruntime(model, inputs)
    for name, got, value in zip(outputs, run_caffe2(made, inputs), wanted):
        assert got.dtype == value.dtype and got.shape == value.shape, (
            name,
            got.dtype,
            got.shape,
            value.dtype,
            value.shape,
        )
        np.testing.assert_allclose(got.astype(np.float64), value.astype(np.float64), rtol=1e-4, atol=atol, err_msg=name)
