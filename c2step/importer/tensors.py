"""ONNX TensorProtos: whether one is whole, and those that are files of their own.  Worker side only."""

from typing import Any, Dict, Tuple

import numpy as np
import onnx
from onnx import numpy_helper

from ..blob import STRING, TENSOR, Blob
from ..errors import InputError, ModelError
from .weights import is_stored

__all__ = ["check_tensor", "read_tensor"]


def read_tensor(path: str) -> Tuple[str, Blob]:
    """The tensor's name and value; InputError where the file holds no TensorProto."""
    tensor = onnx.TensorProto()
    try:
        with open(path, "rb") as file:
            tensor.ParseFromString(file.read())
        array = np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:  # protobuf, numpy and onnx each raise their own
        raise InputError("%s is no ONNX TensorProto: %s" % (path, str(error).split("\n")[0])) from error
    kind = STRING if array.dtype.kind in "OSU" else TENSOR
    return tensor.name, Blob(tensor.name, kind, array)


# The bits of one element, and the field and numbers for one element where it is not kept as raw bytes.
_LAYOUTS: Dict[str, Tuple[int, str, int]] = {
    "FLOAT": (32, "float_data", 1),
    "DOUBLE": (64, "double_data", 1),
    "COMPLEX64": (64, "float_data", 2),
    "COMPLEX128": (128, "double_data", 2),
    "INT64": (64, "int64_data", 1),
    "UINT32": (32, "uint64_data", 1),
    "UINT64": (64, "uint64_data", 1),
    "INT32": (32, "int32_data", 1),
    "INT16": (16, "int32_data", 1),
    "UINT16": (16, "int32_data", 1),
    "FLOAT16": (16, "int32_data", 1),
    "BFLOAT16": (16, "int32_data", 1),
    "INT8": (8, "int32_data", 1),
    "UINT8": (8, "int32_data", 1),
    "BOOL": (8, "int32_data", 1),
}


def check_tensor(tensor: Any, where: str) -> None:
    """ModelError where a tensor's dims, type and data do not fit each other; `where` says whose it is."""
    wrong = _mismatch(tensor)
    if wrong:
        raise ModelError("tensor %s %s is damaged: %s" % (tensor.name or "without a name", where, wrong),
                         "export the model again")  # fmt: skip


def _mismatch(tensor: Any) -> str:
    if tensor.data_type not in onnx.TensorProto.DataType.values() or not tensor.data_type:
        return "its data_type is %d, which ONNX does not know" % tensor.data_type
    count = 1
    for dim in tensor.dims:
        if dim < 0:
            return "its shape is %s" % list(tensor.dims)
        count *= dim
    name = onnx.TensorProto.DataType.Name(tensor.data_type)
    if name == "STRING":
        return _differ(tensor, name, count, len(tensor.string_data), "strings")
    if name not in _LAYOUTS:  # Caffe2 holds none of these, they are never read
        return ""
    bits, field, numbers = _LAYOUTS[name]
    if is_stored(tensor):  # its size was looked at when its place was noted
        return ""
    if tensor.HasField("raw_data"):
        return _differ(tensor, name, count * bits // 8, len(tensor.raw_data), "bytes")
    return _differ(tensor, name, count * numbers, len(getattr(tensor, field)), "numbers")


def _differ(tensor: Any, name: str, wanted: int, found: int, unit: str) -> str:
    if found == wanted:
        return ""
    return "%s %s needs %d %s, it has %d" % (name.lower(), list(tensor.dims), wanted, unit, found)
