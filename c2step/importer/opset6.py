"""What an importer that knows opset 6 misreads in a node of a later opset (worker only).

An operator that has changed since is still read rightly where the node uses nothing of the change.
"""

from typing import Any, Optional

import onnx

from .rewriter import Node

__all__ = ["LAST", "beyond"]

LAST = 6
_TRAINS = ("BatchNormalization", "Dropout")
_ONE_AXIS = {"Softmax": 13, "LogSoftmax": 13, "Hardmax": 13}
# Came later, and Caffe2 has them under these names and with this meaning.
_SAME_IN_CAFFE2 = ("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Erf", "Sign", "Sinh", "Cosh", "Expand", "Where")


def beyond(proto: Any, opset: int) -> str:
    """Why a node cannot be read as one of opset 6, empty where it can."""
    if opset <= LAST or proto.domain not in ("", "ai.onnx"):
        return ""
    now, then = _schema(proto.op_type, opset), _schema(proto.op_type, LAST)
    if now is None or (then is not None and then.since_version == now.since_version):
        return ""
    if then is None:
        return "" if proto.op_type in _SAME_IN_CAFFE2 else "it came with opset %d" % _first(proto.op_type, opset)
    return _changed(Node(proto, opset), now, then)


def _schema(op_type: str, opset: int) -> Optional[Any]:
    try:
        return onnx.defs.get_schema(op_type, opset, "")
    except Exception:  # onnx's own class for it has moved
        return None


def _first(op_type: str, opset: int) -> int:
    return next(version for version in range(LAST + 1, opset + 1) if _schema(op_type, version) is not None)


def _changed(node: Node, now: Any, then: Any) -> str:
    since = now.since_version
    if node.op in _TRAINS:
        return "as of opset %d it has no is_test, without which Caffe2 trains" % since
    counts = (("inputs", node.inputs, then.min_input, then.max_input), ("outputs", node.outputs, 0, then.max_output))
    for what, names, least, most in counts:
        if not least <= len(names) <= most:
            bound = "allows %d" % most if len(names) > most else "wants %d" % least
            return "as of opset %d, it has %d %s, and opset %d %s" % (since, len(names), what, LAST, bound)
    if since >= _ONE_AXIS.get(node.op, since + 1) and node.attr("axis") != -1:
        return "as of opset %d it takes one axis, and up to opset %d all from it on" % (since, LAST)
    return _attributes(node, now, then)


def _attributes(node: Node, now: Any, then: Any) -> str:
    for name, value in node.attrs.items():
        if name not in then.attributes and name in now.attributes and not _is_default(value, now.attributes[name]):
            return "%s=%s came with opset %d" % (name, value, _first_with(node.op, name, now.since_version))
    for name, attribute in then.attributes.items():
        if attribute.required and name not in node.attrs:
            return "as of opset %d it has no attribute %s, which opset %d wants" % (now.since_version, name, LAST)
    return ""


def _first_with(op_type: str, name: str, opset: int) -> int:
    schemas = ((version, _schema(op_type, version)) for version in range(LAST + 1, opset))
    return next((version for version, schema in schemas if schema and name in schema.attributes), opset)


def _is_default(value: Any, attribute: Any) -> bool:
    default = attribute.default_value
    if not default.type:
        return isinstance(value, list) and set(value) <= {1}  # dilations of ones
    return bool(value == Node(onnx.NodeProto(attribute=[default]), 0).attr(default.name))
