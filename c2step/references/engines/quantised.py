"""Which integers of an ONNX graph stand for real numbers: scale and zero point as the nodes themselves name them.

QuantizeLinear and DequantizeLinear name both for one value, the QLinear operators (ONNX's and onnxruntime's)
for their inputs and their output; operators that only move values keep them.
"""

from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from c2step.errors import ReferenceFailed

from .graph import Graph, dense

__all__ = ["quantised"]

_MOST = 1 << 16  # scales of one tensor
# For each operator type where in its inputs (values, scale, zero point) are, and where those of its output are.
_INPUTS = {
    "QLinearConv": ((0, 1, 2),),
    "QLinearMatMul": ((0, 1, 2), (3, 4, 5)),
    "QGemm": ((0, 1, 2), (3, 4, 5)),
    "QLinearAdd": ((0, 1, 2), (3, 4, 5)),
    "QLinearMul": ((0, 1, 2), (3, 4, 5)),
    "DequantizeLinear": ((0, 1, 2),),
}
_ONE = (
    "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearReduceMean",
    "QLinearSoftmax",
)  # fmt: skip
_OUTPUT = {
    "QuantizeLinear": (1, 2), "QLinearConv": (6, 7), "QLinearMatMul": (6, 7), "QGemm": (7, 8), "QLinearAdd": (6, 7),
    "QLinearMul": (6, 7), "QLinearConcat": (0, 1), "QLinearWhere": (7, 8), **dict.fromkeys(_ONE, (3, 4)),
}  # fmt: skip
_MOVES = (
    "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "MaxPool", "Slice", "Gather", "Split",
    "DepthToSpace", "SpaceToDepth", "Expand", "Tile",
)  # fmt: skip


class _Line(NamedTuple):
    scale: str
    zero_point: str
    axis: Optional[int]


def quantised(graph: Graph) -> Dict[str, Dict[str, Any]]:
    """For each integer value: `scale` and `zero_point` (numbers, or the name of a value), `axis`, and the real `names`.

    `axis` is None where one scale holds for all; `names` are the float values that it stands for.
    """
    lines: Dict[str, _Line] = {}
    names: Dict[str, List[str]] = {}
    for _, node in graph.nodes:
        for name, line in _lines(node, lines):
            lines.setdefault(name, line)
        if node.op_type == "QuantizeLinear":
            names.setdefault(node.output[0], []).append(node.input[0])
        elif node.op_type == "DequantizeLinear":
            names.setdefault(node.input[0], []).append(node.output[0])
        elif node.op_type == "DynamicQuantizeLinear":
            names.setdefault(node.output[0], []).append(node.input[0])
    found = {}
    for name, line in lines.items():
        scale, zero = _numbers(graph, line.scale), _numbers(graph, line.zero_point) if line.zero_point else 0
        unplaced = isinstance(scale, list) and line.axis is None
        if name not in graph.initializers and scale is not None and zero is not None and not unplaced:
            axis = line.axis if isinstance(scale, list) else None
            found[name] = {"scale": scale, "zero_point": zero, "axis": axis, "names": names.get(name, [])}
    return found


def _lines(node: Any, known: Dict[str, _Line]) -> Iterator[Any]:
    """The integer values that a node tells of, each with its scale."""
    kind, axis = node.op_type, _axis(node)
    if kind == "DynamicQuantizeLinear":
        yield node.output[0], _Line(node.output[1], node.output[2], None)
    elif kind in _MOVES:
        if node.input and node.input[0] in known:
            for name in node.output[:1] if kind == "MaxPool" else node.output:
                yield name, known[node.input[0]]._replace(axis=None)
    elif axis != "blocks":
        for values, scale, zero in _INPUTS.get(kind, ((0, 1, 2),) if kind in _ONE else ()):
            if _at(node, scale):
                yield _at(node, values), _Line(_at(node, scale), _at(node, zero), axis)
        if kind in _OUTPUT and node.output:
            scale, zero = _places(node)
            if _at(node, scale):
                yield node.output[0], _Line(_at(node, scale), _at(node, zero), axis)


def _places(node: Any) -> Any:
    if node.op_type == "QLinearSoftmax" and len(node.input) < 5:  # without the zero point of its input
        return len(node.input) - 2, len(node.input) - 1
    return _OUTPUT[node.op_type]


def _axis(node: Any) -> Any:
    """The axis along which scales differ, by default 1; a scale for each block is beyond this."""
    attributes = {a.name: a.i for a in node.attribute if a.name in ("axis", "block_size")}
    if attributes.get("block_size"):
        return "blocks"
    return int(attributes.get("axis", 1)) if node.op_type in ("QuantizeLinear", "DequantizeLinear") else None


def _at(node: Any, slot: int) -> str:
    return str(node.input[slot]) if slot < len(node.input) else ""


def _numbers(graph: Graph, name: str) -> Any:
    """A number, a list of them, or the name of a value that is computed; None for what is too large."""
    if name not in graph.initializers and name not in graph.fixed:
        return name
    array = _constant(graph, name) if name in graph.fixed else dense(graph.loaded(graph.initializers[name]))
    if array is None or array.size > _MOST:
        return None
    return array.reshape(-1)[0].item() if array.size == 1 else array.reshape(-1).tolist()


def _constant(graph: Graph, name: str) -> Any:
    from .kernels import run_plain

    try:
        _, node = graph.find(name)
        return run_plain(graph, graph.call(node, {}, {}))[name][1]
    except ReferenceFailed:
        return None
