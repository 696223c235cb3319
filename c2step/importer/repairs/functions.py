"""Operators without a rule of their own: expanded where ONNX or the model defines them as functions.

Matches operators that Caffe2's backend does not know.  ONNX defines many of them by a body of simpler operators; that
body is put in their place, names made unique, and goes through the rules.  Model-local functions are inlined likewise.
A node of a private domain is otherwise taken by Caffe2 for the standard operator of that name, in silence.
"""

from typing import Any, Dict, List, Optional

import onnx

from ..rewriter import CAFFE2, Node, Rewriter, Unrepairable
from .classical import ML, classical

__all__ = ["OF_CAFFE2", "known_to_caffe2", "private", "unknown"]

OF_CAFFE2 = ("_caffe2", "org.pytorch._caffe2", "org.pytorch.aten")  # domains of operators that Caffe2 has itself

_NAMES = """
Abs Acos Add And ArgMax ArgMin Asin Atan AveragePool BitwiseAnd BitwiseOr BitwiseXor Cast Ceil Clip Col2Im
Concat Conv ConvTranspose Cos Cosh DeformConv Div Dropout Elu Erf Exp Expand Flatten Floor Gather Gelu
HardSigmoid If IsNaN LRN LeakyRelu Log LpPool MatMul Max MaxPool Mean Min Mish Mod Mul Not OneHot Or PRelu Pow
Range Reciprocal ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum Relu Reshape Scatter Selu Shape
Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign Split Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu
Tile TopK Transpose Unique Where Xor BatchNormalization Constant ConstantOfShape Gemm GlobalAveragePool
GlobalMaxPool LogSoftmax Multinomial NonZero Pad RandomNormal RandomNormalLike Upsample Neg
InstanceNormalization Identity Equal Less Greater Unsqueeze Loop RandomUniform LSTM GRU RNN
"""
_BY_NAME = frozenset(_NAMES.split())


def known_to_caffe2(op: str) -> bool:
    """Whether the backend converts nodes of this type, by name or by a converter."""
    return op in _BY_NAME


_OTHER_FORM = {"Unique": "Caffe2's Unique takes int32 and int64 only and gives other outputs"}


def unknown(node: Node, g: Rewriter) -> Optional[str]:
    """An operator without a rule: nothing to say where the backend has it, else its function body."""
    if node.op in _OTHER_FORM:
        whole = g.dtype(node.input(0)).startswith("int")
        g.found("other-form", "wrong" if whole else "fail", _OTHER_FORM[node.op])
        raise Unrepairable("no Caffe2 operators compute it")
    if known_to_caffe2(node.op):
        return None
    g.found("no-operator", "refuse", "Caffe2 has no %s" % node.op)
    body = _standard_body(node, g)
    if body is None:
        raise Unrepairable("no Caffe2 operators compute it")
    inline(g, node, body[0], body[1])
    return "expanded into the operators that ONNX defines it by"


def _standard_body(node: Node, g: Rewriter) -> Any:
    """The FunctionProto of a standard operator and its opset, or None."""
    try:
        schema = onnx.defs.get_schema(node.op, node.opset, "")
    except Exception:
        return None
    function = onnx.FunctionProto()
    for version in range(node.opset, 0, -1):
        data = _body_at(schema, node, g, version)
        if data:
            function.ParseFromString(data)
            opset = next((i.version for i in function.opset_import if not i.domain), node.opset)
            return function, opset
    return None


def _body_at(schema: Any, node: Node, g: Rewriter, version: int) -> bytes:
    try:
        if schema.has_context_dependent_function:
            types = [g.values.type_bytes(name) for name in node.inputs]
            return bytes(
                schema.get_context_dependent_function_with_opset_version(version, node.proto.SerializeToString(), types)
            )
        if schema.has_function:
            return bytes(schema.get_function_with_opset_version(version))
    except Exception:  # no body for this version
        return b""
    return b""


def inline(g: Rewriter, node: Node, function: Any, opset: int) -> None:
    """Put the nodes of `function` in the place of `node`."""
    names: Dict[str, str] = dict(zip(function.input, list(node.inputs) + [""] * len(function.input)))
    names.update({inner: outer for inner, outer in zip(function.output, node.outputs) if outer})
    attributes = {a.name: a for a in function.attribute_proto}
    attributes.update({a.name: a for a in node.proto.attribute})
    for inner in function.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        copy.name = ""
        _rename(g, copy, names)
        _fill_references(copy, attributes)
        g.inline(Node(copy, opset, node.index))


def _rename(g: Rewriter, node: Any, names: Dict[str, str]) -> None:
    for i, name in enumerate(node.input):
        node.input[i] = names.get(name, name) if name else ""
    for i, name in enumerate(node.output):
        if name and name not in names:
            names[name] = g.fresh()
        node.output[i] = names.get(name, "")


def _fill_references(node: Any, attributes: Dict[str, Any]) -> None:
    """Attributes that refer to the function's own take the caller's value, or vanish."""
    kept: List[Any] = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            given = attributes.get(attribute.ref_attr_name)
            if given is None:
                continue
            name = attribute.name
            attribute = onnx.AttributeProto()
            attribute.CopyFrom(given)
            attribute.name = name
        kept.append(attribute)
    copies = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in kept]
    del node.attribute[:]
    node.attribute.extend(copies)


def _is_onnxruntimes(node: Node) -> bool:
    return node.domain.startswith(("com.microsoft", "com.ms."))


def private(node: Node, g: Rewriter) -> Optional[str]:
    """A node of another domain: a model-local function, or something Caffe2 mistakes for a standard operator."""
    if node.domain == CAFFE2:
        return None
    if node.domain in OF_CAFFE2:
        words = "%s is an operator of Caffe2 itself, which no other runtime has: onnxruntime gives nothing from it on"
        g.found("caffe2-operator", "note", words % node.op)
        return None
    if node.domain == ML:
        return classical(node, g)
    function = g.functions.get((node.domain, node.op))
    if known_to_caffe2(node.op):
        g.found(
            "private-domain",
            "wrong",
            "Caffe2 takes %s::%s for the standard operator %s" % (node.domain, node.op, node.op),
        )
    else:
        g.found("private-domain", "refuse", "Caffe2 has no %s::%s" % (node.domain, node.op))
    if function is None:
        advice = (
            "; onnxruntime's optimizer writes such: take the model from before it" if _is_onnxruntimes(node) else ""
        )
        raise Unrepairable("what %s::%s means is not in the model%s" % (node.domain, node.op, advice))
    opset = next((i.version for i in function.opset_import if i.domain in ("", "ai.onnx")), g.values.opset)
    inline(g, node, function, opset)
    return "inlined from the model's own function"
