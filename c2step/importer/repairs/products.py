"""Matrix products: Gemm and MatMul beyond Caffe2's own, Einsum, determinants, quantized arithmetic.

Matches Gemm without C (refused), MatMul of two vectors (a vector of one where ONNX has a scalar), dtypes, Einsum over
letters, Det of small matrices, and the quantized operators, computed in float32: whole numbers below 2**24 are exact.
"""

from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..rewriter import Node, Rewriter, Unrepairable
from ..values import dtype_name
from .building import cast, expand_dims, matmul, reduce, reshape, slice_axis, squeeze, take, transpose
from .dtypes import exactness, found_dtype

__all__ = ["RULES"]


def mat_mul(node: Node, g: Rewriter) -> Optional[str]:
    """BatchMatMul in float32."""
    dtype, left, right = g.dtype(node.input(0)), g.shape(node.input(0)), g.shape(node.input(1))
    scalar = left is not None and right is not None and len(left) == len(right) == 1
    if dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    elif scalar:
        g.found("matmul-vectors", "wrong", "Caffe2 gives the product of two vectors as a vector of one, not a scalar")
    elif left == () or right == ():
        g.found("matmul-scalar", "die", "a scalar in BatchMatMul ends the process")
        raise Unrepairable("MatMul of a scalar has no meaning")
    else:
        return None
    a, b = (cast(g, name, "float32") for name in node.inputs)
    y = matmul(g, a, b) if not scalar else reshape(g, matmul(g, reshape(g, a, [1, -1]), reshape(g, b, [-1, 1])), [])
    cast(g, y, dtype, node.out)
    return "BatchMatMul in float32" + exactness(dtype, "float32")


def gemm(node: Node, g: Rewriter) -> Optional[str]:
    """Gemm without C is MatMul with its transposition arguments."""
    dtype = g.dtype(node.input(0))
    if not node.input(2):
        g.found("gemm-no-c", "refuse", "Caffe2's backend wants all three inputs of Gemm")
    elif dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    else:
        return None
    a, b = (cast(g, name, "float32") for name in node.inputs[:2])
    shape = g.shape(node.out)
    y = g.emit(
        "MatMul", [a, b], "float32", shape, trans_a=int(node.attr("transA", 0)), trans_b=int(node.attr("transB", 0))
    )
    alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
    if alpha != 1:
        y = g.emit("Scale", [y], "float32", shape, scale=alpha)
    if node.input(2):
        c = cast(g, node.input(2), "float32")
        y = g.onnx("Add", y, c if beta == 1 else g.onnx("Mul", c, g.const(beta, "float32")))
    cast(g, y, dtype, node.out)
    return "MatMul%s" % exactness(dtype, "float32")


# --- Einsum --------------------------------------------------------------------------------------


def einsum(node: Node, g: Rewriter) -> Optional[str]:
    """Einsum as products over broadcast letters and sums over those that vanish, or as a batched MatMul."""
    g.found("no-operator", "refuse", "Caffe2 has no Einsum")
    terms, result = _letters(node, g)
    dtype = g.dtype(node.input(0))
    sizes = _sizes(g, node.inputs, terms)
    operands = [_diagonal(g, cast(g, name, "float32"), term) for name, term in zip(node.inputs, terms)]
    names, kept = [o[0] for o in operands], [o[1] for o in operands]
    value, letters = names[0], kept[0]
    for other, theirs in zip(names[1:], kept[1:]):
        last = other == names[-1]
        value, letters = _pair(g, value, letters, other, theirs, result if last else "", sizes)
    value = _summed(g, value, letters, result)
    letters = [c for c in letters if c in result]
    cast(g, transpose(g, value, [letters.index(c) for c in result]), dtype, node.out)
    return "written with BatchMatMul and ReduceSum"


def _letters(node: Node, g: Rewriter) -> Tuple[List[str], str]:
    equation = node.attr("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    most = max([g.rank(n) - len(t.replace("...", "")) for n, t in zip(node.inputs, terms) if "..." in t] or [0])
    dots = "".join(spare[:most])
    if not arrow:
        plain = left.replace("...", "").replace(",", "")
        right = ("..." if "..." in left else "") + "".join(sorted(c for c in set(plain) if plain.count(c) == 1))
    full = [
        t.replace("...", dots[most - (g.rank(n) - len(t.replace("...", ""))) :] if "..." in t else "")
        for n, t in zip(node.inputs, terms)
    ]
    return full, right.replace("...", dots)


def _sizes(g: Rewriter, names: Sequence[str], terms: Sequence[str]) -> Dict[str, int]:
    sizes: Dict[str, int] = {}
    for name, term in zip(names, terms):
        for letter, size in zip(term, g.known(name)):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return sizes


def _diagonal(g: Rewriter, x: str, term: str) -> Tuple[str, List[str]]:
    """`x` with repeated letters reduced to their diagonal, and the letters that are left."""
    letters = list(term)
    while len(set(letters)) < len(letters):
        twice = next(c for c in letters if letters.count(c) > 1)
        first = letters.index(twice)
        second = letters.index(twice, first + 1)
        size, rank = g.known(x)[first], len(letters)
        mask = np.eye(size, dtype=np.float32).reshape([size if i in (first, second) else 1 for i in range(rank)])
        x = reduce(g, "ReduceSum", g.onnx("Mul", x, g.const(mask)), [second], False)
        del letters[second]
    return x, letters


def _pair(
    g: Rewriter, a: str, left: List[str], b: str, right: List[str], result: str, sizes: Dict[str, int]
) -> Tuple[str, List[str]]:
    """The product of two operands; letters that only they have and nobody wants are summed by BatchMatMul."""
    shared = [c for c in left if c in right]
    summed = [c for c in shared if result and c not in result]
    batch = [c for c in shared if c not in summed]
    if any(g.known(a)[left.index(c)] != g.known(b)[right.index(c)] for c in shared):
        return _broadcast_product(g, a, left, b, right)
    own, other = [c for c in left if c not in shared], [c for c in right if c not in shared]
    if not summed:
        return _broadcast_product(g, a, left, b, right)

    def count(part: List[str]) -> int:
        return int(np.prod([sizes[c] for c in part], dtype=np.int64))

    a = reshape(
        g, transpose(g, a, [left.index(c) for c in batch + own + summed]), [count(batch), count(own), count(summed)]
    )
    b = reshape(
        g,
        transpose(g, b, [right.index(c) for c in batch + summed + other]),
        [count(batch), count(summed), count(other)],
    )
    y = reshape(g, matmul(g, a, b), [sizes[c] for c in batch + own + other])
    return y, batch + own + other


def _broadcast_product(g: Rewriter, a: str, left: List[str], b: str, right: List[str]) -> Tuple[str, List[str]]:
    letters = left + [c for c in right if c not in left]
    parts = []
    for x, own in ((a, left), (b, right)):
        order = [c for c in letters if c in own]
        x = transpose(g, x, [own.index(c) for c in order])
        parts.append(
            expand_dims(g, x, [i for i, c in enumerate(letters) if c not in own]) if len(order) < len(letters) else x
        )
    return g.onnx("Mul", *parts), letters


def _summed(g: Rewriter, x: str, letters: List[str], result: str) -> str:
    axes = [i for i, c in enumerate(letters) if c not in result]
    return reduce(g, "ReduceSum", x, axes, False) if axes else x


def determinant(node: Node, g: Rewriter) -> Optional[str]:
    """Det of matrices up to 4 x 4 by their minors."""
    g.found("no-operator", "refuse", "Caffe2 has no Det")
    shape = g.known(node.input(0))
    if shape[-1] > 4:
        raise Unrepairable("matrices above 4 x 4 are not written out")
    x = cast(g, node.input(0), "float32")
    rank, n = len(shape), shape[-1]
    at = [
        [
            squeeze(g, slice_axis(g, slice_axis(g, x, rank - 2, i, i + 1), rank - 1, j, j + 1), [rank - 2, rank - 1])
            for j in range(n)
        ]
        for i in range(n)
    ]
    cast(g, _minors(g, at, list(range(n)), 0), g.dtype(node.input(0)), node.out)
    return "written out by minors"


def _minors(g: Rewriter, at: List[List[str]], columns: List[int], row: int) -> str:
    if len(columns) == 1:
        return at[row][columns[0]]
    total = ""
    for i, column in enumerate(columns):
        term = g.onnx("Mul", at[row][column], _minors(g, at, columns[:i] + columns[i + 1 :], row + 1))
        total = g.onnx("Sub" if i % 2 else "Add", total, term) if total else term
    return total


# --- quantized -----------------------------------------------------------------------------------

_RANGES = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}


def _placed(g: Rewriter, x: str, rank: int, axis: int) -> str:
    """A vector of scales or zero points put along `axis`; anything else as it is."""
    shape = g.known(x)
    if len(shape) != 1 or rank < 2:
        return reshape(g, x, []) if len(shape) == 1 and shape[0] == 1 else x
    return reshape(g, x, [-1] + [1] * (rank - 1 - axis))


def _repeat_blocks(g: Rewriter, x: str, shape: Sequence[int], axis: int, block: int) -> str:
    return take(g, x, np.arange(shape[axis]) // block, axis)


def _scale_and_zero(node: Node, g: Rewriter) -> Tuple[str, str]:
    rank = g.rank(node.input(0))
    axis = int(node.attr("axis", 1)) % max(1, rank)
    block = int(node.attr("block_size", 0))
    parts = []
    for name in node.inputs[1:3]:
        part = cast(g, name, "float32") if name else ""
        if part and block:
            part = _repeat_blocks(g, part, g.known(node.input(0)), axis, block)
        parts.append(_placed(g, part, rank, axis) if part and not block else part)
    return parts[0], parts[1] if len(parts) > 1 else ""


def dequantize(node: Node, g: Rewriter) -> Optional[str]:
    """(x - zero point) * scale."""
    g.found("no-operator", "refuse", "Caffe2's backend does not know DequantizeLinear")
    scale, zero = _scale_and_zero(node, g)
    x = cast(g, node.input(0), "float32")
    x = g.onnx("Sub", x, zero) if zero else x
    cast(g, g.onnx("Mul", x, scale), g.dtype(node.input(1)), node.out)
    return "written as (x - zero point) * scale"


def quantize(node: Node, g: Rewriter) -> Optional[str]:
    """Round(x / scale) + zero point, clipped to the type's range."""
    g.found("no-operator", "refuse", "Caffe2's backend does not know QuantizeLinear")
    target = g.dtype(node.input(2)) if node.input(2) else dtype_name(int(node.attr("output_dtype", 2)))
    if target not in _RANGES:
        raise Unrepairable("Caffe2 has no tensors of %s" % target)
    scale, zero = _scale_and_zero(node, g)
    y = g.onnx("Div", cast(g, node.input(0), "float32"), scale)
    _requantize(g, y, zero, target, node.out)
    return "written as Round(x / scale) + zero point, clipped"


def _requantize(g: Rewriter, x: str, zero: str, target: str, out: str) -> None:
    low, high = _RANGES[target]
    y = g.onnx("Round", x)
    y = g.onnx("Add", y, zero) if zero else y
    y = g.emit("Clip", [y], "float32", g.shape(y), min=float(low), max=float(high))
    cast(g, y, target, out)


def _centred(g: Rewriter, x: str, zero: str, axis: int = 1) -> str:
    value = cast(g, x, "float32")
    if not zero:
        return value
    return g.onnx("Sub", value, _placed(g, cast(g, zero, "float32"), g.rank(x), axis))


def mat_mul_integer(node: Node, g: Rewriter) -> Optional[str]:
    """MatMul of what is left after the zero points, as int32."""
    g.found("no-operator", "refuse", "Caffe2 has no MatMulInteger")
    a = _centred(g, node.input(0), node.input(2), g.rank(node.input(0)) - 2)
    b = _centred(g, node.input(1), node.input(3), g.rank(node.input(1)) - 1)
    cast(g, g.onnx("Round", matmul(g, a, b)), "int32", node.out)
    return "computed in float32, exact up to 2**24"


def conv_integer(node: Node, g: Rewriter) -> Optional[str]:
    """Conv of what is left after the zero points, as int32."""
    g.found("no-operator", "refuse", "Caffe2 has no ConvInteger")
    x = _centred(g, node.input(0), node.input(2))
    w = _centred(g, node.input(1), node.input(3), 0)
    attrs = dict(node.attrs, kernel_shape=node.attr("kernel_shape") or list(g.known(node.input(1))[2:]))
    cast(g, g.onnx("Round", g.onnx("Conv", x, w, **attrs)), "int32", node.out)
    return "computed in float32, exact up to 2**24"


def qlinear_mat_mul(node: Node, g: Rewriter) -> Optional[str]:
    """Dequantize, MatMul, quantize."""
    g.found("no-operator", "refuse", "Caffe2 has no QLinearMatMul")
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    left = g.onnx(
        "Mul", _centred(g, a, a_zero, g.rank(a) - 2), _placed(g, cast(g, a_scale, "float32"), g.rank(a), g.rank(a) - 2)
    )
    right = g.onnx(
        "Mul", _centred(g, b, b_zero, g.rank(b) - 1), _placed(g, cast(g, b_scale, "float32"), g.rank(b), g.rank(b) - 1)
    )
    y = g.onnx("Div", matmul(g, left, right), _placed(g, cast(g, y_scale, "float32"), g.rank(a), g.rank(a) - 1))
    _requantize(g, y, _placed(g, cast(g, y_zero, "float32"), g.rank(a), g.rank(a) - 1), g.dtype(y_zero), node.out)
    return "computed in float32 and quantized"


def qlinear_conv(node: Node, g: Rewriter) -> Optional[str]:
    """Dequantize, Conv, quantize."""
    g.found("no-operator", "refuse", "Caffe2 has no QLinearConv")
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    attrs = dict(node.attrs, kernel_shape=node.attr("kernel_shape") or list(g.known(w)[2:]))
    inputs = [_centred(g, x, x_zero), _centred(g, w, w_zero, 0)]
    if node.input(8):
        inputs.append(cast(g, node.input(8), "float32"))
    total = g.onnx("Conv", *inputs, **attrs)
    scale = g.onnx(
        "Div", g.onnx("Mul", cast(g, x_scale, "float32"), cast(g, w_scale, "float32")), cast(g, y_scale, "float32")
    )
    if len(g.known(scale)) == 1:
        scale = reshape(g, scale, [-1] + [1] * (g.rank(x) - 2))
    _requantize(g, g.onnx("Mul", total, scale), cast(g, y_zero, "float32"), g.dtype(y_zero), node.out)
    return "computed in float32 and quantized"


RULES = {
    "MatMul": mat_mul,
    "Gemm": gemm,
    "Einsum": einsum,
    "Det": determinant,
    "DequantizeLinear": dequantize,
    "QuantizeLinear": quantize,
    "MatMulInteger": mat_mul_integer,
    "ConvInteger": conv_integer,
    "QLinearMatMul": qlinear_mat_mul,
    "QLinearConv": qlinear_conv,
}
