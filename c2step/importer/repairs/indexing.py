"""Slices and gathers.

Matches Slice with inputs (Caffe2 drops them and returns everything) or along several axes, Gather with negative
indices or beyond axis 1, GatherElements, GatherND, Compress, OneHot.  Indices are made non-negative, fixed ones at
import.
"""

from typing import List, Optional, Tuple

import numpy as np

from ..rewriter import Node, NotKnown, Rewriter
from .building import cast, copy, expand_dims, gather, reshape, slice_axis, take, transpose, wrap_indices

__all__ = ["RULES", "flat_indices", "row_numbers"]


def _slice_plan(node: Node, g: Rewriter) -> List[Tuple[int, int, int, int]]:
    rank = g.rank(node.input(0))
    if node.opset < 10:
        starts, ends = node.attr("starts"), node.attr("ends")
        axes, steps = node.attr("axes") or list(range(len(starts))), [1] * len(starts)
    else:
        starts = g.need(node.input(1), "starts").reshape(-1).tolist()
        ends = g.need(node.input(2), "ends").reshape(-1).tolist()
        axes = g.need(node.input(3), "axes").reshape(-1).tolist() if node.input(3) else list(range(len(starts)))
        steps = g.need(node.input(4), "steps").reshape(-1).tolist() if node.input(4) else [1] * len(starts)
    return [(int(a) % rank, int(s), int(e), int(t)) for a, s, e, t in zip(axes, starts, ends, steps)]


def slice_all(node: Node, g: Rewriter) -> Optional[str]:
    """One Caffe2 Slice for each axis, Gather where the step is not 1."""
    if node.opset >= 10 and _takes_all(node, g):
        return None
    if node.opset >= 10:
        g.found("slice-inputs", "wrong", "Caffe2 drops the inputs of Slice-10 and returns the whole tensor")
    elif not _slice_fails(node, g):
        return None
    else:
        g.found("slice-form", "fail", "Caffe2's Slice cuts one axis, within its bounds")
    x = node.input(0)
    plan = _slice_plan(node, g)
    for axis, start, end, step in plan:
        x = _slice_one(g, x, axis, start, end, step)
    copy(g, x, node.out)
    return "one Slice for each axis: %s" % ", ".join("axis %d" % p[0] for p in plan)


def _takes_all(node: Node, g: Rewriter) -> bool:
    """Whether Slice-10 is known to give the whole tensor."""
    shape = g.shape(node.input(0))
    if shape is None or any(g.value(name) is None for name in node.inputs[1:] if name):
        return False
    sizes = [(shape[axis], part) for axis, *part in _slice_plan(node, g)]
    return all(size is not None and slice(*part).indices(size) == (0, size, 1) for size, part in sizes)


def _slice_fails(node: Node, g: Rewriter) -> bool:
    shape = g.shape(node.input(0))
    starts, ends = node.attr("starts"), node.attr("ends")
    axes = node.attr("axes") or list(range(len(starts)))
    if any(a < 0 for a in axes):
        return True
    cut = 0
    for axis, start, end in zip(axes, starts, ends):
        size = shape[axis] if shape and axis < len(shape) else None
        if size is None:
            cut += not (start == 0 and end >= (1 << 31) - 1)
            continue
        first, last, _ = slice(start, end).indices(size)
        cut += (first, last) != (0, size)
        if start < -size or end < -size or last < first:
            return True
    return cut > 1


def _slice_one(g: Rewriter, x: str, axis: int, start: int, end: int, step: int) -> str:
    shape = g.shape(x)
    size = shape[axis] if shape else None
    if size is not None:
        first, last, _ = slice(start, None if step < 0 and end < -size else end, step).indices(size)
        if step == 1:
            return x if (first, last) == (0, size) else slice_axis(g, x, axis, first, max(first, last))
        return take(g, x, np.arange(first, last, step), axis)
    if step != 1 or start < 0:
        raise NotKnown("dimension %d of %s is not known" % (axis, x))
    if end >= (1 << 31) - 1:
        end = -1
    elif end < 0:
        end -= 1
    if start == 0 and end == -1:
        return x
    return _open_slice(g, x, axis, start, end)


def _open_slice(g: Rewriter, x: str, axis: int, start: int, end: int) -> str:
    """A slice whose end counts from the end of an unknown dimension, in Caffe2's way (-1 is the end)."""
    rank = g.rank(x)
    starts, ends = [0] * rank, [-1] * rank
    starts[axis], ends[axis] = start, end
    shape = list(g.shape(x) or [None] * rank)
    shape[axis] = None
    return g.emit("Slice", [x], g.dtype(x), shape, starts=starts, ends=ends)


def gather_axis(node: Node, g: Rewriter) -> Optional[str]:
    """Gather along any axis, negative indices counted from the end."""
    shape, x, indices = g.shape(node.input(0)), node.input(0), node.input(1)
    axis = int(node.attr("axis", 0))
    places = g.value(indices)
    negative = places is not None and places.size > 0 and places.min() < 0
    if axis not in (0, 1):
        g.found("gather-axis", "refuse", "Caffe2's backend takes Gather along axis 0 and 1 only")
    elif negative and axis == 1:
        g.found("gather-negative", "fail", "Caffe2's BatchGather takes no negative indices")
    elif negative:
        g.found("gather-negative", "note", "Caffe2's Gather takes negative indices since 1.3 only")
    elif axis == 1 and places is None:
        g.found("gather-negative", "note", "a negative index would stop Caffe2's BatchGather")
    else:
        return None
    rank = g.rank(x)
    axis %= max(1, rank)
    size = shape[axis] if shape else None
    if size is not None and not (places is not None and not negative):
        indices = wrap_indices(g, indices, size)
    elif negative:
        raise NotKnown("a negative index has no place: dimension %d of %s is not known" % (axis, x))
    elif axis in (0, 1) and places is None:
        return None
    gather(g, x, indices, axis, node.out)
    return "Gather with axis=%d%s" % (axis, ", negative indices counted from the end")


def flat_indices(g: Rewriter, indices: str, axis: int, shape: Tuple[int, ...]) -> str:
    """Positions in the flat data for elements picked along `axis` at `indices` (GatherElements' rule)."""
    picked = g.known(indices)
    grids = np.indices(picked, dtype=np.int64) if picked else np.zeros((0,), np.int64)
    strides = [int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape))]
    base = np.zeros(picked, np.int64)
    for i in range(len(shape)):
        if i != axis:
            base += grids[i] * strides[i]
    wrapped = wrap_indices(g, cast(g, indices, "int64"), shape[axis])
    return g.onnx("Add", g.onnx("Mul", wrapped, g.const(strides[axis], "int64")), g.const(base))


def gather_elements(node: Node, g: Rewriter) -> Optional[str]:
    """A Gather from the flattened data."""
    g.found("no-operator", "refuse", "Caffe2 has no GatherElements")
    shape = g.known(node.input(0))
    axis = int(node.attr("axis", 0)) % max(1, len(shape))
    places = flat_indices(g, node.input(1), axis, shape)
    gather(g, reshape(g, node.input(0), [-1]), places, 0, node.out)
    return "written as Gather from the flat data"


def row_numbers(g: Rewriter, indices: str, shape: Tuple[int, ...], batch: int) -> Tuple[str, int]:
    """Row numbers for index tuples in the last dimension of `indices`, and how many dimensions a tuple names.

    How many tuples there are may be known only at run time, as after NonZero.
    """
    where = g.shape(indices)
    if where is None or where[-1] is None or where[:-1].count(None) > 1:
        where = g.known(indices)
    depth = where[-1] or 0
    front = [-1 if d is None else d for d in where[:-1]]
    places = ""
    for i in range(depth):
        column = reshape(g, slice_axis(g, cast(g, indices, "int64"), len(where) - 1, i, i + 1), front)
        column = wrap_indices(g, column, shape[batch + i])
        stride = int(np.prod(shape[batch + i + 1 : batch + depth], dtype=np.int64))
        term = g.onnx("Mul", column, g.const(stride, "int64"))
        places = g.onnx("Add", places, term) if places else term
    if batch:
        rows = np.arange(int(np.prod(shape[:batch], dtype=np.int64))).reshape(
            list(shape[:batch]) + [1] * (len(where) - 1 - batch)
        )
        size = int(np.prod(shape[batch : batch + depth], dtype=np.int64))
        places = g.onnx("Add", places, g.const(rows * size, "int64"))
    return places, depth


def gather_nd(node: Node, g: Rewriter) -> Optional[str]:
    """A Gather of rows whose number is computed from the index tuples."""
    g.found("no-operator", "refuse", "Caffe2 has no GatherND")
    shape, batch = g.known(node.input(0)), int(node.attr("batch_dims", 0))
    places, depth = row_numbers(g, node.input(1), shape, batch)
    rest = list(shape[batch + depth :])
    rows = reshape(g, node.input(0), [int(np.prod(shape[: batch + depth], dtype=np.int64))] + rest)
    gather(g, rows, places, 0, node.out)
    return "written as Gather of numbered rows"


def compress(node: Node, g: Rewriter) -> Optional[str]:
    """Compress with a fixed condition is a Gather, else BooleanMask."""
    g.found("no-operator", "refuse", "Caffe2 has no Compress")
    x, axis = node.input(0), node.attr("axis")
    if axis is None:
        x, axis = reshape(g, x, [-1]), 0
    axis = int(axis) % g.rank(x)
    chosen = g.value(node.input(1))
    if chosen is not None:
        take(g, x, np.flatnonzero(chosen), axis, node.out)
        return "a Gather of the chosen places"
    size, count = g.known(x)[axis], g.known(node.input(1))[0]
    order = [axis] + [i for i in range(g.rank(x)) if i != axis]
    rows = transpose(g, x, order)
    if count < size:
        rows = slice_axis(g, rows, 0, 0, count)
    shape = [None] + list(g.shape(rows) or [])[1:]
    kept = g.emit("BooleanMask", [rows, node.input(1)], g.dtype(x), shape)
    copy(g, transpose(g, kept, [order.index(i) for i in range(len(order))]), node.out)
    return "written as BooleanMask"


def one_hot(node: Node, g: Rewriter) -> Optional[str]:
    """OneHot by comparison with positions."""
    g.found("onehot-form", "fail", "Caffe2's OneHot takes no values and no axis")
    depth = int(g.need(node.input(1), "depth").reshape(-1)[0])
    rank = g.rank(node.input(0))
    axis = int(node.attr("axis", -1)) % (rank + 1)
    indices = (
        g.emit(
            "Mod",
            [cast(g, node.input(0), "int64")],
            "int64",
            g.shape(node.input(0)),
            divisor=depth,
            sign_follow_divisor=1,
        )
        if g.dtype(node.input(0)).startswith(("int", "uint"))
        else cast(g, node.input(0), "int64")
    )
    places = np.arange(depth).reshape([-1] + [1] * (rank - axis))
    hit = g.onnx("Equal", expand_dims(g, indices, [axis]), g.const(places, "int64"))
    values, dtype = node.input(2), g.dtype(node.input(2))
    off = slice_axis(g, values, 0, 0, 1) if g.value(values) is None else g.const(g.need(values, "values")[:1])
    on = slice_axis(g, values, 0, 1, 2) if g.value(values) is None else g.const(g.need(values, "values")[1:])
    g.onnx("Where", hit, on, off, out=node.out)
    return "written as comparison with positions, in %s" % dtype


def non_zero(node: Node, g: Rewriter) -> Optional[str]:
    """NonZero of a fixed value is folded; else there is no operator for all ranks."""
    g.found("nonzero", "note", "Caffe2's backend writes NonZero with operators that are checked for few forms")
    return None


RULES = {
    "Slice": slice_all,
    "Gather": gather_axis,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Compress": compress,
    "OneHot": one_hot,
    "NonZero": non_zero,
}
