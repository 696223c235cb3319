"""Commands for breakpoints and watches."""

from typing import Callable, Dict, List, Optional, Sized

from ...breakpoints import Breakpoint
from ...errors import UsageError
from ...render import quote, table
from ...sizes import counted
from ..context import Context
from ..places import StopPlace, WatchPlace
from ..registry import command
from ..types import BreakpointNumber, Choice, Count, FilePath
from .changing import edits_text, patches_text
from .displaying import displays_text


class Topic(Choice):
    """What `info` can tell."""

    label = "TOPIC"
    choices = ("breakpoints", "wraps", "display", "patches", "edits", "catch")
    about = "one of breakpoints, wraps, display, patches, edits, catch"


class Hits(Count):
    """How many hits."""

    label = "COUNT"
    about = "how many hits, 1 or more"


class Trouble(Choice):
    """What can end a run."""

    label = "error|crash"
    choices = ("error", "crash")
    about = "error: an operator that raises; crash: one that ends its process"


@command("break", aliases=("b", "br"))
def break_(context: Context, place: StopPlace) -> str:
    """Stop before an operator whenever the position comes to it, or where a condition holds.

    break 12                  before operator 12
    break MaxPool             before every MaxPool
    break conv1               before the operators that write conv1
    break 'conv*'             before operators whose type, node or outputs fit the pattern
    break if nan              after any operator that gives a NaN; so too inf
    break Conv if max > 10    min, max, absmax, mean, std, zeros, nan, inf, size, shape, dtype of an output
    break if shape != (1, 64, 56, 56)
    break if input.max > 1e6  of an input; conv1.max, blob("a b").max of a blob
    break if cos < 0.999      against the loaded reference; also fail, max_abs, max_rel, rel_l2, ulp, bad (as `compare`)
    break relu1 if (relu1 == 0).mean() > 0.9    any Python over the arrays
    """
    return _made(context, place, False)


@command(aliases=("tb",))
def tbreak(context: Context, place: StopPlace) -> str:
    """Stop as `break` does, once; the breakpoint is deleted when it is reached."""
    return _made(context, place, True)


def _made(context: Context, place: StopPlace, temporary: bool) -> str:
    made = context.session.set_break(place.where, temporary=temporary, condition=place.condition)
    return "%s %d %s" % (made.word, made.number, _place_text(made))


def _place_text(point: Breakpoint) -> str:
    return "%s%s" % ("at %s" % quote(point.where), " if %s" % point.condition if point.condition else "")


@command()
def watch(context: Context, place: WatchPlace) -> str:
    """Stop after an operator that changes a blob, be it named or one that shares storage with an output.

    watch relu1
    watch relu1 if max > 6     only where a condition holds too; see `break`
    """
    made = context.session.watch(place.where, place.condition)
    return "watch %d %s" % (made.number, _place_text(made))


@command(aliases=("d",))
def delete(context: Context, numbers: Optional[List[BreakpointNumber]] = None) -> str:
    """Delete breakpoints or watches, or all of them."""
    chosen = [point for point in _chosen(context, numbers) if numbers or not point.owner]
    for point in chosen:
        context.session.delete_break(point.number)
    lines = ["deleted %s %d" % (point.word, point.number) for point in chosen]
    stay = [] if chosen else ["%s stays, and goes with unwrap" % point.owner for point in context.session.breakpoints]
    return "\n".join(lines + stay) or "no breakpoint is set"


def _chosen(context: Context, numbers: Optional[List[BreakpointNumber]]) -> List[Breakpoint]:
    """The breakpoints of these numbers, without any all; UsageError where one of them is not there."""
    if not numbers:
        return list(context.session.breakpoints)
    return [context.session.breakpoint(number) for number in dict.fromkeys(numbers)]


@command()
def enable(context: Context, numbers: Optional[List[BreakpointNumber]] = None) -> str:
    """Let breakpoints stop again, or all of them."""
    return _switched(context, numbers, True)


@command()
def disable(context: Context, numbers: Optional[List[BreakpointNumber]] = None) -> str:
    """Let breakpoints, or all of them, stop nothing until they are enabled."""
    return _switched(context, numbers, False)


def _switched(context: Context, numbers: Optional[List[BreakpointNumber]], on: bool) -> str:
    points = _chosen(context, numbers)
    for point in points:
        context.session.enable(point.number, on)
    return "\n".join("%s %d" % ("enabled" if on else "disabled", p.number) for p in points) or "no breakpoint is set"


@command()
def ignore(context: Context, number: BreakpointNumber, count: Hits) -> str:
    """Let the next COUNT hits of a breakpoint go by."""
    context.session.ignore(number, count)
    return "breakpoint %d lets %s go by" % (number, counted(count, "hit"))


@command()
def commands(context: Context, number: BreakpointNumber) -> str:
    """Take the lines that follow, up to `end` (or Ctrl-D), as commands that are run at each stop there.

    commands 1
    inspect conv1[0, :5]
    continue
    end

    `commands 1` and at once `end` takes them away.
    """
    session = context.session
    session.breakpoint(number)
    context.interpreter.collect(lambda lines: session.set_commands(number, lines))
    return "their lines, up to end; Ctrl-C leaves them as they were" if context.environment.is_tty else ""


@command()
def catch(context: Context, trouble: Trouble) -> str:
    """Stop at operators that raise (error) or end their process (crash); both are caught from the start."""
    context.session.catching.add(trouble)
    return _catching(context)


@command()
def uncatch(context: Context, trouble: Trouble) -> str:
    """Go on past operators that raise or end their process, as `skip` does."""
    context.session.catching.discard(trouble)
    return _catching(context)


def _catching(context: Context) -> str:
    caught = sorted(context.session.catching)
    return "caught: %s" % (", ".join(caught) or "nothing; a run goes on past what fails")


@command()
def info(context: Context, topic: Optional[Topic] = None) -> str:
    """Show breakpoints with hit counts, wraps, displays, patches, edits, or what is caught.

    Without a topic it lists the topics.
    """
    texts: Dict[str, Callable[[Context], str]] = {
        "breakpoints": breakpoints_text,
        "wraps": wraps_text,
        "display": displays_text,
        "patches": patches_text,
        "edits": edits_text,
        "catch": _catching,
    }
    if topic is not None:
        return texts[topic](context)
    session = context.session
    held: List[Sized] = [session.breakpoints, session.wraps, context.displays.all, session.changes.patches]
    held.append(session.changes.edits)
    counts = {name: str(len(things)) for name, things in zip(texts, held) if things}
    return "\n".join(table([["info " + name, counts.get(name) or text(context)] for name, text in texts.items()]))


def breakpoints_text(context: Context) -> str:
    """The breakpoints, one a line, each with its commands."""
    lines: List[List[str]] = [["number", "where", "kind", "enabled", "hits"]]
    for item in context.session.breakpoints:
        lines.append([str(item.number), quote(item.where), _kind(item), "yes" if item.enabled else "no", _hits(item)])
        lines += [["", "    %s" % text] for text in item.commands]
    return "\n".join(table(lines)) if len(lines) > 1 else "no breakpoint is set"


def _kind(item: Breakpoint) -> str:
    word = item.owner or "watch" if item.owner or item.watch else "once" if item.temporary else "always"
    return "%s if %s" % (word, item.condition) if item.condition else word


def _hits(item: Breakpoint) -> str:
    return "%d, %d to ignore" % (item.hits, item.ignore) if item.ignore else str(item.hits)


def wraps_text(context: Context) -> str:
    """The wrapped types, one a line."""
    effects = context.session.wrap_effects
    rows = []
    for pattern, folder in context.session.wraps.items():
        said = ["saved to %s" % quote(folder) if folder else "", effects.get(pattern, "")]
        rows.append([quote(pattern), "; ".join(filter(None, said))])
    return "\n".join(table(rows)) or "nothing is wrapped"


@command("save-breakpoints")
def save_breakpoints(context: Context, file: FilePath) -> str:
    """Write the breakpoints, watches, their commands and the displays as a command file, for `source`."""
    points = context.session.breakpoints
    lines = [line for point in points for line in _as_commands(point)]
    lines += ["display %s" % ref for _, ref in context.displays.all]
    try:
        with open(file, "w", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
    except OSError as error:
        raise UsageError("cannot write %s: %s" % (quote(file), error.strerror)) from None
    return "saved %s to %s" % (counted(len(points), "breakpoint"), quote(file))


def _as_commands(point: Breakpoint) -> List[str]:
    verb = "watch" if point.watch else "tbreak" if point.temporary else "break"
    lines = ["%s %s%s" % (verb, quote(point.where), " if %s" % point.condition if point.condition else "")]
    lines += ["ignore $ %d" % point.ignore] if point.ignore else []
    lines += [] if point.enabled else ["disable $"]
    return lines + (["commands $", *point.commands, "end"] if point.commands else [])
