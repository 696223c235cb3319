"""Runs operators on a timeline, with a pause wherever a breakpoint, a watch or a patch needs one."""

import gc
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Type

from .blob import MISSING, UNINITIALISED
from .breakpoints import Breakpoints, Sets
from .calling import Calling
from .errors import C2StepError, OperatorError, WorkerDied, WorkerTimeout
from .facts import Compare, StepFacts, changed_blob
from .handlers import in_one_piece
from .history import Step
from .net import Net, Operator
from .patching import Changes
from .recording import Keep, Recording
from .timeline import Timeline
from .workspace import Event
from .wraps import Wraps

__all__ = ["Runner", "Stop"]

_NOT_WRITTEN = (UNINITIALISED, MISSING)


@dataclass(frozen=True, repr=False)
class Stop:
    """Why a verb came back: step, breakpoint, until, end, failed, died, interrupted, timeout, full or start.

    `operator` is the next one, `steps` are those that this verb ran, `detail` says more where there is more,
    `hits` are the numbers of the breakpoints, `lacking` says which inputs had no value; `detail` begins with that.
    """

    reason: str
    position: int
    operator: Optional[Operator]
    steps: Tuple[Step, ...] = ()
    detail: str = ""
    hits: Tuple[int, ...] = ()
    lacking: str = ""

    def __repr__(self) -> str:
        detail = ", " + self.detail if self.detail else ""
        where = str(self.operator) if self.operator else "the end of the net"
        return "<Stop %s after %d steps, before %s%s>" % (self.reason, len(self.steps), where, detail)

    def error(self, words: str, hint: str = "") -> BaseException:
        """What to raise where the run had to go on: KeyboardInterrupt where the user stopped it."""
        if self.reason == "interrupted":
            return KeyboardInterrupt()
        kinds: Dict[str, Type[C2StepError]] = {"died": WorkerDied, "timeout": WorkerTimeout}
        return kinds.get(self.reason, OperatorError)(words, hint)


def _not_told(step: Step) -> None:
    """Nobody wants to be told of steps."""


class Runner:
    """Where a session stands, and how it gets further; `Session` adds the verbs.

    `letters` tells how operators ended in this iteration; `catching` what stops a run (error, crash), else it
    goes on past such an operator; `compared` gives an output's figures against the loaded reference.
    """

    def __init__(self, timeline: Timeline, wraps: Wraps) -> None:
        self.position = 0
        self.iteration = 1
        self.letters: Dict[int, str] = {}
        self.on_step: Callable[[Step], None] = _not_told
        self.compared: Optional[Compare] = None
        self.catching: Set[str] = {"error", "crash"}
        self.changes = Changes(timeline)
        self._timeline = timeline
        self._breakpoints = Breakpoints()
        self._wraps = wraps
        self._calling = Calling(timeline)
        self._failure: Optional[Step] = None
        self._hits: Dict[int, str] = {}
        self._plan: Dict[str, Any] = {}
        self._ordinary: Optional[Tuple[Recording, Keep, Sets]] = None  # the plan is for these alone
        self._raised: Optional[BaseException] = None

    @property
    def steps(self) -> List[Step]:
        """Everything that has run, oldest first."""
        return self._timeline.steps

    @property
    def net(self) -> Net:
        """The predict_net that is run."""
        return self._timeline.model.predict_net

    def next_operator(self) -> Optional[Operator]:
        """The operator that the next step runs, None at the end."""
        operators = self.net.operators
        return operators[self.position] if self.position < len(operators) else None

    def stand_at(self, position: int, iteration: int, letters: Dict[int, str]) -> None:
        """Take over a place among the steps, with the letters of operators that failed, died or were skipped."""
        self.position, self.iteration = position, iteration
        self.letters = {
            s.index: _letter(s) for s in self.steps if s.iteration == iteration and s.index < position
        }  # fmt: skip
        self.letters.update(letters)

    # -- running ------------------------------------------------------------------------------

    def skip(self, count: int = 1) -> Stop:
        """Go past `count` operators without running them; their outputs are not computed."""
        for index in range(self.position, min(self.position + count, len(self.net))):
            self.letters[index] = "S"
            self.position = index + 1
            self.changes.lay(index)
        return self.stop("step")

    def advance(self, last: int, reason: str) -> Stop:
        """Run operators up to `last` (exclusive) or a breakpoint; `reason` is what to say when none stops it before."""
        if self.position >= len(self.net):
            return self.stop("end", detail="nothing is left to run")
        workspace = self._timeline.workspace
        with in_one_piece(workspace.interrupt, workspace.forget_interrupt):
            if workspace.watch is None:
                return self._advance(last, reason)
            with workspace.watch.over(self.net):
                return self._advance(last, reason)

    def _advance(self, last: int, reason: str) -> Stop:
        passed: Tuple[Step, ...] = ()
        while True:
            if self.position >= last:
                reason = "end" if self.position >= len(self.net) else reason
                return self.stop(reason, passed)
            stop = self._run_to(last, reason)
            kind = {"failed": "error", "died": "crash"}.get(stop.reason, "")
            passed += stop.steps
            if not kind or kind in self.catching:
                return stop if passed == stop.steps else replace(stop, steps=passed)
            self.skip()

    def _run_to(self, last: int, reason: str) -> Stop:
        first_step = len(self.steps)
        self._timeline.full, self._failure, self._hits = None, None, {}
        self._timeline.recording.late = self.on_step is _not_told and not self._calling.hooks
        try:
            result = self._run(last)
        except WorkerDied as death:
            return self._died(death, first_step)
        finally:
            self._timeline.recording.late = False
            self._timeline.settle()
        return self._ended(result, reason, tuple(self.steps[first_step:]))

    def _run(self, last: int) -> str:
        """Run up to `last`, with a pause wherever a breakpoint or a patch needs one."""
        while True:
            place = len(self.steps)
            if self._calling.hooks:
                self._calling.before(self.next_operator())
            result = self._run_range(self._next_pause(last))
            if len(self.steps) > place:
                self._after(self.steps[-1].operator)
            if result not in ("done", "hit"):
                return result
            if self._look(place) or self.position >= last or self._timeline.full is not None:
                return "done"

    def _next_pause(self, last: int) -> int:
        """Where a run to `last` must pause first."""
        net, position = self.net, self.position
        points = (
            self._breakpoints.next_look(net, position) if self._breakpoints.all else None,
            self.changes.next_pause(position) if self.changes.patches else None,
            self._calling.next_pause(net, position) if self._calling.hooks else None,
        )
        return min([last] + [point for point in points if point is not None])

    def _after(self, op: Operator) -> None:
        """Do what is to be done once an operator has run, at which the run paused."""
        if self.changes.patches:
            self.changes.lay(op.index)
        if self._calling.hooks:
            self._calling.after(op)

    def _look(self, place: int) -> bool:
        """Whether a breakpoint was hit where the session stands now."""
        if not self._breakpoints.all:
            return False
        net = self.net
        if len(self.steps) > place:
            step = self.steps[-1]
            self._hits = self._breakpoints.after(net, step.operator, *self._facts(step))
        self._hits.update(self._breakpoints.before(net, self.next_operator()))
        return bool(self._hits)

    def _facts(self, step: Step) -> Tuple[StepFacts, Callable[[str], str]]:
        return StepFacts(self._timeline, step, self.compared), lambda name: changed_blob(self._timeline, step, name)

    def _run_range(self, last: int) -> str:
        recording = self._timeline.recording
        request = {
            "first": self.position,
            "last": last,
            "tick": recording.tick,
            "left": recording.left,
            "plan": self._planned(),
        }
        self._raised = None
        place = len(self.steps)
        try:
            result = self._timeline.workspace.run(request, self._on_events)
        except C2StepError:
            raise
        except BaseException:
            self._begin_from_known(place)
            raise
        if self._raised is not None:
            raise self._raised
        return result

    def _begin_from_known(self, place: int) -> None:
        """An exception came between an operator and what is known of it: make the blobs what they are known to be."""
        if len(self.steps) > place:
            self.stand_at(self.steps[-1].index + 1, self.iteration, self.letters)
        self._timeline.workspace.give_up()
        self._timeline.revive()

    def _on_events(self, events: Sequence[Event]) -> None:
        collecting = gc.isenabled()
        gc.disable()  # nothing made here can be garbage, and looking for some takes a fifth of the time
        try:
            steps = self._take_in(events)
        finally:
            if collecting:
                gc.enable()
        if self._raised is not None or self.on_step is _not_told:
            return
        try:
            for step in steps:
                self.on_step(step)
        except BaseException as error:  # what has run is taken in all the same
            self._raised = error
            self._timeline.workspace.interrupt()

    def _planned(self) -> Dict[str, Any]:
        """What is to be done at each operator, as the same object while it is the same."""
        recording, before = self._timeline.recording, self._timeline.unkept()
        points = self._breakpoints.sets(self.net)
        special = before or self._wraps.all or self._timeline.replacing
        ordinary = None if special else (recording, recording.keep, points)
        if ordinary and ordinary == self._ordinary:
            return self._plan
        self._ordinary = ordinary
        plan = {
            "record": recording.request(before),
            "wraps": self._wraps.request(),
            "conditions": points.declared,
            "watched": points.watched,
            "replace": self._timeline.replacements(),
        }
        if plan != self._plan:
            self._plan = plan
        return self._plan

    def _ended(self, result: str, reason: str, steps: Tuple[Step, ...]) -> Stop:
        if self._timeline.full is not None:
            raise self._timeline.full
        if result == "failed":
            return self._failed(steps)
        if result == "full":
            return self.stop("full", steps, self._timeline.undo_attempt(self.net.operators[self.position]))
        if result == "stopped":
            return self.stop("interrupted", steps)
        if self._hits:
            detail = "; ".join(words for words in self._hits.values() if words)
            return replace(self.stop("breakpoint", steps, detail), hits=tuple(self._hits))
        return self.stop("end" if self.position >= len(self.net) else reason, steps)

    def _take_in(self, events: Sequence[Event]) -> List[Step]:
        """Take in what operators gave; returns the steps that count."""
        done = []
        for event, step in self._timeline.take(events, self.iteration):
            if isinstance(event, dict) and "wrapped" in event:
                self._wraps.journal(step, event["wrapped"])
            if step.status != "ok":
                self._failure = step
                continue
            self.letters[step.index] = _letter(step) if isinstance(event, dict) else "o"
            self.changes.took(step)
            self.position = step.index + 1
            done.append(step)
        return done

    # -- when it stops ------------------------------------------------------------------------

    def stop(self, reason: str, steps: Sequence[Step] = (), detail: str = "") -> Stop:
        return Stop(reason, self.position, self.next_operator(), tuple(steps), detail)

    def _failed(self, steps: Tuple[Step, ...]) -> Stop:
        """An operator raised: its outputs may hold garbage, so what they held before is put back."""
        failure = self._failure
        assert failure
        self.letters[failure.index] = "F"
        self._timeline.undo_attempt(failure.operator)
        lacking, why = self._lacking(failure.operator), self._timeline.why_failed(failure)
        stop = self.stop("failed", steps + (failure,), "; ".join(filter(None, (lacking, why))))
        return replace(stop, lacking=lacking)

    def _lacking(self, op: Operator) -> str:
        """Why inputs have no value, which Caffe2 takes for a fault of its own; empty where all have one."""
        empty = dict.fromkeys(name for name in op.inputs if not self._timeline.has_been(name))
        return "; ".join(["%s has no value: %s" % (name, self._why_empty(name, op)) for name in empty])

    def _why_empty(self, name: str, op: Operator) -> str:
        makers = [other.index for other in self.net.operators[: op.index] if name in other.outputs]
        if makers:
            words = {"S": "was skipped", "F": "failed", "D": "died"}.get(
                self.letters.get(makers[-1], ""), "has not run"
            )
            return "operator %d %s" % (makers[-1], words)
        left_out = any(name in row.get("outputs", ()) for row in self._timeline.model.refused)
        return "its node was left out" if left_out else "it was never fed"

    def _died(self, death: WorkerDied, first_step: int) -> Stop:
        """The worker ended at an operator: name it, then stand before it again with a new worker."""
        op = self.net.operators[self.position]
        error = "%s: %s" % (death.signal, death.message)
        step = Step(len(self.steps), self.iteration, op.index, op, "died", error, self._timeline.reads(op), ())
        self._timeline.recording.add(step)
        self._timeline.recording.flush()
        self.letters[op.index] = "D"
        note = self._timeline.revive()
        reason = "timeout" if isinstance(death, WorkerTimeout) else "interrupted" if death.by_user else "died"
        detail = "; ".join(filter(None, ["%s: %s" % (op, death.message), note]))
        return self.stop(reason, tuple(self.steps[first_step:]) + (step,), detail)

    # -- going back ---------------------------------------------------------------------------

    def undo(self, count: int) -> Stop:
        """Take back the last `count` steps."""
        steps = self.steps
        undone = steps[len(steps) - count :]
        target = undone[0]
        detail = self._timeline.back(count)
        self.position, self.iteration = target.index, target.iteration
        skipped = {i: letter for i, letter in self.letters.items() if letter == "S" and i < self.position}
        self.letters = {s.index: _letter(s) for s in steps if s.iteration == self.iteration and s.index < self.position}
        self.letters.update(skipped)
        self.changes.went_back()
        self._calling.went_back()
        self._timeline.recording.event("back", to=len(steps))
        self._timeline.recording.take_back(undone)
        return self.stop("step", (), detail)

    def hits_at(self, count: int) -> Dict[int, str]:
        """The breakpoints at which a run would have stopped after the first `count` steps, and why."""
        steps = self.steps
        hits = self._breakpoints.would_stop(self.net, steps[count - 1].operator, *self._facts(steps[count - 1]))
        standing = self._breakpoints.stands_at(self.net, steps[count].operator)
        hits.update((number, self._breakpoints.named(number)) for number in standing)
        return hits


def _letter(step: Step) -> str:
    return "?" if any(out.kind in _NOT_WRITTEN for out in step.outputs) else "o"
