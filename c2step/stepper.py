"""The engine: a model on a workspace, stepped one operator at a time.

`Session` has a debugger's verbs.  It keeps every blob version in a capture as it goes, so that going
back, and coming back after the worker died, are exact: a version that an operator overwrote is put
back from the capture, never computed again.
"""

import fnmatch
import os
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from . import travel
from .blob import MISSING, OTHER, STRING, TENSOR, UNINITIALISED, Blob, BlobSummary
from .breakpoints import Breakpoint, Breakpoints, find_operator
from .capture import file_name, read_blob, write_blob
from .conditions import Condition
from .errors import CaptureError, UsageError, WorkerDied, WorkerTimeout
from .facts import Compare, StepFacts, changed_blob
from .history import History, Kept, Output, Step
from .model import Model
from .net import Operator
from .patching import Changes, Patch
from .recording import Keep, Recording, Wraps
from .timeline import Timeline
from .workspace import Change, StepEvent, Workspace

__all__ = ["Keep", "Session", "Stop"]


@dataclass(frozen=True, repr=False)
class Stop:
    """Why a verb came back: step, breakpoint, until, end, failed, died, interrupted, timeout, full or start.

    `operator` is the next one, `steps` are those that this verb ran, `detail` says more where there is more,
    `hits` are the numbers of the breakpoints.
    """

    reason: str
    position: int
    operator: Optional[Operator]
    steps: Tuple[Step, ...] = ()
    detail: str = ""
    hits: Tuple[int, ...] = ()

    def __repr__(self) -> str:
        detail = ", " + self.detail if self.detail else ""
        where = str(self.operator) if self.operator else "the end of the net"
        return "<Stop %s after %d steps, before %s%s>" % (self.reason, len(self.steps), where, detail)


class Session:
    """A model being stepped; see the module's docstring."""

    def __init__(
        self,
        workspace: Workspace,
        spec: Dict[str, Any],
        inputs: Optional[Dict[str, np.ndarray]] = None,
        keep: Optional[Keep] = None,
        header: Optional[Dict[str, Any]] = None,
    ) -> None:
        """Open the model that `spec` names (see `launch.open_session`), run init_net and feed `inputs`.

        Raises ModelError, OperatorError (an init_net operator), InputError or WorkerDied.
        """
        self.workspace = workspace
        self.iteration = 1
        self.position = 0
        self.notes: List[str] = []
        self.on_step: Callable[[Step], None] = lambda step: None
        self.compared: Optional[Compare] = None  # the loaded reference: an output's figures against it
        self.catching: Set[str] = {"error", "crash"}  # what stops a run; else it goes on past such an operator
        self._importing = spec.get("import", "faithful")
        self._header = dict(header or {})
        self._letters: Dict[int, str] = {}
        self._breakpoints = Breakpoints()
        self._wraps = Wraps(self.header)
        self._recording = Recording(keep or Keep(), self.header)
        self._failure: Optional[Step] = None
        self._hits: Dict[int, str] = {}
        self._disk: Tuple[str, ...] = ()
        self.versions_of_runtime = workspace.versions()
        self._timeline = Timeline(workspace, dict(spec), self._recording)
        self.changes = Changes(self._timeline)
        self._timeline.begin(dict(inputs or {}))

    # -- starting -----------------------------------------------------------------------------

    def restart(self, keep: Optional[Keep] = None) -> Stop:
        """Run init_net again, feed the inputs again, and stand before operator 0; breakpoints stay.

        With `keep` a new capture begins.
        """
        if keep is not None:
            self._recording.close()
            self._recording = self._timeline.recording = Recording(keep, self.header)
        self._timeline.begin(dict(self._timeline.inputs))
        self.changes.began()
        self.position, self.iteration, self._letters = 0, 1, {}
        self._recording.event("restart")
        return self._stop("start")

    @property
    def capture_directory(self) -> str:
        """Where the blob versions are kept."""
        return self._recording.directory

    def header(self) -> Dict[str, Any]:
        """What capture.json says of this session."""
        from . import __version__

        inputs = {name: {"dtype": str(a.dtype), "shape": list(a.shape)} for name, a in self._timeline.inputs.items()}
        return dict(
            {
                "kind": "run",
                "c2step": __version__,
                "model": self.model.path,
                "files": self.model.files,
                "sha256": self.model.sha256,
                "import": self._importing,
                "versions": self.versions_of_runtime,
                "inputs": inputs,
                "outputs": self.model.output_names(),
                "notes": list(self.model.notes),
                "operators": len(self.model.predict_net),
                "net": self.model.predict_net.to_json(),
            },
            **self._header,
        )

    def finish(self, stop: Stop) -> None:
        """Write into capture.json how the run ended."""
        self._header["ended"] = {"reason": stop.reason, "position": stop.position, "detail": stop.detail}
        self._recording.write_header()

    @property
    def drawn(self) -> Dict[str, np.ndarray]:
        """What init_net drew at random, by name; it is the same as long as the session lives."""
        return dict(self._timeline.drawn)

    @property
    def inputs(self) -> Dict[str, np.ndarray]:
        """The values fed before the first step, by name."""
        return dict(self._timeline.inputs)

    # -- running ------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """What was opened."""
        return self._timeline.model

    @property
    def history(self) -> History:
        """Which versions there are, and where they are kept."""
        return self._timeline.history

    @property
    def net_size(self) -> int:
        """How many operators predict_net has."""
        return len(self.model.predict_net)

    @property
    def steps(self) -> List[Step]:
        """Everything that has run, oldest first."""
        return self.history.steps

    def next_operator(self) -> Optional[Operator]:
        """The operator that the next step runs, None at the end."""
        operators = self.model.predict_net.operators
        return operators[self.position] if self.position < len(operators) else None

    def step(self, count: int = 1) -> Stop:
        """Run `count` operators."""
        return self._advance(min(self.position + count, self.net_size), "step")

    def next(self, count: int = 1) -> Stop:
        """Run `count` operators; operators with nets inside run as one."""
        return self.step(count)

    def until(self, where: str) -> Stop:
        """Run until the session stands before the operator that `where` names."""
        target = find_operator(self.model.predict_net, where, self.position)
        if target.index < self.position:
            raise UsageError(
                "%s lies behind: the next operator is %d" % (target, self.position), "use back, or restart"
            )
        return self._advance(target.index, "until")

    def cont(self) -> Stop:
        """Run to the next breakpoint or the end."""
        return self._advance(self.net_size, "step")

    def run(self, count: int = 1) -> Stop:
        """Run predict_net to its end `count` times, each time on the workspace that the former left, as RunNet does."""
        steps: Tuple[Step, ...] = ()
        for _ in range(count):
            if self.position >= self.net_size:
                self.position = 0
                self.iteration += 1
                self._letters = {}
            stop = self.cont()
            steps += stop.steps
            if stop.reason != "end":
                break
        return Stop(stop.reason, stop.position, stop.operator, steps, stop.detail)

    def skip(self, count: int = 1) -> Stop:
        """Go past `count` operators without running them; their outputs are not computed."""
        for index in range(self.position, min(self.position + count, self.net_size)):
            self._letters[index] = "S"
            self.position = index + 1
            self.changes.lay(index)
        return self._stop("step")

    def _advance(self, last: int, reason: str) -> Stop:
        """Run operators up to `last` (exclusive) or a breakpoint; `reason` is what to say when none stops it before."""
        if self.position >= self.net_size:
            return self._stop("end", detail="nothing is left to run")
        passed: Tuple[Step, ...] = ()
        while True:
            if self.position >= last:
                reason = "end" if self.position >= self.net_size else reason
                return self._stop(reason, passed)
            stop = self._run_to(last, reason)
            kind = {"failed": "error", "died": "crash"}.get(stop.reason, "")
            passed += stop.steps
            if not kind or kind in self.catching:
                return replace(stop, steps=passed)
            self.skip()

    def _run_to(self, last: int, reason: str) -> Stop:
        first_step = len(self.steps)
        self._disk, self._failure, self._hits = (), None, {}
        try:
            result = self._run(last)
        except WorkerDied as death:
            return self._died(death, first_step)
        return self._ended(result, reason, tuple(self.steps[first_step:]))

    def _run(self, last: int) -> str:
        """Run up to `last`, with a pause wherever a breakpoint or a patch needs one."""
        while True:
            net, place = self.model.predict_net, len(self.steps)
            points = (self._breakpoints.next_look(net, self.position), self.changes.next_pause(self.position))
            result = self._run_range(min([last] + [point for point in points if point is not None]))
            if len(self.steps) > place:
                self.changes.lay(self.steps[-1].index)
            if result not in ("done", "hit"):
                return result
            if self._look(place) or self.position >= last:
                return "done"

    def _look(self, place: int) -> bool:
        """Whether a breakpoint was hit where the session stands now."""
        net = self.model.predict_net
        if len(self.steps) > place:
            step = self.steps[-1]
            self._hits = self._breakpoints.after(net, step.operator, *self._facts(step))
        self._hits.update((number, "") for number in self._breakpoints.before(net, self.next_operator()))
        return bool(self._hits)

    def _facts(self, step: Step) -> Tuple[StepFacts, Callable[[str], str]]:
        return StepFacts(self._timeline, step, self.compared), lambda name: changed_blob(self._timeline, step, name)

    def _run_range(self, last: int) -> str:
        request = {
            "first": self.position,
            "last": last,
            "tick": len(self.steps),
            "record": self._recording.request(self.history),
            "wraps": self._wraps.request(),
            "conditions": self._breakpoints.declared(self.model.predict_net),
            "watched": self._breakpoints.watched(),
        }
        return self.workspace.run(request, self._on_event)

    def _ended(self, result: str, reason: str, steps: Tuple[Step, ...]) -> Stop:
        if self._disk:
            raise CaptureError(*self._disk)
        if result == "failed":
            return self._failed(steps)
        if result in ("stopped", "full"):
            return self._stop("interrupted" if result == "stopped" else "full", steps)
        if self._hits:
            detail = "; ".join(words for words in self._hits.values() if words)
            return replace(self._stop("breakpoint", steps, detail), hits=tuple(self._hits))
        return self._stop("end" if self.position >= self.net_size else reason, steps)

    def _on_event(self, event: StepEvent) -> None:
        """Take in one operator's result: journal first, so that it is there whatever happens next."""
        step = self._timeline.take(event, self.iteration)
        self._recording.add(step)
        if "wrapped" in event:
            self._wraps.journal(step, event["wrapped"])
        if event.get("disk"):
            self._disk = (event["disk"]["message"], event["disk"]["hint"])
        if step.status != "ok":
            self._failure = step
            return
        self._letters[step.index] = _letter(step)
        self.history.add(step, self._recording.directory)
        self.changes.took(step)
        self.position = step.index + 1
        self.on_step(step)

    # -- when it stops ------------------------------------------------------------------------

    def _stop(self, reason: str, steps: Sequence[Step] = (), detail: str = "") -> Stop:
        return Stop(reason, self.position, self.next_operator(), tuple(steps), detail)

    def _failed(self, steps: Tuple[Step, ...]) -> Stop:
        """An operator raised: its outputs may hold garbage, so what they held before is put back."""
        failure = self._failure
        assert failure
        self._letters[failure.index] = "F"
        self._timeline.put_back(set(failure.operator.outputs))
        return self._stop("failed", steps + (failure,), self._timeline.why_failed(failure))

    def _died(self, death: WorkerDied, first_step: int) -> Stop:
        """The worker ended at an operator: name it, then stand before it again with a new worker."""
        op = self.model.predict_net.operators[self.position]
        error = "%s: %s" % (death.signal, death.message)
        step = Step(len(self.steps), self.iteration, op.index, op, "died", error, self._timeline.reads(op), ())
        self._recording.add(step)
        self._letters[op.index] = "D"
        note = self._timeline.revive()
        reason = "timeout" if isinstance(death, WorkerTimeout) else "interrupted" if death.by_user else "died"
        return self._stop(reason, tuple(self.steps[first_step:]) + (step,), "%s: %s%s" % (op, death.message, note))

    # -- going back ---------------------------------------------------------------------------

    def back(self, count: int = 1) -> Stop:
        """Undo the last `count` steps: every blob they wrote holds again what it held before."""
        if not self.steps:
            raise UsageError("nothing has run yet, there is nothing to go back over")
        count = min(count, len(self.steps))
        target = self.steps[len(self.steps) - count]
        detail = self._timeline.back(count)
        self.position, self.iteration = target.index, target.iteration
        skipped = {i: letter for i, letter in self._letters.items() if letter == "S" and i < self.position}
        self._letters = {
            s.index: _letter(s) for s in self.steps if s.iteration == self.iteration and s.index < self.position
        }
        self._letters.update(skipped)
        self.changes.went_back()
        self._recording.event("back", to=len(self.steps))
        return self._stop("step", (), detail)

    def goto(self, where: str) -> Stop:
        """Stand before the operator that `where` names: go back to it, or run to it."""
        target = find_operator(self.model.predict_net, where, self.position).index
        if target > self.position:
            return self._advance(target, "until")
        return self._back_to(travel.before(self.steps, self.iteration, target), target)

    def rcontinue(self) -> Stop:
        """Go back to the last place where a breakpoint would have stopped, else to the beginning."""
        if not self.steps:
            raise UsageError("nothing has run yet, there is nothing to go back over")
        for count in range(len(self.steps) - 1, 0, -1):
            hits = self._hits_at(count)
            if hits:
                stop = self._back_to(count, self.steps[count].index)
                detail = "; ".join(filter(None, [stop.detail, *hits.values()]))
                return replace(stop, reason="breakpoint", detail=detail, hits=tuple(hits))
        return replace(self._back_to(0, self.steps[0].index), reason="start")

    def _hits_at(self, count: int) -> Dict[int, str]:
        """The breakpoints at which a run would stop after the first `count` steps."""
        net, last = self.model.predict_net, self.steps[count - 1]
        hits = self._breakpoints.would_stop(net, last.operator, *self._facts(last))
        hits.update((number, "") for number in self._breakpoints.stands_at(net, self.steps[count].operator))
        return hits

    def _back_to(self, count: int, position: int) -> Stop:
        """Undo all but the first `count` steps and stand before operator `position`."""
        stop = self.back(len(self.steps) - count) if count < len(self.steps) else self._stop("step")
        self.position = position
        return self._stop("step", (), stop.detail)

    # -- blobs --------------------------------------------------------------------------------

    def feed(self, name: str, array: np.ndarray) -> None:
        """Give a blob a value now; before the first step it becomes the initial value (version 0)."""
        self._timeline.feed(name, array)

    def put(self, name: str, kept: Kept) -> None:
        """Give a blob the value of a file, such as a reference's, as its next version; nothing is copied."""
        self._timeline.put(name, kept)

    def patch(self, name: str, value: np.ndarray, source: str = "a value") -> Patch:
        """Put a value in place of a blob's live one, as if the operator that wrote it had written that.

        It stays when that operator runs again, until `unpatch`.  What has run on the old value is dirty.
        """
        array = np.asarray(value)
        return self.changes.patch(
            Blob(name, STRING if array.dtype.kind in "OSU" else TENSOR, array), source, self.position
        )

    def unpatch(self, name: str) -> List[Patch]:
        """Take a patch away: the blob has its own value again, now and when its operator runs again."""
        return self.changes.unpatch(name)

    def edit(self, where: str, *changes: Change) -> Operator:
        """Change an operator for this session: ("arg", "pads", [1, 1]), ("input", "0", "x"), ("type", "", "Relu").

        The value None takes an argument away.  What it wrote is dirty until it runs again.
        """
        return self.changes.edit(self.operator(where).index, changes)

    def unedit(self, where: str) -> Operator:
        """Give an operator back what it was when the model was opened."""
        return self.changes.unedit(self.operator(where).index)

    def rerun(self, where: str) -> Stop:
        """Go back to an operator that has run and run it again on the same inputs, as it is now."""
        op = self.operator(where)
        if op.index > self.position:
            raise UsageError("%s has not run" % op, "run to it: until %d, then step" % op.index)
        self.goto(str(op.index))
        return self.step()

    def write_net(self, path: str) -> None:
        """Write predict_net as it is now: .pbtxt as text, else .pb."""
        self._timeline.protected(lambda: self.workspace.write_net(path))

    def dirty_operators(self) -> Set[int]:
        """Operators that ran on a value, or as something, that was changed since."""
        steps = (self.steps[place] for place in self.changes.dirty())
        return {step.index for step in steps if step.iteration == self.iteration}

    def dirty_blobs(self) -> Set[str]:
        """Blobs whose live value such an operator wrote."""
        return self.changes.dirty_blobs()

    def fetch(self, name: str, version: Optional[int] = None) -> Blob:
        """A blob's value: the live one, or an older version from the capture."""
        return self._timeline.fetch(name, version)

    def summary(self, name: str, version: Optional[int] = None) -> BlobSummary:
        """Shape, dtype and figures of a blob version."""
        return self._timeline.summary(name, version)

    def kept(self, output: Output) -> Optional[Blob]:
        """A step's output from the capture, mapped and read-only; None where its bytes were not kept."""
        if output.file is None:
            return None
        path = os.path.join(self._recording.directory, output.file)
        return read_blob(path, output.name, output.kind, output.summary.scale, output.summary.zero_point, mapped=True)

    def version(self, name: str) -> int:
        """The live version of a blob."""
        return self.history.version(name)

    def versions(self, name: str) -> List[int]:
        """The versions of a blob that exist so far."""
        return self.history.known(name)

    def blobs(self, pattern: str = "") -> List[Tuple[str, int, BlobSummary]]:
        """Name, live version and summary of every blob that has a value, in the net's order; `pattern` is a glob."""
        net = self.model.predict_net
        names = dict.fromkeys([d.name for d in self.model.inputs] + net.blobs() + sorted(self.history.initial))
        wanted = [n for n in names if (not pattern or fnmatch.fnmatchcase(n, pattern)) and self._timeline.has_been(n)]
        return [(name, self.history.version(name), self.summary(name)) for name in wanted]

    def save(self, name: str, path: str, version: Optional[int] = None) -> str:
        """Write a blob to a .npy file and return its path."""
        blob = self.fetch(name, version)
        if blob.array is None:
            raise UsageError("%s has no value to save: %s" % (name, blob.text or blob.kind))
        if os.path.isdir(path):
            path = os.path.join(path, file_name(self.history.version(name), "v", name, blob.kind))
        write_blob(path, blob)
        return path

    def unfed(self) -> List[str]:
        """The inputs of predict_net that have no value."""
        return [name for name in self.model.predict_net.free_inputs() if not self._timeline.has_been(name)]

    # -- operators, breakpoints, wrappers -----------------------------------------------------

    def operator(self, where: str) -> Operator:
        """The operator that WHERE names."""
        return find_operator(self.model.predict_net, where, self.position)

    def describe(self, index: int) -> str:
        """An operator as text, and the ONNX node it came from."""
        return str(self._timeline.protected(lambda: self.workspace.describe(index)))

    def protected(self, look: Callable[[], Any]) -> Any:
        """Look at something where the operators run; if that ends the worker, a new one stands in its place."""
        return self._timeline.protected(look)

    def status(self, index: int) -> str:
        """One letter: "o" ok, "F" failed, "D" died, "S" skipped, "?" an output was not written, "." not run,
        "*" dirty: it ran on a value, or as an operator, that was changed since."""
        letter = self._letters.get(index, ".")
        return "*" if letter in "o?" and index in self.dirty_operators() else letter

    @property
    def breakpoints(self) -> List[Breakpoint]:
        """The breakpoints that are set."""
        return self._breakpoints.all

    def set_break(self, where: str, temporary: bool = False, condition: str = "") -> Breakpoint:
        """Stop before each operator that `where` names; a pattern such as conv* is allowed.

        With a condition (see `conditions`) stop after each such operator for which it holds.
        """
        return self._breakpoints.add(self.model.predict_net, where, temporary, self._condition(condition))

    def watch(self, name: str, condition: str = "") -> Breakpoint:
        """Stop after each operator that changes a blob, named or not."""
        return self._breakpoints.add(self.model.predict_net, name, False, self._condition(condition), watch=True)

    def _condition(self, text: str) -> Optional[Condition]:
        condition = Condition(text) if text else None
        if condition and condition.uses_reference and self.compared is None:
            raise UsageError("%s needs golden values, and no reference is loaded" % text, "load one: reference SPEC")
        return condition

    def breakpoint(self, number: int) -> Breakpoint:
        """A breakpoint by its number; `enabled`, `ignore` and `commands` may be set on it."""
        return self._breakpoints.find(number)

    def commands_of(self, number: int) -> List[str]:
        """The commands to run where a breakpoint stops, also a temporary one that is gone."""
        return self._breakpoints.commands_of(number)

    def delete_break(self, number: int) -> None:
        """Take a breakpoint away."""
        self._breakpoints.delete(number)

    @property
    def wraps(self) -> Dict[str, str]:
        """The wrapped operator types and the directories that their inputs and outputs go to."""
        return self._wraps.directories

    def wrap(self, pattern: str, save: Optional[str] = None) -> str:
        """Save the inputs and outputs of every operator of a type as it runs; returns the directory."""
        return self._wraps.add(pattern, sorted({op.type for op in self.model.predict_net.operators}), save)

    def unwrap(self, pattern: str) -> None:
        """Stop saving."""
        self._wraps.remove(pattern)

    def interrupt(self) -> None:
        """Stop a running verb before its next operator; safe in a signal handler."""
        self.workspace.interrupt()

    def kill(self) -> None:
        """Stop the running operator itself, by ending the worker."""
        end = getattr(self.workspace, "kill", None)
        if end:
            end()

    def close(self) -> None:
        """End the worker, close the captures, take temporary files away."""
        self._wraps.close()
        self._recording.close()
        self.workspace.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _letter(step: Step) -> str:
    return "?" if any(out.kind in (UNINITIALISED, MISSING, OTHER) for out in step.outputs) else "o"
