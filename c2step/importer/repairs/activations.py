"""Activations that Caffe2 lacks, computes unstably, or reads with another meaning.

Softmax-13 and LogSoftmax-13 along one axis (Caffe2 flattens), LogSoftmax and Softplus that under- and overflow,
Hardmax, PRelu with any slope shape, Gelu, HardSwish, Mish, Celu, Shrink, Asinh, Acosh, Atanh.
"""

from typing import Callable, Optional, Sequence

import numpy as np

from ..rewriter import Node, Rewriter, Unrepairable
from .building import cast, copy, fill_like, reduce, reshape, transpose
from .dtypes import found_dtype

__all__ = ["RULES"]


def _scalar(g: Rewriter, value: float) -> str:
    return g.const(value, "float32")


def _axis(node: Node, g: Rewriter) -> int:
    default = 1 if node.opset < 13 else -1
    return int(node.attr("axis", default)) % max(1, g.rank(node.input(0)))


def _misread(node: Node, g: Rewriter) -> bool:
    """Whether Caffe2, which flattens to two dimensions at axis (default 1), takes Softmax over something else."""
    if node.opset < 13:
        return False
    shape = g.shape(node.input(0))
    if not shape:
        return True
    flattened = int(node.attr("axis", 1)) % len(shape)
    return flattened != _axis(node, g) or any(d != 1 for d in shape[flattened + 1 :])


_AXIS = "Caffe2 takes %s over all dimensions from axis on, opset 13 means that one axis"


def softmax(node: Node, g: Rewriter) -> Optional[str]:
    """Softmax along one axis, which is moved to the end."""
    dtype = g.dtype(node.input(0))
    if _misread(node, g):
        g.found("softmax-axis", "wrong", _AXIS % "Softmax")
    elif dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    else:
        return None
    x = cast(g, node.input(0), "float32")
    if node.opset < 13:
        y = g.emit("Softmax", [x], "float32", g.shape(x), axis=_axis(node, g))
    else:
        y = _along(g, x, _axis(node, g), lambda v, last: g.emit("Softmax", [v], "float32", g.shape(v), axis=last))
    cast(g, y, dtype or "float32", node.out)
    return "taken along axis %d alone" % _axis(node, g)


def _along(g: Rewriter, x: str, axis: int, make: Callable[[str, int], str]) -> str:
    """`make(x', last axis)` with `axis` moved to the end, and moved back."""
    rank = g.rank(x)
    if rank == 0:
        return str(make(reshape(g, x, [1]), 0))
    order = [i for i in range(rank) if i != axis] + [axis]
    back = [order.index(i) for i in range(rank)]
    return transpose(g, make(transpose(g, x, order), rank - 1), back)


def log_softmax(node: Node, g: Rewriter) -> Optional[str]:
    """x - max - log(sum(exp(x - max))), which does not underflow."""
    dtype = g.dtype(node.input(0))
    if dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    if _misread(node, g):
        g.found("softmax-axis", "wrong", _AXIS % "LogSoftmax")
    else:
        g.found("logsoftmax-underflow", "wrong", "Caffe2 takes Log of Softmax: -inf where the probability underflows")
    rank = g.rank(node.input(0))
    axes = [_axis(node, g)] if node.opset >= 13 else list(range(_axis(node, g), rank))
    x = cast(g, node.input(0), "float32")
    rest = g.onnx("Sub", x, reduce(g, "ReduceMax", x, axes))
    log = g.onnx("Log", reduce(g, "ReduceSum", g.onnx("Exp", rest), axes))
    cast(g, g.onnx("Sub", rest, log), dtype, node.out)
    return "written as x - max - log(sum(exp(x - max))) over %s" % axes


def hardmax(node: Node, g: Rewriter) -> Optional[str]:
    """One where ArgMax points, zero elsewhere."""
    g.found("no-operator", "refuse", "Caffe2 has no Hardmax")
    x, shape, axis = node.input(0), g.known(node.input(0)), _axis(node, g)
    dtype = g.dtype(x)
    if node.opset < 13:
        flat = [int(np.prod(shape[:axis], dtype=np.int64)), int(np.prod(shape[axis:], dtype=np.int64))]
        y = _one_hot_max(g, reshape(g, cast(g, x, "float32"), flat), 1)
        cast(g, reshape(g, y, list(shape)), dtype, node.out)
    else:
        cast(g, _one_hot_max(g, cast(g, x, "float32"), axis), dtype, node.out)
    return "written as ArgMax compared with positions"


def _one_hot_max(g: Rewriter, x: str, axis: int) -> str:
    shape = g.known(x)
    best = g.emit("ArgMax", [x], "int64", shape[:axis] + (1,) + shape[axis + 1 :], axis=axis, keepdims=1)
    places = np.arange(shape[axis]).reshape([-1] + [1] * (len(shape) - axis - 1))
    return cast(g, g.emit("EQ", [best, g.const(places, "int64")], "bool", shape), "float32")


def softplus(node: Node, g: Rewriter) -> Optional[str]:
    """max(x, 0) + log(1 + exp(-|x|))."""
    dtype = g.dtype(node.input(0))
    if dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    g.found("softplus-overflow", "wrong", "Caffe2 takes log(exp(x) + 1): infinite from x = 89 on")
    x = cast(g, node.input(0), "float32")
    small = g.onnx("Exp", g.onnx("Neg", g.onnx("Abs", x)))
    y = g.onnx("Add", g.onnx("Relu", x), g.onnx("Log", g.onnx("Add", small, _scalar(g, 1))))
    cast(g, y, dtype or "float32", node.out)
    return "written as max(x, 0) + log(1 + exp(-|x|))"


def _broadcasts(slopes: Sequence[Optional[int]], shape: Sequence[Optional[int]]) -> bool:
    return len(slopes) == len(shape) and all(s == 1 or s == d or d is None for s, d in zip(slopes, shape))


def prelu(node: Node, g: Rewriter) -> Optional[str]:
    """max(x, 0) - slope * max(-x, 0), with the slope broadcast as ONNX does."""
    x, slope = node.input(0), node.input(1)
    shape, slopes = g.shape(x), g.shape(slope)
    dtype = g.dtype(x)
    if dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    elif node.opset < 7 or shape is None or slopes is None or None in slopes:
        return None
    else:
        count = int(np.prod([d or 0 for d in slopes], dtype=np.int64))
        channels = shape[1] if len(shape) > 1 else shape[0] if shape else 1
        aligned = (1,) * (len(shape) - len(slopes)) + tuple(slopes)
        as_channels = len(shape) > 1 and aligned[1] == count
        if len(shape) < 2:
            g.found("prelu-slope", "fail", "Caffe2's PRelu wants two dimensions or more")
        elif count == 1:
            return None
        elif count != channels:
            g.found("prelu-slope", "fail", "Caffe2's PRelu takes one slope or one per channel")
        elif as_channels:
            return None
        elif not _broadcasts(aligned, shape):
            words = "slopes of shape %s do not broadcast to %s, as ONNX wants it; Caffe2 takes them as one per channel"
            g.found(
                "prelu-slope", "note", words % (list(slopes), list(shape)) + ", which exporters of MXNet mean by it"
            )
            return None
        else:
            g.found(
                "prelu-slope",
                "wrong",
                "Caffe2's PRelu takes %d slopes as one per channel (axis 1), ONNX broadcasts "
                "them from the last axis" % count,
            )
    x, slope = cast(g, x, "float32"), cast(g, slope, "float32")
    negative = g.onnx("Relu", g.onnx("Neg", x))
    cast(g, g.onnx("Sub", g.onnx("Relu", x), g.onnx("Mul", slope, negative)), dtype, node.out)
    return "written as max(x, 0) - slope * max(-x, 0)"


def gelu(node: Node, g: Rewriter) -> Optional[str]:
    """0.5 x (1 + erf(x / sqrt 2)), or with tanh."""
    tanh = node.attr("approximate", "none") == "tanh"
    dtype = g.dtype(node.input(0))
    if tanh:
        g.found("gelu-tanh", "wrong", "Caffe2's backend drops approximate='tanh'")
    elif dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    else:
        return None
    x = cast(g, node.input(0), "float32")
    if tanh:
        cube = g.emit("Cube", [x], "float32", g.shape(x))
        inner = g.onnx("Add", x, g.onnx("Mul", cube, _scalar(g, 0.044715)))
        inner = g.onnx("Tanh", g.onnx("Mul", inner, _scalar(g, np.sqrt(2 / np.pi))))
    else:
        inner = g.onnx("Erf", g.onnx("Mul", x, _scalar(g, np.sqrt(0.5))))
    y = g.onnx("Mul", g.onnx("Mul", x, _scalar(g, 0.5)), g.onnx("Add", inner, _scalar(g, 1)))
    cast(g, y, dtype, node.out)
    return "written out with %s" % ("Tanh" if tanh else "Erf")


def hard_swish(node: Node, g: Rewriter) -> Optional[str]:
    """x * HardSigmoid(x)."""
    g.found("no-operator", "refuse", "Caffe2 has no HardSwish")
    x = cast(g, node.input(0), "float32")
    gate = g.emit("HardSigmoid", [x], "float32", g.shape(x), alpha=1 / 6.0, beta=0.5)
    cast(g, g.onnx("Mul", x, gate), g.dtype(node.input(0)), node.out)
    return "written as x * HardSigmoid(x)"


def mish(node: Node, g: Rewriter) -> Optional[str]:
    """x * tanh(softplus(x))."""
    g.found("mish", "note", "Caffe2 has Mish since 1.6 only, and not stable for large x")
    x = cast(g, node.input(0), "float32")
    y = g.onnx("Mul", x, g.onnx("Tanh", g.onnx("Softplus", x)))
    cast(g, y, g.dtype(node.input(0)), node.out)
    return "written as x * tanh(softplus(x))"


def celu(node: Node, g: Rewriter) -> Optional[str]:
    """alpha * Elu(x / alpha)."""
    g.found("no-operator", "refuse", "Caffe2 has no Celu")
    alpha = float(node.attr("alpha", 1.0))
    x = cast(g, node.input(0), "float32")
    inner = g.onnx("Elu", g.onnx("Div", x, _scalar(g, alpha)), alpha=1.0)
    cast(g, g.onnx("Mul", inner, _scalar(g, alpha)), g.dtype(node.input(0)), node.out)
    return "written as alpha * Elu(x / alpha)"


def shrink(node: Node, g: Rewriter) -> Optional[str]:
    """x + bias below -lambd, x - bias above lambd, else 0."""
    g.found("no-operator", "refuse", "Caffe2 has no Shrink")
    lambd, bias = float(node.attr("lambd", 0.5)), float(node.attr("bias", 0.0))
    dtype = g.dtype(node.input(0))
    x = cast(g, node.input(0), "float32")
    low = g.onnx("Where", g.onnx("Less", x, _scalar(g, -lambd)), g.onnx("Add", x, _scalar(g, bias)), _scalar(g, 0))
    high = g.onnx("Where", g.onnx("Greater", x, _scalar(g, lambd)), g.onnx("Sub", x, _scalar(g, bias)), low)
    cast(g, high, dtype, node.out)
    return "written with Where"


def inverse_hyperbolic(node: Node, g: Rewriter) -> Optional[str]:
    """Asinh, Acosh, Atanh by their logarithms."""
    g.found("no-operator", "refuse", "Caffe2 has no %s" % node.op)
    dtype = g.dtype(node.input(0))
    x, one = cast(g, node.input(0), "float32"), _scalar(g, 1)
    if node.op == "Atanh":
        y = g.onnx("Mul", _scalar(g, 0.5), g.onnx("Log", g.onnx("Div", g.onnx("Add", one, x), g.onnx("Sub", one, x))))
    else:
        size = g.onnx("Abs", x) if node.op == "Asinh" else x
        inner = g.onnx("Add" if node.op == "Asinh" else "Sub", g.emit("Sqr", [x], "float32", g.shape(x)), one)
        y = g.onnx("Log", g.onnx("Add", size, g.onnx("Sqrt", inner)))
        y = g.onnx("Mul", g.onnx("Sign", x), y) if node.op == "Asinh" else y
    cast(g, y, dtype, node.out)
    return "written with Log and Sqrt"


def dropout(node: Node, g: Rewriter) -> Optional[str]:
    """Dropout in inference is a copy; the mask, where it is wanted, is all true, and 0 before opset 12."""
    training = node.input(2)
    mode = g.given(training) if training else np.array(False)
    ratio = g.given(node.input(1)) if node.input(1) else np.array(node.attr("ratio", 0.5))
    plain = node.opset < 12 and len([o for o in node.outputs if o]) < 2
    if node.opset < 7:
        if not node.attr("is_test", 0):
            g.found("dropout-training", "note", "this Dropout drops values at random: opset 6 without is_test")
        return None
    if plain and g.dtype(node.input(0)) in ("", "float32"):
        return None
    random = mode is None or (bool(mode.any()) and (ratio is None or float(ratio.reshape(-1)[0]) > 0))
    if random:
        g.found("dropout-training", "refuse", "training_mode of Dropout draws random numbers that no reference shares")
        raise Unrepairable("export the model for inference, with training_mode false")
    if node.opset >= 12 and (len(node.inputs) > 1 or "seed" in node.attrs):
        g.found("dropout-inputs", "refuse", "Caffe2's Dropout does not take ratio and training_mode as inputs")
    elif node.output(1):
        g.found("dropout-mask", "fail", "Caffe2's Dropout writes no mask in test mode: fetching it gives text")
    elif g.dtype(node.input(0)) not in ("", "float32"):
        found_dtype(node, g, g.dtype(node.input(0)))
    else:
        return None
    copy(g, node.input(0), node.out)
    if node.output(1):
        kept = int(node.opset >= 12)  # what onnxruntime writes
        fill_like(g, node.input(0), kept, "bool" if node.opset >= 10 else g.dtype(node.input(0)), node.output(1))
    return "in inference a copy"


RULES = {
    "Softmax": softmax,
    "LogSoftmax": log_softmax,
    "Hardmax": hardmax,
    "Softplus": softplus,
    "PRelu": prelu,
    "Gelu": gelu,
    "HardSwish": hard_swish,
    "Mish": mish,
    "Celu": celu,
    "Shrink": shrink,
    "Asinh": inverse_hyperbolic,
    "Acosh": inverse_hyperbolic,
    "Atanh": inverse_hyperbolic,
    "Dropout": dropout,
}
