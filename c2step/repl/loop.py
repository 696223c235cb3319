"""The loops that read command lines: the prompt for a person, command files without a terminal."""

import importlib
import os
import traceback
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Optional

from ..errors import C2StepError, ExitStatus
from .commands import all_commands
from .completion import prompt_completer
from .context import Context
from .environment import Environment
from .interpreter import Interpreter
from .registry import Result

if TYPE_CHECKING:
    from ..compare.against import Against
    from ..compare.tolerance import Tolerances
    from ..resuming import Checkpoints
    from ..stepper import Session

__all__ = ["beside_prompt", "interact", "load_ahead", "make_interpreter", "prompt_reader", "run_commands", "run_file"]


def make_interpreter(
    session: "Session",
    environment: Environment,
    against: Optional["Against"] = None,
    tolerances: Optional["Tolerances"] = None,
    checkpoints: Optional["Checkpoints"] = None,
) -> Interpreter:
    """An interpreter of every command over a session, with golden values and tolerances if there are.

    `checkpoints` get what the prompt has beside the session, and give it back where that was resumed.
    """
    interpreter = Interpreter(Context(session, environment), all_commands())
    interpreter.context.tolerances = tolerances
    interpreter.context.load(against)
    for ref in checkpoints.prompt.get("displays", ()) if checkpoints else ():
        with suppress(C2StepError):
            list(interpreter.run("display %s" % ref))
    interpreter.context.checkpoints = checkpoints
    return interpreter


def run_commands(
    session: "Session",
    text: str,
    environment: Environment,
    origin: str = "-c",
    against: Optional["Against"] = None,
    tolerances: Optional["Tolerances"] = None,
    checkpoints: Optional["Checkpoints"] = None,
) -> ExitStatus:
    """Run command lines without a terminal, each echoed before what it says.

    Ends at the first user error with its exit status, and at `quit`.  Otherwise the status is that of
    the last command that ran operators: OPERATOR when one failed, DIED when its process ended, OK when
    a later command recovered; and DIFFERS when all ran but a `compare` differed.
    """
    interpreter = make_interpreter(session, environment, against, tolerances, checkpoints)
    return _run_lines(interpreter, text.splitlines(), origin)


def _run_lines(interpreter: Interpreter, lines: Iterable[str], origin: str) -> ExitStatus:
    environment = interpreter.context.environment
    try:
        interpreter.aliases.read(environment.config_dir)
        for result in interpreter.script(lines, origin):
            interpreter.context.show(result.text)
            if result.stop or result.status is ExitStatus.INTERRUPTED:
                break
    except C2StepError as error:
        interpreter.context.complain(str(error))
        return error.status
    except UnicodeDecodeError as error:
        environment.complain("cannot read %s: %s" % (origin, error))
        return ExitStatus.USAGE
    finally:
        interpreter.context.close()
    return interpreter.status


def run_file(
    session: "Session",
    path: str,
    environment: Environment,
    against: Optional["Against"] = None,
    tolerances: Optional["Tolerances"] = None,
    checkpoints: Optional["Checkpoints"] = None,
) -> ExitStatus:
    """Run a command file as `run_commands` does; `-` reads standard input, a line as it comes."""
    if path == "-":
        interpreter = make_interpreter(session, environment, against, tolerances, checkpoints)
        return _run_lines(interpreter, environment.stdin, "standard input")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        environment.complain("cannot read %s: %s" % (path, getattr(error, "strerror", None) or error))
        return ExitStatus.USAGE
    return run_commands(session, text, environment, path, against, tolerances, checkpoints)


def interact(
    session: "Session",
    environment: Environment,
    read: Optional[Callable[[], str]] = None,
    against: Optional["Against"] = None,
    tolerances: Optional["Tolerances"] = None,
    checkpoints: Optional["Checkpoints"] = None,
) -> ExitStatus:
    """Prompt for commands until `quit` or Ctrl-D; a command file on standard input runs as such.

    An error is shown and the prompt comes back: at the prompt no mistake ends a session.  `read` is for
    tests and other front ends; it returns a line, or raises EOFError.
    """
    if read is None and not environment.is_tty:
        return run_file(session, "-", environment, against, tolerances, checkpoints)
    interpreter = make_interpreter(session, environment, against, tolerances, checkpoints)
    try:
        interpreter.aliases.read(environment.config_dir)
    except C2StepError as error:
        environment.complain(str(error))
    read = read or prompt_reader(interpreter)
    going = True
    while going:
        try:
            line = read()
        except KeyboardInterrupt:  # Ctrl-C clears the line, and gives up what is being collected
            if interpreter.collecting:
                interpreter.end_collecting(False)
                interpreter.context.show("given up; the commands are as they were")
            continue
        except EOFError:
            going = interpreter.collecting
            interpreter.end_collecting(True)
            continue
        going = _answer(interpreter, line)
    interpreter.context.close()
    return ExitStatus.OK


def _answer(interpreter: Interpreter, line: str) -> bool:
    """Show what a line gives; False when the session should end."""
    context = interpreter.context
    context.note(interpreter.prompt + line)
    try:
        return _show_all(interpreter.run(line), context)
    except C2StepError as error:
        context.complain(str(error))
    except KeyboardInterrupt:
        context.show("interrupted")
    except Exception:  # a bug of ours; the person's session is worth more than a clean end
        context.complain("this is a bug in c2step\n" + traceback.format_exc().rstrip())
    return True


def _show_all(results: Iterable[Result], context: Context) -> bool:
    for result in results:
        context.show(result.text)
        if result.stop:
            return False
    return True


def load_ahead(environment: Environment) -> None:
    """Load what the prompt needs, where one will be shown; it takes as long as half a worker takes to start."""
    if environment.is_tty:
        importlib.import_module("prompt_toolkit.shortcuts")


def prompt_reader(interpreter: Interpreter, **streams: Any) -> Callable[[], str]:
    """Reads lines with prompt_toolkit: history across sessions, Tab completion; `streams` are its input and output."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History, InMemoryHistory
    from prompt_toolkit.shortcuts import CompleteStyle

    path = interpreter.context.environment.history_file
    history: History = file_history(path) if _private_file(path) else InMemoryHistory()
    session: "PromptSession[str]" = PromptSession(
        lambda: interpreter.prompt,
        history=history,
        completer=prompt_completer(interpreter),
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
        enable_history_search=True,
        **streams,
    )
    return session.prompt


@contextmanager
def beside_prompt() -> Iterator[None]:
    """While a prompt waits, what other threads print to standard output appears above it."""
    from prompt_toolkit.patch_stdout import patch_stdout

    with patch_stdout(raw=True):
        yield


def file_history(path: str) -> Any:
    """The lines of earlier sessions, and those of this one; a file that can no longer be written ends nothing."""
    from prompt_toolkit.history import FileHistory

    class Lines(FileHistory):
        def store_string(self, string: str) -> None:
            with suppress(OSError):
                super().store_string(string)

    return Lines(path)


def _private_file(path: str) -> bool:
    """Make a file that only its owner reads, if the place allows it."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        os.chmod(path, 0o600)  # one that an earlier umask left open
    except OSError:
        return False
    return True
