"""The engine: a model on a workspace, stepped one operator at a time.

`Session` has a debugger's verbs.  It keeps every blob version in a capture as it goes, so that going
back, and coming back after the worker died, are exact: a version that an operator overwrote is put
back from the capture, never computed again.
"""

import fnmatch
import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .blob import MISSING, OTHER, UNINITIALISED, Blob, BlobSummary
from .breakpoints import Breakpoint, Breakpoints, find_operator
from .capture import file_name, read_blob, write_blob
from .errors import CaptureError, UsageError, WorkerDied, WorkerTimeout
from .history import History, Kept, Output, Step
from .model import Model
from .net import BlobVersion, Operator
from .recording import Keep, Recording, Wraps
from .timeline import Timeline
from .workspace import StepEvent, Workspace

__all__ = ["Keep", "Session", "Stop"]


@dataclass(frozen=True)
class Stop:
    """Why a verb came back: step, breakpoint, until, end, failed, died, interrupted, timeout, full or start.

    `operator` is the next one, `steps` are those that this verb ran, `detail` says more where there is more.
    """

    reason: str
    position: int
    operator: Optional[Operator]
    steps: Tuple[Step, ...] = ()
    detail: str = ""


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
        self._importing = spec.get("import", "faithful")
        self._header = dict(header or {})
        self._letters: Dict[int, str] = {}
        self._breakpoints = Breakpoints()
        self._wraps = Wraps(self.header)
        self._recording = Recording(keep or Keep(), self.header)
        self._failure: Optional[Step] = None
        self._disk: Tuple[str, ...] = ()
        self.versions_of_runtime = workspace.versions()
        self._timeline = Timeline(workspace, dict(spec), self._recording)
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
        return self._stop("step")

    def _advance(self, last: int, reason: str) -> Stop:
        """Run operators up to `last` (exclusive) or a breakpoint; `reason` is what to say when none stops it before."""
        if self.position >= self.net_size:
            return self._stop("end", detail="nothing is left to run")
        if self.position >= last:
            return self._stop(reason)
        point = self._breakpoints.first_after(self.model.predict_net, self.position)
        last = last if point is None else min(last, point)
        first_step = len(self.steps)
        self._disk, self._failure = (), None
        request = {
            "first": self.position,
            "last": last,
            "tick": first_step,
            "record": self._recording.request(self.history),
            "wraps": self._wraps.request(),
        }
        try:
            result = self._run(request)
        except WorkerDied as death:
            return self._died(death, first_step)
        return self._ended(result, reason, tuple(self.steps[first_step:]))

    def _run(self, request: Dict[str, Any]) -> str:
        try:
            return self.workspace.run(request, self._on_event)
        except WorkerDied as death:
            if not death.idle:
                raise
            self._timeline.revive()  # it had ended while nothing ran, so no operator is to blame
            return self.workspace.run(request, self._on_event)

    def _ended(self, result: str, reason: str, steps: Tuple[Step, ...]) -> Stop:
        if self._disk:
            raise CaptureError(*self._disk)
        if result == "failed":
            return self._failed(steps)
        if result in ("stopped", "full"):
            return self._stop("interrupted" if result == "stopped" else "full", steps)
        if self.position >= self.net_size:
            return self._stop("end", steps)
        hit = self._breakpoints.hit(self.model.predict_net, self.next_operator())
        return self._stop("breakpoint" if hit else reason, steps)

    def _on_event(self, event: StepEvent) -> None:
        """Take in one operator's result: journal first, so that it is there whatever happens next."""
        op = self.model.predict_net.operators[event["index"]]
        for row in event.get("before", ()):
            if row["file"]:
                path = os.path.join(self._recording.directory, row["file"])
                self.history.keep(row["name"], 0, Kept(path, row["kind"], BlobSummary.from_json(row["summary"])))
        step = Step(
            len(self.steps),
            self.iteration,
            op.index,
            op,
            event["status"],
            event.get("error"),
            self._reads(op),
            self._outputs(event),
            event.get("seconds", 0.0),
        )
        self._recording.add(step)
        if "wrapped" in event:
            self._wraps.journal(step, event["wrapped"])
        if event.get("disk"):
            self._disk = (event["disk"]["message"], event["disk"]["hint"])
        if step.status != "ok":
            self._failure = step
            return
        self._letters[op.index] = _letter(step)
        self.history.add(step, self._recording.directory)
        self.position = op.index + 1
        self.on_step(step)

    def _reads(self, op: Operator) -> Tuple[BlobVersion, ...]:
        return tuple(BlobVersion(name, self.history.version(name)) for name in op.inputs if name)

    def _outputs(self, event: StepEvent) -> Tuple[Output, ...]:
        seen: Dict[str, int] = {}
        outputs = []
        for row in event.get("outputs") or ():
            name = row["name"]
            seen[name] = seen.get(name, self.history.version(name)) + 1
            outputs.append(Output(name, seen[name], row["kind"], BlobSummary.from_json(row["summary"]), row["file"]))
        return tuple(outputs)

    # -- when it stops ------------------------------------------------------------------------

    def _stop(self, reason: str, steps: Sequence[Step] = (), detail: str = "") -> Stop:
        return Stop(reason, self.position, self.next_operator(), tuple(steps), detail)

    def _failed(self, steps: Tuple[Step, ...]) -> Stop:
        """An operator raised: its outputs may hold garbage, so what they held before is put back."""
        failure = self._failure
        assert failure
        self._letters[failure.index] = "F"
        self._timeline.put_back(set(failure.operator.outputs))
        return self._stop("failed", steps + (failure,), self._failure_detail(failure))

    def _failure_detail(self, failure: Step) -> str:
        older = [
            "%s@%d" % (name, self.history.version(name))
            for name in failure.operator.outputs
            if self.history.exists(name)
        ]
        parts = [failure.error or ""]
        if "type mismatch" in parts[0] or "Unsupported type" in parts[0]:
            odd = ["%s is %s" % (n, a.dtype) for n, a in self._timeline.inputs.items() if a.dtype != np.float32]
            parts += ["fed: %s" % ", ".join(odd)] if odd else []
        if older:
            parts.append("its output %s is still the older value" % ", ".join(older))
        return "; ".join(parts)

    def _died(self, death: WorkerDied, first_step: int) -> Stop:
        """The worker ended at an operator: name it, then stand before it again with a new worker."""
        op = self.model.predict_net.operators[self.position]
        error = "%s: %s" % (death.signal, death.message)
        step = Step(len(self.steps), self.iteration, op.index, op, "died", error, self._reads(op), ())
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
        self._letters = {s.index: _letter(s) for s in self.steps if s.iteration == self.iteration and s.index < self.position}
        self._letters.update(skipped)
        self._recording.event("back", to=len(self.steps))
        return self._stop("step", (), detail)

    # -- blobs --------------------------------------------------------------------------------

    def feed(self, name: str, array: np.ndarray) -> None:
        """Give a blob a value now; before the first step it becomes the initial value (version 0)."""
        self._timeline.feed(name, array)

    def put(self, name: str, kept: Kept) -> None:
        """Give a blob the value of a file, such as a reference's, as its next version; nothing is copied."""
        self._timeline.put(name, kept)

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

    def status(self, index: int) -> str:
        """One letter: "o" ok, "F" failed, "D" died, "S" skipped, "?" an output was not written, "." not run."""
        return self._letters.get(index, ".")

    @property
    def breakpoints(self) -> List[Breakpoint]:
        """The breakpoints that are set."""
        return self._breakpoints.all

    def set_break(self, where: str, temporary: bool = False) -> Breakpoint:
        """Stop before each operator that `where` names; a pattern such as conv* is allowed."""
        return self._breakpoints.add(self.model.predict_net, where, temporary)

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
