"""The engine: a model on a workspace, stepped one operator at a time.

`Session` has a debugger's verbs.  It keeps every blob version in a capture as it goes, so that going
back, and coming back after the worker died, are exact: a version that an operator overwrote is put
back from the capture, never computed again.
"""
import fnmatch
import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from .blob import MISSING, OTHER, UNINITIALISED, Blob, BlobSummary
from .breakpoints import Breakpoint, Breakpoints, find_operator
from .capture import file_name, read_blob, write_blob
from .errors import C2StepError, CaptureError, InputError, UsageError, WorkerDied, WorkerTimeout, near
from .history import History, Kept, Output, Step
from .model import Model
from .net import BlobVersion, Operator, is_random, is_stateful
from .recording import Keep, Recording, Wraps
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

    def __init__(self, workspace: Workspace, spec: Dict[str, Any], inputs: Optional[Dict[str, np.ndarray]] = None,
                 keep: Optional[Keep] = None, header: Optional[Dict[str, Any]] = None) -> None:
        """Open the model that `spec` names (see `launch.open_session`), run init_net and feed `inputs`.

        Raises ModelError, OperatorError (an init_net operator), InputError or WorkerDied.
        """
        self.workspace = workspace
        self.iteration = 1
        self.position = 0
        self.notes: List[str] = []
        self.on_step: Callable[[Step], None] = lambda step: None
        self._spec = dict(spec)
        self._header = dict(header or {})
        self._inputs: Dict[str, np.ndarray] = {}
        self._letters: Dict[int, str] = {}
        self._breakpoints = Breakpoints()
        self._wraps = Wraps(self.header)
        self._recording = Recording(keep or Keep(), self.header)
        self._failure: Optional[Step] = None
        self._disk: Tuple[str, ...] = ()
        self.versions_of_runtime = workspace.versions()
        self.model = Model.from_json(workspace.open(self._spec))
        self.history = History()
        self._begin(dict(inputs or {}))

    # -- starting -----------------------------------------------------------------------------

    def _begin(self, inputs: Dict[str, np.ndarray]) -> None:
        self.workspace.init()
        self.history = History()
        self.history.initial = {row["name"] for row in self.workspace.peek() if row["kind"] not in (MISSING, UNINITIALISED)}
        self.position, self.iteration = 0, 1
        self._letters = {}
        for name, array in inputs.items():
            self._feed_initial(name, array)

    def _feed_initial(self, name: str, array: np.ndarray) -> None:
        self.workspace.feed(name, array)
        self._inputs[name] = array
        self.history.initial.add(name)
        self.history.kept.pop(BlobVersion(name, 0), None)

    def restart(self, keep: Optional[Keep] = None) -> Stop:
        """Run init_net again, feed the inputs again, and stand before operator 0; breakpoints stay.

        With `keep` a new capture begins.
        """
        if keep is not None:
            self._recording.close()
            self._recording = Recording(keep, self.header)
        self._begin(dict(self._inputs))
        self._recording.event("restart")
        return self._stop("start")

    @property
    def capture_directory(self) -> str:
        """Where the blob versions are kept."""
        return self._recording.directory

    def header(self) -> Dict[str, Any]:
        """What capture.json says of this session."""
        from . import __version__

        inputs = {name: {"dtype": str(a.dtype), "shape": list(a.shape)} for name, a in self._inputs.items()}
        return dict({"kind": "run", "c2step": __version__, "model": self.model.path, "files": self.model.files,
                     "sha256": self.model.sha256, "import": self._spec.get("import", "faithful"),
                     "versions": self.versions_of_runtime, "inputs": inputs, "outputs": self.model.output_names(),
                     "notes": list(self.model.notes), "operators": len(self.model.predict_net)}, **self._header)

    def finish(self, stop: Stop) -> None:
        """Write into capture.json how the run ended."""
        self._header["ended"] = {"reason": stop.reason, "position": stop.position, "detail": stop.detail}
        self._recording.write_header()

    @property
    def inputs(self) -> Dict[str, np.ndarray]:
        """The values fed before the first step, by name."""
        return dict(self._inputs)

    # -- running ------------------------------------------------------------------------------

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
            raise UsageError("%s lies behind: the next operator is %d" % (target, self.position), "use back, or restart")
        return self._advance(target.index, "until")

    def cont(self) -> Stop:
        """Run to the next breakpoint or the end."""
        stop = self._breakpoints.first_after(self.model.predict_net, self.position)
        return self._advance(self.net_size if stop is None else stop, "step")

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
        """Run operators up to `last` (exclusive); `reason` is what to say when nothing stops it before."""
        if self.position >= self.net_size:
            return self._stop("end", detail="nothing is left to run")
        if self.position >= last:
            return self._stop(reason)
        first_step = len(self.steps)
        self._disk, self._failure = (), None
        request = {"first": self.position, "last": last, "tick": first_step,
                   "record": self._recording.request(self.history), "wraps": self._wraps.request()}
        try:
            result = self.workspace.run(request, self._on_event)
        except WorkerDied as death:
            return self._died(death, first_step)
        return self._ended(result, reason, tuple(self.steps[first_step:]))

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
        return self._stop("breakpoint" if hit and reason != "until" else reason, steps)

    def _on_event(self, event: StepEvent) -> None:
        """Take in one operator's result: journal first, so that it is there whatever happens next."""
        op = self.model.predict_net.operators[event["index"]]
        for row in event.get("before", ()):
            if row["file"]:
                path = os.path.join(self._recording.directory, row["file"])
                self.history.keep(row["name"], 0, Kept(path, row["kind"], BlobSummary.from_json(row["summary"])))
        step = Step(len(self.steps), self.iteration, op.index, op, event["status"], event.get("error"),
                    self._reads(op), self._outputs(event), event.get("seconds", 0.0))
        self._recording.add(step)
        if "wrapped" in event:
            self._wraps.journal(step, event["wrapped"])
        if event.get("disk"):
            self._disk = (event["disk"]["message"], event["disk"]["hint"])
        if step.status != "ok":
            self._failure = step
            return
        self._letters.pop(op.index, None)
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
        self._put_back(set(failure.operator.outputs))
        return self._stop("failed", steps + (failure,), self._failure_detail(failure))

    def _failure_detail(self, failure: Step) -> str:
        older = ["%s@%d" % (name, self.history.version(name)) for name in failure.operator.outputs
                 if self.history.exists(name)]
        parts = [failure.error or ""]
        if "type mismatch" in parts[0] or "Unsupported type" in parts[0]:
            odd = ["%s is %s" % (n, a.dtype) for n, a in self._inputs.items() if a.dtype != np.float32]
            parts += ["fed: %s" % ", ".join(odd)] if odd else []
        if older:
            parts.append("its output %s is still the older value" % ", ".join(older))
        return "; ".join(parts)

    def _died(self, death: WorkerDied, first_step: int) -> Stop:
        """The worker ended: say at which operator, then stand before it again with a new worker."""
        if self.position >= self.net_size:
            raise death
        op = self.model.predict_net.operators[self.position]
        step = Step(len(self.steps), self.iteration, op.index, op, "died", "%s: %s" % (death.signal, death.message), self._reads(op), ())
        if death.signal and death.index is not None:
            self._recording.add(step)
            self._letters[op.index] = "D"
        detail = "%s: %s" % (op, death.message)
        note = self._revive()
        stopped_by_user = "Ctrl-C" in death.message
        reason = "timeout" if isinstance(death, WorkerTimeout) else "interrupted" if stopped_by_user else "died"
        return self._stop(reason, tuple(self.steps[first_step:]) + (step,), detail + note)

    def _revive(self) -> str:
        """Put a new worker where the dead one stood; returns what must be said about it."""
        self.workspace.open(self._spec)
        self.workspace.init()
        for name, array in self._inputs.items():
            self.workspace.feed(name, array)
        live = {name: version for name, version in self.history.versions.items() if version}
        lost = [name for name, version in live.items() if not self._is_kept(name, version)]
        note = ""
        if lost:
            note = self._replay(lost)
        self._put_back(set(live))
        if not lost:
            self._reseed({step.operator for step in self.steps if is_random(step.operator)})
        return note

    def _is_kept(self, name: str, version: int) -> bool:
        if BlobVersion(name, version) in self.history.kept:
            return True
        summary = self.history.summaries.get(BlobVersion(name, version))
        return summary is not None and summary.kind in (UNINITIALISED, MISSING)

    def _replay(self, lost: Sequence[str]) -> str:
        """Run what has run again, for blobs of which no copy could be kept."""
        chances = [op for op in {step.operator for step in self.steps} if is_random(op) or is_stateful(op)]
        for step in list(self.steps):
            self._run_unrecorded(step.index)
        note = "; %d blobs were made again by running %d operators" % (len(lost), len(self.steps))
        if chances:
            note += ", not exact where they depend on %s" % ", ".join(str(op) for op in chances[:3])
        return note

    def _put_back(self, names: Set[str]) -> None:
        """Make the workspace hold the live version of each blob."""
        values, remove = [], []
        for name in sorted(names):
            kept = self.history.kept.get(BlobVersion(name, self.history.version(name)))
            if kept:
                values.append({"name": name, "kind": kept.kind, "file": kept.file, "scale": kept.summary.scale,
                               "zero_point": kept.summary.zero_point})
            elif not self.history.exists(name):
                remove.append(name)
        if values or remove:
            self.workspace.restore(values, remove, [])

    # -- going back ---------------------------------------------------------------------------

    def back(self, count: int = 1) -> Stop:
        """Undo the last `count` steps: every blob they wrote holds again what it held before."""
        if not self.steps:
            raise UsageError("nothing has run yet, there is nothing to go back over")
        count = min(count, len(self.steps))
        undone = self.steps[len(self.steps) - count:]
        target = undone[0]
        before = dict(self.history.versions)
        changed = self.history.undo(count)
        unkept = [name for name in changed if self.history.version(name) != before.get(name)
                  and self.history.exists(name) and BlobVersion(name, self.history.version(name)) not in self.history.kept]
        detail = self._revive() if unkept else self._rewind(undone, changed)
        self.position, self.iteration = target.index, target.iteration
        self._letters = {index: letter for index, letter in self._letters.items() if index < self.position}
        self._recording.event("back", to=len(self.steps))
        return self._stop("step", (), detail)

    def _rewind(self, undone: Sequence[Step], changed: Set[str]) -> str:
        detail = self._reseed({step.operator for step in undone if is_random(step.operator)})
        self._put_back(changed)
        return detail

    def _reseed(self, random: Set[Operator]) -> str:
        """Make random operators anew and draw as often as they had drawn, so that a seed gives the same again."""
        seeded = {op for op in random if "seed" in op.device or "seed" in self.model.predict_net.device}
        for op in sorted(seeded, key=lambda op: op.index):
            self.workspace.restore([], [], [op.index])
            for _ in range(sum(step.index == op.index for step in self.steps)):
                self._run_unrecorded(op.index)
            self._put_back(set(op.outputs))
        unseeded = sorted(random - seeded, key=lambda op: op.index)
        return "%s has no seed: it draws other numbers when it runs again" % unseeded[0] if unseeded else ""

    def _run_unrecorded(self, index: int) -> None:
        self.workspace.run({"first": index, "last": index + 1, "tick": 0, "record": None, "wraps": []}, lambda event: None)

    # -- blobs --------------------------------------------------------------------------------

    def feed(self, name: str, array: np.ndarray) -> None:
        """Give a blob a value now; before the first step it becomes the initial value (version 0)."""
        self._known(name)
        if not self.steps and self.history.version(name) == 0:
            self._feed_initial(name, array)
            return
        self._keep_initial(name)
        self.workspace.feed(name, array)
        version = self.history.version(name) + 1
        self._fed(name, version, self._recording.keep_value(name, version, array, len(self.steps)))

    def put(self, name: str, kept: Kept) -> None:
        """Give a blob the value of a file, such as a reference's, as its next version; nothing is copied."""
        self._known(name)
        self._keep_initial(name)
        self._fed(name, self.history.version(name) + 1, kept)
        self._put_back({name})

    def _fed(self, name: str, version: int, kept: Kept) -> None:
        self.history.keep(name, version, kept)
        self.history.add_feed(name, version)
        self._recording.event("feed", name=name, version=version)

    def _keep_initial(self, name: str) -> None:
        """Keep a copy of an initial value that is about to be replaced."""
        if name in self.history.unkept_initial():
            blob = self.workspace.fetch(name)
            if blob.array is not None:
                self.history.keep(name, 0, self._recording.keep_value(name, 0, blob.array, len(self.steps)))

    def fetch(self, name: str, version: Optional[int] = None) -> Blob:
        """A blob's value: the live one, or an older version from the capture."""
        self._known(name, version)
        live = self.history.version(name)
        if version is None or version == live:
            kept = self.history.kept.get(BlobVersion(name, live))
            return self._read(name, kept) if kept and not self._alive() else self._protected(lambda: self.workspace.fetch(name))
        kept = self.history.kept.get(BlobVersion(name, version))
        if kept is None:
            raise UsageError("the bytes of %s@%d were not kept" % (name, version), "kept: %s" % self._kept_versions(name))
        return self._read(name, kept)

    def _protected(self, fetch: Callable[[], Any]) -> Any:
        try:
            return fetch()
        except WorkerDied as death:
            self._revive()
            raise C2StepError("%s; the worker was started again" % death.message, death.hint) from death

    def _alive(self) -> bool:
        return bool(getattr(self.workspace, "alive", True))

    def _read(self, name: str, kept: Kept) -> Blob:
        return read_blob(kept.file, name, kept.kind, kept.summary.scale, kept.summary.zero_point)

    def _kept_versions(self, name: str) -> str:
        found = [v for v in self.history.known(name) if BlobVersion(name, v) in self.history.kept]
        return ", ".join("%s@%d" % (name, v) for v in found) or "none"

    def _known(self, name: str, version: Optional[int] = None) -> None:
        known = self.history.known(name)
        if name not in set(self.model.predict_net.blobs()) | self.history.initial:
            raise UsageError("there is no blob %s" % name, near(name, self.model.predict_net.blobs()))
        if version is not None and version not in known:
            raise UsageError("%s has no version %d yet" % (name, version),
                             "it has %s" % (", ".join("%s@%d" % (name, v) for v in known) or "none yet"))

    def version(self, name: str) -> int:
        """The live version of a blob."""
        return self.history.version(name)

    def versions(self, name: str) -> List[int]:
        """The versions of a blob that exist so far."""
        return self.history.known(name)

    def summary(self, name: str, version: Optional[int] = None) -> BlobSummary:
        """Shape, dtype and figures of a blob version."""
        self._known(name, version)
        live = self.history.version(name)
        known = self.history.summaries.get(BlobVersion(name, live if version is None else version))
        if known is not None:
            return known
        if version is None or version == live:
            found: BlobSummary = self._protected(lambda: self.workspace.summary(name))
            return found
        return self.fetch(name, version).summary()

    def blobs(self, pattern: str = "") -> List[Tuple[str, int, BlobSummary]]:
        """Name, live version and summary of every blob that has a value, in the net's order; `pattern` is a glob."""
        net = self.model.predict_net
        names = dict.fromkeys([d.name for d in self.model.inputs] + net.blobs() + sorted(self.history.initial))
        wanted = [n for n in names if (not pattern or fnmatch.fnmatchcase(n, pattern)) and self._has_been(n)]
        return [(name, self.history.version(name), self.summary(name)) for name in wanted]

    def _has_been(self, name: str) -> bool:
        return name in self.history.initial or self.history.version(name) > 0

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
        return [name for name in self.model.predict_net.free_inputs() if not self._has_been(name)]

    # -- operators, breakpoints, wrappers -----------------------------------------------------

    def operator(self, where: str) -> Operator:
        """The operator that WHERE names."""
        return find_operator(self.model.predict_net, where, self.position)

    def describe(self, index: int) -> str:
        """An operator as text, and the ONNX node it came from."""
        return str(self._protected(lambda: self.workspace.describe(index)))

    def status(self, index: int) -> str:
        """One letter: "o" ok, "F" failed, "D" died, "S" skipped, "?" an output was not written, "." not run."""
        if index in self._letters:
            return self._letters[index]
        step = next((s for s in reversed(self.steps) if s.index == index and s.iteration == self.iteration), None)
        if step is None or index >= self.position:
            return "."
        return "?" if any(out.kind in (UNINITIALISED, MISSING, OTHER) for out in step.outputs) else "o"

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
