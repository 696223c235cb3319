"""Losses with class labels: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.

Caffe2 has neither in ONNX's form.  The probability of the label is picked by comparing labels with class numbers,
which needs no gather and leaves out ignore_index by itself.
"""

from typing import Optional, Sequence

import numpy as np

from ..rewriter import Node, Rewriter
from .building import cast, copy, expand_dims, reduce, reshape

__all__ = ["RULES"]


def likelihood(node: Node, g: Rewriter) -> Optional[str]:
    """-w[label] * x[label], reduced."""
    g.found("no-operator", "refuse", "Caffe2 has no NegativeLogLikelihoodLoss")
    _loss(node, g, cast(g, node.input(0), "float32"))
    return "labels compared with class numbers"


def cross_entropy(node: Node, g: Rewriter) -> Optional[str]:
    """LogSoftmax along axis 1, then the negative log likelihood."""
    g.found("no-operator", "refuse", "Caffe2 has no SoftmaxCrossEntropyLoss")
    log = g.onnx("LogSoftmax", cast(g, node.input(0), "float32"), axis=1)
    if node.output(1):
        log = copy(g, log, node.output(1))
    _loss(node, g, log)
    return "LogSoftmax, then labels compared with class numbers"


def _loss(node: Node, g: Rewriter, x: str) -> None:
    shape = g.known(node.input(0))
    labels = cast(g, node.input(1), "int64")
    places = g.const(np.arange(shape[1]).reshape([-1] + [1] * (len(shape) - 2)), "int64")
    hit = g.onnx("Equal", expand_dims(g, labels, [1]), places)
    if "ignore_index" in node.attrs:
        used = g.onnx("Not", g.onnx("Equal", labels, g.const(int(node.attr("ignore_index")), "int64")))
        hit = g.onnx("And", hit, expand_dims(g, used, [1]))
    zero = g.const(0.0, "float32")
    weights = _weights(node, g, shape)
    chosen = g.onnx("Where", hit, g.onnx("Mul", x, weights) if node.input(2) else x, zero)
    each = g.onnx("Neg", reduce(g, "ReduceSum", chosen, [1], False))
    kind, dtype = node.attr("reduction", "mean"), g.dtype(node.input(0))
    if kind == "none":
        cast(g, each, dtype, node.out)
        return
    axes = list(range(len(shape) - 1))
    total = reduce(g, "ReduceSum", each, axes, False)
    if kind == "mean":
        counted = g.onnx("Where", hit, weights, zero)
        total = g.onnx("Div", total, reduce(g, "ReduceSum", counted, list(range(len(shape))), False))
    cast(g, total, dtype, node.out)


def _weights(node: Node, g: Rewriter, shape: Sequence[int]) -> str:
    if not node.input(2):
        return g.const(1.0, "float32")
    return reshape(g, cast(g, node.input(2), "float32"), [shape[1]] + [1] * (len(shape) - 2))


RULES = {"NegativeLogLikelihoodLoss": likelihood, "SoftmaxCrossEntropyLoss": cross_entropy}
