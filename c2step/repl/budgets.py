"""Limits on disk and memory: what to say, and on a terminal what to ask, where a run reached one."""

import re
from typing import TYPE_CHECKING, List

from ..sizes import size_text
from .context import Context

if TYPE_CHECKING:
    from ..stepper import Stop

__all__ = ["budget_lines", "budget_text"]

_NO_MEMORY = re.compile(r"can't allocate memory|Cannot allocate memory|bad_alloc|out of memory", re.IGNORECASE)


def budget_text(context: Context) -> List[str]:
    """What is held of what is allowed."""
    session = context.session
    disk = "blobs kept: %s of %s in %s" % (
        size_text(session.kept_bytes), _limit(session.max_bytes), session.capture_directory)  # fmt: skip
    return [disk, "memory of the worker: %s of %s" % (size_text(session.memory()), _limit(session.max_memory))]


def _limit(limit: object) -> str:
    return size_text(limit) if isinstance(limit, int) else "any number"


def budget_lines(context: Context, stop: "Stop") -> List[str]:
    """What to say at a stop that a limit made; a person at a terminal is asked for more."""
    if stop.reason == "full":
        return _disk(context)
    if stop.reason == "failed" and _NO_MEMORY.search(stop.detail) and context.session.max_memory:
        return _memory(context)
    return []


def _disk(context: Context) -> List[str]:
    session = context.session
    more = 2 * max(session.max_bytes or 0, 1 << 20)  # room that is worth another question
    said = "%s of blobs are kept, and the next would pass the limit of %s" % (
        size_text(session.kept_bytes), _limit(session.max_bytes))  # fmt: skip
    answer = context.ask("%s; keep up to %s? y, or s to go on without their values: " % (said, size_text(more)))
    if answer == "y":
        session.keep_up_to(more)
        return ["up to %s are kept; continue goes on" % size_text(more)]
    if answer == "s":
        session.keep_up_to(session.max_bytes, "skip")
        return ["values past the limit are not kept; continue goes on"]
    return ["%s; `budget disk SIZE` allows more" % said]


def _memory(context: Context) -> List[str]:
    session = context.session
    more = 2 * (session.max_memory or 0)
    said = "it needs more memory than the limit of %s" % _limit(session.max_memory)
    if context.ask("%s; allow %s? y: " % (said, size_text(more))) == "y":
        session.limit_memory(more)
        return ["up to %s are allowed; step runs it again" % size_text(more)]
    return ["%s; `budget memory SIZE` allows more" % said]
