"""Large weights stay in their file until they are fed.  Worker only (imports onnx).

A model's bytes are nearly all weights, and to parse them is to copy them, to take them out of protobuf is to copy them
again.  `parse` gives the model without the bytes of its large initializers: each says, as ONNX's external data does,
where they lie in the file.  `array_of` reads them from there, `whole` makes such a tensor complete again.
"""

import os
from typing import Any, Dict, Iterable, List, Optional, Tuple

import numpy as np
import onnx
from onnx import numpy_helper

from ..errors import ModelError
from .wire import LENGTH_DELIMITED, Field, fields, opened, varint

__all__ = ["array_of", "is_stored", "parse", "store", "whole"]

LARGE = 1 << 16  # bytes: smaller tensors stay in the model, where the rules may look at them
_GRAPH, _INITIALIZER = 7, 5  # field numbers of ModelProto and GraphProto
_DIMS, _DATA_TYPE, _RAW_DATA, _EXTERNAL, _LOCATION = 1, 2, 9, 13, 14  # of TensorProto
_T = onnx.TensorProto
_DTYPES = {
    _T.FLOAT: np.float32,
    _T.DOUBLE: np.float64,
    _T.FLOAT16: np.float16,
    _T.INT8: np.int8,
    _T.INT16: np.int16,
    _T.INT32: np.int32,
    _T.INT64: np.int64,
    _T.UINT8: np.uint8,
}
# Beside location, offset and length: what the file was like when the model was read.  No file can bring this key along.
_STATE = "state-" + os.urandom(8).hex()


def parse(path: str) -> Any:
    """The ModelProto in `path`, large initializers left in the file; raises as protobuf and `open` do."""
    model = onnx.ModelProto()
    with opened(path) as data:
        try:
            rest = _without_weights(data, path) if len(data) > LARGE else data[:]
        except (EOFError, ValueError):  # no message, or one that is cut: protobuf says so
            rest = data[:]
    model.ParseFromString(rest)
    return model


def _without_weights(data: Any, path: str) -> bytes:
    place = os.path.abspath(path), _state(path)
    parts: List[bytes] = []
    for field in fields(data):
        if field.number == _GRAPH and field.wire == LENGTH_DELIMITED:
            parts += _message(_GRAPH, _graph(data, field, place))
        else:
            parts.append(data[field.key : field.stop])
    return b"".join(parts)


def _message(number: int, parts: List[bytes]) -> List[bytes]:
    return [varint(number << 3 | LENGTH_DELIMITED), varint(sum(map(len, parts))), *parts]


def _graph(data: Any, graph: Field, place: Tuple[str, str]) -> List[bytes]:
    """The graph's bytes without those of large initializers; what lies between these is copied in one piece."""
    parts: List[bytes] = []
    done = graph.start
    for field in fields(data, graph.start, graph.stop):
        if field.number == _INITIALIZER and field.stop - field.start >= LARGE:
            stub = _stub(data, field, place)
            if stub is not None:
                parts += [data[done : field.key], *_message(_INITIALIZER, stub)]
                done = field.stop
    return [*parts, data[done : graph.stop]]


def _stub(data: Any, tensor: Field, place: Tuple[str, str]) -> Optional[List[bytes]]:
    """A tensor's bytes with the place of its raw data instead of them; None where it has to stay as it is."""
    found = list(fields(data, tensor.start, tensor.stop))
    raws = [field for field in found if field.number == _RAW_DATA]
    if len(raws) != 1 or raws[0].stop - raws[0].start < LARGE or any(f.number in (_EXTERNAL, _LOCATION) for f in found):
        return None
    raw, kept = raws[0], [data[field.key : field.stop] for field in found if field.number != _RAW_DATA]
    head = _T.FromString(b"".join(kept))
    if not _fits(head, raw.stop - raw.start):
        return None
    _point(head, place[0], raw.start, raw.stop - raw.start, place[1])
    return [head.SerializeToString()]


def _fits(tensor: Any, size: int) -> bool:
    dtype = _DTYPES.get(tensor.data_type)
    return dtype is not None and min(tensor.dims, default=1) >= 0 and _count(tensor) * np.dtype(dtype).itemsize == size


def _count(tensor: Any) -> int:
    count = 1
    for dim in tensor.dims:
        count *= dim
    return count


def _point(tensor: Any, location: str, offset: int, length: int, state: str) -> None:
    tensor.data_location = _T.EXTERNAL
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", offset), ("length", length), (_STATE, state)):
        tensor.external_data.add(key=key, value=str(value))


def _state(path: str) -> str:
    found = os.stat(path)
    return "%d %d %d" % (found.st_size, found.st_mtime_ns, found.st_ino)


def store(tensor: Any, path: str, offset: int, length: int) -> bool:
    """Leave an external tensor's bytes in their file, to be read later; False where it is small, or of a rare type."""
    length = length or os.path.getsize(path) - offset
    if length < LARGE or not _fits(tensor, length):
        return False
    _point(tensor, os.path.abspath(path), offset, length, _state(path))
    return True


def is_stored(tensor: Any) -> bool:
    """Whether a tensor's bytes were left in a file."""
    return bool(tensor.data_location == _T.EXTERNAL) and _STATE in _keys(tensor)


def _keys(tensor: Any) -> Dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def array_of(tensor: Any, mapped: bool = False) -> np.ndarray:
    """A tensor's value, also where its bytes were left in a file; ModelError where that file is another by now.

    `mapped` gives such bytes as they lie in the file, for use at once: who changes the file changes them.
    """
    if not is_stored(tensor):
        return np.asarray(numpy_helper.to_array(tensor))
    found = _keys(tensor)
    path, dtype, dims = found["location"], _DTYPES[tensor.data_type], tuple(tensor.dims)
    try:
        if _state(path) == found[_STATE]:
            values = np.memmap(path, dtype, "r", int(found["offset"]), dims)
            return np.asarray(values) if mapped else np.array(values)
    except (OSError, ValueError):  # it is gone, or too short
        pass
    raise ModelError("%s is no longer what it was when the model was opened" % path, "open the model again")


def whole(tensors: Iterable[Any]) -> List[Any]:
    """The tensors with their bytes in them."""
    return [_whole(tensor) if is_stored(tensor) else tensor for tensor in tensors]


def _whole(tensor: Any) -> Any:
    found = _T()
    found.CopyFrom(tensor)
    found.ClearField("data_location")
    found.ClearField("external_data")
    found.raw_data = array_of(tensor, mapped=True).tobytes()
    return found
