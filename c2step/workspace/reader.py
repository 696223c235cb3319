"""Read blobs of the current Caffe2 workspace without changing them.  Worker side only.

`FetchBlob` answers with a line of text where a blob was never written or holds a mutex, and with a
TypeError for Int8; a tensor whose shape overflowed ends the process when it is copied.  So the kind
and the shape are looked at before any value is.
"""

import contextlib
import ctypes
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace

from ..blob import INT8, MISSING, OTHER, STRING, TENSOR, UNINITIALISED, UNREADABLE, Blob

__all__ = ["SMALL", "View", "of_array", "peek", "read", "read_in", "row", "view"]

C: Any = workspace.C
_NO_VALUE = re.compile(r"^.*, a C\+\+ native class of type (.*)\.$", re.DOTALL)
_TYPE = re.compile(r"for blob of type: ([^\n]*)")
SMALL = 1 << 12  # bytes; a tensor that is not larger is cheaper to copy than to look at
_RANK = 8
_DIGITS = {
    np.dtype(name).char: name
    for name in ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool")
}
_DIGITS["q" if np.dtype("int64").char == "l" else "l"] = "int64"  # C has two names for it
_byte, _address = ctypes.c_char.from_buffer, ctypes.addressof
_LONGEST = 1 << 31  # elements of one dimension
_LARGEST = 1 << 46  # bytes; more than any machine has, so the shape must have overflowed


def read(name: str, view: bool = False) -> Blob:
    """A blob's value; `view` gives the tensor's own memory, valid until the next operator runs."""
    if not C.has_blob(name):
        return Blob(name, MISSING, text="not in the workspace")
    handle = C.Workspace.current.create_blob(name)  # finds it: no new blob is made
    if not hasattr(handle, "is_tensor"):
        return _read_by_text(name)
    if not handle.is_tensor():
        return _read_other(name)
    shape = tuple(handle.tensor().shape)
    if impossible(shape):
        return Blob(
            name,
            UNREADABLE,
            text="shape %s, which no memory can hold; reading it ends the process with SIGSEGV" % (shape,),
        )
    return _read_tensor(name, handle, view)


class View(NamedTuple):
    """A tensor of numbers in its own memory, and where that begins; valid until the next operator runs."""

    dtype: str
    shape: Tuple[int, ...]
    array: np.ndarray
    start: int


def view(space: Any, name: str) -> Optional[View]:
    """A blob of a workspace object, if it is a tensor of numbers that can be viewed; else None."""
    handle = space.create_blob(name)
    try:
        if not handle.is_tensor():
            return None
        tensor = handle.tensor()
        shape, size = tuple(tensor.shape), 1
        for dim in shape:
            size = size * dim if 0 < dim < _LONGEST else _LARGEST + 1
        if size > _LARGEST or len(shape) > _RANK:
            return None
        array = tensor.data
        dtype = _DIGITS.get(array.dtype.char)
        return None if dtype is None else View(dtype, shape, array, _address(_byte(array)))
    except (AttributeError, RuntimeError, TypeError):
        return None


def read_in(space: Any, name: str) -> Blob:
    """A blob of any workspace object, such as a predictor's or a step net's; its bytes may be the tensor's own."""
    if not space.has_blob(name):
        return Blob(name, MISSING, text="not in the workspace")
    handle = space.create_blob(name)
    if hasattr(handle, "is_tensor") and handle.is_tensor():
        shape = tuple(handle.tensor().shape)
        if impossible(shape):
            return Blob(name, UNREADABLE, text="shape %s, which no memory can hold" % (shape,))
        with contextlib.suppress(RuntimeError, TypeError):
            return Blob(name, TENSOR, handle.to_torch().numpy())
    try:
        return _of_value(name, handle.fetch())
    except RuntimeError as error:
        found = _TYPE.search(str(error))
        kind = found.group(1).strip() if found else "a tensor without a type"
        return _of_proto(name, handle.serialize(name)) if "Int8Tensor" in kind else _without_value(name, kind)


def _of_value(name: str, value: Any) -> Blob:
    if isinstance(value, tuple):
        return Blob(name, INT8, value[0], float(value[1]), int(value[2]))
    return of_array(name, value) if isinstance(value, np.ndarray) else Blob(name, STRING, np.array(value, dtype=object))


def impossible(shape: Tuple[int, ...]) -> bool:
    """Whether a shape is negative somewhere or larger than any memory."""
    size = 1
    for dim in shape:
        size *= max(int(dim), 0)
    return any(dim < 0 for dim in shape) or size > _LARGEST


def _read_tensor(name: str, handle: Any, view: bool) -> Blob:
    if view:
        with contextlib.suppress(RuntimeError, TypeError):  # a tensor without a type yet
            empty = 0 in handle.tensor().shape  # of which torch tells the address, at the price of loading torch
            return of_array(name, handle.to_torch().numpy() if empty else handle.tensor().data)
    try:
        return of_array(name, C.fetch_blob(name))
    except RuntimeError as error:
        return Blob(name, UNINITIALISED, text=str(error).split("\n")[0][:200])


def of_array(name: str, array: np.ndarray) -> Blob:
    """A blob that holds an array."""
    return Blob(name, STRING if array.dtype.kind in "OSU" else TENSOR, array)


def _read_other(name: str) -> Blob:
    value = C.fetch_blob(name)
    return _read_int8(name) if isinstance(value, tuple) else _of_text(name, value)


def _read_by_text(name: str) -> Blob:
    """For Caffe2 of torch 1.0, whose blobs cannot be asked what they are."""
    value = C.fetch_blob(name)
    if isinstance(value, np.ndarray):
        return Blob(name, UNREADABLE, text=str(value.shape)) if impossible(value.shape) else of_array(name, value)
    return _of_text(name, value)


def _of_text(name: str, value: Any) -> Blob:
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    match = _NO_VALUE.match(text)
    if not match:
        return Blob(name, STRING, np.array(value, dtype=object))
    described = match.group(1)
    if "Int8Tensor" in described:
        return _read_int8(name)
    return _without_value(name, described)


def _without_value(name: str, described: str) -> Blob:
    if described.startswith(("nullptr", "a tensor")):
        return Blob(name, UNINITIALISED, text="never written")
    return Blob(name, OTHER, text="not a tensor: %s" % described)


def _read_int8(name: str) -> Blob:
    return _of_proto(name, C.serialize_blob(name))


def _of_proto(name: str, data: bytes) -> Blob:
    quantised = caffe2_pb2.BlobProto.FromString(data).qtensor
    dims = tuple(quantised.dims)
    if quantised.data_type == caffe2_pb2.TensorProto.INT32 or not quantised.is_signed and quantised.precision > 8:
        dtype: Any = np.int32
    else:
        dtype = np.uint8
    array: np.ndarray = np.array(quantised.data, dtype=dtype).reshape(dims)
    return Blob(name, INT8, array, float(quantised.scale), int(quantised.bias))


def peek(name: str) -> Dict[str, Any]:
    """Kind, dtype and shape of one blob as JSON, without copying its value."""
    return row(read(name, view=True))


def row(blob: Blob) -> Dict[str, Any]:
    """Kind, dtype and shape as JSON."""
    array = blob.array
    dtype = "" if array is None else "string" if blob.kind == STRING else str(array.dtype)
    return {
        "name": blob.name,
        "kind": blob.kind,
        "dtype": dtype,
        "shape": [int(d) for d in array.shape] if array is not None else [],
        "text": blob.text,
    }


def names() -> List[str]:
    """Every blob of the workspace."""
    return list(C.blobs())


def feed(
    name: str, array: np.ndarray, kind: str = TENSOR, scale: Optional[float] = None, zero_point: Optional[int] = None
) -> None:
    """Feed a value in the byte order and layout that Caffe2 wants, into storage of its own."""
    if C.has_blob(name):
        _drop_storage(name)  # else the bytes would go into storage that another blob may share
    if kind == INT8:
        _feed_int8(name, array, float(scale or 1.0), int(zero_point or 0))
    elif kind == STRING:
        C.feed_blob(name, array.item() if array.ndim == 0 else array)
    else:
        C.feed_blob(name, native(array))


def _drop_storage(name: str) -> None:
    """Let a blob go of what it holds, but stay where it is: operators keep pointers to it."""
    if hasattr(C, "reset_blob"):
        C.reset_blob(name)
    else:  # a value of another type takes the place of the tensor
        C.run_operator_once(caffe2_pb2.OperatorDef(type="CreateMutex", output=[name]).SerializeToString())


def native(array: np.ndarray) -> np.ndarray:
    """The same values in native byte order, contiguous."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return np.ascontiguousarray(array).reshape(array.shape)


def _feed_int8(name: str, array: np.ndarray, scale: float, zero_point: int) -> None:
    wide = array.dtype == np.int32
    op = caffe2_pb2.OperatorDef(type="Int8GivenIntTensorFill" if wide else "Int8GivenTensorFill", output=[name])
    op.arg.add(name="shape").ints.extend(array.shape)
    values = op.arg.add(name="values")
    if wide:
        values.ints.extend(int(v) for v in array.reshape(-1))
    else:
        values.s = native(array).tobytes()
    op.arg.add(name="Y_scale").f = scale
    op.arg.add(name="Y_zero_point").i = zero_point
    C.run_operator_once(op.SerializeToString())
