"""Runs lines: splits them, finds the command, calls it, and keeps what the outcome was.

The exit status of a whole run: a user error ends it with that error's status.  An operator that
fails or dies is no user error: the text says it and the next command runs.  At the end the status is
that of the last command that ran operators (so `skip` or a later `run` that succeeds recovers), and if
that is good, DIFFERS when any `compare` differed, INCONCLUSIVE when one could not tell.
"""

import itertools
import re
import signal
import threading
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, List, Optional, Tuple

from ..errors import C2StepError, ExitStatus, OperatorError, UsageError, WorkerDied
from ..handlers import set_handler
from .aliases import Aliases
from .context import USER_CODE, Context
from .lexer import split_commands
from .output import send, split_output
from .registry import Command, CommandTable, Result

if TYPE_CHECKING:
    from ..stepper import Session

__all__ = ["PROMPT", "Interpreter"]

PROMPT = "(c2step) "
INTERRUPTED = Result("interrupted", status=ExitStatus.INTERRUPTED)
_CALLERS = ("c2step.hooks", "c2step.conditions")  # they call the user's code, and do no more than that
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
        self._collecting: Optional[List[str]] = None  # the commands of a breakpoint, up to `end`
        self._collected: Callable[[List[str]], object] = lambda lines: None
        self.aliases = Aliases(table.words())
        context.interpreter = self

    @property
    def status(self) -> ExitStatus:
        """How the run so far has ended."""
        return self._ran or self._compared

    @property
    def prompt(self) -> str:
        """What to ask for a line with; another one while the commands of a breakpoint are typed."""
        return PROMPT if self._collecting is None else "> "

    def run(self, line: str) -> Iterator[Result]:
        """Run the commands of one line, one result each; an empty line repeats the last step-like one."""
        again = self._repeat and not line.strip() and self._collecting is None
        repeated = [self._repeat] if again else []
        for text in itertools.chain(self._commands(line), repeated):
            for result in self._run_one(text):
                yield result
                if result.stop or result.status is ExitStatus.INTERRUPTED:
                    return

    def _commands(self, line: str) -> Iterator[str]:
        """The commands of a line, as they come: one may define the alias that the next one is."""
        for command in split_commands(line):
            if self._collecting is not None:  # aliases among them wait until they are run
                yield command
            else:
                yield from self.aliases.expand(command)

    def collect(self, done: Callable[[List[str]], object]) -> None:
        """Take what comes, up to `end`, as the commands of a breakpoint, and hand it to `done`."""
        self._collecting, self._collected = [], done

    @property
    def collecting(self) -> bool:
        """Whether lines are taken as the commands of a breakpoint."""
        return self._collecting is not None

    def end_collecting(self, keep: bool) -> None:
        """End that; the commands are as they were before unless what came is to be kept."""
        lines, self._collecting = self._collecting, None
        if keep and lines is not None:
            self._collected(lines)

    def _run_one(self, text: str) -> Iterator[Result]:
        """Run a command, and where it stops at breakpoints, their commands; a further stop takes the rest's place."""
        if self._collecting is not None:
            if text == "end":
                self.end_collecting(True)
            else:
                self._collecting.append(text)
            self.context.remember()
            return
        waiting = [text]
        while waiting:
            hits: Tuple[int, ...] = ()
            for result in self._run_command(waiting.pop(0)):
                hits = result.hits or hits
                yield result
                if result.stop or result.status is ExitStatus.INTERRUPTED:
                    return
            self.context.remember()
            if hits:
                texts = [text for number in hits for text in self.context.session.commands_of(number)]
                waiting = [command for text in texts for command in self.aliases.expand(text)]

    def _run_command(self, text: str) -> Iterator[Result]:
        item, words = self.find(text)
        if item.repeats:
            self._repeat = text
        try:
            for result in self._results(item, words):
                self._note(result)
                yield result
        except (OperatorError, WorkerDied) as error:  # not the user's to mend, and the session goes on
            stopped = isinstance(error, WorkerDied) and error.by_user
            result = Result("error: %s" % error, status=ExitStatus.INTERRUPTED if stopped else error.status)
            self._note(result)
            yield result
        except KeyboardInterrupt:
            self._note(INTERRUPTED)
            yield INTERRUPTED
        self.context.typed(text)

    def _results(self, item: Command, words: str) -> Iterator[Result]:
        words, output = (words, None) if item.raw else split_output(words)
        results = self._outcome(item, words)
        if output is None:
            yield from results
            return
        found = list(results)
        logged = bool(self.context.log_path)
        shown = send([result.text for result in found], output, self.context.environment, logged)
        for number, result in enumerate(found):
            yield result._replace(text=shown if number == 0 else "")

    def _outcome(self, item: Command, words: str) -> Iterator[Result]:
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
        for status in (result.status, result.compared):
            if status in (ExitStatus.DIFFERS, ExitStatus.INCONCLUSIVE):
                self._compared = min(status, self._compared or status)
            elif status is not None:
                self._ran = status

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
            if self._collecting is not None and len(self._sources) == 1:
                self._collecting = None
                raise UsageError("%s ends among the commands of a breakpoint" % origin, "their last line is end")
        finally:
            self._sources.pop()

    def _script_line(self, line: str, where: str) -> Iterator[Result]:
        for command in self._commands(line):
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
    before = set_handler(signal.SIGINT, stop)
    try:
        yield interrupts
    finally:
        set_handler(signal.SIGINT, before)
        if interrupts:
            session.forget_interrupt()  # it was for this command, also where that ran no operator


def _in_user_code(frame: Optional[FrameType]) -> bool:
    """Whether what is typed at the prompt is running, or a hook, or a condition."""
    inner = frame
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("c2step."):
        if frame.f_code.co_filename == USER_CODE:
            return True
        frame = frame.f_back
    return frame is not None and frame is not inner and frame.f_globals["__name__"] in _CALLERS
