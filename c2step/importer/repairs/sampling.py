"""Sampling at computed places: GridSample and RoiAlign.

Caffe2 has no GridSample: the neighbours of each place are gathered from the image laid out in rows and weighted.
RoiAlign is Caffe2's RoIAlign with the batch index as the first column of the boxes.
"""

import itertools
from typing import List, Optional, Tuple

import numpy as np

from ..rewriter import Node, Rewriter, Unrepairable
from .building import cast, concat, expand_dims, gather, reshape, slice_axis, squeeze, transpose

__all__ = ["RULES"]


def _f(g: Rewriter, value: float) -> str:
    return g.const(value, "float32")


def grid_sample(node: Node, g: Rewriter) -> Optional[str]:
    """GridSample of any rank."""
    g.found("no-operator", "refuse", "Caffe2 has no GridSample")
    shape, grid = g.known(node.input(0)), g.known(node.input(1))
    n, mode = len(shape) - 2, node.attr("mode", "linear" if node.opset >= 20 else "bilinear")
    align, padding = bool(node.attr("align_corners", 0)), node.attr("padding_mode", "zeros")
    rows = transpose(g, cast(g, node.input(0), "float32"), [0] + list(range(2, 2 + n)) + [1])
    rows = reshape(g, rows, [-1, shape[1]])
    places = [_coordinate(g, node.input(1), grid, n - 1 - i, shape[2 + i], align) for i in range(n)]
    taps = [_taps(g, p, mode, size, padding, align) for p, size in zip(places, shape[2:])]
    total = ""
    for combination in itertools.product(*taps):
        part = _corner(g, rows, shape, combination, padding, grid, align)
        total = g.onnx("Add", total, part) if total else part
    cast(g, transpose(g, total, [0, n + 1] + list(range(1, n + 1))), g.dtype(node.input(0)), node.out)
    return "neighbours gathered and weighted (%s, %s)" % (mode, padding)


def _coordinate(g: Rewriter, grid: str, shape: Tuple[int, ...], column: int, size: int, align: bool) -> str:
    last = len(shape) - 1
    x = squeeze(g, slice_axis(g, cast(g, grid, "float32"), last, column, column + 1), [last])
    scale, shift = ((size - 1) / 2.0, (size - 1) / 2.0) if align else (size / 2.0, (size - 1) / 2.0)
    return g.onnx("Add", g.onnx("Mul", x, _f(g, scale)), _f(g, shift))


def _taps(g: Rewriter, x: str, mode: str, size: int, padding: str, align: bool) -> List[Tuple[str, str]]:
    """The neighbours along one axis as (place, weight); weight empty for 1."""
    if padding == "reflection" and mode not in ("cubic", "bicubic"):
        x = _reflected(g, x, size, align)
    if padding == "border" and mode not in ("cubic", "bicubic"):
        x = g.emit("Clip", [x], "float32", g.shape(x), min=0.0, max=float(size - 1))
    if mode == "nearest":
        return [(g.onnx("Round", x), "")]
    low = g.onnx("Floor", x)
    rest = g.onnx("Sub", x, low)
    if mode in ("linear", "bilinear"):
        return [(low, g.onnx("Sub", _f(g, 1), rest)), (g.onnx("Add", low, _f(g, 1)), rest)]
    return [(g.onnx("Add", low, _f(g, k)), _cubic(g, g.onnx("Sub", rest, _f(g, k)))) for k in (-1, 0, 1, 2)]


def _cubic(g: Rewriter, d: str) -> str:
    """The weight of a neighbour at distance `d`, with a = -0.75."""
    a = -0.75
    d = g.onnx("Abs", d)

    def polynomial(coefficients: List[float]) -> str:
        y = _f(g, coefficients[0])
        for c in coefficients[1:]:
            y = g.onnx("Add", g.onnx("Mul", y, d), _f(g, c))
        return y

    near = polynomial([a + 2, -(a + 3), 0, 1])
    far = polynomial([a, -5 * a, 8 * a, -4 * a])
    return g.onnx("Where", g.onnx("Greater", d, _f(g, 1)), far, near)


def _reflected(g: Rewriter, x: str, size: int, align: bool) -> str:
    low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
    if span == 0:
        return g.onnx("Mul", x, _f(g, 0))
    distance = g.onnx("Abs", g.onnx("Sub", x, _f(g, low)))
    turns = g.onnx("Floor", g.onnx("Div", distance, _f(g, span)))
    rest = g.onnx("Sub", distance, g.onnx("Mul", turns, _f(g, span)))
    odd = g.onnx("Sub", turns, g.onnx("Mul", _f(g, 2), g.onnx("Floor", g.onnx("Mul", turns, _f(g, 0.5)))))
    back = g.onnx("Mul", odd, g.onnx("Sub", _f(g, span), g.onnx("Mul", rest, _f(g, 2))))
    y = g.onnx("Add", g.onnx("Add", rest, back), _f(g, low))
    return g.emit("Clip", [y], "float32", g.shape(y), min=0.0, max=float(size - 1)) if not align else y


def _corner(
    g: Rewriter,
    rows: str,
    shape: Tuple[int, ...],
    taps: Tuple[Tuple[str, str], ...],
    padding: str,
    grid: Tuple[int, ...],
    align: bool,
) -> str:
    """One combination of neighbours: its rows of the image times its weight."""
    index, weight, inside = "", "", ""
    for (place, part), size in zip(taps, shape[2:]):
        if padding == "reflection":
            place = _reflected(g, place, size, align)
            place = g.onnx("Round", place)
        safe = g.emit("Clip", [place], "float32", g.shape(place), min=0.0, max=float(size - 1))
        if padding == "zeros":
            same = g.onnx("Equal", safe, place)
            inside = g.onnx("And", inside, same) if inside else same
        whole = cast(g, safe, "int64")
        index = g.onnx("Add", g.onnx("Mul", index, g.const(size, "int64")), whole) if index else whole
        if part:
            weight = g.onnx("Mul", weight, part) if weight else part
    area = int(np.prod(shape[2:]))
    batches = g.const(np.arange(shape[0]).reshape([-1] + [1] * (len(grid) - 2)) * area, "int64")
    picked = gather(g, rows, g.onnx("Add", index, batches), 0)
    if inside:
        mask = cast(g, inside, "float32")
        weight = g.onnx("Mul", weight, mask) if weight else mask
    return g.onnx("Mul", picked, expand_dims(g, weight, [len(grid) - 1])) if weight else picked


def roi_align(node: Node, g: Rewriter) -> Optional[str]:
    """RoIAlign with the batch index in the boxes."""
    g.found("no-operator", "refuse", "Caffe2's backend does not know RoiAlign")
    if node.attr("mode", "avg") != "avg":
        raise Unrepairable("Caffe2's RoIAlign takes averages only")
    aligned = (
        node.attr("coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "output_half_pixel")
        == "half_pixel"
    )
    boxes = cast(g, node.input(1), "float32")
    which = expand_dims(g, cast(g, node.input(2), "float32"), [1])
    rois = concat(g, [which, boxes], 1)
    y = g.emit(
        "RoIAlign",
        [cast(g, node.input(0), "float32"), rois],
        "float32",
        g.shape(node.out),
        order="NCHW",
        pooled_h=int(node.attr("output_height", 1)),
        pooled_w=int(node.attr("output_width", 1)),
        spatial_scale=float(node.attr("spatial_scale", 1.0)),
        sampling_ratio=int(node.attr("sampling_ratio", 0)),
        aligned=int(aligned),
    )
    cast(g, y, g.dtype(node.input(0)), node.out)
    return "written as RoIAlign"


RULES = {"GridSample": grid_sample, "RoiAlign": roi_align}
