"""The engine: a model on a workspace, stepped one operator at a time.

`Session` has a debugger's verbs.  It keeps every blob version in a capture as it goes, so that going
back, and coming back after the worker died, are exact: a version that an operator overwrote is put
back from the capture, never computed again.
"""

import fnmatch
import os
from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

import numpy as np

from . import travel
from .blob import Blob, BlobSummary, blob_of
from .breakpoints import Breakpoint, Place, find_operator
from .capture import file_name, read_blob, write_blob
from .conditions import Condition
from .errors import C2StepError, UsageError
from .history import History, Kept, Output, Step
from .hooks import Hook
from .model import Model
from .net import Operator
from .patching import Patch
from .recording import Keep, Recording, describe_run
from .running import Runner, Stop
from .snapshot import save_all
from .timeline import Timeline
from .workspace import Change, Workspace, changes_of
from .wraps import Wraps, condition_of

__all__ = ["Keep", "Session", "Stop"]


class Session(Runner):
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
        self.notes: List[str] = []
        self._importing = {key: spec[key] for key in ("import", "backend") if key in spec}
        self._header = dict(header or {})
        self.versions_of_runtime = workspace.versions()
        super().__init__(Timeline(workspace, dict(spec), Recording(keep or Keep(), self.header)), Wraps(self.header))
        self._timeline.begin(dict(inputs or {}))

    # -- starting -----------------------------------------------------------------------------

    def restart(self, keep: Optional[Keep] = None, inputs: Optional[Dict[str, np.ndarray]] = None) -> Stop:
        """Run init_net again, feed the inputs again, and stand before operator 0; breakpoints stay.

        With `keep` a new capture begins.  `inputs` are fed in place of the former ones.
        """
        for name, array in (inputs or {}).items():
            self.model.check_fixed(name, array)
        if keep is not None:
            self._timeline.recording.close()
            self._timeline.recording = Recording(keep, self.header)
        undone = [] if keep is not None else self.steps
        self._timeline.begin(dict(self._timeline.inputs if inputs is None else inputs))
        return self._began(undone)

    def anew(self, keep: Keep) -> Stop:
        """As `restart`; init_net only runs again where that can make a difference to the next run."""
        changed = self.changes.patches or self.changes.edits or self._calling.hooks
        if changed or not self._timeline.repeatable():
            return self.restart(keep)
        self._timeline.recording.close()
        self._timeline.recording = Recording(keep, self.header)
        self._timeline.rewind()
        return self._began([])

    def _began(self, undone: List[Step]) -> Stop:
        self._timeline.recording.event("restart")
        self._timeline.recording.take_back(undone)
        self.changes.began()
        self._calling.began()
        self.position, self.iteration, self.letters = 0, 1, {}
        return self.stop("start")

    @property
    def capture_directory(self) -> str:
        """Where the blob versions are kept."""
        return self._timeline.recording.directory

    def header(self) -> Dict[str, Any]:
        """What capture.json says of this session."""
        said = describe_run(self.model, self.inputs, self._importing, self.versions_of_runtime)
        return dict(said, **self._header)

    @property
    def spec(self) -> Dict[str, Any]:
        """What was opened, and how: see `Workspace.open`."""
        return self._timeline.spec

    def catch_up(self, drawn: Dict[str, np.ndarray]) -> str:
        """Bring the workspace, as opened, to where the history stands; returns what must be said about it.

        `drawn` is what the init_net of an earlier session drew at random.
        """
        self._timeline.draw(drawn)
        return self._timeline.catch_up()

    @property
    def kept_bytes(self) -> int:
        """The bytes of blobs that the capture holds."""
        return self._timeline.recording.nbytes

    @property
    def journalled(self) -> int:
        """How many steps the capture tells of: all, unless the disk is full."""
        return self._timeline.recording.journalled

    @property
    def max_bytes(self) -> Optional[int]:
        """How many bytes of blobs the capture may hold; None for no limit."""
        return self._timeline.recording.keep.max_bytes

    @property
    def on_full(self) -> str:
        """What happens at that limit: "stop", or "skip"."""
        return self._timeline.recording.keep.on_full

    def keep_up_to(self, limit: Optional[int], on_full: str = "stop") -> None:
        """Change how many bytes of blobs the capture may hold; at the limit "stop", or "skip" values and go on."""
        self._timeline.recording.keep_up_to(limit, on_full)

    def memory(self) -> int:
        """The bytes of memory that the worker holds; 0 where there is none."""
        held = getattr(self.workspace, "memory", None)
        return int(self._timeline.protected(held)) if held else 0

    @property
    def max_memory(self) -> Optional[int]:
        """How many bytes the worker may hold; None for no limit."""
        return getattr(self.workspace, "max_memory", None)

    def limit_memory(self, limit: Optional[int]) -> None:
        """Change how many bytes the worker may hold."""
        change = getattr(self.workspace, "limit_memory", None)
        if change is None:
            raise UsageError("there is no worker whose memory could be limited")
        self._timeline.protected(lambda: change(limit))

    def finish(self, stop: Stop) -> None:
        """Write into capture.json how the run ended."""
        self._header["ended"] = {"reason": stop.reason, "position": stop.position, "detail": stop.detail}
        self._timeline.recording.write_header()

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

    def step(self, count: int = 1) -> Stop:
        """Run `count` operators."""
        return self.advance(min(self.position + count, self.net_size), "step")

    def next(self, count: int = 1) -> Stop:
        """Run `count` operators; operators with nets inside run as one."""
        return self.step(count)

    def until(self, where: Place) -> Stop:
        """Run until the session stands before the operator that `where` names."""
        target = find_operator(self.model.predict_net, where, self.position)
        if target.index < self.position:
            raise UsageError(
                "%s lies behind: the next operator is %d" % (target, self.position), "use back, or restart"
            )
        return self.advance(target.index, "until")

    def cont(self) -> Stop:
        """Run to the next breakpoint or the end."""
        return self.advance(self.net_size, "step")

    def run(self, count: int = 1) -> Stop:
        """Run predict_net to its end `count` times, each time on the workspace that the former left, as RunNet does."""
        steps: Tuple[Step, ...] = ()
        for _ in range(count):
            if self.position >= self.net_size:
                self.again()
            stop = self.cont()
            steps += stop.steps
            if stop.reason != "end":
                break
        return replace(stop, steps=steps)

    def again(self) -> Stop:
        """Stand before operator 0 for the next run of predict_net, on the workspace that this one left."""
        self.position, self.letters = 0, {}
        self.iteration += 1
        return self.stop("start")

    # -- going back ---------------------------------------------------------------------------

    def back(self, count: int = 1) -> Stop:
        """Undo the last `count` steps: every blob they wrote holds again what it held before."""
        if not self.steps:
            raise UsageError("nothing has run yet, there is nothing to go back over")
        return self.undo(min(count, len(self.steps)))

    def goto(self, where: Place) -> Stop:
        """Stand before the operator that `where` names: go back to it, or run to it."""
        target = find_operator(self.model.predict_net, where, self.position).index
        if target > self.position:
            return self.advance(target, "until")
        return self._back_to(travel.before(self.steps, self.iteration, target), target)

    def rcontinue(self) -> Stop:
        """Go back to the last place where a breakpoint would have stopped, else to the beginning."""
        if not self.steps:
            raise UsageError("nothing has run yet, there is nothing to go back over")
        for count in range(len(self.steps) - 1, 0, -1):
            hits = self.hits_at(count)
            if hits:
                stop = self._back_to(count, self.steps[count].index)
                detail = "; ".join(filter(None, [stop.detail, *hits.values()]))
                return replace(stop, reason="breakpoint", detail=detail, hits=tuple(hits))
        return replace(self._back_to(0, self.steps[0].index), reason="start")

    def _back_to(self, count: int, position: int) -> Stop:
        """Undo all but the first `count` steps and stand before operator `position`."""
        stop = self.back(len(self.steps) - count) if count < len(self.steps) else self.stop("step")
        self.position = position
        return self.stop("step", (), stop.detail)

    # -- blobs --------------------------------------------------------------------------------

    def feed(self, name: str, array: np.ndarray) -> None:
        """Give a blob a value now; before the first step it becomes the initial value (version 0)."""
        self.model.check_fixed(name, array)
        self._timeline.feed(name, array)

    def put(self, name: str, kept: Kept) -> None:
        """Give a blob the value of a file, such as a reference's, as its next version; nothing is copied."""
        self._timeline.put(name, kept)

    def replace_after(self, plan: Mapping[int, Sequence[Tuple[str, Kept]]]) -> None:
        """From now on put files into blobs, as `put` does, as soon as the operator of that index has run.

        What it wrote itself is recorded before; all is one request to the worker.  An empty plan ends it.
        """
        self._timeline.replacing = dict(plan)

    def patch(
        self, name: str, value: np.ndarray, source: str = "a value", part: Optional[Tuple[Any, ...]] = None
    ) -> Patch:
        """Put a value in place of a blob's live one, as if the operator that wrote it had written that.

        It stays when that operator runs again, until `unpatch`.  What has run on the old value is dirty.  Before
        the operator has run, it waits; one number fills the shape that comes, `part` (an index) replaces only that.
        """
        there = self.history.exists(name)  # else it must fit as it is
        return self.changes.patch(blob_of(name, value, there), source, self.position, part)

    def unpatch(self, name: str) -> List[Patch]:
        """Take a patch away: the blob has its own value again, now and when its operator runs again."""
        return self.changes.unpatch(name)

    def edit(self, where: Place, *changes: Union[Change, Mapping[str, Any]]) -> Operator:
        """Change an operator for this session: ("arg", "pads", [1, 1]), ("input", "0", "x"), ("type", "", "Relu").

        A mapping stands for arguments, {"pads": [1, 1]}.  The value None takes an argument away.  What it wrote is
        dirty until it runs again.
        """
        return self.changes.edit(self.operator(where).index, changes_of(*changes))

    def arguments(self, op_type: str) -> List[str]:
        """The arguments that operators of a type are known to read: by Caffe2's schemas, and what the nets set."""
        known = list(self._timeline.protected(lambda: self.workspace.arguments(op_type)))
        originals = self.changes.originals
        operators = [originals.get(op.index, op) for op in self.model.predict_net.operators]
        operators += self.model.init_net.operators
        return list(dict.fromkeys(known + [arg.name for op in operators if op.type == op_type for arg in op.arguments]))

    def unedit(self, where: Place) -> Operator:
        """Give an operator back what it was when the model was opened."""
        return self.changes.unedit(self.operator(where).index)

    def rerun(self, where: Optional[Place] = None) -> Stop:
        """Go back to an operator that has run and run it again on the same inputs, as it is now.

        Without WHERE that is the first that is dirty, else the last one that ran.
        """
        if where is None and not self.steps:
            raise UsageError("nothing has run yet, there is nothing to run again")
        op = self.operator(min(self.dirty_operators(), default=self.steps[-1].index) if where is None else where)
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
        path = os.path.join(self._timeline.recording.directory, output.file)
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

    def save(self, name: str, path: str, version: Optional[int] = None, index: Any = None) -> str:
        """Write a blob, or the part of it at a numpy `index`, to a .npy file and return its path."""
        blob = self.fetch(name, version)
        if blob.array is None:
            raise UsageError("%s has no value to save: %s" % (name, blob.text or blob.kind))
        try:
            blob = blob if index is None else blob.part(index)
        except IndexError as error:
            raise UsageError("the slice does not fit %s: %s" % (name, error)) from None
        if os.path.isdir(path):
            path = os.path.join(path, file_name(self.history.version(name), "v", name, blob.kind))
        write_blob(path, blob)
        return path

    def save_all(self, folder: str) -> int:
        """Write every blob that is there into a folder, as a capture; returns how many."""
        return save_all(self, folder)

    def unfed(self) -> List[str]:
        """The inputs of predict_net that have no value."""
        return [name for name in self.model.predict_net.free_inputs() if not self._timeline.has_been(name)]

    # -- operators, breakpoints, wrappers -----------------------------------------------------

    def operator(self, where: Place) -> Operator:
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
        letter = self.letters.get(index, ".")
        return "*" if letter in "o?" and index in self.dirty_operators() else letter

    @property
    def breakpoints(self) -> List[Breakpoint]:
        """The breakpoints that are set."""
        return self._breakpoints.all

    def set_break(self, where: Place, *, temporary: bool = False, condition: str = "") -> Breakpoint:
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

    def adopt_breaks(self, points: List[Breakpoint]) -> List[Breakpoint]:
        """Take over breakpoints of another session, as they are; returns those whose place this net does not have."""
        return [point for point in points if not self._breakpoints.adopt(self.model.predict_net, point)]

    def number_breaks_with(self, outer: "Session") -> None:
        """Give breakpoints numbers that those of the session around do not have."""
        self._breakpoints.count_with(outer._breakpoints)

    def breakpoint(self, number: int) -> Breakpoint:
        """A breakpoint by its number."""
        return self._breakpoints.find(number)

    def enable(self, number: int, on: bool = True) -> Breakpoint:
        """Let a breakpoint stop, or nothing stop there for now."""
        self.breakpoint(number).enabled = on
        return self.breakpoint(number)

    def ignore(self, number: int, count: int) -> Breakpoint:
        """Let the next `count` hits of a breakpoint go by."""
        self.breakpoint(number).ignore = count
        return self.breakpoint(number)

    def set_commands(self, number: int, commands: Sequence[str]) -> Breakpoint:
        """The commands that a prompt runs at each stop there."""
        self.breakpoint(number).commands[:] = commands
        return self.breakpoint(number)

    def commands_of(self, number: int) -> List[str]:
        """The commands to run where a breakpoint stops, also a temporary one that is gone."""
        return self._breakpoints.commands_of(number)

    def delete_break(self, number: int) -> None:
        """Take a breakpoint away; one that is a wrap's check is no longer checked, then."""
        self._breakpoints.delete(number)
        self._wraps.unchecked(number)

    @property
    def wraps(self) -> Dict[str, str]:
        """The wrapped operator types and the directories that their inputs and outputs go to."""
        return self._wraps.directories

    def checks(self, pattern: str) -> Tuple[str, List[int]]:
        """What a wrap checks, and the numbers of the breakpoints that do it."""
        wrapped = self._wraps.all[pattern]
        return wrapped.check, list(wrapped.points)

    def resume_wrap(self, pattern: str, directory: str, check: str, points: List[int]) -> None:
        """Wrap again as in an earlier session; the breakpoints of its check must be there."""
        wrapped = self._wraps.add(pattern, sorted({op.type for op in self.model.predict_net.operators}))
        wrapped.check, wrapped.points = check, points
        for number in points:
            self.breakpoint(number).owner = wrapped.label
        if directory:
            self._wraps.save(wrapped, directory, True)

    @property
    def wrap_effects(self) -> Dict[str, str]:
        """What each wrap does beside saving, in words."""
        return {pattern: wrapped.effects for pattern, wrapped in self._wraps.all.items()}

    def wrap(self, pattern: str, save: Optional[str] = None, check: str = "", call: Optional[Hook] = None) -> str:
        """Do something whenever an operator of a type runs: save what it reads and writes, check, call a hook.

        `check` is nan, range, range:LOW:HIGH or reference: a run stops after an operator that does not pass.
        Without check and hook, or with `save`, it saves; returns the directory, empty where it does not.
        """
        types = sorted({op.type for op in self.model.predict_net.operators})
        conditions = {name: condition_of(check, name) for name in types} if check else {}
        if pattern in self._wraps.all:
            self.unwrap(pattern)
        wrapped = self._wraps.add(pattern, types)
        try:
            if check:
                wrapped.check = check
                points = [self.set_break("type:" + t, condition=conditions[t]) for t in wrapped.types]
                for point in points:
                    point.owner = wrapped.label
                wrapped.points = [point.number for point in points]
            if save is not None or not (check or call):
                self._wraps.save(wrapped, save)
        except C2StepError:
            self.unwrap(pattern)
            raise
        if call is not None:
            wrapped.hook = self.hook(call)
        return wrapped.directory

    def unwrap(self, pattern: str) -> None:
        """Take a wrap away, with its checks and its hook."""
        wrapped = self._wraps.remove(pattern)
        for number in wrapped.points:
            if any(point.number == number for point in self.breakpoints):
                self.delete_break(number)
        if wrapped.hook is not None:
            self.unhook(wrapped.hook)

    def hook(self, hook: Hook) -> Hook:
        """Call a function made by `c2step.before` or `c2step.after` whenever an operator runs that it is for."""
        self._calling.hooks.append(hook)
        return hook

    def unhook(self, hook: Hook) -> None:
        """Call it no more."""
        self._calling.hooks.remove(hook)

    def interrupt(self) -> None:
        """Stop a running verb before its next operator; safe in a signal handler."""
        self.workspace.interrupt()

    def forget_interrupt(self) -> None:
        """Take back an interrupt that met no running verb."""
        self.workspace.forget_interrupt()

    def kill(self) -> None:
        """Stop the running operator itself, by ending the worker."""
        end = getattr(self.workspace, "kill", None)
        if end:
            end()

    def end(self) -> None:
        """Let a temporary capture go away when the session closes, also one that was resumed."""
        self._timeline.recording.lasting = False

    @property
    def can_be_resumed(self) -> bool:
        """Whether `resume` will find it after it was closed, in a capture that nobody asked to keep."""
        recording = self._timeline.recording
        return recording.lasting and recording.keep.resume

    def close(self) -> None:
        """End the worker, close the captures, take temporary files away."""
        self._wraps.close()
        self._timeline.recording.close()
        self.workspace.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
