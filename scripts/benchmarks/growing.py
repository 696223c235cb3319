"""As nets grow: the cost of an operator in a net of 100, 1,000 and 10,000, and of prompt commands there."""

from typing import Dict, List

from c2step.repl.interpreter import Interpreter
from c2step.repl.loop import make_interpreter
from c2step.stepper import Keep

from .setting import Setting
from .stepping import unseen
from .table import Row
from .timing import alternate, figure, timed

__all__ = ["commands", "growth"]

_SIZES = (100, 1000, 10000)
_LARGE = _SIZES[-1]
_COMMANDS = (
    "list", "where", "op", "op y4000", "info breakpoints", "who-wrote y4000", "who-reads y4000", "history y4000",
    "display y4999", "undisplay {display}", "break y6000", "break y6001 if nan", "tbreak 7000", "disable {point}",
    "enable {point}", "delete {point}", "blobs y499*", "inspect y4999", "print y4999", "stats y4999", "inputs",
    "outputs", "notes", "step", "back",
)  # fmt: skip


def growth(setting: Setting) -> List[Row]:
    """The cost of an operator, from 1,000 to 10,000 against from 100 to 1,000."""
    sessions = {size: setting.chain(size).session() for size in _SIZES}
    try:
        sides = {str(size): timed(session.run) for size, session in sessions.items()}
        seconds = alternate(sides, setting.rounds(15), 2)
    finally:
        for session in sessions.values():
            session.close()
    small, middle, large = (seconds[str(size)] for size in _SIZES)
    early = [(b - a) / (_SIZES[1] - _SIZES[0]) for a, b in zip(small, middle)]
    late = [(b - a) / (_SIZES[2] - _SIZES[1]) for a, b in zip(middle, large)]
    middling = figure(early).median
    return [
        Row("growth", "an operator more, from 1,000 to 10,000 of them", "from 100 to 1,000", "x", 1.25,
            figure([value / middling for value in late])),
    ]  # fmt: skip


def commands(setting: Setting) -> List[Row]:
    """The slowest prompt command in a net of 10,000 operators, half of which have run."""
    model = setting.chain(_LARGE)
    with model.session(Keep()) as session:
        interpreter = make_interpreter(session, unseen())
        session.step(_LARGE // 2)
        seconds: Dict[str, List[float]] = {command: [] for command in _COMMANDS}
        for _ in range(setting.rounds(9)):
            for command in _COMMANDS:
                line = command.format(**_numbers(interpreter))
                seconds[command].append(timed(lambda line=line: _typed(interpreter, line))())
            _typed(interpreter, "delete")
    milliseconds = {command: figure([s * 1e3 for s in times]) for command, times in seconds.items()}
    slow = sorted(milliseconds, key=lambda command: -milliseconds[command].median)
    note = "the slowest are %s" % ", ".join("`%s` %.1f ms" % (c, milliseconds[c].median) for c in slow[:4])
    what = "the slowest of %d prompt commands, %s operators" % (len(_COMMANDS), "{:,}".format(_LARGE))
    return [Row("commands", what, "-", "ms", 50.0, milliseconds[slow[0]], note)]


def _numbers(interpreter: Interpreter) -> Dict[str, int]:
    """The numbers of the newest display and of the oldest breakpoint; they go on from one round to the next."""
    displays, points = interpreter.context.displays.all, interpreter.context.session.breakpoints
    return {"display": displays[-1][0] if displays else 0, "point": points[0].number if points else 0}


def _typed(interpreter: Interpreter, line: str) -> None:
    for result in interpreter.run(line):
        interpreter.context.show(result.text)
