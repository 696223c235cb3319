"""The near side of an engine: a process in another interpreter, asked one thing at a time.

An engine may die or hang; then it is named what it was at.  It needs nothing of ours installed: it
gets these files by their place, so that the other interpreter's own packages stay in force.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

from .. import errors
from ..errors import ELSEWHERE, ReferenceFailed, RuntimeMissing, WorkerDied, WorkerTimeout

__all__ = ["Engine", "Heard", "Shown"]

Heard = Callable[[Dict[str, Any]], None]
Shown = Callable[[str], None]

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_START = """
import sys, types
sys.path[:] = [place for place in sys.path if place]
for name, place in %r:
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [place]
for name in %r:
    try:
        __import__(name)
    except Exception:  # it is said where it is needed
        pass
from c2step.references.engines.%s import main
main()
"""
_PACKAGES = [
    ("c2step", _ROOT),
    ("c2step.references", os.path.join(_ROOT, "references")),
    ("c2step.references.engines", os.path.join(_ROOT, "references", "engines")),
]


class Engine:
    """One running engine, `module` of `references.engines` in the interpreter `python`.

    `shown` gets each line that the engine or its libraries print.
    """

    def __init__(
        self, python: str, module: str, name: str, shown: Optional[Shown] = None, ahead: Optional[Sequence[str]] = None
    ) -> None:
        """Start it and wait until it answers; RuntimeMissing or ReferenceFailed where it does not.

        One that is started `ahead` loads the libraries that are named there meanwhile: `greet` waits for it later.
        """
        self.python, self.name, self.version = python, name, ""
        self.shown = shown
        self._said: List[str] = []
        self._read_to = 0
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the engine
        self._doing: Dict[str, Any] = {}
        try:
            self._process = subprocess.Popen(
                [python, "-c", _START % (_PACKAGES, list(ahead or ()), module)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                start_new_session=True,
            )
        except OSError as error:
            self._printed.close()
            raise RuntimeMissing(
                "cannot start %s: %s" % (python, error.strerror or error), "name an interpreter that has %s" % name
            ) from error
        self._replies: "queue.Queue[Optional[bytes]]" = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if ahead is None:
            self.greet()

    def greet(self) -> None:
        """Wait until it answers; ReferenceFailed where it does not."""
        if self.version:
            return
        try:
            self.version = self._wait(None, None)["python"]
        except WorkerDied as death:
            self.close()
            words = self._said[-1] if self._said else death.message
            raise ReferenceFailed("%s cannot run %s: %s" % (self.python, self.name, words), ELSEWHERE) from death

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(
        self, request: Dict[str, Any], heard: Optional[Heard] = None, timeout: Optional[float] = None
    ) -> Dict[str, Any]:
        """Send a request and return its answer; `heard` gets the events on the way.

        Raises ReferenceFailed where the engine refuses, WorkerDied where it ends, WorkerTimeout
        where it says nothing for `timeout` seconds.  An interrupt ends the engine and passes on.
        """
        assert self._process.stdin is not None
        self._doing = {}
        with contextlib.suppress(OSError):  # it ended before: the reply queue says how
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        return self._wait(heard, timeout)

    def _wait(self, heard: Optional[Heard], timeout: Optional[float]) -> Dict[str, Any]:
        while True:
            try:
                line = self._replies.get(timeout=timeout)
            except queue.Empty:
                raise self._hung(timeout) from None
            except BaseException:
                self.kill()
                raise
            self._show()
            if line is None:
                raise self._death()
            message = json.loads(line.decode())
            if "event" not in message:
                return self._answer(message)
            if "doing" in message["event"]:
                self._doing = message["event"]
            if heard is not None:
                heard(message["event"])

    def _answer(self, message: Dict[str, Any]) -> Dict[str, Any]:
        if "refused" in message:
            raise getattr(errors, message["class"])(message["refused"], message["hint"])
        if "bug" in message:
            missing = [line for line in message["bug"].splitlines() if line.startswith("ModuleNotFoundError")]
            if missing:
                raise ReferenceFailed("%s cannot run %s: %s" % (self.python, self.name, missing[-1]), ELSEWHERE)
            raise RuntimeError("%s in %s:\n%s" % (self.name, self.python, message["bug"]))
        done: Dict[str, Any] = message["done"]
        return done

    def _death(self) -> WorkerDied:
        code = self._process.wait()
        self._show()
        how = _signal_name(code) if code < 0 else "exit status %d" % code
        doing = self._doing.get("doing", "")
        return WorkerDied(
            "%s ended by %s%s" % (self.name, how, " at " + doing if doing else ""),
            "values up to there are kept",
            signal=how,
            index=self._doing.get("at"),
        )

    def _hung(self, timeout: Optional[float]) -> WorkerTimeout:
        self.kill()
        doing = self._doing.get("doing", "")
        return WorkerTimeout(
            "%s said nothing for %g s%s" % (self.name, timeout or 0, " at " + doing if doing else ""),
            "give it more time",
            signal="SIGKILL",
            index=self._doing.get("at"),
        )

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith(b"\n"):
                self._replies.put(line)
        self._replies.put(None)

    def _show(self) -> None:
        """Pass on the lines that were printed since the last time."""
        data = os.pread(self._printed.fileno(), 1 << 20, self._read_to)  # the process writes at the file's own offset
        whole = data.rfind(b"\n") + 1 or (len(data) if self._process.poll() is not None else 0)
        self._read_to += whole
        for line in data[:whole].decode(errors="replace").splitlines():
            self._said = self._said[-20:] + [line]
            if self.shown is not None:
                self.shown(line)

    def kill(self) -> None:
        """End the process at once."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Let the process end, and end it where it does not."""
        if self._process.stdin is not None:
            _close(self._process.stdin)
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join(timeout=2)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._printed.close()


def _close(pipe: Any) -> None:
    with contextlib.suppress(OSError):
        pipe.close()


def _signal_name(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return "signal %d" % -code
