"""The nets that a prompt stands in: predict_net, and inside it the operators that were entered, like frames."""

from typing import TYPE_CHECKING, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..breakpoints import Breakpoint
from ..errors import C2StepError, UsageError, WorkerDied
from ..nested import Inside, Leaving, can_enter, enter
from ..net import Net

if TYPE_CHECKING:
    from ..stepper import Session, Stop

__all__ = ["Event", "Frames"]


class Event(NamedTuple):
    """One thing that a verb did: a stop in a net, an operator entered, left, or not to be entered (`opaque`)."""

    net: Net
    stop: Optional["Stop"] = None
    entered: Optional[Inside] = None
    left: Optional[Inside] = None
    leaving: Optional[Leaving] = None
    opaque: str = ""


class Frames:
    """The outermost session and the operators that were entered, innermost last; one of them is looked at."""

    def __init__(self, session: "Session") -> None:
        self._outermost = session
        self._entered: List[Inside] = []
        self._up = 0
        self._points: Dict[Tuple[int, ...], List[Breakpoint]] = {}  # of operators that were left, by their indices
        self._waiting: Dict[Tuple[int, ...], List[Breakpoint]] = {}  # those that have no place this time
        self._lost: List[str] = []

    # -- looking ------------------------------------------------------------------------------

    @property
    def selected(self) -> "Session":
        """The session that is looked at: the innermost one unless `up` was used."""
        self._settle()
        return self._at(len(self._entered) - self._up)

    @property
    def holding(self) -> Optional[Inside]:
        """The operator whose inside is looked at; None where that is the outermost net."""
        self._settle()
        depth = len(self._entered) - self._up
        return self._entered[depth - 1] if depth else None

    @property
    def innermost(self) -> "Session":
        """The session that steps."""
        self._settle()
        return self._at(len(self._entered))

    @property
    def outermost(self) -> "Session":
        """The session of predict_net."""
        return self._outermost

    @property
    def entered(self) -> List[Inside]:
        """The operators that were entered, outermost first."""
        self._settle()
        return self._entered

    def _at(self, depth: int) -> "Session":
        return self._entered[depth - 1].session if depth else self._outermost

    def _settle(self) -> None:
        """Close what is inside an operator that its session has left by another way."""
        for depth, inside in enumerate(self._entered):
            if inside.stale:
                self._lost += [str(gone.operator) for gone in self._entered[depth:]]
                self._close_from(depth)
                break

    def lost(self) -> List[str]:
        """What to say, once, of operators that were left because the net around them has moved."""
        self._settle()
        lost, self._lost = self._lost, []
        return ["no longer inside %s: the net around it has moved" % name for name in lost]

    def _close_from(self, depth: int) -> None:
        while len(self._entered) > depth:
            self._keep_points()
            self._entered.pop().close()
        self._up = min(self._up, len(self._entered))

    def _place(self) -> Tuple[int, ...]:
        return tuple(inside.operator.index for inside in self._entered)

    def _keep_points(self) -> None:
        """Keep the breakpoints of the innermost net for the next time that it is entered."""
        place = self._place()
        self._points[place] = list(self._entered[-1].session.breakpoints) + self._waiting.pop(place, [])

    def close(self) -> None:
        """End every inner session."""
        self._close_from(0)

    def select(self, up: int) -> None:
        """Look at a net further out (positive) or further in."""
        self._settle()
        wanted = self._up + up
        if not 0 <= wanted <= len(self._entered):
            raise UsageError("this is the %s net" % ("outermost" if up > 0 else "innermost"))
        self._up = wanted

    def lines(self) -> List[str]:
        """Where each frame stands, outermost first; the one that is looked at is marked."""
        self._settle()
        if not self._entered:
            return []
        labels = ["predict_net, at operator %d" % self._outermost.position]
        labels += ["inside %s: %s, at operator %d" % (i.operator, i.label(), i.session.position) for i in self._entered]
        looked_at = len(self._entered) - self._up
        return ["%s #%d %s" % ("*" if depth == looked_at else " ", depth, text) for depth, text in enumerate(labels)]

    # -- moving -------------------------------------------------------------------------------

    def step(self, count: int) -> Iterator[Event]:
        """Run operators, enter those that have nets inside, leave at the end of what is inside."""
        self._up = 0
        while count > 0:
            event = self._leave() if self._at_end() else self._enter_next() or self._run_plain(count)
            yield event
            count -= max(1, len(event.stop.steps) if event.stop else 1)
            if _ends(event):
                return

    def next(self, count: int) -> Iterator[Event]:
        """Run operators of the innermost net, those with nets inside as one."""
        self._up = 0
        if self._at_end():
            yield self._leave()
            return
        session = self.innermost
        yield Event(session.model.predict_net, session.next(count))

    def cont(self) -> Iterator[Event]:
        """Run on to a breakpoint, out of every operator that was entered."""
        self._up = 0
        while True:
            session = self.innermost
            if not self._at_end():
                stop = session.cont()
                if stop.reason != "end" or not self._entered:
                    yield Event(session.model.predict_net, stop)
                    return
            event = self._leave()
            yield event
            if _ends(event) or not (self._entered or self._outermost.next_operator()):
                return

    def finish(self) -> Iterator[Event]:
        """Run what is left inside, and leave."""
        self._up = 0
        if not self.entered:
            raise UsageError("this is the outermost net", "continue runs to its end")
        inside = self._entered[-1]
        if not inside.done:
            stop = inside.finish()
            if stop.reason != "end":
                yield Event(inside.session.model.predict_net, stop)
                return
        yield self._leave()

    def _at_end(self) -> bool:
        return bool(self.entered) and self._entered[-1].done

    def _leave(self) -> Event:
        self._keep_points()
        inside = self._entered.pop()
        leaving = inside.leave()
        return Event(inside.outer.model.predict_net, left=inside, leaving=leaving)

    def _enter_next(self) -> Optional[Event]:
        """Enter the next operator if it has nets inside; where that fails it runs as one."""
        session = self.innermost
        operator = session.next_operator()
        if not can_enter(operator):
            return None
        try:
            self._entered.append(enter(session))
        except C2StepError as error:  # a value that cannot be copied, or nets that end the process
            if isinstance(error, WorkerDied) and error.by_user:
                raise
            return Event(session.model.predict_net, session.step(), opaque=error.message)
        place = self._place()
        self._waiting[place] = self._entered[-1].session.adopt_breaks(self._points.pop(place, []))
        return Event(self._entered[-1].session.model.predict_net, entered=self._entered[-1])

    def _run_plain(self, count: int) -> Event:
        session = self.innermost
        rest = session.model.predict_net.operators[session.position : session.position + count]
        plain = next((number for number, op in enumerate(rest) if can_enter(op)), count)
        return Event(session.model.predict_net, session.step(plain))


def _ends(event: Event) -> bool:
    """Whether a count of steps ends here: at a breakpoint, a failure, the end."""
    stop = event.leaving.stop if event.leaving else event.stop
    return stop is not None and stop.reason != "step"
