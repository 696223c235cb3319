"""Random numbers, in forms that Caffe2's backend refuses: seeds, other dtypes, shapes like another value's.

Caffe2 draws by itself, so that the numbers are others of the same distribution: no reference can agree with them.
"""

from typing import Any, Dict, Optional

import onnx

from ..rewriter import Node, Rewriter
from ..values import dtype_name
from .building import cast

__all__ = ["RULES"]

_FILLS = {"Normal": "GaussianFill", "Uniform": "UniformFill"}


def _note(g: Rewriter) -> None:
    g.found("random", "note", "random numbers are Caffe2's own: no reference can agree")


def filled(node: Node, g: Rewriter) -> Optional[str]:
    """RandomNormal, RandomUniform and what is shaped like another value, without a seed."""
    _note(g)
    dtype = _dtype(node, g)
    if node.op == "RandomUniformLike":
        g.found("no-operator", "refuse", "Caffe2's backend does not know RandomUniformLike")
    elif "seed" in node.attrs and "Normal" in node.op:
        g.found("random-seed", "refuse", "Caffe2's backend takes no seed for %s" % node.op)
    elif dtype not in ("", "float32"):
        g.found("random-dtype", "refuse", "Caffe2 draws float32 only")
    else:
        return None
    cast(g, _drawn(node, g), dtype or "float32", node.out)
    return "drawn in float32 without the seed: other numbers of the same distribution"


def _dtype(node: Node, g: Rewriter) -> str:
    code = node.attr("dtype")
    return dtype_name(code) if code else g.dtype(node.input(0)) if node.input(0) else "float32"


def _drawn(node: Node, g: Rewriter) -> str:
    kind = "Normal" if "Normal" in node.op else "Uniform"
    if kind == "Normal":
        limits: Dict[str, Any] = {"mean": float(node.attr("mean", 0.0)), "std": float(node.attr("scale", 1.0))}
    else:
        limits = {"min": float(node.attr("low", 0.0)), "max": float(node.attr("high", 1.0))}
    if node.input(0):
        return g.emit(_FILLS[kind], [node.input(0)], "float32", g.shape(node.input(0)), **limits)
    shape = [int(d) for d in node.attr("shape")]
    return g.emit(_FILLS[kind], [], "float32", shape, shape=shape, **limits)


def bernoulli(node: Node, g: Rewriter) -> Optional[str]:
    """Bernoulli: a uniform number below the probability."""
    _note(g)
    g.found("no-operator", "refuse", "Caffe2 has no Bernoulli")
    chance = cast(g, node.input(0), "float32")
    drawn = g.emit("UniformFill", [chance], "float32", g.shape(chance), min=0.0, max=1.0)
    cast(g, g.onnx("Less", drawn, chance), _dtype(node, g) or "float32", node.out)
    return "written as a uniform number below the probability"


def multinomial(node: Node, g: Rewriter) -> Optional[str]:
    """Multinomial, whose dtype Caffe2's backend wants to be said."""
    _note(g)
    if "dtype" in node.attrs:
        return None
    g.found("multinomial-dtype", "refuse", "Caffe2's backend wants the dtype of Multinomial said")
    kept = onnx.NodeProto()
    kept.CopyFrom(node.proto)
    kept.attribute.append(onnx.helper.make_attribute("dtype", int(onnx.TensorProto.INT32)))
    g.keep(kept)
    return "dtype=int32"


RULES = {
    "Bernoulli": bernoulli,
    "Multinomial": multinomial,
    "RandomNormal": filled,
    "RandomNormalLike": filled,
    "RandomUniform": filled,
    "RandomUniformLike": filled,
}
