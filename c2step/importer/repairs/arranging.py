"""Orders and patterns: Trilu, EyeLike, Range, CumSum, ReverseSequence, DepthToSpace, SpaceToDepth, TopK.

Caffe2 has none of them but TopK, which always gives the greatest, and Range, which miscounts downward.  Written with
fixed masks, fixed orders, Reshape and Transpose.
"""

from typing import Optional

import numpy as np

from ..rewriter import Node, Rewriter, Unrepairable
from ..values import dtype_name
from .building import HELD, carrier, cast, copy, gather, reshape, transpose
from .dtypes import exactness, found_dtype

__all__ = ["RULES"]


def triangle(node: Node, g: Rewriter) -> Optional[str]:
    """Trilu with a fixed diagonal is a selection by a fixed mask."""
    g.found("no-operator", "refuse", "Caffe2 has no Trilu")
    shape, dtype = g.known(node.input(0)), g.dtype(node.input(0))
    k = int(g.need(node.input(1), "k").reshape(-1)[0]) if node.input(1) else 0
    ones = np.ones(shape[-2:], bool)
    mask = np.triu(ones, k) if node.attr("upper", 1) else np.tril(ones, k)
    if int(np.prod(shape)) == 0:
        copy(g, node.input(0), node.out)
    else:
        g.onnx("Where", g.const(mask), node.input(0), g.const(np.zeros((), dtype)), out=node.out)
    return "a selection by a fixed mask"


def eye_like(node: Node, g: Rewriter) -> Optional[str]:
    """EyeLike of a known shape is a constant."""
    g.found("no-operator", "refuse", "Caffe2 has no EyeLike")
    shape = g.known(node.input(0))
    dtype = dtype_name(node.attr("dtype")) if "dtype" in node.attrs else g.dtype(node.input(0))
    if dtype not in HELD:
        raise Unrepairable("Caffe2 has no tensors of %s" % dtype)
    copy(g, g.const(np.eye(shape[0], shape[1], int(node.attr("k", 0)), dtype=dtype)), node.out)
    return "a constant"


def arange(node: Node, g: Rewriter) -> Optional[str]:
    """Range: Caffe2's gives one value too few where the step does not divide the way."""
    step = g.value(node.input(2))
    if step is not None and (step > 0).all():
        return None
    g.found("range-count", "wrong", "Caffe2's Range drops the last value where it counts downward")
    first, last, step = (g.need(n, "a limit of Range") for n in node.inputs)
    dtype = g.dtype(node.input(0))
    values = np.arange(first.reshape(-1)[0], last.reshape(-1)[0], step.reshape(-1)[0]).astype(dtype)
    copy(g, g.const(values), node.out)
    return "a constant"


def cumulative(node: Node, g: Rewriter) -> Optional[str]:
    """CumSum as a product with a fixed triangle of ones (float32)."""
    g.found("no-operator", "refuse", "Caffe2 has no CumSum")
    shape, dtype = g.known(node.input(0)), g.dtype(node.input(0))
    axis = int(g.need(node.input(1), "axis").reshape(-1)[0]) % len(shape)
    size = shape[axis]
    ones = np.triu(np.ones((size, size), np.float32), 1 if node.attr("exclusive", 0) else 0)
    if node.attr("reverse", 0):
        ones = np.ascontiguousarray(ones.T)
    order = [i for i in range(len(shape)) if i != axis] + [axis]
    x = transpose(g, cast(g, node.input(0), "float32"), order)
    flat = reshape(g, x, [-1, size])
    y = reshape(
        g,
        g.emit("BatchMatMul", [flat, g.const(ones)], "float32", g.shape(flat), broadcast=1),
        [shape[i] for i in order],
    )
    cast(g, transpose(g, y, [order.index(i) for i in range(len(order))]), dtype, node.out)
    return "a product with a triangle of ones, in float32%s" % exactness(dtype, "float32")


def reverse_sequence(node: Node, g: Rewriter) -> Optional[str]:
    """ReverseSequence with fixed lengths is a Gather from the flat data."""
    g.found("no-operator", "refuse", "Caffe2 has no ReverseSequence")
    x, shape = node.input(0), g.known(node.input(0))
    time, batch = int(node.attr("time_axis", 0)), int(node.attr("batch_axis", 1))
    if g.value(node.input(1)) is None:
        return _reverse_packed(node, g, time, batch)
    lengths = g.need(node.input(1), "sequence_lens")
    places = np.arange(int(np.prod(shape))).reshape(shape)
    moved = np.moveaxis(places, (batch, time), (0, 1)).copy()
    for row, length in zip(moved, lengths):
        row[:length] = row[:length][::-1].copy()
    flat = np.moveaxis(moved, (0, 1), (batch, time))
    gather(g, reshape(g, x, [-1]), g.const(flat, "int64"), 0, node.out)
    return "a Gather in a fixed order"


def _reverse_packed(node: Node, g: Rewriter, time: int, batch: int) -> str:
    x, shape, dtype = node.input(0), g.known(node.input(0)), g.dtype(node.input(0))
    rest = [i for i in range(len(shape)) if i not in (time, batch)]
    order = [time, batch] + rest
    packed = reshape(
        g,
        transpose(g, cast(g, x, carrier(dtype, {"float32", "int32", "int64"})), order),
        [shape[time], shape[batch], -1],
    )
    done = g.emit("ReversePackedSegs", [packed, cast(g, node.input(1), "int32")], g.dtype(packed), g.shape(packed))
    back = transpose(g, reshape(g, done, [shape[i] for i in order]), [order.index(i) for i in range(len(shape))])
    cast(g, back, dtype, node.out)
    return "written as ReversePackedSegs"


def depth_to_space(node: Node, g: Rewriter) -> Optional[str]:
    """Reshape, Transpose, Reshape."""
    g.found("no-operator", "refuse", "Caffe2 has no DepthToSpace")
    n, c, h, w = g.known(node.input(0))
    b = int(node.attr("blocksize"))
    if node.attr("mode", "DCR") == "DCR":
        parts, order = [n, b, b, c // (b * b), h, w], [0, 3, 4, 1, 5, 2]
    else:
        parts, order = [n, c // (b * b), b, b, h, w], [0, 1, 4, 2, 5, 3]
    y = transpose(g, reshape(g, node.input(0), parts), order)
    reshape(g, y, [n, c // (b * b), h * b, w * b], node.out)
    return "written as Reshape, Transpose, Reshape"


def space_to_depth(node: Node, g: Rewriter) -> Optional[str]:
    """Reshape, Transpose, Reshape."""
    g.found("no-operator", "refuse", "Caffe2 has no SpaceToDepth")
    n, c, h, w = g.known(node.input(0))
    b = int(node.attr("blocksize"))
    y = transpose(g, reshape(g, node.input(0), [n, c, h // b, b, w // b, b]), [0, 3, 5, 1, 2, 4])
    reshape(g, y, [n, c * b * b, h // b, w // b], node.out)
    return "written as Reshape, Transpose, Reshape"


def top_k(node: Node, g: Rewriter) -> Optional[str]:
    """TopK of the smallest is TopK of the negated values."""
    largest = int(node.attr("largest", 1))
    dtype = g.dtype(node.input(0))
    if not largest:
        g.found("topk-smallest", "wrong", "Caffe2 drops largest=0 and gives the greatest values")
    elif dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    else:
        return None
    k = int(node.attr("k")) if node.opset < 10 else int(g.need(node.input(1), "k").reshape(-1)[0])
    axis = int(node.attr("axis", -1)) % g.rank(node.input(0))
    x = cast(g, node.input(0), "float32")
    x = x if largest else g.onnx("Neg", x)
    shape = list(g.shape(x) or [])
    shape[axis] = k
    values, _ = g.emit_many("TopK", [x], [("float32", shape, ""), ("int64", shape, node.output(1))], k=k, axis=axis)
    values = values if largest else g.onnx("Neg", values)
    cast(g, cast(g, values, dtype), dtype, node.out)
    return "TopK of the negated values" if not largest else "computed in float32"


RULES = {
    "Trilu": triangle,
    "EyeLike": eye_like,
    "Range": arange,
    "CumSum": cumulative,
    "ReverseSequence": reverse_sequence,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "TopK": top_k,
}
