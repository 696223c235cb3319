"""Normalizations that Caffe2 lacks or whose form its backend does not know.

Matches BatchNormalization-14 and -15 (their training_mode attribute), BatchNormalization in training (before opset 14
that is one whose statistics have names), LayerNormalization, GroupNormalization, MeanVarianceNormalization,
InstanceNormalization of other dtypes.
"""

from typing import List, Optional

import numpy as np

from ..rewriter import Node, Rewriter, Unrepairable
from .building import cast, copy, expand, expand_dims, reduce, reshape, squeeze
from .dtypes import found_dtype
from .pooling import along

__all__ = ["RULES"]


def batch_norm(node: Node, g: Rewriter) -> Optional[str]:
    """SpatialBN in test mode; in training mode the batch's own statistics, written out."""
    training = node.attr("training_mode", 0)
    extra = [o for o in node.outputs[1:] if o]
    dtype = g.dtype(node.input(0))
    shape = g.shape(node.input(0))
    if node.opset < 7:
        return None
    if "training_mode" in node.attrs:
        g.found("batchnorm-14", "refuse", "Caffe2's backend does not know training_mode")
    elif extra:
        g.found("batchnorm-training", "fail", "Caffe2's backend always tests, and SpatialBN gives no statistics then")
    elif node.attr("spatial", 1) == 0:
        g.found("batchnorm-spatial", "refuse", "Caffe2's backend does not know spatial=0")
        return _per_element(node, g)
    elif dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    elif shape is not None and len(shape) < 3:
        g.found("batchnorm-rank", "note", "Caffe2's SpatialBN before 1.3 wants three dimensions")
    else:
        return None
    if training or (extra and node.opset < 14):
        return _trained(node, g)
    if extra:
        raise Unrepairable("statistics are wanted without training_mode")
    inputs = [cast(g, name, "float32") for name in node.inputs]
    flat = shape is not None and len(shape) == 2
    if flat:
        inputs[0] = expand_dims(g, inputs[0], [2])
    y = g.emit("SpatialBN", inputs, "float32", g.shape(inputs[0]), is_test=1, epsilon=float(node.attr("epsilon", 1e-5)))
    y = squeeze(g, y, [2]) if flat else y
    cast(g, y, dtype, node.out)
    return "SpatialBN in test mode"


def _per_element(node: Node, g: Rewriter) -> str:
    """spatial=0: scale, bias, mean and variance have the shape of one sample, without the batch."""
    x, scale, bias, mean, var = (cast(g, name, "float32") for name in node.inputs)
    g.rank(x)
    root = g.onnx("Sqrt", g.onnx("Add", var, g.const(node.attr("epsilon", 1e-5), "float32")))
    y = g.onnx("Div", g.onnx("Mul", g.onnx("Sub", x, mean), scale), root)
    cast(g, g.onnx("Add", y, bias), g.dtype(node.input(0)), node.out)
    return "written out"


def _trained(node: Node, g: Rewriter) -> str:
    rank = g.rank(node.input(0))
    axes = [0] + list(range(2, rank))
    x = cast(g, node.input(0), "float32")
    scale, bias, old_mean, old_var = (cast(g, name, "float32") for name in node.inputs[1:])
    mean, var = _moments(g, x, axes)
    form = [1, -1] + [1] * (rank - 2)
    root = g.onnx("Sqrt", g.onnx("Add", var, g.const(node.attr("epsilon", 1e-5), "float32")))
    y = g.onnx("Div", g.onnx("Mul", g.onnx("Sub", x, mean), reshape(g, scale, form)), root)
    cast(g, g.onnx("Add", y, reshape(g, bias, form)), g.dtype(node.input(0)), node.out)
    keep = float(node.attr("momentum", 0.9))
    for position, (old, new) in enumerate(((old_mean, mean), (old_var, var)), 1):
        if node.output(position):
            mixed = g.onnx(
                "Add",
                g.onnx("Mul", old, g.const(keep, "float32")),
                g.onnx("Mul", reshape(g, new, [-1]), g.const(1 - keep, "float32")),
            )
            cast(g, mixed, g.dtype(node.input(3)), node.output(position))
    _saved(node, g, mean, root)
    return "the batch's own statistics, written out"


def _saved(node: Node, g: Rewriter, mean: str, root: str) -> None:
    """What opset 13 and before keeps of the batch: its mean, and 1 / sqrt(var + epsilon) as onnxruntime gives it."""
    dtype = g.dtype(node.input(0))
    if node.output(3):
        cast(g, reshape(g, mean, [-1]), dtype, node.output(3))
    if node.output(4):
        cast(g, reshape(g, g.onnx("Div", g.const(1.0, "float32"), root), [-1]), dtype, node.output(4))


def _moments(g: Rewriter, x: str, axes: List[int]) -> List[str]:
    """Mean and (biased) variance over `axes`, dimensions kept."""
    mean = reduce(g, "ReduceMean", x, axes)
    rest = g.onnx("Sub", x, mean)
    return [mean, reduce(g, "ReduceMean", g.emit("Sqr", [rest], "float32", g.shape(rest)), axes)]


def _normalized(g: Rewriter, x: str, axes: List[int], epsilon: float) -> List[str]:
    """(x - mean) / sqrt(var + epsilon), the mean, and 1 / sqrt(var + epsilon)."""
    mean = reduce(g, "ReduceMean", x, axes)
    rest = g.onnx("Sub", x, mean)
    var = reduce(g, "ReduceMean", g.emit("Sqr", [rest], "float32", g.shape(rest)), axes)
    root = g.onnx("Sqrt", g.onnx("Add", var, g.const(epsilon, "float32")) if epsilon else var)
    return [g.onnx("Div", rest, root), mean, g.onnx("Div", g.const(1.0, "float32"), root)]


def layer_norm(node: Node, g: Rewriter) -> Optional[str]:
    """LayerNormalization written out with ReduceMean."""
    g.found("no-operator", "refuse", "Caffe2's backend does not know LayerNormalization")
    rank = g.rank(node.input(0))
    axes = list(range(int(node.attr("axis", -1)) % rank, rank))
    x = cast(g, node.input(0), "float32")
    y, mean, inverse = _normalized(g, x, axes, float(node.attr("epsilon", 1e-5)))
    y = g.onnx("Mul", y, cast(g, node.input(1), "float32"))
    if node.input(2):
        y = g.onnx("Add", y, cast(g, node.input(2), "float32"))
    cast(g, y, g.dtype(node.input(0)), node.out)
    for position, value in ((1, mean), (2, inverse)):
        if node.output(position):
            copy(g, value, node.output(position))
    return "written out over axes %s" % axes


def group_norm(node: Node, g: Rewriter) -> Optional[str]:
    """GroupNormalization written out: the channels of a group are normalized together."""
    g.found("no-operator", "refuse", "Caffe2's backend does not know GroupNormalization")
    shape, groups = g.known(node.input(0)), int(node.attr("num_groups"))
    x = reshape(g, cast(g, node.input(0), "float32"), [shape[0], groups, -1])
    y = reshape(g, _normalized(g, x, [2], float(node.attr("epsilon", 1e-5)))[0], list(shape))
    per = [1, -1] + [1] * (len(shape) - 2)
    scale, bias = (cast(g, name, "float32") for name in node.inputs[1:3])
    if g.known(scale)[0] == groups and groups != shape[1]:  # opset 18 gives one scale for a group
        repeat = [groups, shape[1] // groups]
        scale, bias = (_repeated(g, name, repeat) for name in (scale, bias))
    y = g.onnx("Add", g.onnx("Mul", y, reshape(g, scale, per)), reshape(g, bias, per))
    cast(g, y, g.dtype(node.input(0)), node.out)
    return "written out for %d groups" % groups


def _repeated(g: Rewriter, x: str, repeat: List[int]) -> str:
    return reshape(g, expand(g, reshape(g, x, [repeat[0], 1]), repeat), [-1])


def mean_variance(node: Node, g: Rewriter) -> Optional[str]:
    """MeanVarianceNormalization written out."""
    g.found("no-operator", "refuse", "Caffe2 has no MeanVarianceNormalization")
    rank = g.rank(node.input(0))
    axes = [int(a) % rank for a in node.attr("axes") or [0, 2, 3]]
    y = _normalized(g, cast(g, node.input(0), "float32"), axes, 1e-9)[0]
    cast(g, y, g.dtype(node.input(0)), node.out)
    return "written out over axes %s" % axes


def instance_norm(node: Node, g: Rewriter) -> Optional[str]:
    """InstanceNorm of other dtypes."""
    dtype = g.dtype(node.input(0))
    if dtype in ("", "float32"):
        return None
    found_dtype(node, g, dtype)
    inputs = [cast(g, name, "float32") for name in node.inputs]
    y = g.emit("InstanceNorm", inputs, "float32", g.shape(node.out), epsilon=float(node.attr("epsilon", 1e-5)))
    cast(g, y, dtype, node.out)
    return "computed in float32"


def local_response(node: Node, g: Rewriter) -> Optional[str]:
    """LRN as a running sum of squares over neighbouring channels where Caffe2's does not fit."""
    dtype, shape = g.dtype(node.input(0)), g.shape(node.input(0))
    size = int(node.attr("size", 1))
    if dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    elif shape is not None and len(shape) != 4:
        g.found("lrn-rank", "fail", "Caffe2's LRN wants four dimensions")
    else:
        return None
    shape = g.known(node.input(0))
    x = cast(g, node.input(0), "float32")
    places = np.arange(shape[1])
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    gap = places[None, :] - places[:, None]
    near = ((gap >= -before) & (gap <= after)).astype(np.float32)
    total = along(g, g.emit("Sqr", [x], "float32", shape), near, 1)
    inner = g.onnx(
        "Add",
        g.onnx("Mul", total, g.const(float(node.attr("alpha", 1e-4)) / size, "float32")),
        g.const(float(node.attr("bias", 1.0)), "float32"),
    )
    power = g.emit("Pow", [inner], "float32", shape, exponent=float(node.attr("beta", 0.75)))
    cast(g, g.onnx("Div", x, power), dtype, node.out)
    return "written out with a sum over neighbouring channels"


RULES = {
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "GroupNormalization": group_norm,
    "MeanVarianceNormalization": mean_variance,
    "InstanceNormalization": instance_norm,
    "LRN": local_response,
}
