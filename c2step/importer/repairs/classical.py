"""Classical machine learning, the domain ai.onnx.ml, where plain arithmetic computes it.

Matches what exporters of scikit-learn write for scaling, imputing, and linear models.  Trees, support vector machines,
text and maps have no operators in Caffe2.
"""

from typing import Callable, Dict, List

import numpy as np

from ..rewriter import Node, Rewriter, Unrepairable
from .building import cast, concat, copy, reduce, take

__all__ = ["ML", "classical"]

ML = "ai.onnx.ml"


def classical(node: Node, g: Rewriter) -> str:
    """One node of ai.onnx.ml as arithmetic."""
    g.found("no-operator", "refuse", "Caffe2 has no %s::%s" % (ML, node.op))
    if node.op not in _RULES:
        raise Unrepairable("no Caffe2 operators compute it; cut the model before it, and run the rest elsewhere")
    return _RULES[node.op](node, g)


def _float(node: Node, g: Rewriter, position: int = 0) -> str:
    return cast(g, node.input(position), "float32")


def _row(g: Rewriter, values: List[float]) -> str:
    return g.const(np.asarray(values, np.float32))


def _scaler(node: Node, g: Rewriter) -> str:
    offset, scale = node.attr("offset") or [0.0], node.attr("scale") or [1.0]
    g.onnx("Mul", g.onnx("Sub", _float(node, g), _row(g, offset)), _row(g, scale), out=node.out)
    return "written as (x - offset) * scale"


def _imputer(node: Node, g: Rewriter) -> str:
    values, missing = node.attr("imputed_value_floats"), node.attr("replaced_value_float", 0.0)
    if not values:
        raise Unrepairable("only floats are imputed")
    x = _float(node, g)
    gone = g.onnx("IsNaN", x) if np.isnan(missing) else g.onnx("Equal", x, g.const(missing, "float32"))
    g.onnx("Where", gone, _row(g, values), x, out=node.out)
    return "written as Where"


def _binarizer(node: Node, g: Rewriter) -> str:
    above = g.onnx("Greater", _float(node, g), g.const(node.attr("threshold", 0.0), "float32"))
    cast(g, above, g.dtype(node.input(0)), node.out)
    return "written as x > threshold"


def _normalizer(node: Node, g: Rewriter) -> str:
    kind = node.attr("norm", "MAX")
    x, last = _float(node, g), [g.rank(node.input(0)) - 1]
    if kind == "L2":
        norm = g.onnx("Sqrt", reduce(g, "ReduceSum", g.onnx("Mul", x, x), last))
    elif kind == "L1":
        norm = reduce(g, "ReduceSum", g.onnx("Abs", x), last)
    else:
        norm = reduce(g, "ReduceMax", x, last)
    empty = g.onnx("Equal", norm, g.const(0.0, "float32"))
    g.onnx("Div", x, g.onnx("Where", empty, g.const(1.0, "float32"), norm), out=node.out)
    return "written as x / %s norm" % kind


def _features(node: Node, g: Rewriter) -> str:
    concat(g, [_float(node, g, i) for i in range(len(node.inputs))], 1, node.out)
    return "written as Concat"


def _extractor(node: Node, g: Rewriter) -> str:
    columns = g.need(node.input(1), "the columns").reshape(-1)
    copy(g, take(g, node.input(0), columns, g.rank(node.input(0)) - 1), node.out)
    return "a Gather of columns %s" % columns.tolist()


def _linear(node: Node, g: Rewriter, rows: int, out: str = "") -> str:
    weights = np.asarray(node.attr("coefficients"), np.float32).reshape(rows, -1)
    intercepts = node.attr("intercepts")
    product = g.onnx("MatMul", _float(node, g), g.const(np.ascontiguousarray(weights.T)), out="" if intercepts else out)
    return g.onnx("Add", product, _row(g, intercepts), out=out) if intercepts else product


def _regressor(node: Node, g: Rewriter) -> str:
    if node.attr("post_transform", "NONE") != "NONE":
        raise Unrepairable("post_transform=%s is not rewritten" % node.attr("post_transform"))
    _linear(node, g, int(node.attr("targets", 1)), node.out)
    return "MatMul and Add"


def _classifier(node: Node, g: Rewriter) -> str:
    labels, transform = node.attr("classlabels_ints"), node.attr("post_transform", "NONE")
    if not labels:
        raise Unrepairable("its labels are text, and Caffe2 computes with numbers only")
    features = g.shape(node.input(0))
    count = len(node.attr("coefficients")) // (features[-1] or 1) if features else 0
    if count != len(labels) or transform not in ("NONE", "LOGISTIC", "SOFTMAX"):
        raise Unrepairable(
            "one row of coefficients for each label, and transforms NONE, LOGISTIC, SOFTMAX are rewritten"
        )
    scores = _linear(node, g, count)
    best = g.onnx("ArgMax", scores, axis=1, keepdims=0)
    if node.output(0):
        g.onnx("Gather", g.const(np.asarray(labels, np.int64)), best, out=node.output(0))
    if node.output(1):
        _transformed(node, g, scores, transform)
    return "MatMul, Add and ArgMax"


def _transformed(node: Node, g: Rewriter, scores: str, transform: str) -> None:
    if transform == "SOFTMAX":
        g.onnx("Softmax", scores, axis=1, out=node.output(1))
    elif transform == "LOGISTIC":
        g.onnx("Sigmoid", scores, out=node.output(1))
    else:
        copy(g, scores, node.output(1))


_RULES: Dict[str, Callable[[Node, Rewriter], str]] = {
    "ArrayFeatureExtractor": _extractor,
    "Binarizer": _binarizer,
    "FeatureVectorizer": _features,
    "Imputer": _imputer,
    "LinearClassifier": _classifier,
    "LinearRegressor": _regressor,
    "Normalizer": _normalizer,
    "Scaler": _scaler,
}
