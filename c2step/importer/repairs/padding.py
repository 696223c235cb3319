"""Pad.

Matches Pad with its pads as an input (opset 11), beyond height and width of NCHW, negative, or of other dtypes.
PadImage where it fits, else Concat with fills, or a Gather for the modes that repeat the image.
"""

from typing import Any, List, Optional

import numpy as np

from ..rewriter import Node, Rewriter, Unrepairable
from .building import concat, copy, fill, slice_axis, take
from .dtypes import found_dtype

__all__ = ["RULES"]


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
        return take(g, x, _repeated_places(size, before, after, mode), axis)
    shape, dtype = list(g.known(x)), g.dtype(x)
    parts = [x]
    for count, place in ((before, 0), (after, 1)):
        if count:
            part = fill(g, shape[:axis] + [count] + shape[axis + 1 :], value, dtype)
            parts.insert(len(parts) if place else 0, part)
    return concat(g, parts, axis)


def _repeated_places(size: int, before: int, after: int, mode: str) -> np.ndarray:
    places = np.arange(-before, size + after)
    if mode == "edge":
        return np.clip(places, 0, size - 1)
    if mode == "wrap":
        return places % size
    if size == 1:
        return np.zeros_like(places)
    places = np.abs(places) % (2 * size - 2)
    return np.where(places < size, places, 2 * size - 2 - places)


RULES = {"Pad": pad}
