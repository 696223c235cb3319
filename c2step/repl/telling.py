"""What a verb that ran operators says, and the exit status that it stands for."""

from typing import TYPE_CHECKING, Iterable, List

from ..errors import ExitStatus
from ..net import Net
from ..render import next_line, quote, stop_text
from ..sizes import counted
from .context import Context
from .frames import Event
from .registry import Result
from .stops import at_stop

if TYPE_CHECKING:
    from ..stepper import Stop

__all__ = ["STATUSES", "stopped", "told"]

STATUSES = {
    "failed": ExitStatus.OPERATOR,
    "died": ExitStatus.DIED,
    "timeout": ExitStatus.DIED,
    "interrupted": ExitStatus.INTERRUPTED,
    "full": ExitStatus.CAPTURE,
}


def stopped(context: Context, stop: "Stop") -> Result:
    """What a stop says, and the exit status that it stands for."""
    return _stopped(context, stop, context.net, [])


def _stopped(context: Context, stop: "Stop", net: Net, before: List[str]) -> Result:
    before = context.frames.lost() + before
    said, compared = at_stop(context, stop)
    status = STATUSES.get(stop.reason, ExitStatus.OK)
    return Result("\n".join(before + [stop_text(stop, net, said)]), False, status, stop.hits, compared)


def told(context: Context, events: Iterable[Event]) -> List[Result]:
    """What each event says, and the exit status that it stands for."""
    return [_told(context, event) for event in events]


def _told(context: Context, event: Event) -> Result:
    if event.entered is not None:
        return Result("\n".join(_entered(event)))
    stop = event.leaving.stop if event.leaving else event.stop
    assert stop is not None
    said = _left(event) if event.leaving else ["%s; it runs as one" % event.opaque] if event.opaque else []
    return _stopped(context, stop, event.net, said)


def _entered(event: Event) -> List[str]:
    inside = event.entered
    assert inside is not None
    spans = [label for label, _, _ in inside.spans]
    shown = spans if len(spans) < 5 else spans[:2] + ["..."] + spans[-2:]
    heading = "entered %s: %s (%s)" % (inside.operator, counted(inside.session.net_size, "operator"), ", ".join(shown))
    return [heading, next_line(event.net, inside.session.position)]


def _left(event: Event) -> List[str]:
    inside, leaving = event.left, event.leaving
    assert inside is not None and leaving is not None
    if not leaving.stop.steps or leaving.stop.steps[-1].status != "ok":
        return []
    if leaving.same and not inside.results:
        names = ", ".join(map(quote, inside.operator.outputs))
        return ["left %s: the nets inside write none of its outputs (%s)" % (inside.operator, names)]
    if leaving.same:
        outputs = counted(len(inside.results), "output")
        return ["left %s: run as one it gives the same bytes (%s)" % (inside.operator, outputs)]
    if leaving.lines:
        return ["left %s: run as one it gives other values: %s" % (inside.operator, "; ".join(leaving.lines))]
    return ["left %s before its end: it ran as one" % inside.operator]
