"""Operators that fill a blob with given bytes, for an init_net.pb that any Caffe2 can run.

Caffe2 has a fill for float32, int32, int64, bool and strings only.  The narrow integers are
filled as int32 and cast, float16 is filled as float32 and narrowed.  Its fill for float64 reads
float32 arguments, so a float64 tensor is filled as three float32 parts whose float64 sum is exact,
then scaled by powers of two where the values lie outside float32's range.
"""

from typing import Any, List, Tuple

import numpy as np
from caffe2.proto import caffe2_pb2

from ..errors import ConversionError

__all__ = ["fill_ops"]

_DIRECT = {
    "float32": "GivenTensorFill",
    "int32": "GivenTensorIntFill",
    "int64": "GivenTensorInt64Fill",
    "bool": "GivenTensorBoolFill",
}
_CAST = {
    "uint8": caffe2_pb2.TensorProto.UINT8,
    "int8": caffe2_pb2.TensorProto.INT8,
    "uint16": caffe2_pb2.TensorProto.UINT16,
    "int16": caffe2_pb2.TensorProto.INT16,
}
_PACKED_FLOATS = b"\x2a"  # caffe2.Argument field 5, length-delimited
_PACKED_INTS = b"\x32"  # caffe2.Argument field 6


def fill_ops(name: str, array: np.ndarray) -> List[Any]:
    """The OperatorDefs that write exactly `array` to blob `name`; ConversionError where none can."""
    array = np.asarray(array)
    dtype = array.dtype.newbyteorder("=").name
    if array.dtype.kind in "OSU":
        return [_strings(name, array)]
    if dtype in _DIRECT:
        return [_fill(_DIRECT[dtype], name, array)]
    if dtype in _CAST:
        wide = "%s__int32" % name
        return [_fill("GivenTensorIntFill", wide, array), _op("Cast", [wide], name, to=_CAST[dtype])]
    if dtype == "float16":
        return _half(name, array)
    if dtype == "float64":
        return _double(name, array)
    raise ConversionError("blob %s: Caffe2 has no fill for %s" % (name, dtype), "feed it at run time instead")


def _op(kind: str, inputs: List[str], output: str, **args: int) -> Any:
    op = caffe2_pb2.OperatorDef()
    op.type = kind
    op.input.extend(inputs)
    op.output.append(output)
    for key, value in args.items():
        arg = op.arg.add()
        arg.name, arg.i = key, value
    return op


def _shape(op: Any, array: np.ndarray) -> None:
    shape = op.arg.add()
    shape.name = "shape"
    shape.ints.extend(array.shape)


def _fill(kind: str, name: str, array: np.ndarray) -> Any:
    op = _op(kind, [], name)
    values = op.arg.add()
    values.name = "values"
    if array.dtype.kind == "f":
        data = np.ascontiguousarray(array, dtype="<f4").tobytes()
        values.MergeFromString(_PACKED_FLOATS + _varint(len(data)) + data)
    elif array.size:
        values.ints.extend(array.ravel().tolist())
    _shape(op, array)
    return op


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _strings(name: str, array: np.ndarray) -> Any:
    op = _op("GivenTensorStringFill", [], name)
    values = op.arg.add()
    values.name = "values"
    values.strings.extend(v if isinstance(v, bytes) else str(v).encode("utf-8") for v in array.ravel().tolist())
    _shape(op, array)
    return op


def _half(name: str, array: np.ndarray) -> List[Any]:
    bits = array.view(np.uint16)
    if (bits[np.isnan(array)] & 0x7FFF != 0x7E00).any():
        raise ConversionError(
            "blob %s: float16 NaNs other than the usual one do not survive Caffe2's FloatToHalf" % name,
            "feed it at run time instead",
        )
    wide = "%s__float32" % name
    return [_fill("GivenTensorFill", wide, array.astype(np.float32)), _op("FloatToHalf", [wide], name)]


def _double(name: str, array: np.ndarray) -> List[Any]:
    with np.errstate(all="ignore"):
        parts, scales = _split(name, array)
    names = ["%s__part%d" % (name, i) for i in range(len(parts) + len(scales))]
    ops = [_fill("GivenTensorDoubleFill", blob, part) for blob, part in zip(names, parts + scales)]
    total = names[0]
    for i, blob in enumerate(names[1:], 1):
        target = name if i == len(names) - 1 else "%s__sum%d" % (name, i)
        ops.append(_op("Add" if i < len(parts) else "Mul", [total, blob], target))
        total = target
    if len(names) == 1:
        ops[0].output[0] = name
    return ops


def _split(name: str, array: np.ndarray) -> Tuple[List[np.ndarray], List[np.ndarray]]:
    """Float32 parts whose sum, then product with float32 scales, is `array` in float64, bit for bit."""
    for parts, scales in ((_parts(array, 1), []), (_parts(array, 3), []), _scaled(array)):
        if _same_bits(_join(parts, scales), array):
            return parts, scales
    raise ConversionError(
        "blob %s: some of its float64 NaNs cannot be written with Caffe2's fills" % name, "feed it at run time instead"
    )


def _parts(array: np.ndarray, count: int) -> List[np.ndarray]:
    parts, rest = [], array
    for _ in range(count):
        part = rest.astype(np.float32)
        parts.append(part)
        rest = rest - part.astype(np.float64)
        rest = np.where(np.isfinite(part), rest, 0.0)
        rest = np.where((rest == 0) & np.signbit(array), -0.0, rest)
    return parts


def _scaled(array: np.ndarray) -> Tuple[List[np.ndarray], List[np.ndarray]]:
    mantissa, exponent = np.frexp(array)
    exponent = np.where(np.isfinite(array), exponent, 0)
    scales = []
    while np.any(exponent):
        step = np.clip(exponent, -126, 127)
        scales.append(np.ldexp(np.float32(1), step).astype(np.float32))
        exponent = exponent - step
    return _parts(mantissa, 3), scales


def _join(parts: List[np.ndarray], scales: List[np.ndarray]) -> np.ndarray:
    total = parts[0].astype(np.float64)
    for part in parts[1:]:
        total = total + part.astype(np.float64)
    for scale in scales:
        total = total * scale.astype(np.float64)
    return np.asarray(total)


def _same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return one.tobytes() == np.ascontiguousarray(other, dtype=np.float64).tobytes()
