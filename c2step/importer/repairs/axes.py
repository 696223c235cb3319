"""Shapes and axes: operators that move, name or count dimensions.

Matches Squeeze and Unsqueeze with negative axes or axes as an input (opset 13), Squeeze without axes, Flatten at a
negative axis, Reshape with allowzero, to a scalar, or to a fixed size that its data does not have, Shape with start
and end, Split by an int64 input, by num_outputs or unevenly, Transpose and Expand and Tile of dtypes that Caffe2
lacks, Concat of them.
"""

from typing import Any, List, Optional

import numpy as np

from ..rewriter import Node, NotKnown, Rewriter, Unrepairable
from .building import (
    carrier,
    cast,
    concat,
    copy,
    expand,
    expand_dims,
    reshape,
    slice_axis,
    split,
    squeeze,
    through,
    transpose,
)
from .dtypes import found_dtype

__all__ = ["RULES", "axes_of"]

_WIDE = {"float32", "float64", "int32", "int64"}


def axes_of(node: Node, g: Rewriter, rank: int, name: str = "axes") -> Optional[List[int]]:
    """The axes of a node, from its attribute or its second input, not negative; None where it has none."""
    axes = node.attr(name)
    if axes is None and node.input(1):
        axes = g.need(node.input(1), name).reshape(-1).tolist()
    return None if axes is None else sorted({int(a) % max(rank, 1) for a in axes})


def squeeze_axes(node: Node, g: Rewriter) -> Optional[str]:
    """Squeeze with fixed, non-negative axes."""
    axes = node.attr("axes")
    if node.opset >= 13 and len(node.inputs) > 1:
        g.found("axes-input", "fail", "Caffe2's Squeeze takes its axes as an argument, not as an input")
    elif axes is None:
        g.found("squeeze-all", "fail", "Caffe2's Squeeze wants to be told the axes")
    elif min(axes, default=0) < 0:
        g.found("negative-axis", "fail", "Caffe2's Squeeze takes no negative axes")
    else:
        return None
    found = axes_of(node, g, g.rank(node.input(0)))
    if found is None:
        found = [i for i, d in enumerate(g.known(node.input(0))) if d == 1]
    squeeze(g, node.input(0), found, node.out)
    return "dims=%s" % found


def unsqueeze_axes(node: Node, g: Rewriter) -> Optional[str]:
    """Unsqueeze with fixed, non-negative axes."""
    axes = node.attr("axes")
    if node.opset >= 13:
        g.found("axes-input", "fail", "Caffe2's ExpandDims takes its axes as an argument, not as an input")
    elif min(axes, default=0) < 0:
        g.found("negative-axis", "fail", "Caffe2's ExpandDims takes no negative axes")
    else:
        return None
    count = len(axes) if axes is not None else g.need(node.input(1), "axes").size
    found = axes_of(node, g, g.rank(node.input(0)) + count) or []
    expand_dims(g, node.input(0), found, node.out)
    return "dims=%s" % found


def flatten(node: Node, g: Rewriter) -> Optional[str]:
    """Flatten at a negative axis."""
    axis = node.attr("axis", 1)
    if axis >= 0:
        return None
    g.found("negative-axis", "fail", "Caffe2's Flatten takes no negative axis")
    axis += g.rank(node.input(0))
    g.emit("Flatten", [node.input(0)], g.dtype(node.input(0)), g.shape(node.out), node.out, axis=axis)
    return "axis=%d" % axis


def reshape_to(node: Node, g: Rewriter) -> Optional[str]:
    """Reshape whose target Caffe2 does not take: allowzero, or no dimensions at all."""
    target = g.value(node.input(1)) if node.opset >= 5 else None
    if "allowzero" in node.attrs:
        g.found("reshape-allowzero", "refuse", "Caffe2's backend does not know allowzero")
    elif target is not None and target.size == 0:
        g.found("reshape-scalar", "fail", "Caffe2's Reshape takes no empty shape as an input")
    else:
        _check_size(node, g, node.attr("shape") if node.opset < 5 else target)
        return None
    wanted = g.need(node.input(1), "the shape").tolist()
    if node.attr("allowzero", 0) and 0 in wanted:
        wanted = [int(d) for d in g.known(node.out)]
        if np.prod(g.known(node.input(0))) == 0:
            return _empty(node, g, wanted)
    reshape(g, node.input(0), wanted, node.out)
    return "shape=%s" % wanted


def _check_size(node: Node, g: Rewriter, target: Any) -> None:
    """A shape that is fixed in the model, of a size that the data does not have."""
    found = g.shape(node.input(0))
    if target is None or found is None or None in found:
        return
    shape = [int(d or 0) for d in found]
    wanted = [shape[i] if d == 0 and i < len(shape) else int(d) for i, d in enumerate(target)]
    size, fixed = (int(np.prod(dims, dtype=np.int64)) for dims in (shape, [d for d in wanted if d != -1]))
    if (size == fixed) if -1 not in wanted else (fixed and size % fixed == 0):
        return
    g.found(
        "reshape-size",
        "fail",
        "the model fixes this shape to %s, and %s has %d elements, of shape %s" % (wanted, node.input(0), size, shape),
    )
    raise Unrepairable("feed the batch and image size that it was exported with, or export it with dynamic axes")


def _empty(node: Node, g: Rewriter, shape: List[int]) -> str:
    copy(g, g.const(np.zeros(shape, g.dtype(node.input(0)))), node.out)
    return "an empty tensor of shape %s" % shape


def transposed(node: Node, g: Rewriter) -> Optional[str]:
    """Transpose of float16, narrow integers and bool."""
    dtype = g.dtype(node.input(0))
    if node.attr("perm") == []:
        g.found("transpose-empty", "refuse", "Caffe2's backend takes no empty perm")
    elif not dtype or dtype in _WIDE:
        return None
    else:
        found_dtype(node, g, dtype)
    axes = node.attr("perm") or list(range(g.rank(node.input(0))))[::-1]
    transpose(g, node.input(0), axes, node.out)
    return "through a wider dtype"


def expanded(node: Node, g: Rewriter) -> Optional[str]:
    """Expand of dtypes that Caffe2 lacks, or by an int32 shape."""
    dtype = g.dtype(node.input(0))
    if not dtype or dtype in _WIDE:
        return None
    found_dtype(node, g, dtype)
    if g.value(node.input(1)) is not None:
        expand(g, node.input(0), g.known(node.out), node.out)
    else:
        through(
            g,
            node.input(0),
            _WIDE,
            node.out,
            lambda v, o: g.emit("Expand", [v, node.input(1)], g.dtype(v), g.shape(node.out), o),
        )
    return "through a wider dtype"


def shape_of(node: Node, g: Rewriter) -> Optional[str]:
    """Shape-15 with start or end."""
    if not {"start", "end"} & set(node.attrs):
        return None
    size = g.shape(node.input(0))
    start, end, _ = slice(node.attr("start", 0), node.attr("end")).indices(len(size or [0] * 99))
    if size is not None and (start, end) == (0, len(size)):
        return None
    g.found("shape-range", "wrong", "Caffe2 drops start and end of Shape and gives all dimensions")
    rank = g.rank(node.input(0))
    whole = g.emit("Shape", [node.input(0)], "int64", [rank])
    slice_axis(g, whole, 0, start, max(start, end), node.out)
    return "Shape and Slice [%d:%d]" % (start, end)


def split_sizes(node: Node, g: Rewriter) -> Optional[str]:
    """Split with sizes as an input, with num_outputs, or into unequal parts."""
    sizes = node.attr("split")
    count = len(node.outputs)
    shape = g.shape(node.input(0))
    axis = int(node.attr("axis", 0)) % max(1, len(shape or [0]))
    size = shape[axis] if shape else None
    if node.opset >= 13 and node.input(1):
        g.found("split-input", "fail", "Caffe2's Split takes int32 sizes, ONNX gives int64")
        sizes = g.need(node.input(1), "the sizes").reshape(-1).tolist()
    elif "num_outputs" in node.attrs:
        g.found("split-count", "refuse", "Caffe2's backend does not know num_outputs")
    elif sizes is None and size is not None and size % count:
        g.found("split-uneven", "fail", "Caffe2's Split wants equal parts unless told")
    else:
        return None
    g.rank(node.input(0))
    if sizes is None:
        if size is None:
            raise NotKnown("the dimension to split is not known")
        part = -(-size // count)
        sizes = [part] * (count - 1) + [size - part * (count - 1)]
    split(g, node.input(0), [int(s) for s in sizes], axis, node.outputs)
    return "split=%s" % list(sizes)


def tile(node: Node, g: Rewriter) -> Optional[str]:
    """Tile of any dtype, as copies put one behind the other."""
    dtype = g.dtype(node.input(0))
    if node.opset < 6:
        g.found("tile-1", "fail", "Tile of opset 1 has another form than Caffe2's NumpyTile")
        raise Unrepairable("Tile of opset 1 is not rewritten")
    if dtype not in ("bool", "string", "float16", "int8", "uint8", "int16", "uint16"):
        return None
    repeats = g.need(node.input(1), "repeats").reshape(-1).tolist()
    found_dtype(node, g, dtype)
    wide = carrier(dtype, _WIDE)
    y = g.onnx("Tile", cast(g, node.input(0), wide), g.const(repeats, "int64"))
    cast(g, y, dtype, node.out)
    return "through %s" % wide


def concatenated(node: Node, g: Rewriter) -> Optional[str]:
    """Concat of one operand, which Caffe2 takes too; kept for its dummy output."""
    if node.opset < 4 and "axis" not in node.attrs:
        g.found("concat-axis", "note", "Concat of opset 1 without axis means axis 1")
        concat(g, node.inputs, 1, node.out)
        return "axis=1"
    return None


def size_of(node: Node, g: Rewriter) -> Optional[str]:
    """Size is Caffe2's Size."""
    return None


RULES = {
    "Squeeze": squeeze_axes,
    "Unsqueeze": unsqueeze_axes,
    "Flatten": flatten,
    "Reshape": reshape_to,
    "Transpose": transposed,
    "Expand": expanded,
    "Shape": shape_of,
    "Split": split_sizes,
    "Tile": tile,
    "Concat": concatenated,
    "Size": size_of,
}
