"""The cases: onnx's backend tests of the installed wheel, and exported models with onnxruntime as the judge."""

import glob
import os
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import onnx
from onnx import numpy_helper

__all__ = ["Case", "DISPUTED", "backend_cases", "data_of", "export_cases", "same"]

# onnx's expected value is not what onnx's own definition or onnxruntime gives.
DISPUTED = {
    "test_resize_downsample_scales_linear_align_corners": "expects a fractional output length, onnxruntime a whole one",
    "test_resize_downsample_scales_cubic_align_corners": "expects a fractional output length, onnxruntime a whole one",
    "test_qlinearmatmul_2D_int8_float16": "expects sums that wrapped around in int8 arithmetic",
    "test_qlinearmatmul_2D_int8_float32": "expects sums that wrapped around in int8 arithmetic",
    "test_qlinearmatmul_3D_int8_float16": "expects sums that wrapped around in int8 arithmetic",
    "test_qlinearmatmul_3D_int8_float32": "expects sums that wrapped around in int8 arithmetic",
}


class Case(NamedTuple):
    """One model with inputs and expected outputs; `rtol` and `atol` as its source sets them."""

    name: str
    path: str
    kind: str  # "backend" (a folder of onnx's) or "export" (a file, its inputs beside it)
    rtol: float = 1e-3
    atol: float = 1e-7


def backend_cases(kinds: Tuple[str, ...] = ("node", "simple", "pytorch-converted", "pytorch-operator")) -> List[Case]:
    """Every backend test that ships in the onnx wheel."""
    from onnx.backend.test.loader import load_model_tests

    cases = []
    for kind in kinds:
        for test in load_model_tests(kind=kind):
            if test.model_dir and os.path.isdir(test.model_dir):
                cases.append(
                    Case(
                        "%s/%s" % (kind, test.name),
                        os.path.join(test.model_dir, "model.onnx"),
                        "backend",
                        test.rtol,
                        test.atol,
                    )
                )
    return cases


def export_cases(folder: str) -> List[Case]:
    """Every exported model in `folder`, small ones first."""
    files = sorted(glob.glob(os.path.join(folder, "*.onnx")), key=os.path.getsize)
    return [Case("export/" + os.path.basename(path)[:-5], path, "export") for path in files]


def data_of(case: Case, model: Any) -> List[Tuple[Dict[str, Any], List[Any]]]:
    """Inputs by name and expected outputs, one pair for each data set."""
    if case.kind == "export":
        inputs = dict(np.load(case.path.rsplit("-op", 1)[0] + ".npz"))
        return [(inputs, _judged(case.path, inputs))]
    fixed = {tensor.name for tensor in model.graph.initializer}
    takes = [value for value in model.graph.input if value.name not in fixed]
    sets = []
    for folder in sorted(glob.glob(os.path.join(os.path.dirname(case.path), "test_data_set_*"))):
        inputs = [
            _read(os.path.join(folder, "input_%d.pb" % i), takes[i])
            for i in range(len(glob.glob(os.path.join(folder, "input_*.pb"))))
        ]
        outputs = [
            _read(os.path.join(folder, "output_%d.pb" % i), model.graph.output[i])
            for i in range(len(glob.glob(os.path.join(folder, "output_*.pb"))))
        ]
        sets.append((dict(zip([value.name for value in takes], inputs)), outputs))
    return sets


def _judged(path: str, inputs: Dict[str, np.ndarray]) -> List[np.ndarray]:
    """What onnxruntime gives, kept beside the model."""
    kept = path[:-5] + ".expected.npz"
    if not os.path.exists(kept):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        # fusing Pad into AveragePool, as it does otherwise, changes the answer (inception_v3)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        np.savez(kept, **{"output%03d" % i: value for i, value in enumerate(session.run(None, inputs))})
    with np.load(kept) as data:
        return [data[name] for name in sorted(data.files)]


def _read(path: str, value: Any) -> Any:
    with open(path, "rb") as file:
        data = file.read()
    kind = value.type.WhichOneof("value")
    if kind == "tensor_type":
        tensor = onnx.TensorProto.FromString(data)
        if tensor.data_type == onnx.TensorProto.STRING:
            return np.array(list(tensor.string_data), dtype=object).reshape(tuple(tensor.dims))
        return numpy_helper.to_array(tensor)
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))


def same(case: Case, expected: Any, got: Any) -> str:
    """An empty string where `got` is what the case expects, else what differs."""
    if isinstance(expected, (list, tuple)) or expected is None:
        return "a sequence is expected"
    got = np.asarray(got)
    if got.shape != expected.shape and got.dtype.kind != "S":
        return "shape %s, expected %s" % (got.shape, expected.shape)
    if expected.dtype.kind in "OSU":
        return "" if _texts(got) == _texts(expected) else "other texts"
    if got.dtype != expected.dtype:
        return "dtype %s, expected %s" % (got.dtype, expected.dtype)
    if case.kind == "export":
        return _within(got, expected)
    try:
        np.testing.assert_allclose(got, expected, rtol=case.rtol, atol=case.atol)
    except AssertionError as error:
        return " ".join(str(error).split())[:160]
    return ""


def _within(got: np.ndarray, expected: np.ndarray) -> str:
    """|d| <= 1e-4 + 1e-3 max|expected|."""
    if not expected.size:
        return ""
    far = np.abs(got.astype(np.float64) - expected).max()
    limit = 1e-4 + 1e-3 * np.abs(expected.astype(np.float64)).max()
    return "" if far <= limit else "max |d| = %.3g above %.3g" % (far, limit)


def _texts(array: np.ndarray) -> List[str]:
    return [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in array.ravel().tolist()]
