"""Reductions: axes as an input, reductions that Caffe2 lacks, arg-extremes.

Matches every Reduce with axes as an input (opset 13 for ReduceSum, 18 for the rest) or no axes at all where
noop_with_empty_axes is set, ReduceProd, ReduceSumSquare, ReduceLogSum, ReduceLogSumExp, dtypes that Caffe2
lacks, ArgMax and ArgMin with select_last_index.
"""

from typing import Callable, List, Optional

import numpy as np

from ..rewriter import Node, Rewriter, Unrepairable
from .axes import axes_of
from .building import carrier, cast, concat, copy, fill, reduce, slice_axis, squeeze, take
from .dtypes import exactness, found_dtype

__all__ = ["RULES"]

_WIDE = {"float32", "float64", "int32", "int64"}
_NATIVE = {
    "ReduceSum": _WIDE,
    "ReduceMax": _WIDE,
    "ReduceMin": _WIDE,
    "ReduceMean": {"float32"},
    "ReduceL1": {"float32"},
    "ReduceL2": {"float32"},
}
_NEUTRAL = {
    "ReduceSum": 0.0,
    "ReduceProd": 1.0,
    "ReduceL1": 0.0,
    "ReduceL2": 0.0,
    "ReduceSumSquare": 0.0,
    "ReduceLogSum": -np.inf,
    "ReduceLogSumExp": -np.inf,
    "ReduceMax": -np.inf,
    "ReduceMin": np.inf,
}


def reduction(node: Node, g: Rewriter) -> Optional[str]:
    """Any Reduce with its axes as an argument, built from those that Caffe2 has."""
    dtype = g.dtype(node.input(0))
    if node.op not in _NATIVE:
        g.found("no-operator", "refuse", "Caffe2 has no %s" % node.op)
    elif len(node.inputs) > 1:
        g.found("axes-input", "fail", "Caffe2's %s takes its axes as an argument, not as an input" % node.op)
    elif node.attr("noop_with_empty_axes", 0):
        g.found("reduce-noop", "wrong", "Caffe2 drops noop_with_empty_axes and reduces everything")
    elif dtype and dtype not in _NATIVE[node.op]:
        found_dtype(node, g, dtype)
    elif _empty(node, g) and node.op in ("ReduceMax", "ReduceMin"):
        g.found("reduce-empty", "wrong", "Caffe2's %s of nothing is the greatest float, not infinity" % node.op)
    else:
        if node.op in ("ReduceMax", "ReduceMin"):
            g.found("reduce-nan", "note", "Caffe2's %s passes over NaN where others return it" % node.op)
        return None
    axes = _axes(node, g)
    if not axes:
        copy(g, node.input(0), node.out) if node.op in (
            "ReduceSum",
            "ReduceProd",
            "ReduceMax",
            "ReduceMin",
            "ReduceMean",
        ) else _element(node, g)
        return "nothing to reduce"
    if _empty(node, g) and node.op in _NEUTRAL:
        fill(g, g.known(node.out), _NEUTRAL[node.op], dtype, node.out)
        return "of an empty tensor: %s" % _NEUTRAL[node.op]
    keep = bool(node.attr("keepdims", 1))
    wide = _wide(node.op, dtype)
    y = _BUILT[node.op](g, cast(g, node.input(0), wide), axes, keep)
    cast(g, y, dtype, node.out)
    return "over axes %s, in %s%s" % (axes, wide, exactness(dtype, wide) if wide != dtype else "")


def _wide(op: str, dtype: str) -> str:
    native = _NATIVE.get(op, _WIDE)
    if op in ("ReduceProd", "ReduceSumSquare"):
        native = _WIDE
    elif op in ("ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceL2"):
        native = {"float32"}
    elif op == "ReduceL1" and dtype.startswith("int"):
        native = _WIDE
    return carrier(dtype, native)


def _empty(node: Node, g: Rewriter) -> bool:
    shape = g.shape(node.input(0))
    return shape is not None and 0 in shape


def _axes(node: Node, g: Rewriter) -> List[int]:
    rank = g.rank(node.input(0))
    axes = axes_of(node, g, rank)
    if not axes:
        return [] if node.attr("noop_with_empty_axes", 0) else list(range(rank))
    return axes


def _element(node: Node, g: Rewriter) -> None:
    """The reductions that change each element even where no axis is reduced."""
    x = node.input(0)
    if node.op in ("ReduceL1", "ReduceL2"):
        g.onnx("Abs", x, out=node.out)
    elif node.op == "ReduceSumSquare":
        g.onnx("Mul", x, x, out=node.out)
    elif node.op == "ReduceLogSum":
        g.onnx("Log", x, out=node.out)
    else:
        copy(g, x, node.out)


_Reduction = Callable[[Rewriter, str, List[int], bool], str]


def _plain(kind: str) -> _Reduction:
    return lambda g, x, axes, keep: reduce(g, kind, x, axes, keep)


def _l1(g: Rewriter, x: str, axes: List[int], keep: bool) -> str:
    return reduce(g, "ReduceSum", g.onnx("Abs", x), axes, keep)


def _square_sum(g: Rewriter, x: str, axes: List[int], keep: bool) -> str:
    return reduce(g, "ReduceSum", g.onnx("Mul", x, x), axes, keep)


def _l2(g: Rewriter, x: str, axes: List[int], keep: bool) -> str:
    return g.onnx("Sqrt", _square_sum(g, x, axes, keep))


def _log_sum(g: Rewriter, x: str, axes: List[int], keep: bool) -> str:
    return g.onnx("Log", reduce(g, "ReduceSum", x, axes, keep))


def _log_sum_exp(g: Rewriter, x: str, axes: List[int], keep: bool) -> str:
    top = reduce(g, "ReduceMax", x, axes, True)
    total = reduce(g, "ReduceSum", g.onnx("Exp", g.onnx("Sub", x, top)), axes, True)
    y = g.onnx("Add", g.onnx("Log", total), top)
    if keep:
        return y
    return squeeze(g, y, axes)


def _product(g: Rewriter, x: str, axes: List[int], keep: bool) -> str:
    """Halves multiplied with each other until one is left, axis by axis."""
    for axis in axes:
        size = g.known(x)[axis]
        while size > 1:
            half = size // 2
            y = g.onnx("Mul", slice_axis(g, x, axis, 0, half), slice_axis(g, x, axis, half, 2 * half))
            if size % 2:
                y = concat(g, [y, slice_axis(g, x, axis, 2 * half, size)], axis)
            x, size = y, half + size % 2
    if keep:
        return x
    return squeeze(g, x, axes)


_BUILT = {
    "ReduceSum": _plain("ReduceSum"),
    "ReduceMax": _plain("ReduceMax"),
    "ReduceMin": _plain("ReduceMin"),
    "ReduceMean": _plain("ReduceMean"),
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceSumSquare": _square_sum,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceProd": _product,
}


def arg_extreme(node: Node, g: Rewriter) -> Optional[str]:
    """ArgMax and ArgMin, the last of equals by looking from the end."""
    dtype = g.dtype(node.input(0))
    if node.attr("select_last_index", 0):
        g.found("arg-last", "refuse", "Caffe2's backend does not know select_last_index")
    elif "select_last_index" in node.attrs:
        g.found("arg-last", "refuse", "Caffe2's backend does not know select_last_index, even as 0")
    elif dtype and dtype not in _WIDE:
        found_dtype(node, g, dtype)
    else:
        return None
    axis = int(node.attr("axis", 0)) % g.rank(node.input(0))
    keep = int(node.attr("keepdims", 1))
    x = cast(g, node.input(0), carrier(dtype, _WIDE))
    shape = g.shape(node.out)
    if not node.attr("select_last_index", 0):
        g.emit(node.op, [x], "int64", shape, node.out, axis=axis, keepdims=keep)
        return "without select_last_index"
    size = g.known(x)[axis]
    turned = take(g, x, np.arange(size)[::-1], axis)
    place = g.emit(node.op, [turned], "int64", shape, axis=axis, keepdims=keep)
    g.onnx("Sub", g.const(size - 1, "int64"), place, out=node.out)
    return "%s of the reversed values" % node.op


def norm(node: Node, g: Rewriter) -> Optional[str]:
    """LpNormalization: x divided by its norm along an axis."""
    g.found("no-operator", "refuse", "Caffe2's backend has no LpNormalization")
    axis = int(node.attr("axis", -1)) % g.rank(node.input(0))
    p = int(node.attr("p", 2))
    if p not in (1, 2):
        raise Unrepairable("p = %d is not defined" % p)
    x = cast(g, node.input(0), "float32")
    size = (_l1 if p == 1 else _l2)(g, x, [axis], True)
    cast(g, g.onnx("Div", x, size), g.dtype(node.input(0)), node.out)
    return "x divided by its L%d norm" % p


RULES = dict.fromkeys(_BUILT, reduction)
RULES.update({"ArgMax": arg_extreme, "ArgMin": arg_extreme, "LpNormalization": norm})
