"""Pooling windows that Caffe2 reads otherwise, or not at all.

Matches ceil_mode and auto_pad (both dropped in silence), count_include_pad beyond two dimensions, dilations, the
indices of MaxPool, LpPool, dtypes.  Explicit pads give the same windows: Caffe2 leaves padding out of a maximum
and, without count_include_pad, out of an average, so a ceil_mode window may hang over by extra end padding.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..rewriter import Node, Rewriter, Unrepairable
from .building import cast, concat, copy, fill, matmul, reduce, reshape, take, transpose
from .dtypes import found_dtype

__all__ = ["RULES", "Window", "same_pads", "window_of"]


class Window(NamedTuple):
    """A sliding window over the spatial dimensions; `over` is the extra end padding of ceil_mode."""

    kernel: List[int]
    strides: List[int]
    dilations: List[int]
    begin: List[int]
    end: List[int]
    over: List[int]

    def by_hand(self) -> bool:
        """Whether Caffe2's pooling refuses it: dilated, or padded by a whole kernel."""
        far = any(e + o >= k for e, o, k in zip(self.end, self.over, self.kernel))
        return far or any(d != 1 for d in self.dilations)

    def caffe2(self, with_over: bool = True) -> Dict[str, Any]:
        """As arguments of a Caffe2 operator."""
        end = [e + o for e, o in zip(self.end, self.over)] if with_over else self.end
        return {"kernels": self.kernel, "strides": self.strides, "pads": self.begin + end}


def same_pads(mode: str, size: int, kernel: int, stride: int, dilation: int) -> Tuple[int, int]:
    """The padding before and after that auto_pad SAME_UPPER or SAME_LOWER means."""
    total = max(0, (-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size)
    small = total // 2
    return (small, total - small) if mode == "SAME_UPPER" else (total - small, small)


def window_of(node: Node, g: Rewriter, kernel: Sequence[int]) -> Window:
    """The window that the attributes of `node` mean, auto_pad and ceil_mode made explicit."""
    n = len(kernel)
    strides = list(node.attr("strides") or [1] * n)
    dilations = list(node.attr("dilations") or [1] * n)
    pads = list(node.attr("pads") or [0] * 2 * n)
    mode = node.attr("auto_pad", "NOTSET")
    if mode.startswith("SAME"):
        sizes = g.spatial(node.input(0))
        pairs = [same_pads(mode, *args) for args in zip(sizes, kernel, strides, dilations)]
        pads = [p[0] for p in pairs] + [p[1] for p in pairs]
    elif mode == "VALID":
        pads = [0] * 2 * n
    begin, end = pads[:n], pads[n:]
    over = [0] * n
    if node.attr("ceil_mode", 0):
        sizes, counts = g.spatial(node.input(0)), g.spatial(node.out)
        over = [_overhang(*args) for args in zip(sizes, counts, kernel, strides, dilations, begin, end)]
    return Window(list(kernel), strides, dilations, begin, end, over)


def _overhang(size: int, count: int, kernel: int, stride: int, dilation: int, begin: int, end: int) -> int:
    """How far the last of `count` windows reaches past the end; onnx's shape inference says how many there are."""
    if (count - 1) * stride >= size + begin:
        raise Unrepairable("the last window of ceil_mode lies wholly in the padding, where ONNX's versions differ")
    return max(0, (count - 1) * stride + (kernel - 1) * dilation + 1 - (size + begin + end))


def _hangs_over(node: Node, g: Rewriter) -> bool:
    """Whether ceil_mode changes anything, as far as is known."""
    shape = g.shape(node.input(0))
    try:
        return shape is None or None in shape[2:] or any(window_of(node, g, node.attr("kernel_shape")).over)
    except Unrepairable:
        return True


def _found_window(node: Node, g: Rewriter) -> bool:
    """Report what Caffe2 makes of auto_pad, ceil_mode and dilations; whether there is anything to report."""
    mode = node.attr("auto_pad", "NOTSET")
    before = len(g.reports)
    if mode.startswith("SAME"):
        g.found("auto-pad", "wrong", "Caffe2 drops auto_pad=%s and pads nothing" % mode)
    if node.attr("ceil_mode", 0) and _hangs_over(node, g):
        g.found("pool-ceil-mode", "wrong", "Caffe2 drops ceil_mode and leaves out the last, partial window")
    if any(d != 1 for d in node.attr("dilations") or []):
        g.found("pool-dilations", "fail", "Caffe2's pooling has no dilations")
    dtype = g.dtype(node.input(0))
    if dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    return len(g.reports) > before


def max_pool(node: Node, g: Rewriter) -> Optional[str]:
    """MaxPool with explicit pads; dilated windows as the maximum of shifted copies."""
    if node.output(1):
        return _max_with_indices(node, g)
    if 0 in (node.attr("strides") or []):
        g.found("pool-stride-0", "die", "a stride of 0 passes, and fetching its result ends the process")
        raise Unrepairable("a stride of 0 has no meaning")
    found = _found_window(node, g)
    _note_nan(g)
    if not found:
        return None
    window, dtype = window_of(node, g, node.attr("kernel_shape")), g.dtype(node.input(0))
    x = cast(g, node.input(0), "float32")
    if window.by_hand():
        y = _shifted_maximum(g, x, window)
    else:
        y = g.emit("MaxPool", [x], "float32", g.shape(node.out), **window.caffe2())
    cast(g, y, dtype, node.out)
    return "pads=%s%s" % (window.caffe2()["pads"], "" if set(window.dilations) == {1} else ", dilated by hand")


def _note_nan(g: Rewriter) -> None:
    g.found("maxpool-nan", "note", "Caffe2's MaxPool passes over NaN where others return it")


def _shifted_maximum(g: Rewriter, x: str, window: Window) -> str:
    """One axis after the other: the maximum over the kernel's shifted, strided views."""
    for i, k in enumerate(window.kernel):
        axis, stride, dilation = i + 2, window.strides[i], window.dilations[i]
        size = g.known(x)[axis]
        begin, end = window.begin[i], window.end[i] + window.over[i]
        count = (size + begin + end - (k - 1) * dilation - 1) // stride + 1
        best = ""
        for j in range(k):
            places = np.arange(count) * stride + j * dilation - begin
            view = take(
                g, _with_floor(g, x, axis, size, places), np.where((places < 0) | (places >= size), size, places), axis
            )
            best = g.onnx("Max", best, view) if best else view
        x = best
    return x


def _with_floor(g: Rewriter, x: str, axis: int, size: int, places: np.ndarray) -> str:
    """`x` with one more row of the lowest float, for places outside it."""
    if places.min() >= 0 and places.max() < size:
        return x
    shape = list(g.known(x))
    shape[axis] = 1
    return concat(g, [x, fill(g, shape, float(np.finfo(np.float32).min), "float32")], axis)


def _max_with_indices(node: Node, g: Rewriter) -> str:
    """The index of the maximum by comparing every place of the window in turn."""
    g.found("maxpool-indices", "fail", "Caffe2's MaxPool gives no indices")
    window, dtype = window_of(node, g, node.attr("kernel_shape")), g.dtype(node.input(0))
    shape = g.known(node.input(0))
    spatial = shape[2:]
    numbers = np.arange(int(np.prod(spatial))).reshape(spatial)
    if node.attr("storage_order", 0):
        numbers = np.arange(int(np.prod(spatial))).reshape(spatial[::-1]).T
    planes = np.arange(shape[0] * shape[1]).reshape(shape[:2] + (1,) * len(spatial)) * int(np.prod(spatial))
    x = cast(g, node.input(0), "float32")
    best = best_at = ""
    for offset in np.ndindex(*window.kernel):
        view, places = _view(g, x, spatial, window, offset)
        at = g.const(planes + np.where(places < 0, 0, numbers.reshape(-1, order="C")[np.maximum(places, 0)]), "int64")
        if not best:
            best, best_at = view, at
            continue
        more = g.onnx("Greater", view, best)
        best, best_at = g.onnx("Where", more, view, best), g.onnx("Where", more, at, best_at)
    cast(g, best, dtype, node.out)
    copy(g, best_at, node.output(1))
    return "written as comparisons over the window"


def _view(g: Rewriter, x: str, spatial: Sequence[int], window: Window, offset: Sequence[int]) -> Tuple[str, np.ndarray]:
    """The value at `offset` of every window, and its place in the plane (-1 outside)."""
    view, parts = x, []
    for i, size in enumerate(spatial):
        reach = (window.kernel[i] - 1) * window.dilations[i] + 1
        count = (size + window.begin[i] + window.end[i] + window.over[i] - reach) // window.strides[i] + 1
        places = np.arange(count) * window.strides[i] + offset[i] * window.dilations[i] - window.begin[i]
        outside = (places < 0) | (places >= size)
        view = take(g, _with_floor(g, view, i + 2, size, places), np.where(outside, size, places), i + 2)
        parts.append(np.where(outside, -1, places))
    grid = np.meshgrid(*parts, indexing="ij")
    flat = np.zeros(grid[0].shape, np.int64)
    for size, part in zip(spatial, grid):
        flat = np.where((flat < 0) | (part < 0), -1, flat * size + part)
    return view, flat


def average_pool(node: Node, g: Rewriter) -> Optional[str]:
    """AveragePool with explicit pads; padding counted only where ONNX counts it."""
    kernel = node.attr("kernel_shape")
    include = bool(node.attr("count_include_pad", 0))
    pads = node.attr("pads") or []
    found = _found_window(node, g)
    if include and any(pads) and len(pads) != 4:
        g.found("pool-include-pad", "note", "the backend of Caffe2 1.0 counts padding in two dimensions only")
        found = True
    if not found:
        return None
    window, dtype = window_of(node, g, kernel), g.dtype(node.input(0))
    x = cast(g, node.input(0), "float32")
    counted = include and any(window.caffe2()["pads"])
    if window.by_hand() or (counted and len(kernel) != 2):
        y = _shifted_average(g, x, window, include)
    else:
        args = window.caffe2()
        if counted:  # written as pixels, since AveragePool of Caffe2 1.0 passes over count_include_pad
            x = _padded(g, x, args.pop("pads"))
        y = g.emit("AveragePool", [x], "float32", g.shape(node.out), **args)
    cast(g, y, dtype, node.out)
    return "pads=%s" % window.caffe2()["pads"]


def _padded(g: Rewriter, x: str, pads: List[int]) -> str:
    shape = g.shape(x)
    if shape is not None:
        grown = [d if d is None else d + pads[i] + pads[i + 2] for i, d in enumerate(shape[2:])]
        shape = (*shape[:2], *grown)
    return g.emit("PadImage", [x], "float32", shape, mode="constant", value=0.0, pads=pads)


def _shifted_average(g: Rewriter, x: str, window: Window, include: bool) -> str:
    """Sums along one axis after the other as products with fixed matrices, divided by the fixed counts."""
    counts = []
    for i, k in enumerate(window.kernel):
        size = g.spatial(x)[i]
        matrix, count = _sum_matrix(size, k, window, i, include)
        x = along(g, x, matrix, i + 2)
        counts.append(count)
    total = counts[0]
    for count in counts[1:]:
        total = np.multiply.outer(total, count)
    return g.onnx("Mul", x, g.const(1.0 / np.maximum(total, 1), "float32"))


def _sum_matrix(size: int, kernel: int, window: Window, i: int, include: bool) -> Tuple[np.ndarray, np.ndarray]:
    stride, dilation, begin, end = window.strides[i], window.dilations[i], window.begin[i], window.end[i]
    reach = (kernel - 1) * dilation + 1
    rows = (size + begin + end + window.over[i] - reach) // stride + 1
    matrix, counts = np.zeros((rows, size), np.float32), np.zeros(rows)
    for row in range(rows):
        places = row * stride - begin + dilation * np.arange(kernel)
        inside = places[(places >= 0) & (places < size)]
        matrix[row, inside] = 1
        counts[row] = kernel if include else len(inside)
    return matrix, counts


def along(g: Rewriter, x: str, matrix: np.ndarray, axis: int, out: str = "") -> str:
    """`matrix` (new size, old size) applied along one axis of float32 `x`."""
    rank = g.rank(x)
    if rank == 0:
        raise Unrepairable("a scalar has no axes")
    if axis == rank - 1 and rank >= 2:
        return matmul(g, x, g.const(np.ascontiguousarray(matrix.T), "float32"), out)
    if axis == rank - 2:
        return matmul(g, g.const(matrix, "float32"), x, out)
    if rank == 1:
        return reshape(
            g, matmul(g, reshape(g, x, [1, -1]), g.const(np.ascontiguousarray(matrix.T), "float32")), [len(matrix)], out
        )
    order = [i for i in range(rank) if i != axis] + [axis]
    y = matmul(g, transpose(g, x, order), g.const(np.ascontiguousarray(matrix.T), "float32"))
    return transpose(g, y, [order.index(i) for i in range(rank)], out)


def lp_pool(node: Node, g: Rewriter) -> Optional[str]:
    """(sum |x|^p)^(1/p) from AveragePool of |x|^p that counts padding."""
    if "p" in node.attrs:
        g.found("lppool-p", "fail", "Caffe2's LpPool wants p as a float, its backend gives an int")
    shape = g.shape(node.input(0))
    if shape is not None and len(shape) != 4:
        g.found("pool-rank", "fail", "Caffe2's LpPool takes four dimensions only")
    if not _found_window(node, g) and not g.reports:
        return None
    p = float(node.attr("p", 2))
    window = window_of(node, g, node.attr("kernel_shape"))
    x = g.onnx("Abs", cast(g, node.input(0), "float32"))
    powered = g.emit("Pow", [x], "float32", g.shape(x), exponent=p)
    if any(d != 1 for d in window.dilations) or any(window.over):
        total = powered
        for i, k in enumerate(window.kernel):
            matrix, _ = _sum_matrix(g.known(total)[i + 2], k, window, i, True)
            total = along(g, total, matrix, i + 2)
    else:
        mean = g.emit("AveragePool", [powered], "float32", g.shape(node.out), count_include_pad=1, **window.caffe2())
        total = g.onnx("Mul", mean, g.const(float(np.prod(window.kernel)), "float32"))
    y = g.emit("Pow", [total], "float32", g.shape(node.out), exponent=1.0 / p)
    cast(g, y, g.dtype(node.input(0)), node.out)
    return "written with AveragePool of |x|^%g" % p


def global_pool(node: Node, g: Rewriter) -> Optional[str]:
    """GlobalAveragePool and GlobalMaxPool of other dtypes."""
    dtype = g.dtype(node.input(0))
    if node.op == "GlobalMaxPool":
        _note_nan(g)
    if dtype in ("", "float32"):
        return None
    found_dtype(node, g, dtype)
    kind = "ReduceMean" if node.op == "GlobalAveragePool" else "ReduceMax"
    y = reduce(g, kind, cast(g, node.input(0), "float32"), list(range(2, g.rank(node.input(0)))))
    cast(g, y, dtype, node.out)
    return "written as %s in float32" % kind


def global_lp_pool(node: Node, g: Rewriter) -> Optional[str]:
    """GlobalLpPool as a reduction."""
    g.found("no-operator", "refuse", "Caffe2's backend has no GlobalLpPool")
    p = float(node.attr("p", 2))
    x = g.onnx("Abs", cast(g, node.input(0), "float32"))
    powered = g.emit("Pow", [x], "float32", g.shape(x), exponent=p)
    total = reduce(g, "ReduceSum", powered, list(range(2, g.rank(x))))
    cast(g, g.emit("Pow", [total], "float32", g.shape(total), exponent=1.0 / p), g.dtype(node.input(0)), node.out)
    return "written as ReduceSum of |x|^%g" % p


def max_unpool(node: Node, g: Rewriter) -> Optional[str]:
    """MaxUnpool as a scatter to the flat places."""
    g.found("no-operator", "refuse", "Caffe2 has no MaxUnpool")
    x, indices = node.input(0), node.input(1)
    shape = g.known(x)
    kernel = node.attr("kernel_shape")
    strides, pads = node.attr("strides") or [1] * len(kernel), node.attr("pads") or [0] * 2 * len(kernel)
    n = len(kernel)
    natural = list(shape[:2]) + [(shape[i + 2] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + n] for i in range(n)]
    wanted = [int(v) for v in g.need(node.input(2), "output_shape")] if node.input(2) else natural
    if int(np.prod(wanted[2:])) != int(np.prod(natural[2:])):
        indices = _moved_indices(g, indices, shape, natural, wanted)
    flat = fill(g, [int(np.prod(wanted))], 0.0, "float32")
    g.emit("ScatterAssign", [flat, reshape(g, indices, [-1]), reshape(g, x, [-1])], "float32", g.shape(flat), flat)
    reshape(g, flat, wanted, node.out)
    return "written as ScatterAssign"


def _moved_indices(
    g: Rewriter, indices: str, shape: Sequence[int], natural: Sequence[int], wanted: Sequence[int]
) -> str:
    places = g.need(indices, "the indices, where output_shape differs")
    return g.const(np.ravel_multi_index(np.unravel_index(places.reshape(-1), natural), wanted), "int64")


RULES = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "GlobalAveragePool": global_pool,
    "GlobalMaxPool": global_pool,
    "GlobalLpPool": global_lp_pool,
    "MaxUnpool": max_unpool,
}
