"""Keeps a workspace at one point of what has run: forward, back, and again after the worker died.

A blob version that an operator overwrote is put back from the capture, never computed again; only
what could not be kept (a mutex, a counter, blobs past the limit on bytes) is made by running again.
"""

from dataclasses import replace
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import numpy as np

from .blob import MISSING, OTHER, TENSOR, UNINITIALISED, Blob, BlobSummary
from .capture import read_blob
from .errors import UsageError, WorkerDied, near
from .history import History, Kept, Step
from .intake import Intake, stored_row
from .model import Model
from .net import BlobVersion, Net, Operator, depends_on_others, is_random, is_stateful, operator_from_json
from .recording import Recording
from .workspace import Change, Workspace

__all__ = ["Timeline"]

_SMALL = 1 << 12  # bytes of a value that is remembered once it was looked at


class Timeline(Intake):
    """A workspace, and the history that says which value each of its blobs must have."""

    def __init__(self, workspace: Workspace, spec: Dict[str, Any], recording: Recording) -> None:
        super().__init__(workspace, Model.from_json(workspace.open(spec)), recording)
        self.inputs: Dict[str, np.ndarray] = {}
        self._blobs = dict.fromkeys(self.model.predict_net.blobs())
        self._at_stake: Set[str] = set()  # initial values that operators overwrite
        self._written = {name for op in self.model.predict_net.operators for name in op.writes}
        self._spec = spec
        self.drawn: Dict[str, np.ndarray] = {}
        workspace.on_lost = self.revive
        self._initialised = False

    @property
    def spec(self) -> Dict[str, Any]:
        """What was opened, with the edits since."""
        return self._spec

    @property
    def steps(self) -> List[Step]:
        """Everything that has run, oldest first."""
        return self.history.steps

    def begin(self, inputs: Dict[str, np.ndarray]) -> None:
        """Run init_net, forget what has run, and feed the inputs."""
        self.history = History()  # first: a worker that has ended meanwhile comes back without the old values
        self._initialise()
        self.inputs = {}
        blobs = self.workspace.peek()
        self.history.initial = {row["name"] for row in blobs if row["kind"] not in (MISSING, UNINITIALISED)}
        self.history.objects = {row["name"] for row in blobs if row["kind"] == OTHER}
        self._at_stake = self._written & self.history.initial
        for name, array in inputs.items():
            self.feed_initial(name, array)

    def rewind(self) -> None:
        """Forget what has run; what was there before still is, see `repeatable`."""
        initial, objects = self.history.initial, self.history.objects
        self.history = History()
        self.history.initial, self.history.objects = initial, objects

    def repeatable(self) -> bool:
        """Whether the net may just run once more, as a deployed one does from one input to the next.

        So it is where all of it has run, where no operator keeps anything, and each reads only what was there at the
        start and still is, or what operators before it write.  Only what operators of ONNX may do is known well enough.
        """
        operators, history = self.model.predict_net.operators, self.history
        whole = [step.index for step in self.steps] == list(range(len(operators)))
        if not whole or history.feeds or history.objects or any(s.shares or s.touched for s in self.steps):
            return False
        written: Set[str] = set()
        for op in operators:
            if op.node is None or op.inner or op.type == "Alias" or is_random(op) or is_stateful(op):
                return False
            if not all(name in written or name in history.initial for name in op.inputs):
                return False
            written.update(op.outputs)
        return written.isdisjoint(history.initial)

    def _initialise(self) -> None:
        """Run init_net; what it draws at random is drawn once in a session, and fed whenever it runs again."""
        self.workspace.init()
        if not self._initialised:
            self._initialised = True
            for name in _drawn(self.model.init_net):
                blob = self.workspace.fetch(name)
                if blob.kind == TENSOR and blob.array is not None:
                    self.drawn[name] = blob.array
            return
        for name, array in self.drawn.items():
            self.workspace.feed(name, array)

    def draw(self, values: Dict[str, np.ndarray]) -> None:
        """Take these values for what init_net draws at random."""
        self.drawn.update(values)
        for name, array in values.items():
            self.workspace.feed(name, array)

    def feed_initial(self, name: str, array: np.ndarray) -> None:
        """Feed version 0 of a blob."""
        self.workspace.feed(name, array)
        self.inputs[name] = array
        self.history.initial.add(name)
        self._at_stake = self._written & self.history.initial
        self.history.forget(name, 0)

    # -- taking in what ran -------------------------------------------------------------------

    def unkept(self) -> List[str]:
        """The blobs whose initial value must be kept before an operator overwrites it."""
        return self.history.unkept_initial(self._at_stake) if self._at_stake else []

    def why_failed(self, failure: Step) -> str:
        """What there is to say of an operator that raised."""
        parts = [failure.error or ""]
        if "type mismatch" in parts[0] or "Unsupported type" in parts[0]:
            odd = ["%s is %s" % (name, a.dtype) for name, a in self.inputs.items() if a.dtype != np.float32]
            parts += ["fed: %s" % ", ".join(odd)] if odd else []
        names = [name for name in failure.operator.outputs if self.history.exists(name)]
        if names:
            older = ["%s@%d" % (name, self.history.version(name)) for name in names]
            parts.append("its output %s is still the older value" % ", ".join(older))
        return "; ".join(parts)

    # -- changing -----------------------------------------------------------------------------

    def edit(self, edits: Dict[int, Tuple[Change, ...]], index: int) -> Operator:
        """Change an operator here, and in every worker to come."""
        made = operator_from_json(self.protected(lambda: self.workspace.edit(index, edits.get(index, ()))))
        self._spec["edits"] = [[i, [list(change) for change in found]] for i, found in sorted(edits.items()) if found]
        net = self.model.predict_net
        operators = net.operators[:index] + (made,) + net.operators[index + 1 :]
        self.model = replace(self.model, predict_net=replace(net, operators=operators))
        self._blobs = dict.fromkeys(self.model.predict_net.blobs())
        return made

    def put_at(self, blob: Blob, at: int) -> None:
        """Give a blob a value as if it had been there since the first `at` steps."""
        self._keep_initial(blob.name)
        version = self.history.version(blob.name) + 1
        self._fed(blob.name, version, self.recording.keep_blob(blob, len(self.steps)), at)
        self.put_back({blob.name})

    # -- coming back --------------------------------------------------------------------------

    def revive(self) -> str:
        """Put a new worker where the dead one stood; returns what must be said about it."""
        self.history.forget_values()
        try:
            self.workspace.open(self._spec)
            self._initialise()
            for name, array in self.inputs.items():
                self.workspace.feed(name, array)
            return self.catch_up()
        except BaseException:
            self.workspace.give_up()  # nobody may take it for what it should be
            raise

    def catch_up(self) -> str:
        """Bring a workspace that was just initialised to where the history is; returns what must be said about it."""
        live = {name for name, version in self.history.versions.items() if version}
        lost = sorted(name for name in live if not self._is_kept(name))
        if self._uses_objects(self.steps):
            lost = lost or sorted(self.history.objects)
        drawing = [step.operator for step in self.steps if _draws_inside(step.operator)]
        tied = self._tied()
        again = lost or [str(op) for op in drawing[:1]] or sorted(tied)
        note = self._replay(again) if again else ""
        self.put_back(live - tied)
        if not again:
            self._reseed({step.operator for step in self.steps if is_random(step.operator)})
        return note

    def _is_kept(self, name: str) -> bool:
        live = BlobVersion(name, self.history.version(name))
        if live in self.history.kept:
            return True
        summary = self.history.summary(live)
        return summary is not None and summary.kind in (UNINITIALISED, MISSING)

    def _replay(self, lost: Sequence[str]) -> str:
        """Run what has run again, for blobs of which no copy could be kept."""
        first = 0
        while first < len(self.steps):
            last = self._stretch(first)
            fed = [BlobVersion(name, version) for at, name, version in self.history.feeds if at == first]
            self._restore([version for version in fed if version in self.history.kept], [])
            self._run_unrecorded(self.steps[first].index, self.steps[last - 1].index + 1)
            first = last
        named = ", ".join(lost[:3]) + (" and %d more" % (len(lost) - 3) if len(lost) > 3 else "")
        was = "was" if len(lost) == 1 else "were"
        note = "%s %s made again by running %s" % (named, was, _counted(len(self.steps), "operator"))
        if self._spec.get("edits"):
            note += ", as they are edited now"
        chances = [op for op in {step.operator for step in self.steps} if self._left_to_chance(op)]
        if chances:
            shown = sorted(chances, key=lambda op: op.index)[:3]
            note += ", not exactly where it depends on %s" % ", ".join(map(str, shown))
        return note

    def _left_to_chance(self, op: Operator) -> bool:
        """Whether running everything again from the start may give other values for it."""
        return depends_on_others(op) or (is_random(op) and not self._is_seeded(op))

    def _is_seeded(self, op: Operator) -> bool:
        if "seed" in op.device or "seed" in self.model.predict_net.device:
            return True
        drawing = [inner for inner in op.inner if is_random(inner)]
        return bool(drawing) and all("seed" in inner.device for inner in drawing)

    def _stretch(self, first: int) -> int:
        """How far the steps from `first` on follow each other in the net without a feed between them."""
        fed = {at for at, _, _ in self.history.feeds}
        last = first + 1
        while last < len(self.steps) and last not in fed and self.steps[last].index == self.steps[last - 1].index + 1:
            last += 1
        return last

    def put_back(self, names: Set[str]) -> None:
        """Make the workspace hold the live version of each blob."""
        live = [BlobVersion(name, self.history.version(name)) for name in sorted(names)]
        kept = [version for version in live if version in self.history.kept]
        self._restore(kept, [v.name for v in live if v not in self.history.kept and not self.history.exists(v.name)])
        self._share_again({version.name for version in kept})

    def give_back(self, name: str) -> None:
        """Make the workspace hold a blob's live version, from its file, else as it came to be."""
        if self.history.exists(name) and not self._is_kept(name):
            self.revive()
        else:
            self.put_back({name})

    def _share_again(self, restored: Set[str]) -> None:
        """What was put back has storage of its own: let it be shared as it was."""
        torn = [pair for pair in self._shared() if restored & set(pair) and not self._is_part(pair)]
        if torn:
            self.workspace.share(torn)

    def _shared(self) -> List[Tuple[str, str]]:
        return self.history.shared() if any(step.shares for step in self.steps) else []

    def _is_part(self, pair: Tuple[str, str]) -> bool:
        """Whether one blob of a pair is a part of the other one's storage, which only its operator can make it."""
        found = [self.history.summary(version) for version in self._live_of(pair)]
        return len({summary.nbytes for summary in found if summary is not None}) > 1

    def _live_of(self, names: Iterable[str]) -> List[BlobVersion]:
        return [BlobVersion(name, self.history.version(name)) for name in names]

    def _tied(self) -> Set[str]:
        """Blobs that are parts of each other's storage, with what the same operators wrote."""
        names = {name for pair in self._shared() if self._is_part(pair) for name in pair}
        live = set(self._live_of(names))
        for step in self.steps if names else ():
            if any((out.name, out.version) in live for out in step.written):
                names.update(out.name for out in step.written)
        return names

    def _restore(self, versions: Sequence[BlobVersion], remove: Sequence[str]) -> None:
        if versions or remove:
            self.settle()
            self.workspace.restore([stored_row(v.name, self.history.kept[v]) for v in versions], remove, [])

    def protected(self, look: Callable[[], Any]) -> Any:
        """Look at something; if that ends the worker, a new one stands in its place and WorkerDied is raised."""
        try:
            return look()
        except WorkerDied as death:
            self.revive()
            death.message += "; the worker was started again"
            raise

    # -- going back ---------------------------------------------------------------------------

    def back(self, count: int) -> str:
        """Undo the last `count` steps; returns what must be said about it."""
        undone = self.steps[len(self.steps) - count :]
        before = dict(self.history.versions)
        changed = self.history.undo(count)
        live = [BlobVersion(name, self.history.version(name)) for name in changed]
        lost = [v for v in live if v.version != before.get(v.name) and self.history.exists(v.name)]
        drawing = {step.operator for step in undone if _draws_inside(step.operator)}
        again = drawing or self._uses_objects(undone) or changed & self._tied()
        if not again and all(version in self.history.kept for version in lost):
            return self._rewind(undone, changed)
        return "; ".join(filter(None, [self.revive(), self._unseeded(drawing)]))

    def undo_attempt(self, op: Operator) -> str:
        """Let the blobs be as they were before an operator that was run and does not count."""
        names = set(op.writes)
        names |= {name for pair in self.history.shared() if names & set(pair) for name in pair}
        lost = [name for name in names if self.history.exists(name) and not self._is_kept(name)]
        if lost or _draws_inside(op) or self._reads_objects([op]):
            return self.revive()
        self.put_back(names)
        return self._reseed({op} if is_random(op) else set())

    def _uses_objects(self, steps: Sequence[Step]) -> bool:
        """Whether any step read a counter, a queue or a database: its state cannot be put back, only made again."""
        return self._reads_objects([step.operator for step in steps])

    def _reads_objects(self, operators: Sequence[Operator]) -> bool:
        objects = self.history.objects | {out.name for s in self.steps for out in s.outputs if out.kind == OTHER}
        return bool(objects) and any(objects & _read_by(op) for op in operators)

    def _rewind(self, undone: Sequence[Step], changed: Set[str]) -> str:
        self.put_back(changed)
        return self._reseed({step.operator for step in undone if is_random(step.operator)})

    def _reseed(self, random: Set[Operator]) -> str:
        """Make random operators anew and draw as they had drawn, on what they read then, so that a seed gives the
        same again."""
        seeded = {op for op in random if self._is_seeded(op)}
        for op in sorted(seeded, key=lambda op: op.index):
            self.workspace.restore([], [], [op.index])
            for step in [step for step in self.steps if step.index == op.index]:
                self._restore([version for version in step.inputs if self._may_go_back(version)], [])
                self._run_unrecorded(op.index, op.index + 1)
            self.put_back(set(op.outputs + op.inputs))
        return self._unseeded(random)

    def _may_go_back(self, version: BlobVersion) -> bool:
        """Whether a blob can have this version for a while: both that and the live one are kept."""
        return version in self.history.kept and BlobVersion(version.name, self.history.version(version.name)) in (
            self.history.kept
        )

    def _unseeded(self, random: Set[Operator]) -> str:
        unseeded = sorted([op for op in random if not self._is_seeded(op)], key=lambda op: op.index)
        return "%s has no seed: it draws other numbers when it runs again" % unseeded[0] if unseeded else ""

    def _run_unrecorded(self, first: int, last: int) -> None:
        self.workspace.run({"first": first, "last": last, "tick": 0, "left": None, "plan": {}}, lambda events: None)

    # -- blobs --------------------------------------------------------------------------------

    def feed(self, name: str, array: np.ndarray) -> None:
        """Give a blob a value now; before the first step it becomes version 0, afterwards the next version."""
        self.known(name)
        if not self.steps and self.history.version(name) == 0:
            self.feed_initial(name, array)
            return
        self._keep_initial(name)
        self.workspace.feed(name, array)
        version = self.history.version(name) + 1
        self._fed(name, version, self.recording.keep_value(name, array, len(self.steps)))

    def put(self, name: str, kept: Kept) -> None:
        """Give a blob the value of a file, such as a reference's, as its next version; nothing is copied."""
        self.known(name)
        self._keep_initial(name)
        self._fed(name, self.history.version(name) + 1, kept)
        self.put_back({name})

    def _keep_initial(self, name: str) -> None:
        """Keep a copy of an initial value that is about to be replaced."""
        if self.history.unkept_initial({name}):
            blob = self.workspace.fetch(name)
            if blob.array is not None:
                self.history.keep(name, 0, self.recording.keep_value(name, blob.array, len(self.steps)))

    def known(self, name: str, version: Optional[int] = None) -> None:
        """UsageError where the net has no such blob, or the blob no such version."""
        if name not in self.history.initial and name not in self._blobs:
            raise UsageError("there is no blob %s" % name, near(name, self._blobs))
        known = self.history.known(name)
        if version is not None and version not in known:
            has = ", ".join("%s@%d" % (name, v) for v in known) or "none yet"
            raise UsageError("%s has no version %d yet" % (name, version), "it has %s" % has)

    def fetch(self, name: str, version: Optional[int] = None) -> Blob:
        """A blob's value: the live one, or an older version from the capture."""
        self.known(name, version)
        if version is None or version == self.history.version(name):
            found: Blob = self.protected(lambda: self.workspace.fetch(name))
            return found
        kept = self.history.kept.get(BlobVersion(name, version))
        if kept is None:
            others = [v for v in self.history.known(name) if BlobVersion(name, v) in self.history.kept]
            hint = "kept: %s" % (", ".join("%s@%d" % (name, v) for v in others) or "none")
            raise UsageError("the bytes of %s@%d were not kept" % (name, version), hint)
        self.settle()
        return read_blob(kept.file, name, kept.kind, kept.summary.scale, kept.summary.zero_point)

    def array(self, version: BlobVersion) -> Optional[np.ndarray]:
        """A version's value as numbers, for a look; a kept one cannot be written to."""
        kept = self.history.kept.get(version)
        if kept is None and version.version != self.history.version(version.name):
            return self.fetch(*version).real()
        found = self.history.value(version)
        if found is None:
            found = self._looked_at(version, kept)
        return found if kept is not None or found is None else found.copy()

    def _looked_at(self, version: BlobVersion, kept: Optional[Kept]) -> Optional[np.ndarray]:
        """The value from its file, or from where the operators run; a small one is remembered."""
        if kept is None:
            blob = self.fetch(*version)
        else:
            self.settle()
            scale, zero_point = kept.summary.scale, kept.summary.zero_point
            blob = read_blob(kept.file, version.name, kept.kind, scale, zero_point, mapped=True)
        found = blob.real()
        if found is not None and found.nbytes <= _SMALL:
            self.history.remember(version, found)
        return found

    def summary(self, name: str, version: Optional[int] = None) -> BlobSummary:
        """Shape, dtype and figures of a blob version."""
        self.known(name, version)
        live = self.history.version(name)
        found = self.history.summary(BlobVersion(name, live if version is None else version))
        if found is None and version in (None, live):
            found = self.protected(lambda: self.workspace.summary(name))
        return found or self.fetch(name, version).summary()

    def has_been(self, name: str) -> bool:
        """Whether the blob was fed, made by init_net or written by a step."""
        return name in self.history.initial or self.history.version(name) > 0


def _draws_inside(op: Operator) -> bool:
    """Whether an operator keeps the state of random ones inside it; it is not made anew by itself."""
    return bool(op.inner) and is_random(op)


def _read_by(op: Operator) -> Set[str]:
    return set(op.inputs).union(*[inner.inputs for inner in op.inner])


def _counted(count: int, word: str) -> str:
    return "%d %s%s" % (count, word, "" if count == 1 else "s")


def _drawn(init_net: Net) -> List[str]:
    """The blobs of init_net that random operators without a seed make, or that are made of those."""
    names: Dict[str, bool] = {}
    for op in init_net.operators:
        seeded = "seed" in op.device or "seed" in init_net.device
        if (is_random(op) and not seeded) or any(name in names for name in op.inputs):
            names.update((name, True) for name in op.outputs)
    return list(names)
