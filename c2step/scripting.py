"""A session written as a Python script over the library, line by line as it goes."""

import os
from typing import Any, Dict, List, Tuple

import numpy as np

from .errors import CaptureError
from .hooks import Hook
from .observing import Observer

__all__ = ["ScriptWriter"]


class ScriptWriter(Observer):
    """Writes FILE.py, and the arrays that were fed or patched into FILE_values/ beside it.

    `opening` is the expression that opens the session.
    """

    def __init__(self, path: str, opening: str) -> None:
        self._path = path
        self._values = os.path.splitext(path)[0] + "_values"
        self._arrays = 0
        self._last = ""
        try:
            self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise CaptureError("cannot write %s: %s" % (path, error.strerror or error)) from error
        self._write(_HEADER % opening)

    def did(self, verb: str, arguments: Tuple[Any, ...], options: Dict[str, Any]) -> None:
        """The call of a verb."""
        words = [self._word(verb, value) for value in arguments]
        words += ["%s=%s" % (name, self._word(verb, value)) for name, value in options.items()]
        self._write("session.%s(%s)" % (verb, ", ".join(words)))

    def looked(self, verb: str, arguments: Tuple[Any, ...], options: Dict[str, Any]) -> None:
        """A value that was looked at is printed, in figures; once where it is looked at twice in a row."""
        words = [repr(value) for value in arguments if value is not None]
        words += ["%s=%r" % item for item in options.items()]
        line = "print(%s, session.summary(%s))" % (words[0], ", ".join(words))
        if line != self._last:
            self._write(line)

    def set(self, name: str, value: Any) -> None:
        """What stops a run; golden values have to be loaded by hand."""
        if name == "catching":
            self._write("session.catching = %r" % (set(value),))
        elif name == "compared" and value is not None:
            source = getattr(getattr(getattr(value, "__self__", None), "reference", None), "source", "a reference")
            self._write("# golden values were loaded here: %s; see c2step.compare.against.Against" % source)

    def _word(self, verb: str, value: Any) -> str:
        if isinstance(value, np.ndarray):
            return self._array(verb, value)
        if isinstance(value, Hook):
            return "c2step.hooks.load_hook(%r, %r)" % (value.source, ",".join(value.patterns))
        return repr(tuple(value) if isinstance(value, tuple) else value)

    def _array(self, verb: str, array: np.ndarray) -> str:
        self._arrays += 1
        if array.dtype.kind in "OSU":
            return "np.array(%r, dtype=object).reshape(%r)" % (array.reshape(-1).tolist(), array.shape)
        name = "%s-%d.npy" % (verb, self._arrays)
        try:
            os.makedirs(self._values, exist_ok=True)
            np.save(os.path.join(self._values, name), array)
        except OSError as error:
            raise CaptureError("cannot write %s: %s" % (self._values, error.strerror or error)) from error
        return "np.load(os.path.join(here, %r))" % os.path.join(os.path.basename(self._values), name)

    def _write(self, line: str) -> None:
        self._last = line
        self._file.write(line + "\n")
        self._file.flush()

    def close(self) -> None:
        """End the script."""
        self._write("session.close()")
        self._file.close()


_HEADER = '''"""A session of c2step, as a script."""

import os

import numpy as np

import c2step
import c2step.hooks
import c2step.importer.inputs

here = os.path.dirname(os.path.abspath(__file__))
session = %s'''


def opening(options: Dict[str, Any]) -> str:
    """The expression that opens a session with these options of `c2step.open`; those that are not given stay out."""
    words: List[str] = [repr(options.get("model"))]
    for name, value in options.items():
        if name == "preprocess":
            words.append("preprocess=c2step.importer.inputs.%r" % (value,))
        elif name != "model" and value is not None and value is not False and value not in ([], {}):
            words.append("%s=%r" % (name, value))
    return "c2step.open(%s)" % ", ".join(words)
