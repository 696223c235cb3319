"""Resize and Upsample.

Matches Upsample with mode linear (Caffe2's backend makes it nearest without a word), Upsample beyond NCHW, and every
Resize.  Nearest upsampling by whole factors is ResizeNearest.  Any other mode, coordinate transformation and
rounding is, for a known input shape, a Gather (nearest) or a product with a fixed matrix (linear, cubic) along each
axis; align_corners with whole output sizes is UpsampleBilinear in no Caffe2 version alike, so it is not used.
"""

from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..rewriter import Node, NotFixed, NotKnown, Rewriter, Unrepairable
from .building import carrier, cast, copy, take
from .pooling import along

__all__ = ["RULES"]


class _Axis(NamedTuple):
    """How one axis is resized."""

    old: int  # -1 where it is not known, and not changed
    new: int
    scale: float
    roi: Tuple[float, float]


def upsample(node: Node, g: Rewriter) -> Optional[str]:
    """Upsample of opset 7 to 9 (10 deprecates it)."""
    mode = node.attr("mode", "nearest")
    scales = node.attr("scales")
    shape = g.shape(node.input(0))
    if mode in ("linear", "bilinear"):
        g.found("upsample-linear", "wrong", "Caffe2's backend makes Upsample nearest, whatever its mode")
    elif scales is not None and (len(scales) != 4 or scales[:2] != [1, 1]):
        g.found("upsample-axes", "refuse", "Caffe2 resizes height and width of NCHW only")
    elif shape is not None and len(shape) != 4:
        g.found("upsample-axes", "fail", "Caffe2 resizes height and width of NCHW only")
    elif node.opset >= 9 and _beyond_image(node, g):
        g.found("upsample-axes", "wrong", "Caffe2 resizes height and width of NCHW only")
    elif g.dtype(node.input(0)) not in ("", "float32"):
        g.found("dtype", "fail", "Caffe2's ResizeNearest takes float32 only")
    else:
        return None
    if scales is None:
        scales = g.need(node.input(1), "scales").reshape(-1).tolist()
    return _apply(node, g, _axes(_known(g, node.input(0)), scales, None, None), mode, "asymmetric", "floor")


def _beyond_image(node: Node, g: Rewriter) -> bool:
    scales = g.value(node.input(1))
    return scales is not None and (scales.size != 4 or list(scales[:2]) != [1, 1])


def resize(node: Node, g: Rewriter) -> Optional[str]:
    """Resize of opset 10 and later."""
    g.found("no-operator", "refuse", "Caffe2 has no Resize")
    mode = node.attr("mode", "nearest")
    if node.opset < 11:
        scales = g.need(node.input(1), "scales").reshape(-1).tolist()
        transform, rounding = "asymmetric", "floor"
        if mode == "nearest" and _by_resize_nearest(node, g, scales):
            return "ResizeNearest by %s" % scales[2:]
        return _apply(node, g, _axes(_known(g, node.input(0)), scales, None, None), mode, transform, rounding)
    transform = node.attr("coordinate_transformation_mode", "half_pixel")
    rounding = node.attr("nearest_mode", "round_prefer_floor")
    sizes = g.given(node.input(3)) if node.input(3) else None
    scales_value = g.given(node.input(2)) if node.input(2) else None
    if scales_value is not None and mode == "nearest" and "axes" not in node.attrs:
        factors = scales_value.tolist()
        if _same_as_floor(transform, rounding, scales_value) and _by_resize_nearest(node, g, factors):
            return "ResizeNearest by %s" % factors[2:]
    shape = _known(g, node.input(0))
    if sizes is None and (scales_value is None or scales_value.size == 0):
        raise NotFixed("the scales or sizes are computed at run time, Caffe2 wants them fixed")
    axes = _wanted_axes(node, g, shape, scales_value, sizes)
    if mode == "nearest" and sizes is not None and [a.new % a.old for a in axes] == [0] * len(axes) and len(shape) == 4:
        factors = [a.new / a.old for a in axes]
        if _same_as_floor(transform, rounding, np.array(factors)) and _by_resize_nearest(node, g, factors):
            return "ResizeNearest by %s" % factors[2:]
    return _apply(node, g, axes, mode, transform, rounding)


def _same_as_floor(transform: str, rounding: str, scales: np.ndarray) -> bool:
    """Whether nearest comes to floor(x / scale), which is Caffe2's: whole factors, or asked for."""
    if transform == "asymmetric" and rounding == "floor":
        return bool((scales >= 1).all() and (scales == np.round(scales)).all())
    if transform in ("half_pixel", "pytorch_half_pixel") and rounding in ("round_prefer_floor", "round_prefer_ceil"):
        return bool((scales >= 1).all() and (scales == np.round(scales)).all())
    return False


def _by_resize_nearest(node: Node, g: Rewriter, scales: Sequence[float]) -> bool:
    shape, dtype = g.shape(node.input(0)), g.dtype(node.input(0))
    whole = all(s == round(s) and s >= 1 for s in scales)
    if (
        len(scales) != 4
        or list(scales[:2]) != [1, 1]
        or dtype != "float32"
        or not whole
        or not shape
        or len(shape) != 4
    ):
        return False
    g.emit(
        "ResizeNearest",
        [node.input(0)],
        dtype,
        g.shape(node.out),
        node.out,
        height_scale=float(scales[2]),
        width_scale=float(scales[3]),
    )
    return True


def _known(g: Rewriter, name: str) -> List[int]:
    """The shape with -1 for what is not known; the rank must be."""
    g.rank(name)
    return [-1 if d is None else d for d in g.shape(name) or ()]


def _axes(
    shape: Sequence[int], scales: Sequence[float], sizes: Optional[Sequence[int]], roi: Optional[Sequence[float]]
) -> List[_Axis]:
    axes = []
    for i, old in enumerate(shape):
        if old < 0 and (sizes is not None or scales[i] != 1):
            raise NotKnown("dimension %d of the image is not known" % i)
        new = int(sizes[i]) if sizes is not None else int(np.floor(old * np.float32(scales[i])))
        part = (float(roi[i]), float(roi[i + len(shape)])) if roi is not None else (0.0, 1.0)
        axes.append(_Axis(old, new, float(scales[i]), part))
    return axes


def _wanted_axes(
    node: Node, g: Rewriter, shape: Sequence[int], scales: Optional[np.ndarray], sizes: Optional[np.ndarray]
) -> List[_Axis]:
    rank = len(shape)
    chosen = [int(a) % rank for a in node.attr("axes") or range(rank)]
    roi = None
    if node.attr("coordinate_transformation_mode") == "tf_crop_and_resize":
        given = g.need(node.input(1), "roi").reshape(-1)
        roi = [0.0] * rank + [1.0] * rank
        for i, axis in enumerate(chosen):
            roi[axis], roi[axis + rank] = float(given[i]), float(given[i + len(chosen)])
    full_scales, full_sizes = [1.0] * rank, list(shape)
    if sizes is not None and sizes.size:
        wanted = _kept_ratio(node, [int(s) for s in sizes], [shape[a] for a in chosen])
        for axis, (size, scale) in zip(chosen, wanted):
            full_sizes[axis], full_scales[axis] = size, scale
        return _axes(shape, full_scales, full_sizes, roi)
    assert scales is not None
    for axis, scale in zip(chosen, scales.reshape(-1)):
        full_scales[axis] = float(scale)
    return _axes(shape, full_scales, None, roi)


def _kept_ratio(node: Node, sizes: List[int], old: List[int]) -> List[Tuple[int, float]]:
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return [(s, s / float(d)) for s, d in zip(sizes, old)]
    pick = min if policy == "not_larger" else max
    scale = pick(s / float(d) for s, d in zip(sizes, old))
    return [(int(np.floor(scale * d + 0.5)), scale) for d in old]


def _apply(node: Node, g: Rewriter, axes: List[_Axis], mode: str, transform: str, rounding: str) -> str:
    dtype = g.dtype(node.input(0))
    changed = [i for i, a in enumerate(axes) if a.new != a.old or a.scale != 1 or (transform == "tf_crop_and_resize")]
    if mode == "nearest":
        x = node.input(0)
        for i in changed:
            places = _round(_sources(axes[i], transform), rounding)
            if transform == "tf_crop_and_resize":
                raise Unrepairable("nearest with tf_crop_and_resize fills what lies outside")
            x = take(g, x, np.clip(places, 0, axes[i].old - 1), i)
        copy(g, x, node.out)
        return "a Gather along %s" % changed
    x = cast(g, node.input(0), carrier(dtype, {"float32"}))
    outside = []
    for i in changed:
        sources = _sources(axes[i], transform)
        x = along(g, x, _matrix(node, axes[i], sources, mode), i)
        outside.append((i, (sources < 0) | (sources > axes[i].old - 1)))
    if transform == "tf_crop_and_resize" and any(where.any() for _, where in outside):
        x = _outside(g, x, outside, float(node.attr("extrapolation_value", 0.0)))
    if dtype.startswith(("int", "uint")):
        x = g.onnx("Round", x)
    cast(g, x, dtype, node.out)
    return "a product with a fixed matrix along %s (%s, %s)" % (changed, mode, transform)


def _outside(g: Rewriter, x: str, outside: Sequence[Tuple[int, np.ndarray]], value: float) -> str:
    shape = g.known(x)
    mask = np.zeros(shape, bool)
    for axis, where in outside:
        mask |= where.reshape([-1] + [1] * (len(shape) - axis - 1))
    return g.onnx("Where", g.const(mask), g.const(value, "float32"), x)


def _sources(axis: _Axis, transform: str) -> np.ndarray:
    """Where each output place lies on the input axis."""
    x = np.arange(axis.new, dtype=np.float64)
    if transform == "asymmetric":
        return x / axis.scale
    if transform == "align_corners":
        return x * (axis.old - 1) / (axis.new - 1) if axis.new > 1 else np.zeros(1)
    if transform == "tf_crop_and_resize":
        start, end = axis.roi
        if axis.new > 1:
            return start * (axis.old - 1) + x * (end - start) * (axis.old - 1) / (axis.new - 1)
        return np.array([0.5 * (start + end) * (axis.old - 1)])
    if transform == "pytorch_half_pixel" and axis.new == 1:
        return np.array([-0.5])
    if transform == "half_pixel_symmetric":
        wanted = axis.old * axis.scale
        adjusted = axis.new / wanted
        center = axis.old / 2.0
        return center * (1 - adjusted) + (x + 0.5) / axis.scale - 0.5
    if transform in ("half_pixel", "pytorch_half_pixel"):
        return (x + 0.5) / axis.scale - 0.5
    if transform == "tf_half_pixel_for_nn":
        return (x + 0.5) / axis.scale
    raise Unrepairable("coordinate_transformation_mode %s is not known" % transform)


def _round(sources: np.ndarray, rounding: str) -> np.ndarray:
    if rounding in ("floor", "round_prefer_ceil"):
        places = np.floor(sources + (0.0 if rounding == "floor" else 0.5))
    else:
        places = np.ceil(sources - (0.0 if rounding == "ceil" else 0.5))
    return np.asarray(places, np.int64)


def _matrix(node: Node, axis: _Axis, sources: np.ndarray, mode: str) -> np.ndarray:
    """The weights (new size, old size) of linear or cubic interpolation."""
    kernel, reach = _kernel(node, mode)
    shrink = min(1.0, axis.scale) if node.attr("antialias", 0) else 1.0
    reach /= shrink
    matrix = np.zeros((axis.new, axis.old))
    outside = bool(node.attr("exclude_outside", 0))
    for row, source in enumerate(sources):
        places = np.arange(int(np.floor(source - reach)) + 1, int(np.ceil(source + reach)))
        weights = kernel((places - source) * shrink)
        if outside:
            weights = np.where((places < 0) | (places >= axis.old), 0.0, weights)
        if outside or shrink < 1:
            weights = weights / weights.sum()
        np.add.at(matrix[row], np.clip(places, 0, axis.old - 1), weights)
    return matrix.astype(np.float32)


def _kernel(node: Node, mode: str) -> Tuple[Callable[[np.ndarray], np.ndarray], float]:
    if mode == "linear" or mode == "bilinear":
        return (lambda d: np.maximum(0.0, 1 - np.abs(d))), 1.0
    a = float(node.attr("cubic_coeff_a", -0.75))

    def cubic(d: np.ndarray) -> np.ndarray:
        d = np.abs(d)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0.0))

    return cubic, 2.0


RULES = {"Upsample": upsample, "Resize": resize}
