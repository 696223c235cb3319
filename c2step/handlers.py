"""Signal handlers, set as often as every step."""

import threading
from _signal import SIGINT, default_int_handler, getsignal  # type: ignore[import-not-found]
from _signal import signal as set_handler
from contextlib import contextmanager
from typing import Any, Callable, Iterator

__all__ = ["CtrlC", "in_one_piece", "set_handler"]

# signal.signal looks its arguments up among its constants before it calls this, which takes ten times as long.


class CtrlC:
    """While operators run, Ctrl-C calls `act`, with whether it was pressed before, and raises nothing by itself.

    An exception in the middle would leave half a reply in a pipe, or an operator that ran and of which nobody knows.
    """

    def __init__(self, act: Callable[[bool], None]) -> None:
        self._act = act
        self._hits = 0
        self._before: Any = None

    def _hit(self, *_: Any) -> None:
        self._hits += 1
        self._act(self._hits > 1)

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._before = set_handler(SIGINT, self._hit)

    def __exit__(self, *_: Any) -> None:
        if self._before is not None:
            set_handler(SIGINT, self._before)


@contextmanager
def in_one_piece(act: Callable[[], None], forget: Callable[[], None]) -> Iterator[None]:
    """Where Ctrl-C would raise anywhere, call `act`, and raise KeyboardInterrupt at the end; a second one at once.

    `forget` undoes what `act` did, before that is raised.
    """
    if getsignal(SIGINT) is not default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = []

    def press(again: bool) -> None:
        pressed.append(again)
        act()
        if again:
            raise KeyboardInterrupt

    try:
        with CtrlC(press):
            yield
    finally:
        if pressed:
            forget()
    if pressed:
        raise KeyboardInterrupt
