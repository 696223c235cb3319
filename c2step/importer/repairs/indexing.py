"""Slices, padding, gathers and scatters.

Matches Slice with inputs (Caffe2 drops them and returns everything) or along several axes, Pad beyond NCHW or
with inputs, Gather with negative indices or beyond axis 1, GatherElements, GatherND, Scatter with its default
axis (Caffe2's is 1, ONNX's 0), ScatterElements, ScatterND, Compress, NonZero, OneHot, Trilu, EyeLike, Range,
CumSum, ReverseSequence, DepthToSpace, SpaceToDepth.  Indices are made non-negative, fixed ones at import.
"""

from typing import Any, List, Optional, Tuple

import numpy as np

from ..rewriter import Node, Rewriter, Unrepairable
from .building import (
    HELD,
    carrier,
    cast,
    concat,
    copy,
    expand_dims,
    fill,
    gather,
    reshape,
    slice_axis,
    take,
    through,
    transpose,
    wrap_indices,
)
from .dtypes import found_dtype

__all__ = ["RULES"]

_INT_MAX = (1 << 31) - 2


# --- Slice ---------------------------------------------------------------------------------------


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
        raise Unrepairable("dimension %d of %s is not known: give the input, or --dim" % (axis, x))
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


# --- Pad -----------------------------------------------------------------------------------------


def pad(node: Node, g: Rewriter) -> Optional[str]:
    """PadImage where it fits, else Concat with fills, or Gather for the modes that repeat the image."""
    mode = node.attr("mode", "constant")
    name = "paddings" if node.opset < 2 else "pads"
    pads = node.attr(name)
    dtype, rank = g.dtype(node.input(0)), g.shape(node.input(0))
    if node.opset >= 11:
        g.found("pad-inputs", "refuse", "Caffe2's backend wants pads as an attribute")
    elif pads and min(pads) < 0 or not _image_pads(pads):
        g.found("pad-form", "refuse", "Caffe2 pads height and width of NCHW only, not negatively")
    elif dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    elif (
        mode == "reflect"
        and rank
        and None not in rank
        and any(p >= d for p, d in zip(pads[2:4] + pads[6:8], list(rank[2:4]) * 2))
    ):
        g.found(
            "pad-reflect-far", "wrong", "Caffe2's PadImage reads past the image when it reflects more than its size"
        )
        raise Unrepairable("such a reflection is not defined")
    else:
        return None
    if node.opset >= 11:
        pads = g.need(node.input(1), "pads").reshape(-1).tolist()
    pads = _full_pads(node, g, [int(p) for p in pads])
    value = _pad_value(node, g)
    x = node.input(0)
    if dtype == "float32" and _image_pads(pads) and g.rank(x) == 4 and mode != "wrap" and _near(g, x, pads, mode):
        g.emit("PadImage", [x], dtype, g.shape(node.out), node.out, mode=mode, value=value, pads=pads[2:4] + pads[6:8])
        return "PadImage with pads as an argument"
    for axis in range(g.rank(x)):
        x = _pad_axis(g, x, axis, pads[axis], pads[axis + len(pads) // 2], mode, value)
    copy(g, x, node.out)
    return "written with %s" % ("Concat" if mode == "constant" else "Gather")


def _near(g: Rewriter, x: str, pads: List[int], mode: str) -> bool:
    shape = g.shape(x)
    if mode != "reflect":
        return True
    return shape is not None and all(d is not None and p < d for p, d in zip(pads[2:4] + pads[6:8], shape[2:4] * 2))


def _image_pads(pads: Any) -> bool:
    return bool(pads) and len(pads) == 8 and pads[0] == pads[1] == pads[4] == pads[5] == 0 and min(pads) >= 0


def _full_pads(node: Node, g: Rewriter, pads: List[int]) -> List[int]:
    if not node.input(3):
        return pads
    rank = g.rank(node.input(0))
    axes = [int(a) % rank for a in g.need(node.input(3), "axes").reshape(-1)]
    full = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        full[axis], full[axis + rank] = pads[i], pads[i + len(axes)]
    return full


def _pad_value(node: Node, g: Rewriter) -> float:
    if node.opset < 11:
        return float(node.attr("value", 0.0))
    value = g.need(node.input(2), "the constant value") if node.input(2) else np.zeros(1)
    return value.reshape(-1)[0].item() if value.size else 0.0


def _pad_axis(g: Rewriter, x: str, axis: int, before: int, after: int, mode: str, value: float) -> str:
    if before < 0 or after < 0:
        size = g.known(x)[axis]
        x = slice_axis(g, x, axis, max(0, -before), size - max(0, -after))
    before, after = max(0, before), max(0, after)
    if not before and not after:
        return x
    if mode != "constant":
        size = g.known(x)[axis]
        numpy_mode = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}[mode]
        return take(g, x, np.pad(np.arange(size), (before, after), mode=numpy_mode), axis)
    shape, dtype = list(g.known(x)), g.dtype(x)
    parts = [x]
    for count, place in ((before, 0), (after, 1)):
        if count:
            part = fill(g, shape[:axis] + [count] + shape[axis + 1 :], value, dtype)
            parts.insert(len(parts) if place else 0, part)
    return concat(g, parts, axis)


# --- Gather --------------------------------------------------------------------------------------


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
        raise Unrepairable("dimension %d of %s is not known, so a negative index has no place" % (axis, x))
    elif axis in (0, 1) and places is None:
        return None
    gather(g, x, indices, axis, node.out)
    return "Gather with axis=%d%s" % (axis, ", negative indices counted from the end")


def _flat_indices(g: Rewriter, indices: str, axis: int, shape: Tuple[int, ...]) -> str:
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
    places = _flat_indices(g, node.input(1), axis, shape)
    gather(g, reshape(g, node.input(0), [-1]), places, 0, node.out)
    return "written as Gather from the flat data"


def _nd_places(g: Rewriter, indices: str, shape: Tuple[int, ...], batch: int) -> Tuple[str, int]:
    """Row numbers for index tuples in the last dimension of `indices`, and how many dimensions a tuple names."""
    where = g.known(indices)
    depth = where[-1]
    places = ""
    for i in range(depth):
        column = reshape(g, slice_axis(g, cast(g, indices, "int64"), len(where) - 1, i, i + 1), list(where[:-1]))
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
    places, depth = _nd_places(g, node.input(1), shape, batch)
    rest = list(shape[batch + depth :])
    rows = reshape(g, node.input(0), [int(np.prod(shape[: batch + depth], dtype=np.int64))] + rest)
    gather(g, rows, places, 0, node.out)
    return "written as Gather of numbered rows"


def scatter_elements(node: Node, g: Rewriter) -> Optional[str]:
    """Scatter with its axis said, or ATen's where a reduction is asked for."""
    reduction = node.attr("reduction", "none")
    axis = int(node.attr("axis", 0))
    if node.op != "Scatter":
        g.found("no-operator", "refuse", "Caffe2's backend does not know ScatterElements")
    elif "axis" not in node.attrs:
        g.found("scatter-axis", "wrong", "Caffe2's Scatter works along axis 1 unless told, ONNX means 0")
    else:
        return None
    shape = g.known(node.input(0))
    axis %= max(1, len(shape))
    if reduction != "none":
        return _scatter_reduced(node, g, axis, reduction)
    indices = wrap_indices(g, cast(g, node.input(1), "int64"), shape[axis])
    return _scatter_flat(node, g, indices, axis, shape)


def _scatter_flat(node: Node, g: Rewriter, indices: str, axis: int, shape: Tuple[int, ...]) -> str:
    """ScatterAssign on the flat data, which every Caffe2 does alike (Scatter checks wrongly before 1.4)."""
    dtype = g.dtype(node.input(0))
    wide = carrier(dtype, {"float32", "int32", "int64"})
    flat = copy(g, reshape(g, cast(g, node.input(0), wide), [-1]))
    places = reshape(g, _flat_indices(g, indices, axis, shape), [-1])
    updates = reshape(g, cast(g, node.input(2), wide), [-1])
    g.emit("ScatterAssign", [flat, places, updates], wide, g.shape(flat), flat)
    cast(g, reshape(g, flat, list(shape)), dtype, node.out)
    return "written as ScatterAssign on the flat data, axis %d" % axis


def _scatter_reduced(node: Node, g: Rewriter, axis: int, reduction: str) -> str:
    """Fixed indices: one ScatterAssign round for each repetition of a place, with the reduction in between."""
    places = g.need(node.input(1), "the indices of a reducing scatter")
    shape = g.known(node.input(0))
    places = np.where(places < 0, places + shape[axis], places)
    grids = np.indices(places.shape)
    full = [grids[i] if i != axis else places for i in range(len(shape))]
    flat = np.ravel_multi_index(full, shape).reshape(-1)
    x = _rounds(g, reshape(g, node.input(0), [-1]), flat, reshape(g, node.input(2), [-1]), reduction)
    copy(g, reshape(g, x, list(shape)), node.out)
    return "written as ScatterAssign of %s, one round for each repeated place" % reduction


def _rounds(g: Rewriter, rows: str, places: np.ndarray, updates: str, reduction: str) -> str:
    """`rows` with `updates` (rows too) put at `places`, combined by `reduction`."""
    op = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}[reduction]
    seen = np.array([np.sum(places[:i] == p) for i, p in enumerate(places)])
    dtype = g.dtype(rows)
    wide = carrier(dtype, {"float32", "int32", "int64"})
    data = copy(g, cast(g, rows, wide))
    updates = cast(g, updates, wide)
    for turn in range(int(seen.max()) + 1 if seen.size else 0):
        chosen = np.flatnonzero(seen == turn)
        old = take(g, data, places[chosen], 0)
        new = g.onnx(op, old, take(g, updates, chosen, 0))
        g.emit("ScatterAssign", [data, g.const(places[chosen], "int64"), new], wide, g.shape(data), data)
    return cast(g, data, dtype)


def scatter_nd(node: Node, g: Rewriter) -> Optional[str]:
    """ScatterAssign of rows whose number is computed from the index tuples."""
    g.found("no-operator", "refuse", "Caffe2 has no ScatterND")
    shape, dtype = g.known(node.input(0)), g.dtype(node.input(0))
    places, depth = _nd_places(g, node.input(1), shape, 0)
    rest = list(shape[depth:])
    count = int(np.prod(shape[:depth], dtype=np.int64))
    wide = carrier(dtype, {"float32", "int32", "int64"})
    rows = reshape(g, cast(g, node.input(0), wide), [count] + rest)
    updates = reshape(g, cast(g, node.input(2), wide), [-1] + rest)
    reduction = node.attr("reduction", "none")
    if reduction != "none":
        tuples = g.need(node.input(1), "the indices of a reducing scatter").reshape(-1, depth)
        fixed = np.ravel_multi_index(tuple((tuples % np.array(shape[:depth])).T), shape[:depth])
        data = _rounds(g, rows, fixed, updates, reduction)
    else:
        data = copy(g, rows)
        g.emit("ScatterAssign", [data, reshape(g, places, [-1]), updates], wide, g.shape(data), data)
    cast(g, reshape(g, data, list(shape)), dtype, node.out)
    return "written as ScatterAssign of numbered rows"


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
    from ..values import dtype_name

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
    return "a product with a triangle of ones, in float32"


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


def non_zero(node: Node, g: Rewriter) -> Optional[str]:
    """NonZero of a fixed value is folded; else there is no operator for all ranks."""
    g.found("nonzero", "note", "Caffe2's backend writes NonZero with operators that are checked for few forms")
    return None


RULES = {
    "Slice": slice_all,
    "Pad": pad,
    "Gather": gather_axis,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "Compress": compress,
    "OneHot": one_hot,
    "Trilu": triangle,
    "EyeLike": eye_like,
    "Range": arange,
    "CumSum": cumulative,
    "ReverseSequence": reverse_sequence,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "TopK": top_k,
    "NonZero": non_zero,
}
