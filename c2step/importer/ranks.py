"""Ranks that shape inference loses, from operators whose result has as many dimensions as what they read.

Worker only.  Inference stops at a size that is computed at run time; the number of dimensions is known beyond it,
from either side: from what a node reads to what it writes, and from a declared output back to what made it.
"""

from typing import Any, Dict, Iterable, List, Optional

from .values import Values

__all__ = ["ranks_backward", "ranks_forward"]

_KEEPING = """
Softmax LogSoftmax Hardmax CumSum ReverseSequence Slice Pad Resize Upsample Tile Trilu Scatter ScatterElements
ScatterND Transpose Split BatchNormalization InstanceNormalization GroupNormalization LayerNormalization
LpNormalization LRN MeanVarianceNormalization RMSNormalization Dropout MaxPool AveragePool LpPool GlobalMaxPool
GlobalAveragePool GlobalLpPool Conv ConvTranspose ConvInteger QLinearConv DepthToSpace SpaceToDepth
Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh DequantizeLinear Elu Erf Exp
Floor Gelu HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Not PRelu QuantizeLinear Reciprocal Relu
Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu
RandomNormalLike RandomUniformLike Bernoulli
"""
_REDUCTIONS = """
ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
ReduceSumSquare
"""
_BROADCASTS = """
Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod
Mul Or Pow Sub Sum Where Xor
"""
_KEEP, _KEEPDIMS, _BROADCAST = (frozenset(names.split()) for names in (_KEEPING, _REDUCTIONS, _BROADCASTS))


def ranks_backward(values: Values, nodes: Iterable[Any]) -> None:
    """Give what the nodes read the rank of what they write, where that alone is known; the last node first."""
    for node in reversed(list(nodes)):
        if not node.output or node.domain not in ("", "ai.onnx"):
            continue
        rank = _rank(values, node.output[0])
        for name in _as_deep_as_result(values, node, rank):
            _declare(values, name, rank)


def ranks_forward(values: Values, node: Any) -> None:
    """Give what `node` writes its rank, where inference left that open."""
    if node.domain not in ("", "ai.onnx") or all(_rank(values, name) is not None for name in node.output if name):
        return
    rank = _result_rank(values, node)
    for name in node.output if node.op_type == "Split" else node.output[:1]:
        _declare(values, name, rank)


def _rank(values: Values, name: str) -> Optional[int]:
    shape = values.shape(name)
    return None if shape is None else len(shape)


def _declare(values: Values, name: str, rank: Optional[int]) -> None:
    if name and rank is not None and values.shape(name) is None and values.kind(name) in ("", "tensor_type"):
        values.declare(name, values.dtype(name), [None] * rank)


def _as_deep_as_result(values: Values, node: Any, rank: Optional[int]) -> List[str]:
    """The inputs that must have the rank of the result."""
    if rank is None:
        return []
    if node.op_type == "Concat":
        return list(node.input)
    if _keeps(node):
        return list(node.input[:1])
    if node.op_type not in _BROADCAST:
        return []
    unknown = [name for name in node.input if _rank(values, name) is None]
    deepest = max([_rank(values, name) or 0 for name in node.input])
    return unknown if len(unknown) == 1 and deepest < rank else []


def _result_rank(values: Values, node: Any) -> Optional[int]:
    attrs = {a.name: a for a in node.attribute}
    if node.op_type == "Transpose" and "perm" in attrs:
        return len(attrs["perm"].ints)
    if node.op_type == "Concat":
        return next((r for r in (_rank(values, name) for name in node.input) if r is not None), None)
    if node.op_type in ("Reshape", "Expand", "ConstantOfShape"):
        return _result_of_shape(values, node)
    if _keeps(node) and node.input:
        return _rank(values, node.input[0])
    ranks = [_rank(values, name) for name in node.input]
    return max([r for r in ranks if r is not None] or [0]) if node.op_type in _BROADCAST and None not in ranks else None


def _result_of_shape(values: Values, node: Any) -> Optional[int]:
    shape = values.shape(node.input[-1]) if node.input else None
    count = shape[0] if shape is not None and len(shape) == 1 else None
    if node.op_type != "Expand" or count is None:
        return count
    rank = _rank(values, node.input[0])
    return None if rank is None else max(rank, count)


def _keeps(node: Any) -> bool:
    if node.op_type in _KEEP:
        return True
    keepdims: Dict[str, int] = {a.name: a.i for a in node.attribute}
    return node.op_type in _KEEPDIMS and keepdims.get("keepdims", 1) == 1
