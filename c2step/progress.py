"""How far something long is, on a terminal, in one line that goes away again."""

import contextlib
import os
import sys
import threading
import time
from typing import Iterator, Optional

from .net import Net

__all__ = ["Progress", "watched"]

_OFTEN, _AFTER = 0.5, 1.0  # seconds between two texts, and before what nobody tells of is looked at


class Progress:
    """Shows on standard error, if that is a terminal, how far something is.

    `show` and `node` are for those who are told of each step, twice a second.  A worker's client calls `look`
    while it waits, and what has been silent for a second is shown; so no step must be listened to.
    What is shown goes away at the end of the outermost `with` block (see `over`).
    """

    def __init__(self) -> None:
        self.tty = sys.stderr.isatty()
        self._shown = time.monotonic()
        self._there = False
        self._depth = 0
        self._net: Optional[Net] = None

    def node(self, at: int, of: int, label: str) -> None:
        """For references."""
        self.show("reference", at, of, label)

    def show(self, what: str, at: int, of: int, label: str = "") -> None:
        """Show it if half a second has passed."""
        if self.tty and time.monotonic() - self._shown > _OFTEN:
            self._write("%s: %d of %d %s" % (what, at, of, label) if of else "%s: %s" % (what, label))

    def look(self, verb: str, position: int, label: str) -> None:
        """A worker is at an operator or node (-1: none); only the main thread's is of the command that runs."""
        if time.monotonic() - self._shown < _AFTER or threading.current_thread() is not threading.main_thread():
            return
        net = self._net
        if net is not None and verb == "running" and 0 <= position < len(net):
            op = net.operators[position]
            self._write("%s: %d of %d operators, at %s" % (verb, position, len(net), op.type))
        else:
            self._write("%s %s" % (verb, label or ("operator %d" % position if position >= 0 else "")))

    @contextlib.contextmanager
    def over(self, net: Optional[Net] = None) -> Iterator[None]:
        """Inside, something is done that may be long, on this net; afterwards nothing of it is shown any more."""
        before, self._net = self._net, net or self._net
        if not self._depth:
            self._shown = time.monotonic()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._net = before
            if not self._depth:
                self.wipe()

    def wipe(self) -> None:
        """Take away what is shown."""
        if self._there:
            self._there = False
            with contextlib.suppress(OSError, ValueError):
                print("\r\033[K", end="", file=sys.stderr, flush=True)

    def _write(self, text: str) -> None:
        self._shown, self._there = time.monotonic(), True
        with contextlib.suppress(OSError, ValueError):  # a terminal that is gone ends nothing
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            print("\r" + text[: width - 1].ljust(width - 1) + "\r", end="", file=sys.stderr, flush=True)


def watched() -> Optional[Progress]:
    """What a worker's client shows while it waits; None away from a terminal."""
    progress = Progress()
    return progress if progress.tty else None
