"""Commands for breakpoints."""

from typing import List, Optional

from ...render import quote, table
from ..context import Context
from ..registry import command
from ..types import BreakpointNumber, Choice, OperatorPattern


class Topic(Choice):
    """What `info` can tell."""

    label = "TOPIC"
    choices = ("breakpoints", "wraps")
    about = "one of breakpoints, wraps"


@command("break", aliases=("b", "br"))
def break_(context: Context, where: OperatorPattern) -> str:
    """Stop before an operator whenever the position comes to it.

    break 12          before operator 12
    break MaxPool     before every MaxPool
    break conv1       before the operators that write conv1
    break 'conv*'     before operators whose type, node or outputs fit the pattern
    """
    return _made(context, where, False)


@command(aliases=("tb",))
def tbreak(context: Context, where: OperatorPattern) -> str:
    """Stop before an operator once; the breakpoint is deleted when it is reached."""
    return _made(context, where, True)


def _made(context: Context, where: str, temporary: bool) -> str:
    made = context.session.set_break(where, temporary=temporary)
    return "%s %d at %s" % ("temporary breakpoint" if temporary else "breakpoint", made.number, quote(made.where))


@command(aliases=("d",))
def delete(context: Context, number: Optional[BreakpointNumber] = None) -> str:
    """Delete a breakpoint, or all of them."""
    numbers: List[int] = [number] if number is not None else [b.number for b in list(context.session.breakpoints)]
    for each in numbers:
        context.session.delete_break(each)
    return "\n".join("deleted breakpoint %d" % each for each in numbers) or "no breakpoint is set"


@command()
def info(context: Context, topic: Topic) -> str:
    """Show the breakpoints with their hit counts, or the wrapped types."""
    return breakpoints_text(context) if topic == "breakpoints" else wraps_text(context)


def breakpoints_text(context: Context) -> str:
    """The breakpoints, one a line."""
    rows = [["number", "where", "kind", "enabled", "hits"]]
    for item in context.session.breakpoints:
        rows.append(
            [
                str(item.number),
                quote(item.where),
                "once" if item.temporary else "always",
                "yes" if item.enabled else "no",
                str(item.hits),
            ]
        )
    return "\n".join(table(rows)) if len(rows) > 1 else "no breakpoint is set"


def wraps_text(context: Context) -> str:
    """The wrapped types, one a line."""
    rows = [
        [quote(pattern), "saved to %s" % quote(folder) if folder else "kept in the capture"]
        for pattern, folder in context.session.wraps.items()
    ]
    return "\n".join(table(rows)) or "nothing is wrapped"
