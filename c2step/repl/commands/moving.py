"""Commands that run operators or move the position."""

from typing import List

from ..context import Context
from ..registry import Result, command
from ..telling import stopped, told
from ..types import ONCE, Count, Where


@command(aliases=("s",), repeats=True)
def step(context: Context, count: Count = ONCE) -> List[Result]:
    """Run the next operator, or the next N; one with nets inside is entered.

    Stops early at an operator that fails and at the end of the net.  `finish` leaves what was entered.
    """
    return told(context, context.frames.step(count))


@command("next", aliases=("n",), repeats=True)
def next_(context: Context, count: Count = ONCE) -> List[Result]:
    """Run the next operator, or the next N, without entering nested nets."""
    return told(context, context.frames.next(count))


@command(aliases=("u",), repeats=True)
def until(context: Context, where: Where) -> Result:
    """Run to just before an operator.

    until 12        to operator 12
    until conv1     to the operator that writes conv1
    until MaxPool   to the next MaxPool
    """
    return stopped(context, context.session.until(where))


@command("continue", aliases=("c", "cont"), repeats=True)
def continue_(context: Context) -> List[Result]:
    """Run to a breakpoint, a failure or the end of the net.

    Ctrl-C stops it between two operators; a second Ctrl-C ends the operator that runs.
    """
    return told(context, context.frames.cont())


@command(aliases=("r",))
def run(context: Context, count: Count = ONCE) -> Result:
    """Run the net to its end, once or N times, as a benchmark or a training loop would.

    Blobs keep their values from one run to the next; `restart` begins anew.
    """
    return stopped(context, context.session.run(count))


@command()
def restart(context: Context) -> Result:
    """Begin anew: init_net runs again, the inputs are fed again, the position is 0."""
    return stopped(context, context.session.restart())


@command(aliases=("rs", "reverse-step"), repeats=True)
def back(context: Context, count: Count = ONCE) -> Result:
    """Go back one operator, or N: the blobs that they overwrote get their recorded values again."""
    return stopped(context, context.session.back(count))


@command(repeats=True)
def skip(context: Context, count: Count = ONCE) -> Result:
    """Step over the next operator, or the next N, without running them; their outputs stay as they are."""
    return stopped(context, context.session.skip(count))
