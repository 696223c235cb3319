"""Convolutions: auto_pad, missing kernel_shape, and the transposed ones that Caffe2 lacks.

Matches Conv with auto_pad SAME (dropped in silence) or without kernel_shape, Conv of other dtypes, ConvTranspose in
one or three dimensions, with dilations, output_shape or auto_pad.  A transposed convolution beyond Caffe2's own is
written as zeros put between the elements, then Conv with the kernel turned around.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from ..rewriter import Node, Rewriter, Unrepairable
from ..values import Shape
from .building import cast, concat, expand_dims, fill, reshape, slice_axis, squeeze, take, transpose
from .dtypes import exactness, found_dtype
from .pooling import same_pads

__all__ = ["RULES"]


def convolution(node: Node, g: Rewriter) -> Optional[str]:
    """Conv with explicit pads and kernel_shape."""
    dtype = g.dtype(node.input(0))
    mode = node.attr("auto_pad", "NOTSET")
    if 0 in (node.attr("strides") or []):
        g.found("conv-stride-0", "die", "a stride of 0 ends the process with SIGFPE")
        raise Unrepairable("a stride of 0 has no meaning")
    if mode.startswith("SAME"):
        g.found("auto-pad", "wrong", "Caffe2 drops auto_pad=%s and pads nothing" % mode)
    if "kernel_shape" not in node.attrs:
        g.found("conv-kernel", "fail", "Caffe2 wants kernel_shape, it does not take it from the weights")
    if dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    if not g.reports:
        return None
    kernel = list(node.attr("kernel_shape") or g.known(node.input(1))[2:])
    n = len(kernel)
    strides, dilations = node.attr("strides") or [1] * n, node.attr("dilations") or [1] * n
    pads = list(node.attr("pads") or [0] * 2 * n)
    if mode.startswith("SAME"):
        pairs = [same_pads(mode, *a) for a in zip(g.spatial(node.input(0)), kernel, strides, dilations)]
        pads = [p[0] for p in pairs] + [p[1] for p in pairs]
    elif mode == "VALID":
        pads = [0] * 2 * n
    inputs = [cast(g, name, "float32") for name in node.inputs if name]
    y = g.emit(
        "Conv",
        inputs,
        "float32",
        g.shape(node.out),
        kernels=kernel,
        strides=list(strides),
        pads=pads,
        dilations=list(dilations),
        group=int(node.attr("group", 1)),
    )
    cast(g, y, dtype, node.out)
    return "kernels=%s pads=%s%s" % (kernel, pads, exactness(dtype, "float32"))


class _Transposed(NamedTuple):
    kernel: List[int]
    strides: List[int]
    dilations: List[int]
    begin: List[int]
    end: List[int]
    extra: List[int]  # output_padding
    group: int


def transposed(node: Node, g: Rewriter) -> Optional[str]:
    """ConvTranspose in any number of dimensions."""
    rank = len(g.shape(node.input(0)) or g.shape(node.input(1)) or [0] * 4)
    dtype = g.dtype(node.input(0))
    strange = set(node.attr("dilations") or [1]) != {1}
    if rank != 4:
        g.found("convtranspose-rank", "fail", "Caffe2's ConvTranspose takes four dimensions only")
    if strange:
        g.found("convtranspose-dilations", "wrong", "Caffe2 drops the dilations of ConvTranspose")
    if "output_shape" in node.attrs and not _natural(node, g):
        g.found("convtranspose-output-shape", "wrong", "Caffe2 drops output_shape of ConvTranspose")
    if node.attr("auto_pad", "NOTSET").startswith("SAME"):
        g.found("auto-pad", "wrong", "Caffe2 drops auto_pad of ConvTranspose")
    if "kernel_shape" not in node.attrs:
        g.found("conv-kernel", "fail", "Caffe2 wants kernel_shape, it does not take it from the weights")
    if dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    adjs = node.attr("output_padding") or [0]
    if any(a >= s for a, s in zip(adjs, node.attr("strides") or [1] * len(adjs))) and any(adjs):
        g.found("convtranspose-adjs", "wrong", "Caffe2 computes output_padding not below the stride wrongly")
        strange = True
    if not g.reports:
        return None
    t = _geometry(node, g)
    strange = strange or any(e >= s for e, s in zip(t.extra, t.strides))
    inputs = [cast(g, name, "float32") for name in node.inputs if name]
    if rank == 4 and not strange and min(t.begin + t.end) >= 0:
        y = _native(g, inputs, t, g.shape(node.out))
    elif rank == 3 and not strange and min(t.begin + t.end) >= 0:
        y = squeeze(g, _native(g, [expand_dims(g, n, [2]) for n in inputs[:2]] + inputs[2:], _widened(t), None, 4), [2])
    else:
        y = _by_conv(g, inputs, t)
    cast(g, y, dtype, node.out)
    return "pads=%s, output_padding=%s%s" % (t.begin + t.end, t.extra, exactness(dtype, "float32"))


def _natural(node: Node, g: Rewriter) -> bool:
    """Whether output_shape is what comes out without it."""
    shape = g.shape(node.input(0))
    kernel, wanted = node.attr("kernel_shape"), node.attr("output_shape")
    if shape is None or None in shape or not kernel:
        return False
    n = len(kernel)
    strides, pads = node.attr("strides") or [1] * n, node.attr("pads") or [0] * 2 * n
    dilations, extra = node.attr("dilations") or [1] * n, node.attr("output_padding") or [0] * n
    sizes = [(d or 0) for d in shape[2:]]
    return list(wanted[-n:]) == [
        strides[i] * (sizes[i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1 - pads[i] - pads[i + n]
        for i in range(n)
    ]


def _geometry(node: Node, g: Rewriter) -> _Transposed:
    kernel = list(node.attr("kernel_shape") or g.known(node.input(1))[2:])
    n = len(kernel)
    strides, dilations = list(node.attr("strides") or [1] * n), list(node.attr("dilations") or [1] * n)
    extra = list(node.attr("output_padding") or [0] * n)
    pads = list(node.attr("pads") or [0] * 2 * n)
    mode = node.attr("auto_pad", "NOTSET")
    wanted = node.attr("output_shape")
    if wanted or mode.startswith("SAME"):
        sizes = g.spatial(node.input(0))
        wanted = list(wanted or [d * s for d, s in zip(sizes, strides)])[-n:]
        pads = [0] * 2 * n
        for i in range(n):
            full = strides[i] * (sizes[i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1
            total = full - wanted[i]
            if total < 0:
                extra[i] -= total
                total = 0
            small = total // 2
            pads[i], pads[i + n] = (small, total - small) if mode == "SAME_UPPER" else (total - small, small)
    elif mode == "VALID":
        pads = [0] * 2 * n
    return _Transposed(kernel, strides, dilations, pads[:n], pads[n:], extra, int(node.attr("group", 1)))


def _widened(t: _Transposed) -> _Transposed:
    return _Transposed(
        [1] + t.kernel, [1] + t.strides, [1] + t.dilations, [0] + t.begin, [0] + t.end, [0] + t.extra, t.group
    )


def _native(g: Rewriter, inputs: Sequence[str], t: _Transposed, shape: Optional[Shape], rank: int = 0) -> str:
    args: Dict[str, Any] = {"kernels": t.kernel, "strides": t.strides, "pads": t.begin + t.end, "adjs": t.extra}
    if t.group != 1:
        args["group"] = t.group
    if shape is None:
        shape = (None,) * rank
    return g.emit("ConvTranspose", list(inputs), "float32", shape, **args)


def _by_conv(g: Rewriter, inputs: Sequence[str], t: _Transposed) -> str:
    """Zeros between the elements, zeros around, and Conv with the kernel turned around."""
    n, x = len(t.kernel), inputs[0]
    for i in range(n):
        x = _spread(g, x, i + 2, t.strides[i])
    begin = [(k - 1) * d - p for k, d, p in zip(t.kernel, t.dilations, t.begin)]
    end = [(k - 1) * d - p + e for k, d, p, e in zip(t.kernel, t.dilations, t.end, t.extra)]
    for i in range(n):
        if begin[i] < 0 or end[i] < 0:
            size = g.known(x)[i + 2]
            x = slice_axis(g, x, i + 2, max(0, -begin[i]), size - max(0, -end[i]))
    pads = [max(0, p) for p in begin + end]
    weights = _turned(g, inputs[1], t.group)
    shape = list(g.known(x))
    shape[1] = g.known(weights)[0]
    for i in range(n):
        shape[i + 2] += pads[i] + pads[i + n] - (t.kernel[i] - 1) * t.dilations[i]
    return g.emit(
        "Conv",
        [x, weights] + list(inputs[2:]),
        "float32",
        shape,
        kernels=t.kernel,
        strides=[1] * n,
        pads=pads,
        dilations=t.dilations,
        group=t.group,
    )


def _spread(g: Rewriter, x: str, axis: int, stride: int) -> str:
    """`x` with stride - 1 zeros between neighbours along one axis."""
    if stride == 1:
        return x
    shape = list(g.known(x))
    size = shape[axis]
    tall = reshape(g, x, shape[: axis + 1] + [1] + shape[axis + 1 :])
    zeros = fill(g, shape[: axis + 1] + [stride - 1] + shape[axis + 1 :], 0.0, "float32")
    both = concat(g, [tall, zeros], axis + 1)
    flat = reshape(g, both, shape[:axis] + [size * stride] + shape[axis + 1 :])
    return slice_axis(g, flat, axis, 0, (size - 1) * stride + 1)


def _turned(g: Rewriter, weights: str, group: int) -> str:
    """Weights (in, out / group, kernel...) as (out, in / group, turned kernel...)."""
    shape = g.known(weights)
    value = g.value(weights)
    spatial = shape[2:]
    parts = [group, shape[0] // group, shape[1]]
    if value is not None:
        turned = value.reshape(parts + list(spatial)).swapaxes(1, 2).reshape((-1, shape[0] // group) + tuple(spatial))
        return g.const(
            np.ascontiguousarray(turned[(slice(None), slice(None)) + (slice(None, None, -1),) * len(spatial)])
        )
    w = reshape(g, weights, parts + list(spatial))
    w = transpose(g, w, [0, 2, 1] + list(range(3, 3 + len(spatial))))
    w = reshape(g, w, [group * shape[1], shape[0] // group] + list(spatial))
    for i, size in enumerate(spatial):
        w = take(g, w, np.arange(size)[::-1], i + 2) if size > 1 else w
    return w


def deformable(node: Node, g: Rewriter) -> Optional[str]:
    """DeformConv has an operator of that name with other inputs."""
    g.found("deform-conv", "fail", "Caffe2's DeformConv takes other inputs and runs on CUDA only")
    raise Unrepairable("no Caffe2 CPU operator samples at computed places like this")


def columns(node: Node, g: Rewriter) -> Optional[str]:
    """Col2Im as a fixed scatter-add, which is a product with a fixed matrix."""
    g.found("col2im-form", "fail", "Caffe2's Col2Im takes another form")
    image = [int(v) for v in g.need(node.input(1), "image_shape")]
    block = [int(v) for v in g.need(node.input(2), "block_shape")]
    n = len(image)
    strides, dilations = node.attr("strides") or [1] * n, node.attr("dilations") or [1] * n
    pads = node.attr("pads") or [0] * 2 * n
    batch, depth, count = g.known(node.input(0))
    matrix = _fold_matrix(image, block, strides, dilations, pads)
    channels = depth // int(np.prod(block))
    if matrix.size > 1 << 24:
        raise Unrepairable("the image is too large to be folded by a matrix")
    x = reshape(g, cast(g, node.input(0), "float32"), [batch * channels, int(np.prod(block)) * count])
    y = g.emit("BatchMatMul", [x, g.const(matrix)], "float32", [batch * channels, int(np.prod(image))], broadcast=1)
    y = reshape(g, y, [batch, channels] + image)
    cast(g, y, g.dtype(node.input(0)), node.out)
    return "a product with a fixed matrix"


def _fold_matrix(
    image: Sequence[int], block: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int]
) -> np.ndarray:
    n = len(image)
    counts = [
        (image[i] + pads[i] + pads[i + n] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(n)
    ]
    matrix = np.zeros((int(np.prod(block)) * int(np.prod(counts)), int(np.prod(image))), np.float32)
    row = 0
    for offset in np.ndindex(*block):
        for start in np.ndindex(*counts):
            place = [start[i] * strides[i] + offset[i] * dilations[i] - pads[i] for i in range(n)]
            if all(0 <= p < s for p, s in zip(place, image)):
                matrix[row, int(np.ravel_multi_index(place, image))] = 1
            row += 1
    return matrix


RULES = {"Conv": convolution, "ConvTranspose": transposed, "DeformConv": deformable, "Col2Im": columns}
