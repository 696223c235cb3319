"""Nodes of opset 1 to 6 as opset 7 has them: onnxruntime has no kernels for the old forms.

The values that a node reads are known when it is run alone, so the old `broadcast` and `axis` are
written out as a shape, and nothing is left to guess.
"""

from typing import Any, Callable, Dict

import numpy as np
import onnx
from onnx import helper

from c2step.errors import ReferenceFailed

from .graph import Call

__all__ = ["FIRST", "modernise"]

FIRST = 7
"""The oldest opset that onnxruntime promises to run."""


def modernise(call: Call) -> Call:
    """The same node for opset 7; ReferenceFailed where opset 7 has no such meaning."""
    node = onnx.NodeProto()
    node.CopyFrom(call.node)
    new = call._replace(node=node, opset=FIRST, feeds=dict(call.feeds), constants=dict(call.constants))
    _drop(node, "consumed_inputs")
    rule = _RULES.get(node.op_type)
    if rule is not None:
        rule(new)
    return new


def _attribute(node: Any, name: str, default: Any = None) -> Any:
    for attribute in node.attribute:
        if attribute.name == name:
            return helper.get_attribute_value(attribute)
    return default


def _drop(node: Any, *names: str) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name not in names]
    del node.attribute[:]
    node.attribute.extend(kept)


def _put(call: Call, slot: int, array: np.ndarray) -> None:
    name = call.node.input[slot]
    if name in call.constants:
        call.constants[name] = array
    elif name in call.node.input[:slot]:
        raise ReferenceFailed("%s takes %s twice in two shapes" % (call.node.op_type, name))
    else:
        call.feeds[name] = array


def _broadcast(call: Call) -> None:
    node = call.node
    axis = _attribute(node, "axis")
    legacy = _attribute(node, "broadcast", 0)
    _drop(node, "broadcast", "axis")
    left, right = call.value(0), call.value(1)
    if not legacy or axis is None or left.ndim == right.ndim:
        return
    start = axis + left.ndim if axis < 0 else axis
    _put(call, 1, right.reshape(right.shape + (1,) * (left.ndim - start - right.ndim)))


def _slope(call: Call) -> None:
    values, slope = call.value(0), call.value(1)
    if slope.ndim == 1 and slope.size > 1 and values.ndim > 2:
        _put(call, 1, slope.reshape(slope.shape + (1,) * (values.ndim - 2)))


def _test_mode(call: Call) -> None:
    if not _attribute(call.node, "is_test", 0):
        raise ReferenceFailed("%s of opset %d is in training mode (is_test=0)" % (call.node.op_type, call.opset))
    _drop(call.node, "is_test")


def _gemm(call: Call) -> None:
    _drop(call.node, "broadcast")


def _concat(call: Call) -> None:
    if _attribute(call.node, "axis") is None:
        call.node.attribute.append(helper.make_attribute("axis", 1))


def _tile(call: Call) -> None:
    if len(call.node.input) == 3:
        repeats = np.ones(call.value(0).ndim, np.int64)
        repeats[int(call.value(2))] = int(call.value(1))
        del call.node.input[2]
        call.constants["__repeats"] = repeats
        call.node.input[1] = "__repeats"


def _pad(call: Call) -> None:
    pads = _attribute(call.node, "paddings")
    if pads is not None:
        _drop(call.node, "paddings")
        call.node.attribute.append(helper.make_attribute("pads", pads))


def _cast(call: Call) -> None:
    to = _attribute(call.node, "to")
    if isinstance(to, bytes):
        _drop(call.node, "to")
        call.node.attribute.append(helper.make_attribute("to", onnx.TensorProto.DataType.Value(to.decode().upper())))


def _upsample(call: Call) -> None:
    height, width = (_attribute(call.node, name) for name in ("height_scale", "width_scale"))
    if height is not None and width is not None:
        _drop(call.node, "height_scale", "width_scale")
        call.node.attribute.append(helper.make_attribute("scales", [1.0, 1.0, height, width]))


def _recurrent(call: Call) -> None:
    _drop(call.node, "output_sequence")


_RULES: Dict[str, Callable[[Call], None]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"), _broadcast),
    **dict.fromkeys(("BatchNormalization", "Dropout"), _test_mode),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    "Cast": _cast,
    "Concat": _concat,
    "Gemm": _gemm,
    "PRelu": _slope,
    "Pad": _pad,
    "Tile": _tile,
    "Upsample": _upsample,
}
