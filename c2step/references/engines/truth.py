"""One node in float64 on given inputs: which of two float32 results is off, and by how much.

The value comes from numpy (`float64`, `recurrent`), else from onnx's reference evaluator, and is
believed once onnxruntime agrees, in float64 where it has the kernel and in float32 otherwise.  The
noise of a node is how far its result moves when every input moves by half a unit in its last place.
"""

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Set, Tuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from c2step.errors import ReferenceFailed

from .float64 import KERNELS
from .graph import Call, Graph, dense, model_of
from .kernels import first_line, run_plain
from .old_opsets import FIRST, modernise
from .recurrent import RECURRENT
from .values import type_of

__all__ = ["Truth", "evaluate", "own", "truth"]

Arrays = Dict[str, np.ndarray]
Run = Callable[[Call], Arrays]
_FLOAT64_AGREES, _FLOAT32_AGREES = 1e-6, 1e-3
_BLOCK = 1 << 20
_DOUBLE = onnx.TensorProto.DOUBLE
_SHORT = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)


class Truth(NamedTuple):
    """A node's outputs in float64, the noise of each, where they come from, and a reason to doubt them."""

    values: Arrays
    noise: Arrays
    how: str
    doubt: str


def truth(graph: Graph, call: Call, draws: int = 2) -> Truth:
    """The node in float64; ReferenceFailed where nothing here computes it."""
    if call.standard and call.opset < FIRST:
        call = modernise(call)
    wide = _widen(call)
    checks = list(_checks(graph, call, wide))
    found: List[Tuple[str, Run, Arrays]] = []
    refusals: List[str] = []
    for how, run in _ways(graph):
        try:
            found.append((how, run, run(wide)))
        except Exception as error:
            refusals.append("%s: %s" % (how, first_line(error)))
    if not found:
        found.append(_last_resort(graph, call, wide, refusals))
    how, run, values = next((one for one in found if _agrees(one[2], checks)), found[0])
    doubt = "" if _agrees(values, checks) else _doubt(values, checks)
    return Truth(values, _noise(run, call, wide, values, draws), how, doubt)


def _last_resort(graph: Graph, call: Call, wide: Call, refusals: List[str]) -> Tuple[str, Run, Arrays]:
    """onnxruntime's own float64 kernel, where nothing else computes the node."""
    try:
        return "onnxruntime in float64", lambda c: _onnxruntime(graph, c), _onnxruntime(graph, wide)
    except Exception as error:
        refusals.append("onnxruntime in float64: %s" % first_line(error))
        raise ReferenceFailed("no float64 value for %s: %s" % (call.node.op_type, "; ".join(refusals))) from error


def _agrees(values: Arrays, checks: Sequence[Tuple[Arrays, float, str]]) -> bool:
    return any(_distance(values, other) <= limit for other, limit, _ in checks)


def _doubt(values: Arrays, checks: Sequence[Tuple[Arrays, float, str]]) -> str:
    if not checks:
        return "nothing to check it against: onnxruntime does not run this node"
    other, _, name = checks[0]
    return "%s differs from it, relative L2 %.3g" % (name, _distance(values, other))


def _checks(graph: Graph, call: Call, wide: Call) -> Iterator[Tuple[Arrays, float, str]]:
    for one, limit, name in (
        (wide, _FLOAT64_AGREES, "onnxruntime in float64"),
        (call, _FLOAT32_AGREES, "onnxruntime in float32"),
    ):
        try:
            yield _onnxruntime(graph, one), limit, name
        except Exception:  # no kernel: one check less, and `_doubt` says so when none is left
            continue


def _ways(graph: Graph) -> Iterator[Tuple[str, Run]]:
    yield "numpy in float64", own
    yield "onnx's reference evaluator in float64", lambda call: evaluate(graph, call)


def _onnxruntime(graph: Graph, call: Call) -> Arrays:
    made = run_plain(graph, call)
    return {name: np.asarray(value) for name, (_, value) in made.items()}


def own(call: Call) -> Arrays:
    """The outputs of a node from our own functions; ReferenceFailed where we have none for it."""
    limit, kernel = KERNELS.get(call.node.op_type, (1 << 30, RECURRENT.get(call.node.op_type)))
    if kernel is None or not call.standard or call.opset >= limit:
        raise ReferenceFailed("not one of ours")
    attributes = {a.name: helper.get_attribute_value(a) for a in call.node.attribute}
    inputs = [call.value(slot) for slot in range(len(call.node.input))]
    made = kernel(attributes, inputs, len(call.node.output))
    if made is None:
        raise ReferenceFailed("not this form of it")
    return {name: value for name, value in zip(call.node.output, made) if name}


def evaluate(graph: Graph, call: Call) -> Arrays:
    """The outputs of a node from onnx's reference evaluator, in the types it is given."""
    from onnx.reference import ReferenceEvaluator

    if call.node.op_type == "Scatter" and call.standard:
        node = onnx.NodeProto()
        node.CopyFrom(call.node)
        node.op_type = "ScatterElements"
        call = call._replace(node=node, opset=max(call.opset, 11))
    names = [name for name in call.node.output if name]
    arrays = {name: value for name, value in call.constants.items() if isinstance(value, np.ndarray)}
    rest = {name: value for name, value in call.constants.items() if name not in arrays}
    types = dict(call.types, **{name: type_of(value) for name, value in arrays.items()})
    call = call._replace(feeds=dict(call.feeds, **arrays), types=types, constants=rest)
    with np.errstate(all="ignore"):
        made = ReferenceEvaluator(model_of(graph, call)).run(names, call.feeds)
    return {name: np.asarray(value) for name, value in zip(names, made)}


def _widen(call: Call) -> Call:
    node = onnx.NodeProto()
    node.CopyFrom(call.node)
    _widen_graphs(node)
    if node.op_type in ("Constant", "ConstantOfShape"):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                attribute.t.CopyFrom(_wide_tensor(attribute.t))
    kept = _short_slots(call)
    feeds = {name: value if name in kept else _wide(value) for name, value in call.feeds.items()}
    types = {name: kind if feeds[name] is call.feeds[name] else "tensor(double)" for name, kind in call.types.items()}
    constants = {name: tensor if name in kept else _wide_constant(tensor) for name, tensor in call.constants.items()}
    return call._replace(node=node, feeds=feeds, types=types, constants=constants)


def _short_slots(call: Call) -> Set[str]:
    """The inputs that stay float32 by the operator's definition, such as the scales of Resize."""
    try:
        formal = onnx.defs.get_schema(call.node.op_type, call.opset, call.node.domain).inputs
    except onnx.defs.SchemaError:
        return set()
    pairs = zip(call.node.input, formal)
    return {name for name, slot in pairs if slot.type_str == "tensor(float)"}


def _wide(value: Any) -> Any:
    if isinstance(value, list):
        return [_wide(part) for part in value]
    short = isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float16)
    return value.astype(np.float64) if short else value


def _wide_constant(constant: Any) -> Any:
    """A constant in float64, as an array."""
    if isinstance(constant, onnx.TensorProto) and constant.data_type not in _SHORT:
        return constant
    return _wide(dense(constant))


def _wide_tensor(tensor: Any) -> Any:
    if tensor.data_type not in _SHORT:
        return tensor
    return numpy_helper.from_array(_wide(dense(tensor)), tensor.name)


def _widen_graphs(node: Any) -> None:
    """Make a node's subgraphs float64 throughout, so that their types agree with what they capture."""
    for attribute in node.attribute:
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            for value in list(graph.input) + list(graph.output) + list(graph.value_info):
                if value.type.tensor_type.elem_type in _SHORT:
                    value.type.tensor_type.elem_type = _DOUBLE
            for tensor in graph.initializer:
                tensor.CopyFrom(_wide_tensor(tensor))
            for inner in graph.node:
                _widen_inner(inner)


def _widen_inner(node: Any) -> None:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            attribute.t.CopyFrom(_wide_tensor(attribute.t))
        if node.op_type == "Cast" and attribute.name == "to" and attribute.i in _SHORT:
            attribute.i = _DOUBLE
    _widen_graphs(node)


def _distance(a: Arrays, b: Arrays) -> float:
    """The largest relative L2 distance of any output; infinite where shapes or NaN positions differ."""
    return max([_relative(a[name], b[name]) if name in b else np.inf for name in a] or [0.0])


def _relative(a: np.ndarray, b: np.ndarray) -> float:
    if a.shape != b.shape:
        return float("inf")
    if a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(a, b) else float("inf")
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        settled, infinite = np.isfinite(x) & np.isfinite(y), np.isinf(x) | np.isinf(y)
        if not np.array_equal(np.isnan(x), np.isnan(y)) or not np.array_equal(x[infinite], y[infinite]):
            return float("inf")
        scale = float(np.linalg.norm(x[settled]))
        gap = float(np.linalg.norm(x[settled] - y[settled]))
    return gap / scale if scale else gap


def _noise(run: Run, call: Call, wide: Call, values: Arrays, draws: int) -> Arrays:
    """For each element how far it moves with its inputs' last place, its own last place included."""
    unit = _unit(call)
    noise = {name: np.abs(v) * unit for name, v in values.items() if v.dtype.kind == "f"}
    random = np.random.RandomState(0)
    for _ in range(draws):
        moved = _moved(wide, unit, random)
        with np.errstate(all="ignore"):
            for name, value in run(moved).items():
                if name in noise and value.shape == noise[name].shape:
                    noise[name] = np.fmax(noise[name], np.abs(value - values[name]))
    return noise


def _unit(call: Call) -> float:
    """Half a unit in the last place of the coarsest float type among a node's inputs."""
    values = list(call.feeds.values()) + [dense(constant) for constant in call.constants.values()]
    kinds = [v.dtype for v in values if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    return max([float(np.finfo(kind).eps) / 2 for kind in kinds] or [2.0**-24])


def _moved(wide: Call, unit: float, random: np.random.RandomState) -> Call:
    feeds = {name: _shaken(value, unit, random) for name, value in wide.feeds.items()}
    constants = {name: _shaken(value, unit, random) for name, value in wide.constants.items()}
    return wide._replace(feeds=feeds, constants=constants)


def _shaken(value: Any, unit: float, random: np.random.RandomState) -> Any:
    """Every float64 element times 1 plus at most `unit`, block by block."""
    if isinstance(value, list):
        return [_shaken(part, unit, random) for part in value]
    if not isinstance(value, np.ndarray) or value.dtype != np.float64:
        return value
    moved = np.array(value, order="C").reshape(-1)
    for start in range(0, moved.size, _BLOCK):
        part = moved[start : start + _BLOCK]
        part *= 1 + unit * random.uniform(-1, 1, part.size)
    return moved.reshape(value.shape)
