"""The fields of a serialized protobuf message, without a protobuf library and without copying what is in them."""

import contextlib
import mmap
import os
from typing import Any, Iterator, NamedTuple, Optional, Tuple

__all__ = ["LENGTH_DELIMITED", "Field", "fields", "opened", "varint"]

LENGTH_DELIMITED = 2


class Field(NamedTuple):
    """A field's number and wire type; its key begins at `key`, its content at `start`, and ends at `stop`."""

    number: int
    wire: int
    key: int
    start: int
    stop: int


def fields(data: Any, start: int = 0, stop: Optional[int] = None) -> Iterator[Field]:
    """The fields of the message in `data[start:stop]`; EOFError where it is cut, ValueError where it is none."""
    at, end = start, len(data) if stop is None else stop
    while at < end:
        key_at = at
        key, at = _varint(data, at, end)
        number, wire, begin = key >> 3, key & 7, at
        if wire == 0:
            _, at = _varint(data, at, end)
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        elif wire == LENGTH_DELIMITED:
            size, begin = _varint(data, at, end)
            at = begin + size
        else:
            raise ValueError("wire type %d" % wire)
        if number == 0:
            raise ValueError("field 0")
        if at > end:
            raise EOFError
        yield Field(number, wire, key_at, begin, at)


def _varint(data: Any, at: int, end: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        if at >= end or shift > 63:
            raise EOFError
        byte = data[at]
        value |= (byte & 127) << shift
        shift += 7
        at += 1
        if byte < 128:
            return value, at


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


@contextlib.contextmanager
def opened(path: str) -> Iterator[Any]:
    """The bytes of a file as they lie on disk, none read before it is looked at; OSError as `open` raises it."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data
