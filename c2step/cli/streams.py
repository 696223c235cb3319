"""The process's standard streams: there, able to show every name, and full or closed without a traceback."""

import contextlib
import errno
import os
import sys
from typing import Callable, List

from ..errors import CaptureError

__all__ = ["flushed", "prepare", "silence"]

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_OF_A_STREAM = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EFBIG, errno.EISDIR)


def prepare() -> None:
    """Put nothing where a stream is closed, and let text that a terminal cannot show appear escaped."""
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            _occupy(number)
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _occupy(number: int) -> None:
    """Open nothing under a closed descriptor, so that no file of ours is taken for a standard stream."""
    try:
        os.fstat(number)
    except OSError:
        nothing = os.open(os.devnull, os.O_RDWR)
        if nothing != number:
            os.dup2(nothing, number)
            os.close(nothing)


def flushed(run: Callable[[List[str]], int], words: List[str]) -> int:
    """What `run` gives, all of its text written; CaptureError where a stream cannot take it."""
    try:
        try:
            return int(run(words))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None or error.errno not in _OF_A_STREAM:
            raise
        silence()
        raise CaptureError("cannot use standard input or output: %s" % error.strerror) from error


def silence() -> None:
    """Let what is still to be written to standard output go nowhere."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
