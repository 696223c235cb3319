"""Element types that Caffe2's CPU operators lack, and casts.

Matches element-wise operators on float16, float64, narrow integers, bool or int64 where Caffe2 has only
float32 (or float32, float64, int32 and int64): Caffe2 raises "Unsupported type of tensor" or a type
mismatch.  Rewrites them as cast, operator, cast back; float64 is computed in float32 and said to be.
Also Cast from and to float16 (HalfToFloat, FloatToHalf), CastLike, and IsNaN, whose result Caffe2 gives as
uint8 where ONNX means bool.
"""

from typing import Dict, FrozenSet, Optional

import numpy as np
import onnx

from ..rewriter import Node, Rewriter, Unrepairable
from ..values import dtype_name
from .building import HELD, broadcast_shape, carrier, cast, copy, fill

__all__ = ["NATIVE", "RULES"]

_F = frozenset({"float32"})
_B = frozenset({"bool"})
_NUMBERS = frozenset({"float32", "float64", "int32", "int64"})
_COMPARED = _NUMBERS | _B

NATIVE: Dict[str, FrozenSet[str]] = dict.fromkeys(
    [
        "Acos",
        "Asin",
        "Atan",
        "Ceil",
        "Cos",
        "Cosh",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "HardSigmoid",
        "LeakyRelu",
        "Log",
        "Selu",
        "Sigmoid",
        "Sin",
        "Sinh",
        "Softsign",
        "Sqrt",
        "Tan",
        "Tanh",
        "ThresholdedRelu",
        "Reciprocal",
    ],
    _F,
)
NATIVE.update(dict.fromkeys(["Neg", "Sign", "Add", "Sub", "Mul"], _NUMBERS))
NATIVE.update(dict.fromkeys(["Equal", "Less", "Greater"], _COMPARED))
NATIVE.update(dict.fromkeys(["And", "Or", "Xor", "Not"], _B))


def elementwise(node: Node, g: Rewriter) -> Optional[str]:
    """Compute in a dtype that the operator has, and cast back."""
    native = NATIVE[node.op]
    dtypes = [g.dtype(name) for name in node.inputs]
    lacking = [d for d in dtypes if d and d not in native]
    if not lacking:
        return None
    found_dtype(node, g, lacking[0])
    wide = carrier(lacking[0], native)
    inputs = [cast(g, name, wide) for name in node.inputs]
    result = g.dtype(node.out) or ("bool" if node.op in ("Equal", "Less", "Greater") else dtypes[0])
    if result == wide or result == "bool":
        g.onnx(node.op, *inputs, out=node.out, **node.attrs)
    else:
        cast(g, g.onnx(node.op, *inputs, **node.attrs), result, node.out)
    return "computed in %s%s" % (wide, exactness(lacking[0], wide))


def exactness(dtype: str, wide: str) -> str:
    """What computing `dtype` in `wide` costs, as words to append."""
    if dtype == "float64":
        return ", which Caffe2 has, instead of float64, which it lacks here: about 7 digits"
    if wide == "float32" and dtype in ("int32", "int64"):
        return ": exact up to 2**24"
    return ""


def found_dtype(node: Node, g: Rewriter, dtype: str) -> None:
    """Say that Caffe2's operator does not take `dtype`."""
    g.found("dtype", "fail", "Caffe2's operator for %s does not take %s on CPU" % (node.op, dtype))


def absolute(node: Node, g: Rewriter) -> Optional[str]:
    """Abs of integers as the greater of x and -x, so that int64 stays exact."""
    dtype = g.dtype(node.input(0))
    if dtype in ("", "float32"):
        return None
    found_dtype(node, g, dtype)
    wide = carrier(dtype, _NUMBERS)
    x = cast(g, node.input(0), wide)
    y = g.onnx("Where", g.onnx("Less", x, g.const(np.zeros((), wide))), g.onnx("Neg", x), x)
    cast(g, y, dtype, node.out)
    return "Abs of %s written as Where(x < 0, -x, x)" % dtype


def relu(node: Node, g: Rewriter) -> Optional[str]:
    """Relu of other dtypes than float32 as Where(x > 0, x, 0)."""
    dtype = g.dtype(node.input(0))
    if dtype in ("", "float32"):
        return None
    found_dtype(node, g, dtype)
    wide = carrier(dtype, _NUMBERS)
    x = cast(g, node.input(0), wide)
    zero = g.const(np.zeros((), wide))
    cast(g, g.onnx("Where", g.onnx("Greater", x, zero), x, zero), dtype, node.out)
    return "Relu of %s written as Where(x > 0, x, 0)" % dtype


def convert(node: Node, g: Rewriter) -> Optional[str]:
    """Cast, where float16 or a type that Caffe2 cannot hold takes part."""
    to = node.attr("to")
    target = dtype_name(to) if isinstance(to, int) else str(to).lower()
    return _cast(node, g, target, isinstance(to, int))


def convert_like(node: Node, g: Rewriter) -> Optional[str]:
    """CastLike is Cast once the types are known."""
    g.found("no-operator", "refuse", "Caffe2 has no CastLike")
    target = g.dtype(node.input(1))
    if _special(g.dtype(node.input(0)), target):
        _cast(node, g, target, True)
    else:
        cast(g, node.input(0), target, node.out)
    return "written as Cast to %s" % target


def _special(source: str, target: str) -> bool:
    return "float16" in (source, target) or target not in HELD or (source not in HELD and source != "")


def _cast(node: Node, g: Rewriter, target: str, known: bool) -> Optional[str]:
    source = g.dtype(node.input(0))
    plain = known and not _special(source, target)
    if plain and set(node.attrs) <= {"to"}:
        return None
    if plain:
        g.found("cast-saturate", "refuse", "Caffe2's backend takes no argument of Cast but `to`")
    elif "float16" in (source, target):
        g.found("cast-float16", "fail", "Caffe2's Cast has no float16 on CPU")
    elif target == "string":
        g.found("cast-type", "wrong", "Caffe2's Cast to text writes other digits")
    else:
        g.found("cast-type", "refuse", "Caffe2 cannot cast %s to %s" % (source or "an unknown type", target))
    for name in (source, target):
        if name not in HELD:
            raise Unrepairable("Caffe2 has no tensors of %s" % (name or "an unknown type"))
    cast(g, node.input(0), target, node.out)
    return "written as Caffe2's Cast" if plain else "written with HalfToFloat and FloatToHalf"


def is_nan(node: Node, g: Rewriter) -> Optional[str]:
    """IsNaN as x != x."""
    dtype = g.dtype(node.input(0))
    if dtype not in ("float16", "float32", "float64"):
        return None
    if dtype == "float16":
        found_dtype(node, g, dtype)
    g.found("isnan-uint8", "wrong", "Caffe2's IsNaN gives uint8, not bool, which Where and Not refuse later")
    x = cast(g, node.input(0), "float32") if dtype == "float16" else node.input(0)
    g.emit("NE", [x, x], "bool", g.shape(x), node.out)
    return "written as x != x"


def is_inf(node: Node, g: Rewriter) -> Optional[str]:
    """IsInf by comparison with infinity."""
    g.found("no-operator", "refuse", "Caffe2 has no IsInf")
    x = cast(g, node.input(0), "float32")
    signs = [s for s, name in ((np.inf, "detect_positive"), (-np.inf, "detect_negative")) if node.attr(name, 1)]
    if len(signs) == 2:
        x, signs = g.onnx("Abs", x), [np.inf]
    wanted = signs[0] if signs else np.nan
    g.emit("EQ", [x, g.const(wanted, "float32")], "bool", g.shape(x), node.out)
    return "written as comparison with infinity"


def sign(node: Node, g: Rewriter) -> Optional[str]:
    """Sign in a dtype that Caffe2 has; what it makes of NaN is noted."""
    dtype = g.dtype(node.input(0))
    if dtype in ("float32", "float64", "float16"):
        g.found("sign-nan", "note", "Caffe2's Sign of NaN is 0, not NaN")
    return elementwise(node, g)


def identity(node: Node, g: Rewriter) -> Optional[str]:
    """Identity of a tensor is Copy; of a sequence there is none."""
    kind = g.values.kind(node.input(0))
    if kind in ("", "tensor_type"):
        return None
    g.found("no-sequences", "fail", "Caffe2 has no blobs for %s" % kind)
    raise Unrepairable("Caffe2 has no sequences")


def bitwise(node: Node, g: Rewriter) -> Optional[str]:
    """BitwiseAnd, Or, Xor: Caffe2 has them for int32, int64 and bool, with another broadcast."""
    dtype = g.dtype(node.input(0))
    if dtype not in ("int32", "int64", "bool", ""):
        found_dtype(node, g, dtype)
        wide = carrier(dtype, {"int32", "int64"})
        parts = [cast(g, x, wide) for x in node.inputs]
        y = g.emit(node.op, parts, wide, broadcast_shape(*[g.known(x) for x in parts]))
        cast(g, y, dtype, node.out)
        return "computed in %s" % wide
    return None


def bitwise_not(node: Node, g: Rewriter) -> Optional[str]:
    """BitwiseNot as -1 - x."""
    g.found("no-operator", "refuse", "Caffe2 has no BitwiseNot")
    dtype = g.dtype(node.input(0))
    wide = carrier(dtype, {"int32", "int64"})
    y = g.onnx("Sub", g.const(-np.ones((), wide)), cast(g, node.input(0), wide))
    cast(g, y, dtype, node.out)
    return "written as -1 - x"


def held(node: Node, g: Rewriter) -> Optional[str]:
    """Constant: Caffe2's fills widen narrow types and round float64."""
    tensor = node.attr("value")
    if not isinstance(tensor, onnx.TensorProto):
        g.found(
            "constant-form",
            "note",
            "Caffe2's own backend ends in SIGSEGV at a Constant without `value`; it is given one",
        )
        copy(g, g.const(g.need(node.out, "the constant")), node.out)
        return "fed like a weight"
    name = dtype_name(tensor.data_type)
    if name in ("float32", "int32", "int64", "bool", "string"):
        return None
    if name == "float64":
        value = g.value(node.out)
        if value is not None and (value.astype(np.float32) == value).all():
            return None
        g.found("constant-rounded", "wrong", "Caffe2 fills a float64 constant through float32")
    elif name in ("int8", "uint8", "int16", "uint16"):
        g.found("constant-widened", "wrong", "Caffe2 fills a constant of %s as int32" % name)
    elif name in ("uint32", "uint64"):
        g.found("constant-widened", "wrong", "Caffe2 fills a constant of %s as int64 or refuses it" % name)
        raise Unrepairable("Caffe2 has no tensors of %s" % name)
    else:
        g.found("constant-type", "refuse", "Caffe2 has no fill for %s" % name)
        if name not in HELD:
            raise Unrepairable("Caffe2 has no tensors of %s" % name)
    copy(g, g.const(g.need(node.out, "the constant")), node.out)
    return "fed as %s, bit for bit" % name


def constant_of_shape(node: Node, g: Rewriter) -> Optional[str]:
    """ConstantOfShape of types that Caffe2's backend does not fill with, or of no dimensions."""
    tensor = node.attr("value")
    name = dtype_name(tensor.data_type) if tensor is not None else "float32"
    value = onnx.numpy_helper.to_array(tensor).reshape(-1)[0] if tensor is not None else 0
    if name not in ("float32", "float64", "int32", "int64"):
        g.found("constant-type", "refuse", "Caffe2's backend fills no shape with %s" % name)
    elif g.shape(node.input(0)) == (0,):
        g.found("constant-scalar", "fail", "Caffe2's ConstantFill takes no empty shape as an input")
        copy(g, g.const(value, name), node.out)
        return "a fixed scalar"
    else:
        return None
    fill(g, [int(d) for d in g.known(node.out)], value, name, node.out)
    return "written as ConstantFill of a fixed shape"


RULES = dict.fromkeys(NATIVE, elementwise)
RULES.update(
    {
        "Abs": absolute,
        "Relu": relu,
        "Cast": convert,
        "CastLike": convert_like,
        "IsNaN": is_nan,
        "IsInf": is_inf,
        "Sign": sign,
        "Identity": identity,
        "BitwiseAnd": bitwise,
        "BitwiseOr": bitwise,
        "BitwiseXor": bitwise,
        "BitwiseNot": bitwise_not,
        "Constant": held,
        "ConstantOfShape": constant_of_shape,
    }
)
