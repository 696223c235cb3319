"""Wrapped operator types: what happens whenever one of them runs in a session.

Their inputs and outputs are saved into a capture of its own, their outputs are checked, a function of the
user's is called.
"""

import fnmatch
import os
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence

from .capture import CaptureWriter
from .errors import UsageError, near
from .history import Step
from .hooks import Hook

__all__ = ["CHECKS", "Wrapped", "Wraps", "condition_of"]

Header = Callable[[], Dict[str, Any]]
CHECKS = ("nan", "range", "reference")
_LARGEST_HALF = 65504  # what float16 can hold; a value beyond it rarely means well
_RANGES = {
    "Abs": "min < 0",
    "Exp": "min < 0",
    "LogSoftmax": "max > 0",
    "Relu": "min < 0",
    "Sigmoid": "min < 0 or max > 1",
    "Softmax": "min < 0 or max > 1",
    "Sqr": "min < 0",
    "Sqrt": "min < 0",
    "Tanh": "absmax > 1",
}


def condition_of(check: str, type_: str) -> str:
    """The condition that stops a run: NaN or Inf, values that the type cannot give, or what the reference refuses.

    "range:LOW:HIGH" names the range; "range" alone is the one of the operator type, else that of float16.
    """
    kind, _, bounds = check.partition(":")
    if kind == "nan" and not bounds:
        return "nan or inf"
    if kind == "reference" and not bounds:
        return "fail"
    if kind == "range" and not bounds:
        return _RANGES.get(type_, "absmax > %d" % _LARGEST_HALF)
    try:
        low, high = [float(bound) for bound in bounds.split(":")]
    except ValueError:
        low, high = 1.0, 0.0
    if kind != "range" or not low <= high:
        raise UsageError("there is no check %s" % check, "nan, range, range:LOW:HIGH or reference is wanted")
    return "min < %r or max > %r" % (low, high)


@dataclass
class Wrapped:
    """One wrap: operator types, and what is done with them; `points` are the breakpoints of its checks."""

    pattern: str
    types: List[str]
    directory: str = ""
    check: str = ""
    hook: Optional[Hook] = None
    points: List[int] = field(default_factory=list)

    @property
    def label(self) -> str:
        """What its check is called at a stop."""
        return "wrap %s --check %s" % (self.pattern, self.check)

    @property
    def effects(self) -> str:
        """What it does beside saving, in words."""
        words = ["checks %s" % self.check] if self.check else []
        return "; ".join(words + (["calls %s" % self.hook] if self.hook else []))


class Wraps:
    """The wraps of a session, by their patterns; several patterns may stand in one, with commas between."""

    def __init__(self, header: Header) -> None:
        self.all: Dict[str, Wrapped] = {}
        self._header = header
        self._writers: Dict[str, CaptureWriter] = {}

    @property
    def directories(self) -> Dict[str, str]:
        """Where each wrap saves to; empty where it does not save."""
        return {pattern: wrapped.directory for pattern, wrapped in self.all.items()}

    def add(self, pattern: str, types: Sequence[str]) -> Wrapped:
        """Wrap the types that fit; a wrap of the same pattern must have been removed."""
        fitting: List[str] = []
        for part in pattern.split(","):
            found = [name for name in types if fnmatch.fnmatchcase(name, part)]
            if not found:
                raise UsageError("no operator has type %s" % part, near(part, types))
            fitting += found
        self.all[pattern] = Wrapped(pattern, list(dict.fromkeys(fitting)))
        return self.all[pattern]

    def save(self, wrapped: Wrapped, directory: Optional[str], resume: bool = False) -> str:
        """Save what these operators read and write; `resume` goes on with the capture that is there."""
        path = os.path.abspath(directory or "wrapped-%s" % re.sub(r"\W", "_", wrapped.pattern))
        writer = CaptureWriter(path)
        if resume:
            writer.resume()
        else:
            writer.begin(dict(self._header(), kind="wrap", wrapped=wrapped.pattern))
        self._writers[path] = writer
        wrapped.directory = path
        return path

    def remove(self, pattern: str) -> Wrapped:
        """Take a wrap away."""
        if pattern not in self.all:
            raise UsageError("%s is not wrapped" % pattern, "wrapped: %s" % (", ".join(self.all) or "none"))
        wrapped = self.all.pop(pattern)
        if wrapped.directory and wrapped.directory not in self.directories.values():
            self._writers.pop(wrapped.directory).close()
        return wrapped

    def unchecked(self, number: int) -> None:
        """A breakpoint is gone; a wrap whose check it was does the rest, and goes away where nothing is left."""
        for wrapped in [wrapped for wrapped in self.all.values() if number in wrapped.points]:
            wrapped.points.remove(number)
            if not wrapped.points:
                wrapped.check = ""
                if not (wrapped.directory or wrapped.hook):
                    del self.all[wrapped.pattern]

    def request(self) -> List[List[str]]:
        """Regular expressions and directories, for the workspace."""
        return [
            [fnmatch.translate(part), wrapped.directory]
            for wrapped in self.all.values()
            for part in wrapped.pattern.split(",")
            if wrapped.directory
        ]

    def journal(self, step: Step, wrapped: Dict[str, Any]) -> None:
        """Journal a wrapped operator in each of its captures."""
        row = dict(
            step.to_json(),
            inputs=_versioned(wrapped["inputs"], step.inputs),
            outputs=_versioned(wrapped.get("outputs", []), step.outputs),
        )
        for directory in wrapped["directories"]:
            self._writers[directory].add(row)

    def close(self) -> None:
        """Close every journal."""
        for writer in self._writers.values():
            writer.close()


def _versioned(rows: Sequence[Dict[str, Any]], versions: Sequence[Any]) -> List[Dict[str, Any]]:
    known = {v.name: v.version for v in versions}
    return [dict(row, version=known.get(row["name"], 0)) for row in rows]
