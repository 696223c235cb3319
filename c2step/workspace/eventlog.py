"""What operators gave, on its way from the worker to the front: a file to which an event is added after each operator.

The events are there even where the next operator ends the worker, and the front reads them while the worker runs.
Each has its size in front, which says whether it is whole.
"""

import json
import os
import struct
from typing import Dict, List, Tuple

from . import Event, SmallEvent

__all__ = ["EventReader", "EventWriter", "event_log"]

_LONG = 1 << 24  # bytes of what has been read, after which the file begins anew
_SHORT = 1 << 13  # bytes that one step does not give
_HEAD = struct.Struct("<I?")  # how many bytes follow, and whether they are a small tensor's, else JSON
_SMALL = struct.Struct("<I?Id?")  # the same, the operator's index, its seconds, whether to keep the bytes
_FORM = struct.Struct("<BB")  # dtype and rank; the dimensions follow, then the values
_DTYPES = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool")

_Form = Tuple[str, Tuple[int, ...]]


def event_log(status_path: str) -> str:
    """The log that belongs to a status page."""
    return status_path + ".events"


class EventWriter:
    """The worker's side."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._forms: Dict[_Form, bytes] = {}

    def write(self, event: Event) -> None:
        """Add one event."""
        if not isinstance(event, SmallEvent):
            data = json.dumps(event).encode("utf-8")
            os.write(self._file, _HEAD.pack(len(data), False) + data)
            return
        index, seconds, dtype, shape, values, pack = event
        form = self._forms.get((dtype, shape))
        if form is None:
            form = self._forms[dtype, shape] = _packed_form(dtype, shape)
        size = _SMALL.size - _HEAD.size + len(form) + len(values)
        os.write(self._file, _SMALL.pack(size, True, index, seconds, pack) + form + values)


def _packed_form(dtype: str, shape: Tuple[int, ...]) -> bytes:
    return _FORM.pack(_DTYPES.index(dtype), len(shape)) + struct.pack("<%dI" % len(shape), *shape)


class EventReader:
    """The front's side, which also empties the log, before a run."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._place = 0
        self._torn = False
        self._forms: Dict[bytes, _Form] = {}

    def clear(self) -> None:
        """Begin anew; the worker must be idle."""
        if self._torn or self._place > _LONG:
            os.ftruncate(self._file, 0)
            self._place, self._torn = 0, False

    def read(self) -> List[Event]:
        """The events that were added since the last call; one that is not whole yet is left for the next."""
        data = self._added()
        events: List[Event] = []
        at, end = 0, len(data)
        while at + _HEAD.size <= end:
            size, small = _HEAD.unpack_from(data, at)
            after = at + _HEAD.size + size
            if after > end:
                break
            events.append(self._small(data, at, after) if small else json.loads(data[at + _HEAD.size : after]))
            at = after
        self._torn = at < end
        self._place += at
        return events

    def _added(self) -> bytes:
        data, size = b"", _SHORT  # a large buffer is not for nothing
        while True:
            part = os.pread(self._file, size, self._place + len(data))
            data += part
            if len(part) < size:
                return data
            size = 1 << 20

    def _small(self, data: bytes, at: int, after: int) -> SmallEvent:
        _, _, index, seconds, pack = _SMALL.unpack_from(data, at)
        at += _SMALL.size
        values = at + _FORM.size + 4 * data[at + 1]
        form = data[at:values]
        known = self._forms.get(form)
        if known is None:
            known = self._forms[form] = _unpacked_form(form)
        return SmallEvent(index, seconds, known[0], known[1], data[values:after], pack)

    def close(self) -> None:
        """Close the log."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def _unpacked_form(form: bytes) -> _Form:
    dtype, rank = _FORM.unpack_from(form)
    return _DTYPES[dtype], struct.unpack_from("<%dI" % rank, form, _FORM.size)
