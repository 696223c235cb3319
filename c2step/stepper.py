"""The engine: a model on a workspace, stepped one operator at a time.

`Session` has a debugger's verbs.  It keeps every blob version in a capture as it goes, so that going
back, and coming back after the worker died, are exact: a version that an operator overwrote is put
back from the capture, never computed again.
"""
import os
import shutil
import tempfile
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from .blob import MISSING, OTHER, STRING, TENSOR, UNINITIALISED, Blob, BlobSummary
from .breakpoints import Breakpoint, find_operator, matcher
from .capture import CaptureWriter, file_name, read_blob, write_blob
from .errors import C2StepError, CaptureError, InputError, UsageError, WorkerDied, WorkerTimeout, near
from .history import History, Kept, Output, Step
from .model import Model
from .net import BlobVersion, Operator, is_random, is_stateful
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


@dataclass(frozen=True)
class Keep:
    """Which blob versions a session keeps: where, up to how many bytes, and of which operators or blobs.

    `directory` None is a temporary one that goes away with the session.  `on_full` "skip" goes on
    without keeping more, "stop" stops the run.
    """

    directory: Optional[str] = None
    level: str = "full"
    max_bytes: Optional[int] = None
    types: Tuple[str, ...] = ()
    match: str = ""
    on_full: str = "skip"


class Session:
    """A model being stepped; see the module's docstring."""

    def __init__(self, workspace: Workspace, spec: Dict[str, Any], inputs: Optional[Dict[str, np.ndarray]] = None,
                 keep: Optional[Keep] = None, header: Optional[Dict[str, Any]] = None) -> None:
        """Open the model that `spec` names (see `launch.open_session`), run init_net and feed `inputs`.

        Raises ModelError, OperatorError (an init_net operator), InputError or WorkerDied.
        """
        self.workspace = workspace
        self.keep = keep or Keep()
        self.breakpoints: List[Breakpoint] = []
        self.wraps: Dict[str, str] = {}
        self.iteration = 1
        self.position = 0
        self.notes: List[str] = []
        self.on_step: Callable[[Step], None] = lambda step: None
        self._spec = dict(spec)
        self._inputs: Dict[str, np.ndarray] = {}
        self._header = dict(header or {})
        self._numbers = 0
        self._bytes_kept = 0
        self._skipped: Set[int] = set()
        self._bad: Dict[int, str] = {}
        self._capture: Optional[CaptureWriter] = None
        self._wrap_captures: Dict[str, CaptureWriter] = {}
        self._temporary = ""
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
        self._skipped, self._bad, self._bytes_kept = set(), {}, 0
        for name, array in inputs.items():
            self._feed_initial(name, array)

    def _feed_initial(self, name: str, array: np.ndarray) -> None:
        self.workspace.feed(name, array)
        self._inputs[name] = array
        self.history.initial.add(name)
        self.history.kept.pop(BlobVersion(name, 0), None)

    def restart(self) -> Stop:
        """Run init_net again, feed the inputs again, and stand before operator 0; breakpoints stay."""
        self._begin(dict(self._inputs))
        return self._stop("start")

    @property
    def capture_directory(self) -> str:
        """Where the blob versions are kept."""
        return self._writer().path

    def _writer(self) -> CaptureWriter:
        if self._capture is None:
            directory = self.keep.directory
            if directory is None:
                directory = self._temporary = tempfile.mkdtemp(prefix="c2step-capture-")
            self._capture = CaptureWriter(directory)
            self._capture.begin(self.header())
        return self._capture

    def header(self) -> Dict[str, Any]:
        """What capture.json says of this session."""
        inputs = {name: {"dtype": str(a.dtype), "shape": list(a.shape)} for name, a in self._inputs.items()}
        import c2step

        return dict({"kind": "run", "c2step": c2step.__version__, "model": self.model.path, "files": self.model.files,
                     "sha256": self.model.sha256, "import": self._spec.get("import", "faithful"),
                     "versions": self.versions_of_runtime, "inputs": inputs, "outputs": self.model.output_names(),
                     "notes": list(self.model.notes), "operators": len(self.model.predict_net)}, **self._header)

    def finish(self, stop: Stop) -> None:
        """Write into capture.json how the run ended."""
        self._header["ended"] = {"reason": stop.reason, "position": stop.position, "detail": stop.detail}
        self._writer().write_header(self.header())

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
        stop = self._break_after(self.position)
        return self._advance(self.net_size if stop is None else stop, "end" if stop is None else "breakpoint")

    def run(self, count: int = 1) -> Stop:
        """Run predict_net to its end `count` times, each time on the workspace that the former left, as RunNet does."""
        steps: Tuple[Step, ...] = ()
        for _ in range(count):
            if self.position >= self.net_size:
                self.position = 0
                self.iteration += 1
                self._bad, self._skipped = {}, set()
            stop = self.cont()
            steps += stop.steps
            if stop.reason != "end":
                break
        return Stop(stop.reason, stop.position, stop.operator, steps, stop.detail)

    def skip(self, count: int = 1) -> Stop:
        """Go past `count` operators without running them; their outputs are not computed."""
        for index in range(self.position, min(self.position + count, self.net_size)):
            self._skipped.add(index)
            self._bad.pop(index, None)
            self.position = index + 1
        return self._stop("step")

    def _break_after(self, position: int) -> Optional[int]:
        tests = [matcher(self.model.predict_net, b.where) for b in self.breakpoints if b.enabled]
        for op in self.model.predict_net.operators[position + 1:]:
            if any(test(op) for test in tests):
                return op.index
        return None

    def _advance(self, last: int, reason: str) -> Stop:
        """Run operators up to `last` (exclusive); `reason` is what to say when nothing stops it before."""
        first_step = len(self.steps)
        if self.position >= last:
            return self._stop("end" if self.position >= self.net_size else reason, detail="nothing is left to run" if self.position >= self.net_size else "")
        try:
            result = self.workspace.run(self._request(last), self._on_event)
        except WorkerDied as death:
            return self._died(death, first_step)
        steps = tuple(self.steps[first_step:])
        if self._disk:
            raise CaptureError(*self._disk)
        if result == "failed":
            return self._failed(steps)
        if result in ("stopped", "full"):
            return self._stop("interrupted" if result == "stopped" else "full", steps)
        if self.position >= self.net_size:
            return self._stop("end", steps)
        return self._stop(self._hit() if reason != "until" else reason, steps, "")

    _disk: Tuple[str, ...] = ()

    def _request(self, last: int) -> Dict[str, Any]:
        self._disk = ()
        self._failure: Optional[Step] = None
        limit = None if self.keep.max_bytes is None else max(self.keep.max_bytes - self._bytes_kept, 0)
        record = {"directory": self._writer().path, "level": self.keep.level, "types": list(self.keep.types),
                  "match": self.keep.match, "max_bytes": limit, "on_full": self.keep.on_full,
                  "before": self.history.unkept_initial() if self.keep.level == "full" else []}
        return {"first": self.position, "last": last, "tick": len(self.steps), "record": record,
                "wraps": [[_glob(pattern), directory] for pattern, directory in self.wraps.items()]}

    def _on_event(self, event: StepEvent) -> None:
        """Take in one operator's result: journal first, so that it is there whatever happens next."""
        op = self.model.predict_net.operators[event["index"]]
        for row in event.get("before", ()):
            kept = Kept(os.path.join(self._writer().path, row["file"]), row["kind"], BlobSummary.from_json(row["summary"]))
            self.history.keep(row["name"], 0, kept)
        step = Step(len(self.steps), self.iteration, op.index, op, event["status"], event.get("error"),
                    self._reads(op), self._outputs(event), event.get("seconds", 0.0))
        self._journal(step)
        if "wrapped" in event:
            self._journal_wrapped(step, event["wrapped"])
        if event.get("disk"):
            self._disk = (event["disk"]["message"], event["disk"]["hint"])
        if step.status != "ok":
            self._failure = step
            return
        self._skipped.discard(op.index)
        self._bad.pop(op.index, None)
        self._bytes_kept += sum(out.summary.nbytes for out in step.outputs if out.file)
        self.history.add(step, self._writer().path)
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

    def _journal(self, step: Step) -> None:
        self._writer().add(step.to_json())

    def _journal_wrapped(self, step: Step, wrapped: Dict[str, Any]) -> None:
        row = dict(step.to_json(), inputs=_versioned(wrapped["inputs"], step.inputs),
                   outputs=_versioned(wrapped.get("outputs", []), step.outputs))
        for directory in wrapped["directories"]:
            self._wrap_captures[directory].add(row)

    # -- when it stops ------------------------------------------------------------------------

    def _stop(self, reason: str, steps: Sequence[Step] = (), detail: str = "") -> Stop:
        return Stop(reason, self.position, self.next_operator(), tuple(steps), detail)

    def _hit(self) -> str:
        op = self.next_operator()
        hit = [b for b in self.breakpoints if op and b.enabled and matcher(self.model.predict_net, b.where)(op)]
        for point in hit:
            point.hits += 1
            if point.temporary:
                self.breakpoints.remove(point)
        return "breakpoint" if hit else "step"

    def _failed(self, steps: Tuple[Step, ...]) -> Stop:
        """An operator raised: its outputs may hold garbage, so what they held before is put back."""
        failure = self._failure
        assert failure
        self._bad[failure.index] = "F"
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
            self._journal(step)
            self._bad[op.index] = "D"
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
        self._bad = {}
        self._skipped = {i for i in self._skipped if i < self.position}
        self._writer().add({"event": "back", "to": len(self.steps)})
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
        if name not in set(self.model.predict_net.blobs()) | self.history.initial:
            raise InputError("the net has no blob %s" % name, near(name, self.model.predict_net.blobs()))
        if not self.steps and self.history.version(name) == 0:
            self._feed_initial(name, array)
            return
        self._keep_initial(name)
        self.workspace.feed(name, array)
        version = self.history.version(name) + 1
        self._keep_value(name, version, array)
        self.history.add_feed(name, version)
        self._writer().add({"event": "feed", "name": name, "version": version})

    def _keep_initial(self, name: str) -> None:
        """Keep a copy of an initial value that is about to be replaced."""
        if name in self.history.unkept_initial():
            blob = self.workspace.fetch(name)
            if blob.array is not None:
                self._keep_value(name, 0, blob.array)

    def _keep_value(self, name: str, version: int, array: np.ndarray) -> None:
        kind = STRING if array.dtype.kind in "OSU" else TENSOR
        blob = Blob(name, kind, array)
        path = os.path.join(self._writer().path, file_name(len(self.steps), "fed%d" % version, name, kind))
        write_blob(path, blob)
        self.history.keep(name, version, Kept(path, kind, blob.summary()))

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
        import fnmatch

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
        if index in self._bad:
            return self._bad[index]
        if index in self._skipped:
            return "S"
        if index >= self.position:
            return "."
        step = next((s for s in reversed(self.steps) if s.index == index and s.iteration == self.iteration), None)
        if step is None:
            return "."
        return "?" if any(o.kind in (UNINITIALISED, MISSING, OTHER) for o in step.outputs) else "o"

    def set_break(self, where: str, temporary: bool = False) -> Breakpoint:
        """Stop before each operator that `where` names; a pattern such as conv* is allowed."""
        matcher(self.model.predict_net, where)
        self._numbers += 1
        point = Breakpoint(self._numbers, where, temporary)
        self.breakpoints.append(point)
        return point

    def delete_break(self, number: int) -> None:
        """Take a breakpoint away."""
        found = [b for b in self.breakpoints if b.number == number]
        if not found:
            raise UsageError("there is no breakpoint %d" % number)
        self.breakpoints.remove(found[0])

    def wrap(self, pattern: str, save: Optional[str] = None) -> str:
        """Save the inputs and outputs of every operator of a type as it runs; returns the directory."""
        types = {op.type for op in self.model.predict_net.operators}
        if not any(_fits(pattern, t) for t in types):
            raise UsageError("no operator has type %s" % pattern, near(pattern, types))
        directory = os.path.abspath(save or "wrapped-%s" % (pattern.replace("*", "_") or "all"))
        writer = CaptureWriter(directory)
        writer.begin(dict(self.header(), kind="wrap", wrapped=pattern))
        self._wrap_captures[directory] = writer
        self.wraps[pattern] = directory
        return directory

    def unwrap(self, pattern: str) -> None:
        """Stop saving."""
        if pattern not in self.wraps:
            raise UsageError("%s is not wrapped" % pattern, "wrapped: %s" % (", ".join(self.wraps) or "none"))
        directory = self.wraps.pop(pattern)
        if directory not in self.wraps.values():
            self._wrap_captures.pop(directory).close()

    def interrupt(self) -> None:
        """Stop a running verb before its next operator; safe in a signal handler."""
        self.workspace.interrupt()

    def kill(self) -> None:
        """Stop the running operator itself, by ending the worker."""
        end = getattr(self.workspace, "kill", None)
        if end:
            end()

    def close(self) -> None:
        """End the worker, close the capture, take temporary files away."""
        for writer in [self._capture] + list(self._wrap_captures.values()):
            if writer:
                writer.close()
        self.workspace.close()
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _fits(pattern: str, op_type: str) -> bool:
    import re

    return re.match(_glob(pattern), op_type) is not None


def _glob(pattern: str) -> str:
    import fnmatch

    return fnmatch.translate(pattern)


def _versioned(rows: Sequence[Dict[str, Any]], versions: Sequence[Any]) -> List[Dict[str, Any]]:
    known = {v.name: v.version for v in versions}
    return [dict(row, version=known.get(row["name"], 0)) for row in rows]
