"""Commands about the nets inside operators."""

from typing import List

from ...nested import nets_inside
from ...render import listing, next_line
from ..context import Context
from ..registry import Result, command
from ..telling import told


@command(aliases=("fin",))
def finish(context: Context) -> List[Result]:
    """Run the rest of what was entered, and leave it.

    Then the operator itself runs, and whether it gives the same bytes is said.
    """
    return told(context, context.frames.finish())


@command()
def up(context: Context) -> str:
    """Look at the net around the one that is looked at; `step` goes on in the innermost one."""
    return _select(context, 1)


@command()
def down(context: Context) -> str:
    """Look at the net further inside again, after `up`."""
    return _select(context, -1)


def _select(context: Context, by: int) -> str:
    context.frames.select(by)
    return "\n".join(context.frames.lines() + [next_line(context.net, context.session.position)])


def inside_text(context: Context, index: int) -> str:
    """The nets inside an operator, listed."""
    found = nets_inside(context.session, str(index))
    parts = []
    for argument, net in found:
        parts.append("%s: %s" % (argument, net.name or "no name"))
        parts.append(listing(net, lambda index: ".", -1, 0, len(net), []))
    return "\n".join(parts)
