"""One model on several runtimes: which import it, which outputs agree, and where the first difference starts.

Each runtime's own backend converts an ONNX model, so blobs are compared by the names that the model gives them;
native nets are the same everywhere and are compared operator by operator.  One worker runs at a time.
"""

import os
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ..blob import Blob
from ..capture import Capture, StoredBlob
from ..errors import C2StepError, InputError, UsageError
from ..net import Net, Operator
from ..recording import Keep
from ..stepper import Session
from .comparison import Comparison
from .lockstep import run_through
from .metrics import compare_blobs
from .tolerance import Tolerances
from .verdict import Verdict

__all__ = ["BITWISE", "CLOSE", "DIFFERS", "MISSING", "Matrix", "Place", "Row", "matrix"]

BITWISE, CLOSE, DIFFERS, MISSING, UNKNOWN = "bitwise", "close", "differs", "missing", "not compared"
Opener = Callable[[str, Keep], Session]


@dataclass(frozen=True)
class Place:
    """An operator, one of its blobs, and what is to be said of it."""

    index: int
    type: str
    blob: str
    node: str
    text: str
    other_type: str = ""

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON."""
        return dict(self.__dict__)


@dataclass
class Row:
    """What one runtime made of the model; `outputs` says of each output how it compares with the first runtime's."""

    runtime: str
    versions: Dict[str, Any] = field(default_factory=dict)
    error: str = ""
    refused: List[str] = field(default_factory=list)
    operators: int = 0
    failures: List[Place] = field(default_factory=list)
    outputs: Dict[str, str] = field(default_factory=dict)
    blobs: Dict[str, int] = field(default_factory=dict)
    first: Optional[Place] = None
    first_bit: Optional[Place] = None

    @property
    def agrees(self) -> bool:
        """Whether it imports, runs, and gives what the first one gives."""
        good = all(how in (BITWISE, CLOSE) for how in self.outputs.values())
        return good and not self.error and not self.failures and self.first is None

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON."""
        places = {name: place and place.to_json() for name, place in (("first", self.first), ("bit", self.first_bit))}
        return {
            "runtime": self.runtime, "versions": self.versions, "imports": not self.error, "error": self.error,
            "refused": self.refused, "operators": self.operators, "blobs": self.blobs, "outputs": self.outputs,
            "failures": [place.to_json() for place in self.failures], "agrees": self.agrees,
            "first_difference": places["first"], "first_not_bitwise": places["bit"],
        }  # fmt: skip


@dataclass
class Matrix:
    """All rows, and the runtime that the others are compared with: the first that imports the model."""

    rows: List[Row]
    against: str = ""

    @property
    def agrees(self) -> bool:
        """Whether all runtimes agree."""
        return bool(self.against) and all(row.agrees for row in self.rows)

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON."""
        return {"against": self.against, "agrees": self.agrees, "runtimes": [row.to_json() for row in self.rows]}


@dataclass
class _Ran:
    """What is left of a session that has run."""

    net: Net
    native: bool
    outputs: List[str]
    capture: Capture
    drawn: Dict[str, np.ndarray]


def matrix(
    opener: Opener,
    runtimes: Sequence[str],
    directory: str,
    rules: Optional[Tolerances] = None,
    progress: Callable[[str, int, int], None] = lambda runtime, at, of: None,
) -> Matrix:
    """Run the model that `opener(runtime, keep)` opens on each runtime, with captures under `directory`."""
    found = Matrix([])
    base: Optional[_Ran] = None
    for number, runtime in enumerate(runtimes):
        progress(runtime, number, len(runtimes))
        row = Row(runtime)
        found.rows.append(row)
        ran = _run(opener, row, Keep(os.path.join(directory, str(number))), base.drawn if base else {})
        if ran and base is None:
            base, found.against = ran, runtime
        if ran and base:
            _compare(row, ran, base, rules or Tolerances())
    return found


def _run(opener: Opener, row: Row, keep: Keep, drawn: Dict[str, np.ndarray]) -> Optional[_Ran]:
    try:
        session = opener(row.runtime, keep)
    except UsageError:  # it is the same everywhere
        raise
    except C2StepError as error:
        row.error, row.refused = error.message, list(getattr(error, "nodes", ()))
        return None
    with session:
        if session.unfed():
            name = session.unfed()[0]
            raise InputError("input %s has no value" % name, "--input %s=FILE, or --random-inputs SEED" % name)
        row.versions = dict(session.workspace.versions())
        for name in set(drawn) & set(session.drawn):
            session.feed(name, drawn[name])
        try:
            failed = run_through(session)
        except C2StepError as error:
            row.error = error.message
            return None
        model = session.model
        row.operators = len(model.predict_net)
        row.failures = [_place(stop.operator, stop.detail or stop.reason) for stop in failed if stop.operator]
        names = model.output_names() or [name for op in model.predict_net.operators[-1:] for name in op.outputs]
        native, drawn = model.kind == "nets", session.drawn
    assert keep.directory
    return _Ran(model.predict_net, native, names, Capture(keep.directory), drawn)


def _place(op: Operator, text: str, blob: str = "", other: str = "") -> Place:
    label = op.node.label if op.node else ""
    return Place(op.index, op.type, blob or (op.outputs[0] if op.outputs else ""), label, text, other)


def _compare(row: Row, ran: _Ran, base: _Ran, rules: Tolerances) -> None:
    for mine, theirs in _pairs(ran, base):
        assert mine.index is not None
        how, figures = _how(mine, theirs, ran, base, rules)
        row.blobs[how] = row.blobs.get(how, 0) + 1
        op, other = ran.net.operators[mine.index], _type(base, theirs)
        place = _place(op, figures, mine.name, other if other != op.type else "")
        if how == DIFFERS and row.first is None:
            row.first = place
        if how != BITWISE and row.first_bit is None:
            row.first_bit = place
    for name in base.outputs:
        row.outputs[name] = _output(name, ran, base, rules)


def _pairs(ran: _Ran, base: _Ran) -> Iterator[Tuple[StoredBlob, StoredBlob]]:
    """Blobs of both sides that are one, in the order of execution."""
    theirs = {_key(blob, base): blob for blob in base.capture.blobs() if blob.index is not None}
    for mine in ran.capture.blobs():
        other = theirs.get(_key(mine, ran)) if mine.index is not None else None
        if other is not None and (ran.native or _is_named(mine, ran)):
            yield mine, other


def _key(blob: StoredBlob, ran: _Ran) -> Tuple[Any, ...]:
    return (blob.index, blob.slot) if ran.native else (blob.name, blob.version)


def _is_named(blob: StoredBlob, ran: _Ran) -> bool:
    """Whether the model gives the name: those that an importer makes up may mean something else in another."""
    assert blob.index is not None
    node = ran.net.operators[blob.index].node
    return node is not None and bool(node.value_in(blob.name))


def _type(ran: _Ran, blob: StoredBlob) -> str:
    return ran.net.operators[blob.index].type if blob.index is not None else ""


def _output(name: str, ran: _Ran, base: _Ran, rules: Tolerances) -> str:
    if name not in ran.capture.names() or name not in base.capture.names():
        return MISSING
    return _how(ran.capture.find(name), base.capture.find(name), ran, base, rules)[0]


def _how(mine: StoredBlob, theirs: StoredBlob, ran: _Ran, base: _Ran, rules: Tolerances) -> Tuple[str, str]:
    """How two blobs compare, and the figures."""
    left = ran.capture.load(mine.name, mine.version, True)
    right = base.capture.load(theirs.name, theirs.version, True)
    if _same(left, right):
        return BITWISE, ""
    found: Comparison = compare_blobs(left, right, rules.of(left, right, _type(ran, mine)))
    words = {Verdict.PASS: CLOSE, Verdict.FAIL: DIFFERS}.get(found.verdict, UNKNOWN)
    return words, ", ".join(([found.reason] if found.reason else []) + found.figures())


def _same(left: Blob, right: Blob) -> bool:
    if left.array is None or right.array is None:
        return left.array is right.array and left.kind == right.kind
    one, other = np.asarray(left.array), np.asarray(right.array)
    if (one.dtype, one.shape, left.scale, left.zero_point) != (other.dtype, other.shape, right.scale, right.zero_point):
        return False
    return one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes()
