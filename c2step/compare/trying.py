"""Run one operator with other arguments, apart from the session, and see which gives the golden values.

The cheapest way to find a wrong pad, axis, epsilon or order: `try_values` ranks values of an argument by
the error that is left on golden inputs; `before_and_after` compares an edited operator with what it was.
"""

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..blob import INT8, TENSOR, Blob, BlobSummary
from ..capture import read_blob, write_blob
from ..errors import UsageError, WorkerDied, near
from ..leftovers import scratch_folder
from ..net import BlobVersion, Operator
from ..stepper import Session
from ..workspace import Change
from .against import Against
from .comparison import Comparison
from .metrics import compare_blobs
from .tolerance import Tolerances
from .verdict import Verdict

__all__ = ["Trial", "Tried", "before_and_after", "try_values", "unknown_arguments"]


@dataclass
class Trial:
    """What an operator gave with some changes: its outputs, or why there are none, and comparisons by output."""

    label: str
    error: str = ""
    changes: Tuple[Change, ...] = ()
    outputs: Dict[str, Blob] = field(default_factory=dict)
    comparisons: Dict[str, Comparison] = field(default_factory=dict)

    @property
    def worst(self) -> Optional[Comparison]:
        """The comparison that is furthest off."""
        return max(self.comparisons.values(), key=_error, default=None)

    @property
    def rank(self) -> Tuple[int, float]:
        """Sorts from right to wrong: what passes, what differs by its error, other shapes, failures."""
        worst = self.worst
        if self.error or worst is None:
            return (3, 0.0)
        if worst.rel_l2 is None and not worst.equal:
            return (2, 0.0)
        return (int(worst.verdict is not Verdict.PASS), _error(worst))


def _error(found: Comparison) -> float:
    if found.equal:
        return 0.0
    known = found.rel_l2 if found.rel_l2 is not None else float("inf")
    return known if not found.disagree else float("inf")


class Tried(NamedTuple):
    """Trials, the best first, what must be said of them, and the changes (kind and name) that make no difference."""

    trials: List[Trial]
    notes: List[str]
    idle: List[Tuple[str, str]]


def try_values(
    session: Session, against: Against, index: int, candidates: Sequence[Tuple[str, Sequence[Change]]]
) -> Tried:
    """Run operator `index` on golden inputs with each of the changes.

    The session stays as it is.  UsageError where the reference has nothing to compare its outputs with.
    """
    op = session.model.predict_net.operators[index]
    golden = {name: against.golden.blob((index, slot)) for slot, name in enumerate(op.outputs)}
    held = {name: blob for name, blob in golden.items() if blob is not None and blob.array is not None}
    if not held:
        reason = against.golden.missing((index, 0)) or "it has no value of that name"
        raise UsageError("the reference has no value for an output of %s: %s" % (op, reason))
    notes: List[str] = []
    inputs = _Inputs(session, against, notes)
    trials = []
    for label, changes in candidates:
        trial = _trial(session, index, label, changes, inputs)
        trial.comparisons = {
            n: against.compare(made, held[n], op.type) for n, made in trial.outputs.items() if n in held
        }
        trials.append(trial)
    idle = _idle(trials, lambda changes: _trial(session, index, "", changes, inputs))
    names = [name for kind, name in idle if kind == "arg"]
    notes += unknown_arguments(session, op, names)
    notes += ["%s makes no difference" % (name or kind) for kind, name in idle]
    return Tried(sorted(trials, key=lambda trial: trial.rank), list(dict.fromkeys(notes)), idle)


def unknown_arguments(session: Session, op: Operator, names: Sequence[str]) -> List[str]:
    """A line for each name that is no argument which operators of this type are known to read."""
    known = session.arguments(op.type) if names else []
    rest = [name for name in names if name not in known]
    return ["nothing says that %s has an argument %s%s" % (op.type, name, _known(name, known)) for name in rest]


def _known(name: str, known: Sequence[str]) -> str:
    hint = near(name, known) or (
        "it has " + ", ".join(known[:8]) + (", ..." if len(known) > 8 else "") if known else ""
    )
    return "; " + hint if hint else ""


def _idle(trials: Sequence[Trial], run: Callable[[Sequence[Change]], Trial]) -> List[Tuple[str, str]]:
    """The changes that make no difference, whatever the others are; one with a single value is tried without it."""
    found = []
    for key in dict.fromkeys(change[:2] for trial in trials for change in trial.changes):
        groups: Dict[str, List[Trial]] = {}
        for trial in trials:
            groups.setdefault(repr(_without(trial, key)), []).append(trial)
        for group in groups.values():
            if len(group) == 1:
                group.append(run(_without(group[0], key)))
        if all(_same(group[0], other) for group in groups.values() for other in group[1:]):
            found.append(key)
    return found


def _without(trial: Trial, key: Tuple[str, str]) -> List[Change]:
    return [change for change in trial.changes if change[:2] != key]


def _same(one: Trial, other: Trial) -> bool:
    if one.error or other.error:
        return False
    pairs = [(one.outputs[name].array, other.outputs[name].array) for name in one.outputs if name in other.outputs]
    return all(a is not None and b is not None and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def before_and_after(
    session: Session, against: Optional[Against], index: int, tolerances: Optional[Tolerances] = None
) -> Tuple[Trial, Trial, List[Comparison]]:
    """An edited operator as it was and as it is, on the inputs of this run, and the difference of each output."""
    now = list(session.changes.edits.get(index, ()))
    if not now:
        raise UsageError("operator %d was not edited" % index, "edit it: edit %d ARG=VALUE" % index)
    op = session.model.predict_net.operators[index]
    unready = [name for name in op.inputs if name and not session.history.exists(name)]
    if unready:
        raise UsageError(
            "%s has no values to run on: %s is not there" % (op, unready[0]), "run to it: until %d" % index
        )
    inputs = _Inputs(session, None, [])
    was = _trial(session, index, "before", None, inputs)
    new = _trial(session, index, "after", [], inputs)
    if against is not None:
        op = session.model.predict_net.operators[index]
        for trial in (was, new):
            for slot, name in enumerate(op.outputs):
                golden = against.golden.blob((index, slot))
                if golden is not None and name in trial.outputs:
                    trial.comparisons[name] = against.compare(trial.outputs[name], golden, op.type)
    pairs = [(made, was.outputs[name]) for name, made in new.outputs.items() if name in was.outputs]
    type_, rules = session.model.predict_net.operators[index].type, tolerances or Tolerances()
    return was, new, [compare_blobs(made, before, rules.of(made, before, type_)) for made, before in pairs]


def _trial(session: Session, index: int, label: str, changes: Optional[Sequence[Change]], inputs: "_Inputs") -> Trial:
    """`changes` come on top of the edits that are there; None is the operator as it was at first."""
    edits = [] if changes is None else list(session.changes.edits.get(index, ())) + list(changes)
    op = session.changes.originals.get(index) or session.model.predict_net.operators[index]
    with _folder() as folder:
        values = inputs.values(op, edits, folder)
        made = Trial(label, changes=tuple(changes or ()))
        try:
            found = session.protected(lambda: session.workspace.trial(index, edits, values, folder))
        except UsageError as error:
            return replace(made, error=error.message)
        except WorkerDied as death:
            if death.by_user:
                raise KeyboardInterrupt from death  # Ctrl-C ends it all, not this candidate alone
            return replace(made, error="%s: %s" % (death.signal, death.message))
        if found["status"] != "ok":
            return replace(made, error=found["error"])
        return replace(made, outputs={row["name"]: _made(row, folder) for row in found["outputs"]})


def _made(row: Dict[str, Any], folder: str) -> Blob:
    summary = BlobSummary.from_json(row["summary"])
    if not row["file"]:
        return Blob(row["name"], row["kind"], text=summary.text)
    path = os.path.join(folder, row["file"])
    return read_blob(path, row["name"], row["kind"], summary.scale, summary.zero_point)


@contextmanager
def _folder() -> Iterator[str]:
    folder = scratch_folder("trial")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Inputs:
    """The values of an operator's inputs: golden ones where a reference has them, else those of the run."""

    def __init__(self, session: Session, against: Optional[Against], notes: List[str]) -> None:
        self._session = session
        self._against = against
        self._notes = notes
        self._ssa = session.model.predict_net.ssa()

    def values(self, op: Operator, changes: Sequence[Change], folder: str) -> List[Dict[str, Any]]:
        """As `Workspace.trial` takes them; an input that is not among them has the value that it has now."""
        names = list(op.inputs)
        for what, position, value in changes:
            if what == "input":
                names[int(position) : int(position) + 1] = [value]
        found = [
            self._value(op.index, name, number, folder) for number, name in enumerate(dict.fromkeys(names)) if name
        ]
        return [value for value in found if value is not None]

    def _value(self, index: int, name: str, number: int, folder: str) -> Optional[Dict[str, Any]]:
        golden = self._golden(index, name)
        if golden is not None and golden.array is not None:
            path = os.path.join(folder, "input%d.npy" % number)
            blob = self._as_here(golden, name)
            write_blob(path, blob)
            return {"name": name, "kind": blob.kind, "file": path}
        version = self._version(index, name)
        kept = self._session.history.kept.get(BlobVersion(name, version))
        if self._session.version(name) == version or kept is None:
            return None
        return {"name": name, "kind": kept.kind, "file": kept.file, "scale": kept.summary.scale,
                "zero_point": kept.summary.zero_point}  # fmt: skip

    def _golden(self, index: int, name: str) -> Optional[Blob]:
        if self._against is None:
            return None
        for place in range(index - 1, -1, -1):
            outputs = self._session.model.predict_net.operators[place].outputs
            if name in outputs:
                found = self._against.golden.blob((place, outputs.index(name)))
                if found is None or found.kind == INT8:
                    self._notes.append("%s has no golden value; the run's own is used" % name)
                    return None
                return found
        return None  # an input or a weight: it is the same on both sides

    def _as_here(self, golden: Blob, name: str) -> Blob:
        """The golden value in the dtype that Caffe2 holds, where that is known and changes no value."""
        array = np.asarray(golden.array)
        if golden.kind == TENSOR and self._session.versions(name):
            dtype = self._session.summary(name).dtype
            if dtype not in ("", "string", str(array.dtype)):
                with np.errstate(all="ignore"):
                    cast = array.astype(dtype)
                array = cast if np.array_equal(cast.astype(array.dtype), array) else array
        return Blob(name, golden.kind, array)

    def _version(self, index: int, name: str) -> int:
        """The version that the operator read, or would read now."""
        for step in reversed(self._session.steps):
            if step.index == index:
                return next((v.version for v in step.inputs if v.name == name), self._session.version(name))
        return self._session.version(name)
