"""Scatters.

Matches Scatter, whose default axis is 1 in Caffe2 and 0 in ONNX and which Caffe2 misplaces along axis 0,
ScatterElements and ScatterND.  Written as ScatterAssign on flattened or numbered rows; a reduction takes one round
for each time a place is named again.
"""

from typing import Optional, Tuple

import numpy as np

from ..rewriter import Node, Rewriter
from .building import carrier, cast, copy, reshape, take, wrap_indices
from .indexing import flat_indices, row_numbers

__all__ = ["RULES"]


def _whole_rows(node: Node, g: Rewriter, axis: int) -> bool:
    """Whether the indices span the data in every other dimension, and none is known to be negative."""
    shape, picked, places = g.shape(node.input(0)), g.shape(node.input(1)), g.value(node.input(1))
    if shape is None or picked is None or (places is not None and places.size and places.min() < 0):
        return False
    axis %= max(1, len(shape))
    return shape[:axis] == picked[:axis] and shape[axis + 1 :] == picked[axis + 1 :]


def scatter_elements(node: Node, g: Rewriter) -> Optional[str]:
    """Scatter with its axis said, or ATen's where a reduction is asked for."""
    reduction = node.attr("reduction", "none")
    axis = int(node.attr("axis", 0))
    if node.op == "Scatter" and "axis" in node.attrs and _whole_rows(node, g, axis):
        g.found("scatter-older", "note", "Caffe2's Scatter before 1.4 misplaces even rows that span the data")
    elif node.op == "Scatter":
        g.found("scatter-axis", "wrong", "Caffe2's Scatter works along axis 1 unless told, and misplaces rows")
    else:
        g.found("no-operator", "refuse", "Caffe2's backend does not know ScatterElements")
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
    places = reshape(g, flat_indices(g, indices, axis, shape), [-1])
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
    places, depth = row_numbers(g, node.input(1), shape, 0)
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


RULES = {"Scatter": scatter_elements, "ScatterElements": scatter_elements, "ScatterND": scatter_nd}
