"""What becomes wrong in the nets that onnx_caffe2 makes, within the opsets that it knows, before anything runs.

Worker only.  onnx_caffe2 hands attributes on under the names that it knows; an argument that Caffe2 does not know is
passed over without a word, and one that is left out takes Caffe2's default, which may be another than ONNX's.  Each
rule was found by running the operator on the Caffe2 of torch 1.0.1 against onnxruntime.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import onnx

from .rewriter import Finding, Node
from .stock import caffe2_pb2

__all__ = ["lint"]


class _Said(NamedTuple):
    code: str
    effect: str
    message: str


def lint(nodes: Sequence[Any], opset: int) -> List[Finding]:
    """What becomes wrong, node by node."""
    findings = []
    for index, proto in enumerate(nodes):
        node = Node(proto, opset, index)
        for rule in _RULES.get(node.op, ()):
            said = rule(node)
            if said is not None:
                findings.append(Finding(said.code, node.label, node.op, said.effect, "", said.message, index))
    return findings


def _passed_over(node: Node, name: str, default: Any, effect: str = "wrong") -> Optional[_Said]:
    value = node.attr(name)
    if value is None or value == default or (isinstance(value, list) and all(each == default for each in value)):
        return None
    return _Said("attribute-unknown", effect, "Caffe2 has no argument %s: %s=%s is passed over" % (name, name, value))


def _unknown(name: str, default: Any, effect: str = "wrong") -> Callable[[Node], Optional[_Said]]:
    return lambda node: _passed_over(node, name, default, effect)


def _auto_pad(node: Node) -> Optional[_Said]:
    if not str(node.attr("auto_pad", "")).startswith("SAME"):
        return None
    return _Said("auto-pad", "wrong", "auto_pad=%s is passed over: nothing is padded" % node.attr("auto_pad"))


def _kernel(node: Node) -> Optional[_Said]:
    if node.attr("kernel_shape") is not None:
        return None
    return _Said("no-kernel", "fail", "kernel_shape is not given, and Caffe2 does not take it from the weights")


def _group(node: Node) -> Optional[_Said]:
    if node.attr("group", 1) == 1:
        return None
    return _Said(
        "deconv-group", "fail", "Caffe2 before 1.1 has no groups in ConvTranspose: group=%d" % node.attr("group")
    )


def _training(node: Node) -> Optional[_Said]:
    if node.attr("is_test", 0):
        return _passed_over(node, "spatial", 1, "fail")
    return _Said("training", "fail", "is_test is not set: SpatialBN then trains, and wants its running values in place")


def _selu(node: Node) -> Optional[_Said]:
    gamma = node.attr("gamma")
    if gamma is None or abs(gamma - 1.0507) < 1e-3:
        return None
    return _Said("attribute-unknown", "wrong", "Caffe2 says scale for gamma=%g, so that 1.0507 is taken" % gamma)


def _lp_pool(node: Node) -> Optional[_Said]:
    if not isinstance(node.attr("p"), int):
        return None
    return _Said("lp-integer", "fail", "Caffe2 wants p=%d as a float" % node.attr("p"))


def _lrn(node: Node) -> Optional[_Said]:
    lacks = [name for name in ("alpha", "beta") if node.attr(name) is None]
    if not lacks:
        return None
    return _Said("lrn-defaults", "die", "%s is left out, and Caffe2's LRN has another default" % " and ".join(lacks))


def _axis(default: int) -> Callable[[Node], Optional[_Said]]:
    def rule(node: Node) -> Optional[_Said]:
        if node.attr("axis") is not None:
            return None
        return _Said("axis-default", "wrong", "axis is left out: 0 in ONNX, %d in Caffe2" % default)

    return rule


def _squeeze(node: Node) -> Optional[_Said]:
    return None if node.attr("axes") else _Said("squeeze-axes", "fail", "axes is left out, and Caffe2 wants its dims")


def _split(node: Node) -> Optional[_Said]:
    if len(node.inputs) < 2:
        return None
    return _Said("split-input", "fail", "the sizes come as an input of floats, and Caffe2 wants integers")


def _slice(node: Node) -> Optional[_Said]:
    if len(node.attr("starts", ())) > 1:
        return _Said(
            "slice-axes", "fail", "Caffe2 cuts along one axis only, and this names %d" % len(node.attr("starts"))
        )
    if any(start < 0 for start in node.attr("starts", ())):
        return _Said("slice-start", "wrong", "a start below 0 counts from one behind the end in Caffe2, as an end does")
    return None


def _pad(node: Node) -> Optional[_Said]:
    if node.attr("paddings") is None:
        return None
    return _Said("pad-name", "wrong", "Caffe2 has no argument paddings: nothing is padded")


def _tile(node: Node) -> Optional[_Said]:
    return _Said("tile-inputs", "fail", "Caffe2's Tile wants one number and one axis as int32, not floats or repeats")


def _cast(node: Node) -> Optional[_Said]:
    to = node.attr("to")
    if not isinstance(to, int) or to == onnx.TensorProto.FLOAT:
        return None
    theirs = caffe2_pb2.TensorProto.DataType
    meant = theirs.Name(to) if to in theirs.values() else "no type"
    said = onnx.TensorProto.DataType.Name(to)
    return _Said("cast-number", "wrong", "to=%d, %s in ONNX, is %s in Caffe2's own numbers" % (to, said, meant))


def _upsample(node: Node) -> Optional[_Said]:
    mode = node.attr("mode", "nearest")
    if mode == "nearest":
        return None
    return _Said("upsample-mode", "wrong", "mode=%s is left out: it becomes ResizeNearest" % mode)


_Rule = Callable[[Node], Optional[_Said]]
_POOLS: Tuple[_Rule, ...] = (_auto_pad,)
_RULES: Dict[str, Tuple[_Rule, ...]] = {
    "ArgMax": (_axis(-1),),
    "ArgMin": (_axis(-1),),
    "AveragePool": _POOLS,
    "BatchNormalization": (_training,),
    "Cast": (_cast,),
    "Conv": (_auto_pad, _kernel),
    "ConvTranspose": (
        _auto_pad,
        _kernel,
        _group,
        _unknown("output_padding", 0),
        _unknown("output_shape", None),
        _unknown("dilations", 1),
    ),
    "LRN": (_lrn,),
    "LpPool": (*_POOLS, _lp_pool),
    "MaxPool": (*_POOLS, _unknown("dilations", 1, "fail")),
    "Pad": (_pad,),
    "Selu": (_selu,),
    "Slice": (_slice,),
    "Split": (_axis(1), _split),
    "Squeeze": (_squeeze,),
    "Tile": (_tile,),
    "Upsample": (_upsample,),
}
