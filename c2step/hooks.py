"""Functions of the user that are called before or after chosen operators.

    @c2step.after("Conv", "MaxPool")
    def clip(call):
        print(call, call.outputs)
        return {name: value.clip(0, 6) for name, value in call.outputs.items()}

`c2step.wrapped(hooks=[clip])` calls it while a Caffe2 script runs, `session.hook(clip)` while a session
steps.  What it returns, arrays by blob name, takes the place of those blobs; None changes nothing.
"""

import fnmatch
import importlib.util
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np

from .errors import C2StepError, UsageError, near

__all__ = ["AFTER", "BEFORE", "Call", "Hook", "after", "before", "load_hook"]

BEFORE, AFTER = "before", "after"


@dataclass(frozen=True)
class Call:
    """One run of an operator: where it stands, and copies of its blobs by name.

    `outputs` is empty before it has run; blobs that hold no array are left out.
    """

    index: int
    type: str
    name: str = ""
    net: str = ""
    inputs: Dict[str, np.ndarray] = field(default_factory=dict)
    outputs: Dict[str, np.ndarray] = field(default_factory=dict)

    def __str__(self) -> str:
        return "%soperator %d %s" % (self.net + " " if self.net else "", self.index, self.type)


class Hook:
    """A function, the side on which it is called, and the patterns of operator types it is for."""

    def __init__(self, function: Callable[[Call], Any], side: str, patterns: Tuple[str, ...], source: str = "") -> None:
        self.function = function
        self.side = side
        self.source = source  # FILE.py:function, where it was loaded from there
        self.patterns = patterns or ("*",)

    def __str__(self) -> str:
        return "%s %s" % (self.side, getattr(self.function, "__name__", "function"))

    def __call__(self, call: Call) -> Dict[str, np.ndarray]:
        """Call the function; the arrays that take the place of blobs.  UsageError where they do not fit."""
        result = self.function(call)
        if result is None:
            return {}
        known = list(call.inputs) + list(call.outputs)
        if not isinstance(result, dict):
            raise UsageError(
                "%s returned a %s at %s" % (self, type(result).__name__, call), "return {blob name: array}, or None"
            )
        for name in result:
            if name not in known:
                raise UsageError("%s returned %s, which is no blob of %s" % (self, name, call), near(str(name), known))
        return {name: np.asarray(value) for name, value in result.items()}

    def fits(self, type_: str) -> bool:
        """Whether it is called for operators of this type."""
        return any(fnmatch.fnmatchcase(type_, pattern) for pattern in self.patterns)


def before(*patterns: str) -> Callable[[Callable[[Call], Any]], Hook]:
    """A decorator: call this function before operators whose type fits one of the patterns."""
    return lambda function: Hook(function, BEFORE, patterns)


def after(*patterns: str) -> Callable[[Callable[[Call], Any]], Hook]:
    """A decorator: call this function after operators whose type fits one of the patterns."""
    return lambda function: Hook(function, AFTER, patterns)


def load_hook(spec: str, pattern: str) -> Hook:
    """The function that FILE.py:function names; one that is not decorated is called after `pattern`'s operators."""
    path, _, name = spec.rpartition(":")
    if not path or not name:
        raise UsageError("%s names no function" % spec, "FILE.py:function is wanted")
    found = getattr(_module(os.path.expanduser(path)), name, None)
    if found is None or not callable(found):
        raise UsageError("%s has no function %s" % (path, name))
    patterns = tuple(pattern.split(","))
    source = "%s:%s" % (os.path.abspath(os.path.expanduser(path)), name)
    if isinstance(found, Hook):
        return Hook(found.function, found.side, patterns, source)
    return Hook(found, AFTER, patterns, source)


def _module(path: str) -> Any:
    spec: Optional[Any] = importlib.util.spec_from_file_location("c2step_user_code", path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise UsageError("cannot read %s" % path, "a Python file is wanted")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except C2StepError:
        raise
    except Exception as error:
        raise UsageError("%s: %s: %s" % (path, type(error).__name__, error)) from error
    return module
