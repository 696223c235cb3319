"""What operators gave, on its way from the worker to the front: a file to which an event is added after each operator.

The events are there even where the next operator ends the worker, and the front reads them while the worker runs.
Each has its size in front, which says whether it is whole.  Where one cannot be written, nothing of it is there.
"""

import contextlib
import errno
import json
import math
import os
import struct
from typing import Dict, List, Tuple

from ..blob import TENSOR, BlobSummary
from ..errors import CaptureError
from . import Event, LargeEvent, SmallEvent, StepEvent

__all__ = ["EventReader", "EventWriter", "event_log"]

_LONG = 1 << 24  # bytes of what has been read, after which the file begins anew
_SHORT = 1 << 13  # bytes that one step does not give
_HEAD = struct.Struct("<IB")  # how many bytes follow, and of which kind
_IS_JSON, _IS_SMALL, _IS_LARGE = range(3)
_SMALL = struct.Struct("<IBId?")  # the same, the operator's index, its seconds, whether to keep the bytes
_LARGE = struct.Struct("<IBId4d3Q")  # the same, index, seconds, min, max, mean, std, zeros, nan, inf
_FORM = struct.Struct("<BB")  # dtype and rank; the dimensions follow, then the values, or the name of the file
_DTYPES = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool")

_NO_NUMBERS = (float("nan"),) * 4  # min is no number where there is no finite value, and only there

_Form = Tuple[str, Tuple[int, ...]]


def event_log(status_path: str) -> str:
    """The log that belongs to a status page."""
    return status_path + ".events"


class EventWriter:
    """The worker's side."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._forms: Dict[_Form, bytes] = {}

    def write(self, event: Event) -> None:
        """Add one event; CaptureError where there is no room for it, and nothing of it is there then."""
        if isinstance(event, SmallEvent):
            index, seconds, dtype, shape, values, pack = event
            rest = self._form(dtype, shape) + values
            data = _SMALL.pack(_SMALL.size - _HEAD.size + len(rest), _IS_SMALL, index, seconds, pack) + rest
        elif isinstance(event, LargeEvent):
            data = self._large(event)
        else:
            text = json.dumps(event).encode("utf-8")
            data = _HEAD.pack(len(text), _IS_JSON) + text
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            self._take_back(written)
            raise _no_room(error, os.path.dirname(self._path)) from error

    def _take_back(self, written: int) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)

    def _large(self, event: LargeEvent) -> bytes:
        index, seconds, summary, file = event
        ends_and_moments, counts = summary[3:7], summary[7:10]
        if summary.min is None:
            ends_and_moments = _NO_NUMBERS
        rest = self._form(summary.dtype, summary.shape) + (file or "").encode("utf-8")
        size = _LARGE.size - _HEAD.size + len(rest)
        return _LARGE.pack(size, _IS_LARGE, index, seconds, *ends_and_moments, *counts) + rest

    def _form(self, dtype: str, shape: Tuple[int, ...]) -> bytes:
        form = self._forms.get((dtype, shape))
        if form is None:
            form = self._forms[dtype, shape] = _packed_form(dtype, shape)
        return form


def _packed_form(dtype: str, shape: Tuple[int, ...]) -> bytes:
    return _FORM.pack(_DTYPES.index(dtype), len(shape)) + struct.pack("<%dI" % len(shape), *shape)


def _no_room(error: OSError, folder: str) -> CaptureError:
    what = "is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "takes no more: %s" % error.strerror
    hint = "free space there, or set TMPDIR to another folder and start again"
    return CaptureError("the scratch folder %s %s" % (folder, what), hint)


class EventReader:
    """The front's side, which also empties the log, before a run."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._place = 0
        self._torn = self._left = False
        self._forms: Dict[bytes, _Form] = {}

    def clear(self) -> None:
        """Begin anew; the worker must be idle."""
        if self._torn or self._left or self._place > _LONG:
            os.ftruncate(self._file, 0)
            self._place, self._torn, self._left = 0, False, False

    def leave(self) -> None:
        """Begin anew at the next `clear`, since the worker that writes here ends."""
        self._left = True

    def read(self) -> List[Event]:
        """The events that were added since the last call; one that is not whole yet is left for the next."""
        data = self._added()
        events: List[Event] = []
        at, end = 0, len(data)
        while at + _HEAD.size <= end:
            size, kind = _HEAD.unpack_from(data, at)
            after = at + _HEAD.size + size
            if after > end:
                break
            events.append(self._event(kind, data, at, after))
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

    def _event(self, kind: int, data: bytes, at: int, after: int) -> Event:
        if kind == _IS_SMALL:
            _, _, index, seconds, pack = _SMALL.unpack_from(data, at)
            dtype, shape, values = self._known_form(data, at + _SMALL.size)
            return SmallEvent(index, seconds, dtype, shape, data[values:after], pack)
        if kind == _IS_LARGE:
            _, _, index, seconds, *figures = _LARGE.unpack_from(data, at)
            dtype, shape, file = self._known_form(data, at + _LARGE.size)
            if math.isnan(figures[0]):
                figures[:4] = [None] * 4
            name = data[file:after].decode("utf-8") or None
            return LargeEvent(index, seconds, BlobSummary(TENSOR, dtype, shape, *figures), name)
        found: StepEvent = json.loads(data[at + _HEAD.size : after].decode("utf-8"))
        return found

    def _known_form(self, data: bytes, at: int) -> Tuple[str, Tuple[int, ...], int]:
        """The dtype and shape that stand at a place, and where they end."""
        end = at + _FORM.size + 4 * data[at + 1]
        form = data[at:end]
        known = self._forms.get(form)
        if known is None:
            known = self._forms[form] = _unpacked_form(form)
        return known[0], known[1], end

    def close(self) -> None:
        """Close the log."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def _unpacked_form(form: bytes) -> _Form:
    dtype, rank = _FORM.unpack_from(form)
    return _DTYPES[dtype], struct.unpack_from("<%dI" % rank, form, _FORM.size)
