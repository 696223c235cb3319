"""Waiting for a pipe without going to sleep at once: to be woken takes longer than most operators do."""

import os
import select
import time
from typing import List, Tuple

__all__ = ["Awake"]

_MOMENT = 0.0002  # seconds for which it looks
_OFTEN = 8  # times that input must have come within a moment; where it no longer does, others want the cores


class Awake:
    """Looks for input for a moment, if it came within a moment the last times, and there is more than one core."""

    def __init__(self, *descriptors: int) -> None:
        self._poll = select.poll()
        for descriptor in descriptors:
            self._poll.register(descriptor, select.POLLIN)
        self._cores = (os.cpu_count() or 1) > 1
        self._soon = 0  # how many times in a row
        self._since = 0.0

    def look(self) -> List[Tuple[int, int]]:
        """What there is to read within a moment, as poll says it; whoever gets nothing may go to sleep."""
        self._since = time.perf_counter()
        end = self._since + _MOMENT
        while self._soon >= _OFTEN and self._cores:
            found = self._poll.poll(0)
            if found or time.perf_counter() > end:
                return found
        return []

    def wait(self, seconds: float = -1) -> List[Tuple[int, int]]:
        """Wait for input, asleep; for any time unless told."""
        return self._poll.poll(1000 * seconds if seconds >= 0 else None)

    def came(self) -> None:
        """What was looked for has come."""
        self._soon = self._soon + 1 if time.perf_counter() - self._since < _MOMENT else 0
