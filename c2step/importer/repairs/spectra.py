"""Spectra: DFT, STFT and the tables that go with them.

A discrete Fourier transform of known length is a product with fixed cosines and sines.  MelWeightMatrix and the windows
depend on nothing but their parameters and become constants.
"""

from typing import Optional

import numpy as np

from ..rewriter import Node, Rewriter
from .building import cast, concat, copy, reshape, slice_axis, take
from .pooling import along

__all__ = ["RULES"]


def _transform(g: Rewriter, x: str, axis: int, length: int, inverse: bool, onesided: bool) -> str:
    """The transform of `x` (real, or pairs in the last dimension) along `axis`, as pairs."""
    shape = g.known(x)
    last = len(shape) - 1
    size = shape[axis]
    if size > length:
        x, size = slice_axis(g, x, axis, 0, length), length
    bins = length // 2 + 1 if onesided else length
    angles = 2 * np.pi * np.outer(np.arange(bins), np.arange(size)) / length * (1 if inverse else -1)
    factor = 1.0 / length if inverse else 1.0
    cos, sin = np.cos(angles) * factor, np.sin(angles) * factor
    real = slice_axis(g, x, last, 0, 1)
    a, b = along(g, real, cos, axis), along(g, real, sin, axis)
    if shape[last] == 2:
        imaginary = slice_axis(g, x, last, 1, 2)
        a = g.onnx("Sub", a, along(g, imaginary, sin, axis))
        b = g.onnx("Add", b, along(g, imaginary, cos, axis))
    return concat(g, [a, b], last)


def dft(node: Node, g: Rewriter) -> Optional[str]:
    """DFT along one axis."""
    g.found("no-operator", "refuse", "Caffe2 has no DFT")
    shape = g.known(node.input(0))
    if node.opset >= 20:
        axis = int(g.need(node.input(2), "the axis").reshape(-1)[0]) if node.input(2) else -2
    else:
        axis = int(node.attr("axis", 1))
    axis %= len(shape)
    length = int(g.need(node.input(1), "the length").reshape(-1)[0]) if node.input(1) else shape[axis]
    y = _transform(
        g,
        cast(g, node.input(0), "float32"),
        axis,
        length,
        bool(node.attr("inverse", 0)),
        bool(node.attr("onesided", 0)),
    )
    cast(g, y, g.dtype(node.input(0)), node.out)
    return "a product with fixed cosines and sines"


def stft(node: Node, g: Rewriter) -> Optional[str]:
    """Frames gathered, windowed and transformed."""
    g.found("no-operator", "refuse", "Caffe2 has no STFT")
    shape = g.known(node.input(0))
    step = int(g.need(node.input(1), "frame_step").reshape(-1)[0])
    length = int(g.need(node.input(3), "frame_length").reshape(-1)[0]) if node.input(3) else g.known(node.input(2))[0]
    count = (shape[1] - length) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(length)[None, :]
    x = cast(g, node.input(0), "float32")
    x = x if len(shape) == 3 else reshape(g, x, list(shape) + [1])
    frames = take(g, x, places, 1)  # batch, frames, length, 1 or 2
    if node.input(2):
        window = reshape(g, cast(g, node.input(2), "float32"), [-1, 1])
        frames = g.onnx("Mul", frames, window)
    y = _transform(g, frames, 2, length, False, bool(node.attr("onesided", 1)))
    cast(g, y, g.dtype(node.input(0)), node.out)
    return "frames gathered, then a product with fixed cosines and sines"


def table(node: Node, g: Rewriter) -> Optional[str]:
    """A node that only its parameters decide: its value, computed at import."""
    g.found("no-operator", "refuse", "Caffe2 has no %s" % node.op)
    for name in node.inputs:
        g.need(name, name)
    copy(g, g.const(g.need(node.out, node.out)), node.out)
    return "a constant, since its parameters are fixed"


RULES = {
    "DFT": dft,
    "STFT": stft,
    "MelWeightMatrix": table,
    "HannWindow": table,
    "HammingWindow": table,
    "BlackmanWindow": table,
}
