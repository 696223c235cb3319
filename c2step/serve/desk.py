"""A session that a prompt in the terminal and a page in the browser step together.

Everything runs in the main thread, one after the other: lines that are typed, actions of the page, and the
page's questions wait in one queue.  The page cannot send command lines: it sends a verb and its
arguments, and only those that are listed here.
"""

import queue
import threading
from typing import Any, Callable, Dict, List, Optional

from ..errors import C2StepError, UsageError
from ..history import Step
from ..render import quote
from ..repl.environment import Environment
from ..repl.interpreter import Interpreter
from ..repl.loop import make_interpreter
from ..repl.slices import parse_index
from ..report.source import Source, open_source
from ..stepper import Session
from .pages import Pages
from .server import Answer, json_answer

__all__ = ["Desk", "line_of"]

_COUNTED = ("step", "back", "skip")
_PLAIN = ("continue", "restart")
_PLACED = ("until", "break", "tbreak")
_STATUS = {"o": "ok", "?": "ok", "F": "failed", "D": "died"}


def line_of(values: Dict[str, str]) -> str:
    """The command line that an action stands for; UsageError for anything else."""
    verb = values.get("verb", "")
    if verb in _COUNTED:
        return "%s %d" % (verb, _whole(values.get("count", "1"), "count"))
    if verb in _PLAIN:
        return verb
    if verb in _PLACED:
        return "%s %d" % (verb, _whole(values["index"], "index"))
    if verb == "delete":
        return "delete %d" % _whole(values["number"], "number")
    if verb == "patch":
        part = values.get("slice", "").strip()
        if part:
            parse_index(part)
        return "patch %s%s = %r" % (quote(values["blob"], True), part, _number(values["value"]))
    raise UsageError("the page cannot do %s" % (verb or "nothing"))


def _whole(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError("%r is no %s" % (text, what), "a whole number is wanted") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        words = "%r is no number" % text if text.strip() else "no value is given"
        raise UsageError(words, "a number is wanted, such as 0 or 1e-3") from None


class Desk(Pages):
    """The pages of a session, and the queue of what is to be done with it."""

    def __init__(self, session: Session, environment: Environment) -> None:
        self.session = session
        self.environment = environment
        self.interpreter: Interpreter = make_interpreter(session, environment)
        self._jobs: "queue.Queue[Optional[Callable[[], None]]]" = queue.Queue()
        self._steps: Dict[int, Step] = {}
        self._said = ""
        self._ended = False
        super().__init__(session.capture_directory)

    # -- the page -----------------------------------------------------------------------------

    def get(self, path: str, values: Dict[str, str]) -> Optional[Answer]:
        """As for a capture, on the session as it is now."""
        return self._in_turn(lambda: self._fresh_get(path, values))

    def post(self, path: str, values: Dict[str, str]) -> Optional[Answer]:
        """Do one verb and answer with what it said, or stop what runs."""
        if path == "api/interrupt":
            self.session.interrupt()
            return json_answer({"text": "stopping"})
        if path != "api/do":
            return None
        line = line_of(values)
        return self._in_turn(lambda: json_answer({"text": self._do(line, "(page) "), "data": self.data()}))

    def opened(self) -> Source:
        """What was captured up to now, at first nothing; what lint found is the session's."""
        found = open_source(self.session.capture_directory, begun=False)
        return found._replace(findings=list(self.session.model.findings))

    def _fresh_get(self, path: str, values: Dict[str, str]) -> Optional[Answer]:
        self.source = self.opened()
        return super().get(path, values)

    def data(self) -> Dict[str, Any]:
        """The net with the status of each operator; what was taken back has no values."""
        self.source = self.opened()
        data = super().data()
        for op in data["operators"]:
            letter = self.session.status(op["index"])
            op["status"] = _STATUS.get(letter, "not run")
            if letter not in _STATUS:
                op.update(blobs=[], error=None, seconds=None)
        return data

    def extra(self) -> Dict[str, Any]:
        """Where the session stands."""
        session = self.session
        return {"session": {
            "position": session.position, "iteration": session.iteration, "size": session.net_size,
            "breakpoints": [{"number": b.number, "where": b.where, "text": str(b)} for b in session.breakpoints],
            "unfed": session.unfed(), "said": self._said,
        }}  # fmt: skip

    # -- the queue ----------------------------------------------------------------------------

    def _in_turn(self, job: Callable[[], Optional[Answer]]) -> Optional[Answer]:
        done = threading.Event()
        kept: List[Any] = [None, None]

        def run() -> None:
            try:
                kept[0] = job()
            except BaseException as error:
                kept[1] = error
            finally:
                done.set()

        self._jobs.put(run)
        done.wait()
        if kept[1] is not None:
            raise kept[1]
        answer: Optional[Answer] = kept[0]
        return answer

    def typed(self, line: str) -> bool:
        """Run a line of the terminal, in its turn; False when the session should end."""
        self._in_turn(lambda: self._type(line))
        return not self._ended

    def _type(self, line: str) -> None:
        self._do(line, "")

    def end(self) -> None:
        """End the session when all that is queued is done."""
        self._jobs.put(None)

    def run(self) -> None:
        """Do what is queued, in this thread, until the session ends."""
        while True:
            job = self._jobs.get()
            if job is None:
                return
            job()

    def _do(self, line: str, who: str) -> str:
        """Run a command line and show what it says in the terminal; returns the text."""
        if who:
            self.environment.show("%s%s" % (who, line))
        said = []
        try:
            for result in self.interpreter.run(line):
                said.append(result.text)
                self.environment.show(result.text)
                if result.stop:
                    self._ended = True
                    self.end()
        except C2StepError as error:
            self.environment.complain(str(error))
            said.append("error: %s" % error)
        self._said = "\n".join(filter(None, ["%s%s" % (who or "(c2step) ", line), *said]))
        return self._said
