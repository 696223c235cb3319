"""Signal handlers, set as often as every step."""

from _signal import signal as set_handler  # type: ignore[import-not-found]

__all__ = ["set_handler"]

# signal.signal looks its arguments up among its constants before it calls this, which takes ten times as long.
