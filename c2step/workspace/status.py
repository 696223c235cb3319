"""One page of memory that the front and its worker share.

The worker writes there what it is doing before it does it, so that the front can name the operator
when the worker has died; the front writes there that a run should stop before its next operator.
"""

import mmap
import os
import struct
from typing import NamedTuple

__all__ = ["CONVERT", "FEED", "FETCH", "IDLE", "INIT", "RUN", "Doing", "Status"]

IDLE, CONVERT, INIT, FEED, RUN, FETCH = range(6)
_VERBS = ("waiting", "converting", "running init_net", "feeding", "running", "fetching")
_HEAD = struct.Struct("<BxHiq")
_LABEL_AT = 16
_SIZE = 4096


class Doing(NamedTuple):
    """What the worker was at: a verb, the operator's or node's position (-1: none), a label."""

    phase: int
    position: int
    done: int
    label: str

    @property
    def verb(self) -> str:
        """In words."""
        return _VERBS[self.phase]


class Status:
    """The shared page; without a path it is private to this process."""

    def __init__(self, path: str = "") -> None:
        self._done = 0
        if not path:
            self._map = mmap.mmap(-1, _SIZE)
            return
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(descriptor).st_size < _SIZE:
                os.ftruncate(descriptor, _SIZE)
            self._map = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)

    def enter(self, phase: int, index: int = -1, label: str = "") -> None:
        """Say what is about to be done (`label` is for nodes that have no operator yet)."""
        _HEAD.pack_into(self._map, 0, self._map[0], phase, index, self._done)
        if label or phase == CONVERT:
            data = label.encode("utf-8", "replace")[:1024]
            struct.pack_into("<H", self._map, _LABEL_AT, len(data))
            self._map[_LABEL_AT + 2 : _LABEL_AT + 2 + len(data)] = data

    def finished(self) -> None:
        """Count one operator as done."""
        self._done += 1

    def doing(self) -> Doing:
        """What was said last."""
        _, phase, index, done = _HEAD.unpack_from(self._map, 0)
        label = ""
        if phase == CONVERT or index < 0:
            size = struct.unpack_from("<H", self._map, _LABEL_AT)[0]
            label = self._map[_LABEL_AT + 2 : _LABEL_AT + 2 + size].decode("utf-8", "replace")
        return Doing(phase, index, done, label)

    def ask_stop(self, stop: bool = True) -> None:
        """Ask the run to stop before its next operator, or take that back."""
        self._map[0] = int(stop)

    def stop_asked(self) -> bool:
        """Whether the run should stop."""
        return self._map[0] != 0
