"""Runs lines: splits them, finds the command, calls it, and keeps what the outcome was.

The exit status of a whole run: a user error ends it with that error's status.  An operator that
fails or dies is no user error: the text says it and the next command runs.  At the end the status is
that of the last command that ran operators (so `skip` or a later `run` that succeeds recovers), and if
that is good, DIFFERS when any `compare` differed, INCONCLUSIVE when one could not tell.
"""

import re
import signal
import threading
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Iterable, Iterator, List, Optional, Tuple

from ..errors import C2StepError, ExitStatus, OperatorError, UsageError, WorkerDied
from .context import USER_CODE, Context
from .lexer import split_commands
from .registry import Command, CommandTable, Result

if TYPE_CHECKING:
    from ..stepper import Session

__all__ = ["PROMPT", "Interpreter"]

PROMPT = "(c2step) "
INTERRUPTED = Result("interrupted", status=ExitStatus.INTERRUPTED)
_NAME = re.compile(r"\S+")


class Interpreter:
    """Command lines in, results out; remembers the line that an empty line repeats."""

    def __init__(self, context: Context, table: CommandTable) -> None:
        self.context = context
        self.table = table
        self._repeat = ""
        self._ran = ExitStatus.OK
        self._compared = ExitStatus.OK  # DIFFERS outweighs INCONCLUSIVE
        self._sources: List[str] = []
        context.interpreter = self

    @property
    def status(self) -> ExitStatus:
        """How the run so far has ended."""
        return self._ran or self._compared

    def run(self, line: str) -> Iterator[Result]:
        """Run the commands of one line, one result each; an empty line repeats the last step-like one."""
        for text in split_commands(line) or ([self._repeat] if self._repeat and not line.strip() else []):
            for result in self._run_one(text):
                yield result
                if result.stop or result.status is ExitStatus.INTERRUPTED:
                    return

    def _run_one(self, text: str) -> Iterator[Result]:
        item, words = self.find(text)
        if item.repeats:
            self._repeat = text
        try:
            for result in self._results(item, words):
                self._note(result)
                yield result
        except (OperatorError, WorkerDied) as error:  # not the user's to mend, and the session goes on
            result = Result("error: %s" % error, status=error.status)
            self._note(result)
            yield result
        except KeyboardInterrupt:
            self._note(INTERRUPTED)
            yield INTERRUPTED

    def _results(self, item: Command, words: str) -> Iterator[Result]:
        with _interruptible(self.context.session) as interrupts:
            outcome = item.call(words, self.context)
        if isinstance(outcome, str):
            outcome = Result(outcome)
        if isinstance(outcome, Result):
            yield outcome
            if interrupts and outcome.status is not ExitStatus.INTERRUPTED:
                yield INTERRUPTED
        else:
            yield from outcome

    def _note(self, result: Result) -> None:
        if result.status in (ExitStatus.DIFFERS, ExitStatus.INCONCLUSIVE):
            self._compared = min(result.status, self._compared or result.status)
        elif result.status is not None:
            self._ran = result.status

    def find(self, text: str) -> Tuple[Command, str]:
        """The command that a text begins with, and the words after it."""
        if text.startswith("!"):
            return self.table.find("!"), text[1:]
        match = _NAME.match(text)
        name = match.group() if match else ""
        return self.table.find(name), text[len(name) :]

    def script(self, lines: Iterable[str], origin: str) -> Iterator[Result]:
        """Run lines as a command file does: each command is echoed before what it says."""
        if origin in self._sources:
            raise UsageError("%s would run itself" % origin)
        self._sources.append(origin)
        try:
            for number, line in enumerate(lines, 1):
                yield from self._script_line(line, "%s line %d" % (origin, number))
        finally:
            self._sources.pop()

    def _script_line(self, line: str, where: str) -> Iterator[Result]:
        for command in split_commands(line):
            yield Result(PROMPT + command)
            try:
                yield from self._run_one(command)
            except C2StepError as error:
                error.message = "%s: %s" % (where, error.message)
                raise


@contextmanager
def _interruptible(session: "Session") -> Iterator[List[int]]:
    """While a command runs, Ctrl-C stops it between operators, and a second one ends the operator.

    The user's own Python gets KeyboardInterrupt, as it would anywhere else; never in the middle of
    our own code, which would be left with half an answer from the worker.
    """
    interrupts: List[int] = []

    def stop(number: int, frame: Optional[FrameType]) -> None:
        if _in_user_code(frame):
            raise KeyboardInterrupt
        interrupts.append(number)
        if len(interrupts) == 1:
            session.interrupt()
        else:
            session.kill()

    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def _in_user_code(frame: Optional[FrameType]) -> bool:
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("c2step."):
        if frame.f_code.co_filename == USER_CODE:
            return True
        frame = frame.f_back
    return False
