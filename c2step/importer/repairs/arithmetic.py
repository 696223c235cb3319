"""Arithmetic whose forms Caffe2 lacks: powers, remainders, extremes, selection and clipping.

Matches Pow with an exponent of another shape, Mod, Max/Min/Sum/Mean with broadcasting (Caffe2's Max reads past
the buffer), Where with broadcasting, Clip with inputs, comparisons that are not there, BitShift, integer
division.  Rewrites them with Caffe2 operators on operands that were broadcast beforehand.
"""

from typing import Any, Dict, List, Optional

import numpy as np

from ..rewriter import Node, Rewriter
from .building import HELD, broadcast_shape, carrier, cast, copy, expand, fill_like
from .dtypes import exactness, found_dtype

__all__ = ["RULES"]

_NUMBERS = {"float32", "float64", "int32", "int64"}
_WHERE = _NUMBERS | {"bool"}


def _same_shapes(g: Rewriter, names: List[str]) -> bool:
    shapes = [g.shape(n) for n in names]
    return None not in shapes and len(set(shapes)) == 1 and all(None not in (s or ()) for s in shapes)


def _maybe_broadcast(g: Rewriter, names: List[str]) -> bool:
    """Whether the operands have different shapes, as far as is known."""
    shapes = [g.shape(n) for n in names]
    if None in shapes:
        return False
    return any(s != shapes[0] for s in shapes[1:])


def _broadcast(g: Rewriter, names: List[str], out: str) -> List[str]:
    if len({g.shape(n) for n in names}) == 1 and g.shape(names[0]) is not None:
        return names
    shape = broadcast_shape(*[g.known(n) for n in names])
    return [expand(g, n, [int(d) for d in shape]) for n in names]


def power(node: Node, g: Rewriter) -> Optional[str]:
    """Pow by a fixed number is Caffe2's Pow with an argument; else both operands get the same shape."""
    x, e = node.input(0), node.input(1)
    if node.opset < 7 and "broadcast" in node.attrs:
        return None
    dtype = g.dtype(x)
    if dtype and dtype != "float32":
        found_dtype(node, g, dtype)
    elif g.dtype(e) not in ("", "float32"):
        found_dtype(node, g, g.dtype(e))
    elif not _maybe_broadcast(g, [x, e]):
        return None
    else:
        g.found("pow-broadcast", "fail", "Caffe2's Pow wants base and exponent of the same shape")
    exponent = g.value(e)
    wide = cast(g, x, "float32")
    if exponent is not None and exponent.size == 1 and len(exponent.shape) <= g.rank(x):
        cast(g, _fixed_power(g, wide, float(exponent.reshape(-1)[0])), dtype, node.out)
        return "the exponent %s is an argument" % exponent.reshape(-1)[0]
    operands = _broadcast(g, [wide, cast(g, e, "float32")], node.out)
    y = g.emit("Pow", operands, "float32", g.shape(operands[0]))
    if dtype.startswith("int"):
        y = g.onnx("Round", y)  # a power of integers is one, powf may come out a little below
    cast(g, y, dtype, node.out)
    return "operands broadcast beforehand, in float32" + exactness(dtype, "float32")


def _fixed_power(g: Rewriter, x: str, exponent: float) -> str:
    if exponent == 2:
        return g.emit("Sqr", [x], "float32", g.shape(x))
    return g.emit("Pow", [x], "float32", g.shape(x), exponent=exponent)


def extreme(node: Node, g: Rewriter) -> Optional[str]:
    """Max and Min over any number of operands of any shapes and dtypes, two at a time."""
    dtype = g.dtype(node.input(0))
    if len(node.inputs) > 1 and _maybe_broadcast(g, node.inputs):
        g.found(
            "extreme-broadcast", "wrong", "Caffe2's %s does not broadcast: it reads past the smaller buffer" % node.op
        )
    elif dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    else:
        return None
    if len(node.inputs) == 1:
        copy(g, node.inputs[0], node.out)
        return "one operand: a copy"
    if dtype in ("float32", "float16"):
        operands = _broadcast(g, [cast(g, n, "float32") for n in node.inputs], node.out)
        cast(g, g.emit(node.op, operands, "float32", g.shape(operands[0])), dtype, node.out)
        return "operands broadcast beforehand"
    wide = carrier(dtype, _NUMBERS)
    operands = _broadcast(g, [cast(g, n, wide) for n in node.inputs], node.out)
    best = operands[0]
    for other in operands[1:]:
        test = g.onnx("Greater" if node.op == "Max" else "Less", best, other)
        best = g.emit("Where", [test, best, other], wide, g.shape(best))
    cast(g, best, dtype, node.out)
    return "written as comparisons of %s" % wide


def total(node: Node, g: Rewriter) -> Optional[str]:
    """Sum and Mean over operands of any shapes, as additions."""
    dtype = g.dtype(node.input(0))
    native = {"float32"} if node.op == "Mean" else _NUMBERS
    if _maybe_broadcast(g, node.inputs):
        g.found("sum-broadcast", "fail", "Caffe2's %s does not broadcast" % node.op)
    elif dtype and dtype not in native:
        found_dtype(node, g, dtype)
    elif dtype in ("int64", "float64"):
        g.found("sum-older", "note", "Caffe2's %s takes %s since 1.4 only" % (node.op, dtype))
    else:
        return None
    y = node.inputs[0]
    for other in node.inputs[1:]:
        y = g.onnx("Add", y, other)
    if node.op == "Mean":
        g.onnx("Mul", y, g.const(1.0 / len(node.inputs), dtype), out=node.out)
    else:
        copy(g, y, node.out)
    return "written as additions, which broadcast"


def _unknown(g: Rewriter, name: str) -> bool:
    shape = g.shape(name)
    return shape is None or None in shape


def select(node: Node, g: Rewriter) -> Optional[str]:
    """Where: Caffe2's backend gives it to ATen; Caffe2's own takes operands of one shape."""
    dtype = g.dtype(node.input(1))
    if not g.inner:
        g.found("aten-where", "note", "Caffe2's backend writes Where with ATen, which some builds of Caffe2 lack")
    if dtype not in HELD or any(_unknown(g, n) for n in node.inputs):
        return None
    wide = carrier(dtype, _WHERE)
    parts = [node.input(0)] + [cast(g, n, wide) for n in node.inputs[1:]]
    shape = [int(d) for d in broadcast_shape(*[g.known(n) for n in parts])]
    parts = [expand(g, n, shape) for n in parts]
    cast(g, g.emit("Where", parts, wide, shape), dtype, node.out)
    return "written as Caffe2's own Where"


def clip(node: Node, g: Rewriter) -> Optional[str]:
    """Clip with limits as inputs, absent limits, or other dtypes."""
    if node.opset < 11 and g.dtype(node.input(0)) in ("", "float32"):
        return None
    x, dtype = node.input(0), g.dtype(node.input(0))
    if node.opset >= 11 and len(node.inputs) > 1:
        g.found("clip-inputs", "fail", "Caffe2's Clip takes its limits as arguments, not as inputs")
    elif dtype not in ("", "float32"):
        found_dtype(node, g, dtype)
    else:
        return None
    if node.opset < 11:
        limits = [g.const(node.attr(n), dtype) if n in node.attrs else "" for n in ("min", "max")]
    else:
        limits = [node.input(1), node.input(2)]
    values = [g.value(n) for n in limits]
    if dtype in ("float32", "float16") and all(v is not None or not n for v, n in zip(values, limits)):
        args: Dict[str, Any] = {key: float(v.reshape(-1)[0]) for key, v in zip(("min", "max"), values) if v is not None}
        y = g.emit("Clip", [cast(g, x, "float32")], "float32", g.shape(x), **_ordered(args))
        cast(g, y, dtype, node.out)
        return "limits are arguments"
    y = x
    for op, limit in (("Max", limits[0]), ("Min", limits[1])):
        y = g.onnx(op, y, limit) if limit else y
    copy(g, y, node.out)
    return "written as Max and Min"


def _ordered(args: Dict[str, Any]) -> Dict[str, Any]:
    """ONNX lets the maximum win where min > max; Caffe2 refuses such a pair."""
    if "min" in args and "max" in args and args["min"] > args["max"]:
        args["min"] = args["max"]
    return args


def remainder(node: Node, g: Rewriter) -> Optional[str]:
    """Mod: Caffe2's takes one fixed divisor; written out for a blob."""
    g.found("mod-inputs", "fail", "Caffe2's Mod takes one divisor as an argument, not a blob")
    a, b, dtype = node.input(0), node.input(1), g.dtype(node.input(0))
    if dtype.startswith("float"):
        return _float_mod(node, g, a, b, dtype)
    wide = carrier(dtype, {"int32", "int64"})
    a, b = cast(g, a, wide), cast(g, b, wide)
    rest = g.onnx("Sub", a, g.onnx("Mul", g.emit("Div", [a, b], wide, _both(g, a, b)), b))
    if not node.attr("fmod", 0):
        zero = g.const(np.zeros((), wide))
        differ = g.onnx("Xor", g.onnx("Less", rest, zero), g.onnx("Less", b, zero))
        wrong = g.onnx("And", differ, g.onnx("Not", g.onnx("Equal", rest, zero)))
        rest = g.onnx("Add", rest, g.onnx("Mul", cast(g, wrong, wide), b))
    cast(g, rest, dtype, node.out)
    return "written as a - trunc(a / b) * b%s" % ("" if node.attr("fmod", 0) else ", with the sign of b")


def _both(g: Rewriter, a: str, b: str) -> Optional[List[Optional[int]]]:
    left, right = g.shape(a), g.shape(b)
    return None if left is None or right is None else list(broadcast_shape(left, right))


def _float_mod(node: Node, g: Rewriter, a: str, b: str, dtype: str) -> str:
    a, b = cast(g, a, "float32"), cast(g, b, "float32")
    ratio = g.onnx("Div", a, b)
    whole = g.onnx("Mul", g.onnx("Sign", ratio), g.onnx("Floor", g.onnx("Abs", ratio)))
    if not node.attr("fmod", 0):
        whole = g.onnx("Floor", ratio)
    cast(g, g.onnx("Sub", a, g.onnx("Mul", whole, b)), dtype, node.out)
    return "written as a - trunc(a / b) * b in float32"


def divide(node: Node, g: Rewriter) -> Optional[str]:
    """Div of integers ends the process at a divisor of zero; other dtypes are cast."""
    dtype = g.dtype(node.input(1))
    if dtype and dtype not in _NUMBERS:
        found_dtype(node, g, dtype)
        wide = carrier(dtype, _NUMBERS)
        y = g.onnx("Div", *[cast(g, n, wide) for n in node.inputs])
        cast(g, y, dtype, node.out)
        return "computed in %s%s" % (wide, exactness(dtype, wide))
    if dtype in ("int32", "int64"):
        divisor = g.value(node.input(1))
        if divisor is None or (divisor == 0).any():
            g.found(
                "int-div",
                "die" if divisor is not None else "note",
                "integer division by zero ends the process with SIGFPE",
            )
    return None


def at_least(node: Node, g: Rewriter) -> Optional[str]:
    """GreaterOrEqual and LessOrEqual: Caffe2 has GE and LE, its backend does not know."""
    g.found("no-operator", "refuse", "Caffe2's backend does not know %s" % node.op)
    dtype = g.dtype(node.input(0))
    wide = carrier(dtype, _NUMBERS)
    op = "GE" if node.op == "GreaterOrEqual" else "LE"
    parts = [cast(g, n, wide) for n in node.inputs]
    g.emit(op, parts, "bool", _both(g, *parts), node.out)
    return "written as %s" % op


def shift(node: Node, g: Rewriter) -> Optional[str]:
    """BitShift by multiplication or division with powers of two."""
    g.found("no-operator", "refuse", "Caffe2 has no BitShift")
    dtype = g.dtype(node.input(0))
    wide = carrier(dtype, {"int64"}) if dtype != "uint64" else carrier(dtype, set())
    steps = g.need(node.input(1), "the number of bits") if g.value(node.input(1)) is not None else None
    if steps is not None:
        factor = g.const(np.left_shift(np.int64(1), steps.astype(np.int64)))
    else:
        power_of_two = g.emit(
            "Pow",
            [fill_like(g, node.input(1), 2.0, "float32"), cast(g, node.input(1), "float32")],
            "float32",
            g.shape(node.input(1)),
        )
        factor = cast(g, g.onnx("Round", power_of_two), wide)
    op = "Mul" if node.attr("direction") == "LEFT" else "Div"
    cast(g, g.onnx(op, cast(g, node.input(0), wide), factor), dtype, node.out)
    return "written as %s by powers of two" % op


def rounded(node: Node, g: Rewriter) -> Optional[str]:
    """Round half to even, from Floor."""
    g.found("no-operator", "refuse", "Caffe2 has no Round")
    dtype = g.dtype(node.input(0))
    x = cast(g, node.input(0), "float32")
    low = g.onnx("Floor", x)
    rest = g.onnx("Sub", x, low)
    half = g.const(0.5, "float32")
    odd = g.onnx("Sub", low, g.onnx("Mul", g.const(2.0, "float32"), g.onnx("Floor", g.onnx("Mul", low, half))))
    up = g.onnx(
        "Or", g.onnx("Greater", rest, half), g.onnx("And", g.onnx("Equal", rest, half), g.onnx("Greater", odd, half))
    )
    cast(g, g.onnx("Add", low, cast(g, up, "float32")), dtype, node.out)
    return "written with Floor, half to even"


RULES = {
    "Pow": power,
    "Max": extreme,
    "Min": extreme,
    "Sum": total,
    "Mean": total,
    "Where": select,
    "Clip": clip,
    "Mod": remainder,
    "Div": divide,
    "GreaterOrEqual": at_least,
    "LessOrEqual": at_least,
    "BitShift": shift,
    "Round": rounded,
}
