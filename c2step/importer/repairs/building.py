"""The pieces that repairs are built from: one or a few Caffe2 operators that do exactly one thing.

Each takes the rewriter, value names and plain numbers, and returns the name of the result; `out` names it.
They hold for every dtype that Caffe2 can carry, going through a wider one where an operator lacks it.
"""

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from ..rewriter import Rewriter, Unrepairable

__all__ = [
    "HELD",
    "carrier",
    "cast",
    "concat",
    "copy",
    "expand",
    "expand_dims",
    "fill",
    "matmul",
    "reduce",
    "reshape",
    "slice_axis",
    "split",
    "squeeze",
    "take",
    "transpose",
    "wrap_indices",
]

FLOAT, INT32, BOOL, UINT8, INT8, UINT16, INT16, INT64, DOUBLE = 1, 2, 5, 6, 7, 8, 9, 10, 13
_CODES = {
    "float32": FLOAT,
    "int32": INT32,
    "bool": BOOL,
    "uint8": UINT8,
    "int8": INT8,
    "uint16": UINT16,
    "int16": INT16,
    "int64": INT64,
    "float64": DOUBLE,
}
HELD = set(_CODES) | {"float16"}
_WIDE = {"float32", "float64", "int32", "int64"}  # what Transpose, Expand and the Reduce operators take


def carrier(dtype: str, native: Any) -> str:
    """The dtype among `native` that holds the values of `dtype` best."""
    if dtype in native:
        return dtype
    if dtype not in HELD:
        raise Unrepairable("Caffe2 has no tensors of %s" % (dtype or "this type"))
    order = {"float16": ["float32"], "float64": ["float32"], "int64": ["float32"], "int32": ["int64", "float32"]}
    for wide in order.get(dtype, ["int32", "int64", "float32"]):
        if wide in native:
            return wide
    raise Unrepairable("Caffe2 has no operator for %s here" % dtype)


def cast(g: Rewriter, x: str, dtype: str, out: str = "") -> str:
    """`x` as another dtype."""
    source, shape = g.dtype(x), g.shape(x)
    for name in (source, dtype):
        if name not in HELD:
            raise Unrepairable("Caffe2 has no tensors of %s" % (name or "an unknown type"))
    if source == dtype:
        return copy(g, x, out) if out else x
    if source == "float16":
        wide = g.emit("HalfToFloat", [x], "float32", shape, out if dtype == "float32" else "")
        return wide if dtype == "float32" else cast(g, wide, dtype, out)
    if dtype == "float16":
        return g.emit("FloatToHalf", [cast(g, x, "float32")], dtype, shape, out)
    return g.emit("Cast", [x], dtype, shape, out, to=_CODES[dtype])


def through(g: Rewriter, x: str, native: Any, out: str, make: Any) -> str:
    """`make(x', out')` where x' is `x` in a dtype among `native`; the result is of x's dtype again."""
    dtype = g.dtype(x)
    wide = carrier(dtype, native)
    if wide == dtype:
        return str(make(x, out))
    return cast(g, str(make(cast(g, x, wide), "")), dtype, out)


def copy(g: Rewriter, x: str, out: str = "") -> str:
    """`x` under another name; where it was made for this alone, it only gets that name."""
    if out and g.call(x, out):
        return out
    return g.emit("Copy", [x], g.dtype(x), g.shape(x), out)


def reshape(g: Rewriter, x: str, shape: Sequence[int], out: str = "") -> str:
    """`x` with another shape; one -1 takes what is left, 0 keeps the dimension."""
    old = g.shape(x)
    if not out and old is not None and tuple(shape) == tuple(old):
        return x
    value = g.value(x)
    full = _reshaped(old, shape)
    if value is not None and not out and None not in full and value.size <= 4096:
        return g.const(value.reshape([d or 0 for d in full]))
    return g.emit_many("Reshape", [x], [(g.dtype(x), full, out), ("int64", None, "")], shape=list(shape))[0]


def _reshaped(old: Any, shape: Sequence[int]) -> List[Optional[int]]:
    full: List[Optional[int]] = [
        (old[i] if old is not None and i < len(old) else None)
        if d == 0 and old is not None and old[i : i + 1] != (0,)
        else d
        for i, d in enumerate(shape)
    ]
    if -1 not in full:
        return full
    count = None if old is None or None in old else int(np.prod(list(old), dtype=np.int64))
    rest = [d for d in full if d != -1]
    known = None if None in rest else int(np.prod([d for d in rest if d is not None], dtype=np.int64))
    missing = count // known if count is not None and known else None
    return [missing if d == -1 else d for d in full]


def expand_dims(g: Rewriter, x: str, axes: Sequence[int], out: str = "") -> str:
    """`x` with a dimension of 1 at each of `axes` (positions in the result)."""
    shape = list(g.shape(x) or [None] * g.rank(x))
    for axis in sorted(axes):
        shape.insert(axis, 1)
    value = g.value(x)
    if value is not None and not out and value.size <= 4096:
        return g.const(value.reshape([d or 0 for d in shape]))
    return g.emit("ExpandDims", [x], g.dtype(x), shape, out, dims=sorted(axes))


def squeeze(g: Rewriter, x: str, axes: Sequence[int], out: str = "") -> str:
    """`x` without the dimensions of 1 at `axes`."""
    shape = [d for i, d in enumerate(g.shape(x) or [None] * g.rank(x)) if i not in set(axes)]
    return g.emit("Squeeze", [x], g.dtype(x), shape, out, dims=sorted(axes))


def transpose(g: Rewriter, x: str, axes: Sequence[int], out: str = "") -> str:
    """`x` with its dimensions in the order `axes`."""
    if not out and list(axes) == list(range(len(axes))):
        return x
    old = g.shape(x)
    shape = None if old is None else [old[a] for a in axes]
    return through(g, x, _WIDE, out, lambda v, o: g.emit("Transpose", [v], g.dtype(v), shape, o, axes=list(axes)))


def concat(g: Rewriter, parts: Sequence[str], axis: int, out: str = "") -> str:
    """`parts` one behind the other along `axis`."""
    if len(parts) == 1:
        return copy(g, parts[0], out) if out else parts[0]
    shapes = [g.shape(p) for p in parts]
    shape: Optional[List[Optional[int]]] = None
    first = next((s for s in shapes if s is not None), None)
    if first is not None:
        axis %= len(first)
        shape = list(first)
        sizes = [None if s is None else s[axis] for s in shapes]
        shape[axis] = None if None in sizes else sum(s for s in sizes if s is not None)
    return g.emit_many("Concat", list(parts), [(g.dtype(parts[0]), shape, out), ("int32", None, "")], axis=axis)[0]


def split(g: Rewriter, x: str, sizes: Sequence[int], axis: int, outs: Sequence[str] = ()) -> List[str]:
    """`x` cut into pieces of `sizes` along `axis`."""
    shape = list(g.shape(x) or [None] * g.rank(x))
    names = list(outs) or [""] * len(sizes)
    pieces = [(g.dtype(x), shape[:axis] + [size] + shape[axis + 1 :], name) for size, name in zip(sizes, names)]
    if len(pieces) == 1:
        return [copy(g, x, names[0])]
    return g.emit_many("Split", [x], pieces, axis=axis, split=list(sizes))


def slice_axis(g: Rewriter, x: str, axis: int, start: int, end: int, out: str = "") -> str:
    """`x[start:end]` along one axis; both not negative, `end` may be past the dimension only where it is unknown."""
    rank = g.rank(x)
    shape = list(g.shape(x) or [None] * rank)
    size = shape[axis]
    starts, ends = [0] * rank, [-1] * rank
    starts[axis], ends[axis] = start, end
    shape[axis] = None if size is None else max(0, min(end, size) - min(start, size))
    return g.emit("Slice", [x], g.dtype(x), shape, out, starts=starts, ends=ends)


def take(g: Rewriter, x: str, indices: Any, axis: int, out: str = "") -> str:
    """`x` at fixed, non-negative `indices` along one axis."""
    places = np.asarray(indices, np.int64)
    return gather(g, x, g.const(places), axis, out)


def gather(g: Rewriter, x: str, indices: str, axis: int, out: str = "") -> str:
    """`x` at the non-negative `indices` (a blob) along one axis."""
    shape, places = g.shape(x), g.shape(indices)
    full = None if shape is None or places is None else list(shape[:axis]) + list(places) + list(shape[axis + 1 :])
    args = {"axis": axis} if axis else {}
    return g.emit("Gather", [x, indices], g.dtype(x), full, out, **args)


def wrap_indices(g: Rewriter, indices: str, size: int) -> str:
    """`indices` with negative ones counted from the end of a dimension of `size`."""
    value = g.value(indices)
    if value is not None:
        return indices if value.size == 0 or value.min() >= 0 else g.const(np.where(value < 0, value + size, value))
    return g.emit("Mod", [indices], g.dtype(indices), g.shape(indices), divisor=size, sign_follow_divisor=1)


def expand(g: Rewriter, x: str, shape: Sequence[int], out: str = "") -> str:
    """`x` broadcast to `shape`."""
    if not out and g.shape(x) == tuple(shape):
        return x
    if 0 in shape:
        return fill(g, shape, 0, g.dtype(x), out)
    target = g.const(np.array(shape, np.int64))
    return through(g, x, _WIDE, out, lambda v, o: g.emit("Expand", [v, target], g.dtype(v), list(shape), o))


def fill(g: Rewriter, shape: Sequence[int], value: Any, dtype: str, out: str = "") -> str:
    """A blob of fixed `shape` with one `value` everywhere."""
    if dtype == "float16":
        return cast(g, fill(g, shape, value, "float32"), dtype, out)
    number = bool(value) if dtype == "bool" else float(value) if dtype.startswith("float") else int(value)
    return g.emit("ConstantFill", [], dtype, list(shape), out, shape=list(shape), value=number, dtype=_CODES[dtype])


def fill_like(g: Rewriter, x: str, value: Any, dtype: str, out: str = "") -> str:
    """A blob of the shape of `x` with one `value` everywhere."""
    if dtype == "float16":
        return cast(g, fill_like(g, x, value, "float32"), dtype, out)
    number = bool(value) if dtype == "bool" else float(value) if dtype.startswith("float") else int(value)
    return g.emit("ConstantFill", [x], dtype, g.shape(x), out, value=number, dtype=_CODES[dtype])


def reduce(g: Rewriter, kind: str, x: str, axes: Sequence[int], keepdims: bool = True, out: str = "") -> str:
    """ReduceSum, ReduceMean, ReduceMax or ReduceMin over `axes` (not negative)."""
    shape = list(g.shape(x) or [None] * g.rank(x))
    left = (
        [1 if i in set(axes) else d for i, d in enumerate(shape)]
        if keepdims
        else [d for i, d in enumerate(shape) if i not in set(axes)]
    )
    native = {"float32"} if kind == "ReduceMean" else _WIDE
    if not axes:
        return copy(g, x, out)
    return through(
        g,
        x,
        native,
        out,
        lambda v, o: g.emit(kind, [v], g.dtype(v), left, o, axes=sorted(axes), keepdims=int(keepdims)),
    )


def matmul(g: Rewriter, a: str, b: str, out: str = "") -> str:
    """The matrix product of two float32 blobs, leading dimensions broadcast as numpy does."""
    left, right = g.shape(a), g.shape(b)
    shape: Optional[Tuple[Any, ...]] = None
    if left is not None and right is not None:
        shape = _product_shape(left, right)
    return g.emit("BatchMatMul", [a, b], "float32", shape, out, broadcast=1)


def _product_shape(left: Tuple[Any, ...], right: Tuple[Any, ...]) -> Tuple[Any, ...]:
    lead = broadcast_shape(left[:-2], right[:-2])
    return lead + (left[-2:-1] if len(left) > 1 else ()) + (right[-1:] if len(right) > 1 else ())


def broadcast_shape(*shapes: Tuple[Any, ...]) -> Tuple[Any, ...]:
    """The shape that numpy broadcasts `shapes` to, None for what is unknown."""
    rank = max(len(s) for s in shapes)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    result = []
    for sizes in zip(*padded):
        big = [d for d in sizes if d != 1]
        fixed = [d for d in big if d is not None]
        result.append(fixed[0] if fixed else (None if big else 1))
    return tuple(result)
