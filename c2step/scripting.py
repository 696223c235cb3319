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

    What a command does that is no verb of the library stays a comment that says so.
    `opening` is the expression that opens the session.
    """

    def __init__(self, path: str, opening: str) -> None:
        self._path = path
        self._values = os.path.splitext(path)[0] + "_values"
        self._arrays = 0
        self._last = ""
        self._told = False  # whether the command that runs has left a line
        try:
            self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise CaptureError("cannot write %s: %s" % (path, error.strerror or error)) from error
        self._write(_HEADER % opening)

    def did(self, verb: str, arguments: Tuple[Any, ...], options: Dict[str, Any], result: Any) -> None:
        """The call of a verb; of one that was cut short, what it came to."""
        if getattr(result, "reason", "") in _CUT_SHORT:
            self._write_steps(verb, result)
            return
        if verb == "set_commands":
            self._write("# the prompt runs these at each stop there; here they follow as calls")
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
        self._told = True

    def set(self, name: str, value: Any) -> None:
        """What stops a run, and golden values."""
        if name == "catching":
            self._write("session.catching = %r" % (set(value),))
        elif name == "compared" and value is None:
            self._write("session.compared = None")
        elif name == "compared":
            how = getattr(getattr(value, "__self__", None), "how", None)
            words = [
                "%s=%r" % (word, said)
                for word, said in (how or {}).items()
                if word != "spec" and said not in (None, [])
            ]
            call = ", ".join(["session", repr(how["spec"]), *words]) if how else ""
            self._write("against = c2step.against(%s)" % call if how else "# golden values were loaded here")

    def typed(self, command: str) -> None:
        """What a command did that is no verb of the session stays a comment."""
        if not self._told and not command.startswith(_AIMLESS):
            self._write("# at the prompt alone: %s" % command)
        self._told = False

    def _write_steps(self, verb: str, stop: Any) -> None:
        """As many single steps as a run came to before it was interrupted, took too long or filled the capture."""
        self._write("# %s ended early: %s" % (verb, stop.reason))
        iterations = [step.iteration for step in stop.steps if step.status == "ok"]
        for iteration in dict.fromkeys(iterations):
            if iteration != iterations[-1]:
                self._write("session.run()")
                continue
            if verb == "run":
                self._write("if session.position == session.net_size:\n    session.again()")
            self._write("session.step(%d)" % iterations.count(iteration))

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
        self._last, self._told = line, True
        self._file.write(line + "\n")
        self._file.flush()

    def close(self) -> None:
        """End the script."""
        self._write("session.close()")
        self._file.close()


_CUT_SHORT = ("interrupted", "timeout", "full")
_AIMLESS = ("help", "where", "list", "quit", "source")

_HEADER = '''"""A session of c2step, as a script."""

import os

import numpy as np

import c2step
import c2step.hooks
import c2step.importer.inputs
import c2step.recording

here = os.path.dirname(os.path.abspath(__file__))
session = %s'''


def opening(options: Dict[str, Any]) -> str:
    """The expression that opens a session with these options of `c2step.open`; those that are not given stay out."""
    words: List[str] = [repr(options.get("model"))]
    for name, value in options.items():
        if name == "max_bytes" and value is not None:
            words.append("keep=c2step.recording.Keep(max_bytes=%d, on_full='stop')" % value)
        elif name == "preprocess":
            words.append("preprocess=c2step.importer.inputs.%r" % (value,))
        elif name != "model" and value is not None and value is not False and value not in ([], {}):
            words.append("%s=%r" % (name, value))
    return "c2step.open(%s)" % ", ".join(words)
