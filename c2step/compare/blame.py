"""Blame: which operators are wrong, and which only pass an error on.

Two runs of the net.  The first is the run itself: each output against its golden value is the *run*
error.  In the second, each operator's outputs are replaced by the golden values as soon as they are
compared, so that the next operator has golden inputs: that is the *alone* error.  Operators between two
golden values (several from one ONNX node, helper blobs) are judged as one.

    ORIGIN      wrong even on golden inputs, or raises or ends its process on them
    PROPAGATED  wrong in the run, right on golden inputs
    RECOVERED   its inputs were wrong in the run, its outputs are right again
    OK          right in both
    UNCOMPARED  nothing to compare with, or nothing that could be compared; the reason is given
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union

import numpy as np

from ..blob import INT8, MISSING, STRING, TENSOR, UNINITIALISED, Blob
from ..history import Output, Step
from ..net import Operator, is_random
from ..recording import Keep
from ..references import Making, Reference
from ..sizes import counted
from ..stepper import Session, Stop
from .absent import Absent
from .alone import Alone
from .apart import Apart
from .aside import Aside
from .comparison import Comparison
from .golden import Golden, Slot
from .metrics import compare_blobs
from .tolerance import Tolerances
from .verdict import Tally, Verdict

__all__ = ["OK", "ORIGIN", "PROPAGATED", "RECOVERED", "UNCOMPARED", "Blame", "Judge", "Judged", "blame"]

ORIGIN, PROPAGATED, RECOVERED, OK, UNCOMPARED = "ORIGIN", "PROPAGATED", "RECOVERED", "OK", "UNCOMPARED"
Progress = Callable[[str, int, int], None]
_NEVER_WRITTEN = (UNINITIALISED, MISSING)
_WORTH_A_PROCESS = 1 << 22  # bytes to compare


@dataclass
class Side:
    """What one of the two runs showed of an operator: a status, and a comparison for each golden output."""

    status: str = "not run"
    error: str = ""
    comparisons: Dict[int, Comparison] = field(default_factory=dict)

    @property
    def bad(self) -> bool:
        """Whether it raised, died or gave a wrong value."""
        return self.status in ("failed", "died") or any(c.verdict is Verdict.FAIL for c in self.comparisons.values())

    @property
    def worst(self) -> Optional[Comparison]:
        """The comparison to show: one that fails, or the one with the largest ratio."""
        found = sorted(self.comparisons.values(), key=lambda c: (c.verdict is Verdict.FAIL, c.ratio or 0.0))
        return found[-1] if found else None

    @property
    def text(self) -> str:
        """The largest difference, or how the operator ended."""
        worst = self.worst
        if worst is None or self.status != "ok":
            return self.status
        return "equal" if worst.equal else str(worst.verdict) if worst.max_abs is None else "%.3g" % worst.max_abs

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON values."""
        worst = self.worst
        return {"status": self.status, "error": self.error or None, "comparison": worst.to_json() if worst else None}


@dataclass
class Judged:
    """One operator with both errors, its label, and the reason.

    `values` are its wrong outputs on golden inputs.  `since` is the first of the operators whose values
    have no golden value and which it depends on: what is wrong may lie anywhere from there on.
    """

    operator: Operator
    run: Side = field(default_factory=Side)
    alone: Side = field(default_factory=Side)
    label: str = UNCOMPARED
    reason: str = ""
    accepted: bool = False
    hints: List[str] = field(default_factory=list)
    values: Dict[int, np.ndarray] = field(default_factory=dict)
    since: Optional[int] = None

    def to_json(self) -> Dict[str, Any]:
        """As an entry of `operators`."""
        op = self.operator
        return {
            "index": op.index,
            "type": op.type,
            "outputs": list(op.outputs),
            "node": op.node.label if op.node else None,
            "label": self.label,
            "reason": self.reason,
            "hints": self.hints,
            "run": self.run.to_json(),
            "alone": self.alone.to_json(),
        }


@dataclass
class Blame:
    """The answer: every operator judged, the origins, the tally behind the verdict, and what it is `about`."""

    operators: List[Judged]
    origins: List[Judged]
    tally: Tally
    verdict: Verdict
    notes: List[str]
    stop: Stop
    about: Dict[str, Any] = field(default_factory=dict)
    outputs: Dict[str, str] = field(default_factory=dict)
    left_out: List[Dict[str, Any]] = field(default_factory=list)

    def __repr__(self) -> str:
        first = ", ORIGIN %s" % self.origins[0].operator if self.origins else ""
        more = " and %d more" % (len(self.origins) - 1) if len(self.origins) > 1 else ""
        return "<Blame of %s: %s%s%s>" % (counted(len(self.operators), "operator"), self.verdict, first, more)

    def _repr_html_(self) -> str:
        """The operators with their labels as a table, the origins first in its title, for notebooks."""
        from ..html import html_table

        head = ["#", "type", "outputs", "label", "run", "alone", "reason"]
        rows = [[j.operator.index, j.operator.type, ", ".join(j.operator.outputs), j.label, j.run.text, j.alone.text,
                 j.reason] for j in self.operators]  # fmt: skip
        found = "; ".join("%s: %s" % (j.operator, j.reason) for j in self.origins)
        return html_table("%s%s" % (self.verdict, "  ORIGIN " + found if found else ""), head, rows)

    def to_json(self) -> Dict[str, Any]:
        """As one JSON object."""
        origins = [
            {
                "index": j.operator.index,
                "type": j.operator.type,
                "outputs": list(j.operator.outputs),
                "node": j.operator.node.label if j.operator.node else None,
                "reason": j.reason,
                "hints": j.hints,
                "since": j.since,
            }
            for j in self.origins
        ]
        return {
            "verdict": str(self.verdict),
            "compared": self.tally.compared,
            "skipped": self.tally.skipped,
            "missing": self.tally.missing,
            "aside": self.tally.aside,
            "failed": self.tally.failed,
            "reasons": self.tally.summary(),
            "outputs": self.outputs,
            "origins": origins,
            "left_out": self.left_out,
            "operators": [j.to_json() for j in self.operators],
            "notes": self.notes,
            "about": self.about,
        }


def blame(
    session: Session,
    reference: Union[Reference, Making],
    tolerances: Optional[Tolerances] = None,
    continue_from_reference: bool = False,
    progress: Progress = lambda what, at, of: None,
    keep: Optional[Keep] = None,
) -> Blame:
    """Run the net twice from its start and judge every operator.

    A reference may be one that is still being made; the first run then goes on beside that.
    `continue_from_reference` lets the run go on past an operator that fails, with golden values.  The
    first run goes into the session's capture, the second into a temporary one.  Raises WorkerDied where
    a process ends outside any operator.
    """
    try:
        return Judge(session, reference, tolerances or Tolerances(), progress).judge(continue_from_reference, keep)
    except BaseException:
        if isinstance(reference, Making):
            reference.cancel()
        raise


class Judge:
    """Runs a session against a reference and judges its operators; `hints` also looks for what would explain them."""

    def __init__(
        self,
        session: Session,
        reference: Union[Reference, Making],
        tolerances: Tolerances,
        progress: Progress = lambda what, at, of: None,
        hints: bool = True,
    ) -> None:
        self.session = session
        self.hints = hints
        self.net = session.model.predict_net
        self._reference = reference
        self._golden: Optional[Golden] = None
        self._waiting: List[Tuple[Step, Side]] = []  # ran before there were golden values
        self._made: Dict[Slot, Output] = {}
        self.absent = Absent(session.model)
        self.aside = Aside(self.net, session.model.output_names())
        self.tolerances = tolerances
        self.progress = progress
        self.judged = [Judged(op) for op in self.net.operators]

    @property
    def golden(self) -> Golden:
        """The golden values; waits for them where they are still being made."""
        if self._golden is None:
            made = self._reference.result() if isinstance(self._reference, Making) else self._reference
            self._golden = Golden(self.net, made)
        return self._golden

    def judge(self, go_on: bool, keep: Optional[Keep]) -> Blame:
        """Both runs, the labels and the verdict."""
        stop = self._run(go_on, None)
        comparing = self._begin_to_catch_up()
        try:
            self.session.anew(keep or Keep())
            Alone(self, self._made).run()
            self._catch_up(comparing)
        finally:
            comparing.close()
        self._label()
        origins = [j for j in self.judged if j.label == ORIGIN]
        for judged in origins if self.hints else ():
            self._quote_lint(judged)
        tally = self._tally()
        notes = list(self.golden.reference.notes)
        found = Blame(self.judged, origins, tally, self._verdict(tally), notes, stop)
        found.outputs, found.left_out = self._outputs(), self.absent.rows()
        return found

    def _outputs(self) -> Dict[str, str]:
        """How each of the model's outputs came out in the run: PASS, FAIL or what else there is to say."""
        said = dict.fromkeys(self._unmade(), "missing")
        for name in self.session.model.output_names():
            producers = self.net.producers(name)
            if producers:
                op = producers[-1]
                side = self.judged[op.index].run
                comparison = side.comparisons.get(len(op.outputs) - 1 - op.outputs[::-1].index(name))
                said[name] = (
                    str(comparison.verdict) if comparison else "not reached" if side.status != "ok" else "not compared"
                )
        return said

    # -- the run ------------------------------------------------------------------------------

    def run(self, go_on: bool = False, replaced: Optional[int] = None) -> Stop:
        """Run to the end, or to an operator that fails; `replaced` is an operator whose outputs become golden."""
        stop = self._run(go_on, replaced)
        self._catch_up(self._begin_to_catch_up())
        return stop

    def _run(self, go_on: bool, replaced: Optional[int]) -> Stop:
        session = self.session
        session.on_step = self._took
        if go_on and self.absent.names:
            self.absent.feed(session, self.golden)
        if replaced is not None:
            self._run_to(replaced)
        stop = session.cont()
        while stop.reason in ("failed", "died", "timeout", "breakpoint") and stop.operator:
            if stop.reason != "breakpoint":
                self.take_failure(stop, self.judged[stop.position].run)
                if not go_on:
                    break
                session.skip()
                self.replace(stop.operator, [])
            stop = session.cont()
        session.on_step = lambda step: None
        if stop.reason == "interrupted":
            raise KeyboardInterrupt
        return stop

    def _took(self, step: Step) -> None:
        self._made.update(((step.index, slot), output) for slot, output in enumerate(step.outputs))
        if isinstance(self._reference, Making) and not self._reference.ready:
            self.progress("run", step.index + 1, len(self.net))
            self._waiting.append((step, self.judged[step.index].run))
        else:
            self.take(step, self.judged[step.index].run, "run")

    def _begin_to_catch_up(self) -> Apart:
        """Begin to compare what ran before there were golden values, beside the second run.

        The values are opened here, since their capture may be gone by then.
        """
        if self._waiting:
            self.golden  # noqa: B018 - wait for it here, once
        jobs = [job for step, _ in self._waiting for job in self._comparing(step)]
        size = sum(out.summary.nbytes for step, _ in self._waiting for out in step.outputs)
        limited = getattr(self.session.workspace, "max_memory", None) is not None
        return Apart(jobs, size > _WORTH_A_PROCESS and not limited)

    def _catch_up(self, comparing: Apart) -> None:
        waiting, self._waiting = self._waiting, []
        found = iter(comparing.results() if waiting else ())
        for step, side in waiting:
            side.status = step.status
            side.comparisons.update(_there(zip(range(len(step.outputs)), found)))

    def _run_to(self, replaced: int) -> None:
        session = self.session
        while session.position <= replaced:
            stop = session.step(replaced + 1 - session.position)
            if stop.reason in ("failed", "died", "timeout"):
                session.skip()
        self.replace(self.net.operators[replaced], [])

    def take(self, step: Step, side: Side, what: str) -> None:
        """Compare what a step wrote."""
        self.progress(what, step.index + 1, len(self.net))
        self._note(step, side)

    def _note(self, step: Step, side: Side) -> None:
        side.status = step.status
        side.comparisons.update(_there(enumerate(job() for job in self._comparing(step))))

    def _comparing(self, step: Step) -> List[Callable[[], Optional[Comparison]]]:
        """What compares each output of a step, with its value from the capture, and what it depends on, at hand."""
        quanta = self.session.history.quanta(step)
        places = [(step.index, slot) for slot in range(len(step.outputs))]
        held = [
            self.session.kept(out) if out.kind not in _NEVER_WRITTEN and place in self.golden else None
            for place, out in zip(places, step.outputs)
        ]
        return [partial(self._compare, step, slot, actual, quanta) for slot, actual in enumerate(held)]

    def take_failure(self, stop: Stop, side: Side) -> None:
        """Note how an operator failed, or ended its process."""
        side.status = "failed" if stop.reason == "failed" else "died"
        side.error = (self.absent.why(stop.operator) if stop.operator else "") or stop.detail

    def _compare(self, step: Step, slot: int, actual: Optional[Blob], quanta: Sequence[float]) -> Optional[Comparison]:
        op, output = step.operator, step.outputs[slot]
        golden = self.golden.blob((step.index, slot))
        if golden is None:
            return None
        if output.kind in _NEVER_WRITTEN:
            if golden.array is None or self.aside.unwritten(op, slot):
                return None
            return Comparison(Verdict.FAIL, "declared output %s was never written" % output.name)
        if actual is None:
            return Comparison(Verdict.INCONCLUSIVE, "the value of %s was not kept" % output.name)
        if (actual.kind == STRING) != (golden.kind == STRING):
            words = "%s is %s here, the reference holds %s" % (output.name, actual.kind, golden.kind)
            return Comparison(Verdict.INCONCLUSIVE, words)
        return compare_blobs(actual, golden, self.tolerances.of(actual, golden, op.type, quanta))

    def replace(self, op: Operator, outputs: Sequence[Output]) -> None:
        """Let each output hold its golden value, in the type in which Caffe2 computed it."""
        for slot, name in enumerate(op.outputs):
            golden = self.golden.blob((op.index, slot))
            if golden is None or golden.array is None or golden.kind == INT8:
                continue
            side = self.judged[op.index].alone.comparisons.get(slot)
            if side is not None and side.equal and side.dtype == side.reference_dtype:
                continue
            made = outputs[slot] if slot < len(outputs) else None
            if made is not None and made.kind == INT8:
                continue
            value = _as_computed(np.asarray(golden.array), made)
            if value is not None:
                self.session.feed(name, value)

    # -- labels -------------------------------------------------------------------------------

    def _label(self) -> None:
        tainted: Set[str] = set()
        loose: Dict[str, int] = {}
        for group in self._groups():
            self._loosen(group, loose)
            inputs_bad = self._reads(group) & tainted
            self._label_group(group, bool(inputs_bad))
            self._spread(group, tainted, bool(inputs_bad))

    def _groups(self) -> Iterable[List[Judged]]:
        """Operators in order; those from one ONNX node together."""
        group: List[Judged] = []
        for judged in self.judged:
            node = judged.operator.node
            if group and (node is None or node != group[-1].operator.node):
                yield group
                group = []
            group.append(judged)
        if group:
            yield group

    def _reads(self, group: List[Judged]) -> Set[str]:
        made: Set[str] = set()
        reads: Set[str] = set()
        for judged in group:
            reads |= {name for name in judged.operator.inputs if name not in made}
            made |= set(judged.operator.outputs)
        return reads

    def _loosen(self, group: List[Judged], loose: Dict[str, int]) -> None:
        """Follow the values that have no golden value: `loose` has for each the first operator behind it."""
        first = group[0].operator.index
        since = min([loose[name] for name in self._reads(group) if name in loose] + [first])
        for judged in group:
            judged.since = since if since < first else None
            for slot, name in enumerate(judged.operator.outputs):
                if (judged.operator.index, slot) in self.golden:
                    loose.pop(name, None)
                else:
                    loose[name] = since

    def _label_group(self, group: List[Judged], inputs_bad: bool) -> None:
        holders = [
            j for j in group if any((j.operator.index, s) in self.golden for s in range(len(j.operator.outputs)))
        ]
        guilty = [j for j in group if j.alone.bad]
        culprit = self._culprit(holders, guilty)
        for judged in group:
            self._label_one(judged, judged is culprit, judged in holders, inputs_bad, holders, culprit)

    def _culprit(self, holders: List[Judged], guilty: List[Judged]) -> Optional[Judged]:
        """The operator to name for a group: the last one whose golden output is wrong, or the one that failed."""
        wrong = [j for j in guilty if any(c.verdict is Verdict.FAIL for c in j.alone.comparisons.values())]
        if wrong:
            return wrong[-1]
        return guilty[0] if guilty else None

    def _label_one(
        self,
        judged: Judged,
        is_culprit: bool,
        holds: bool,
        inputs_bad: bool,
        holders: List[Judged],
        culprit: Optional[Judged],
    ) -> None:
        op = judged.operator
        if is_culprit and is_random(op):
            judged.label, judged.reason = UNCOMPARED, "draws random numbers"
        elif is_culprit:
            judged.label, judged.reason = ORIGIN, _why(judged.alone)
            if judged.since is not None and not judged.alone.error:
                judged.reason = "somewhere in operators %d to %d, between which no value has a golden one: %s" % (
                    judged.since,
                    op.index,
                    judged.reason,
                )
        elif judged.reason and not judged.alone.comparisons:
            judged.label = UNCOMPARED
        elif not holds:
            self._label_without_golden(judged, holders)
        elif not judged.alone.comparisons:
            self._label_uncompared(judged)
        elif judged.run.bad:
            judged.label, judged.reason = PROPAGATED, _why(judged.run)
        elif judged.run.status == "not run":
            judged.reason = "the run ended before it; right on golden inputs"
        elif all(c.verdict is Verdict.INCONCLUSIVE for c in judged.alone.comparisons.values()):
            judged.label, judged.reason = UNCOMPARED, _why(judged.alone)
        else:
            judged.label = RECOVERED if inputs_bad else OK

    def _label_without_golden(self, judged: Judged, holders: List[Judged]) -> None:
        op = judged.operator
        if judged.run.bad:
            judged.label, judged.reason = PROPAGATED, _why(judged.run)
        elif holders:
            judged.reason, judged.accepted = "judged with operator %d" % holders[-1].operator.index, True
        elif not op.outputs:
            judged.reason, judged.accepted = "has no outputs", True
        elif all(self.aside.unwritten(op, slot) for slot in range(len(op.outputs))):
            judged.reason, judged.accepted = "its outputs are not computed in test mode", True
        else:
            reasons = [self.golden.missing((op.index, slot)) for slot in range(len(op.outputs))]
            judged.reason = next(filter(None, reasons), "the reference has no value for %s" % ", ".join(op.outputs))

    def _label_uncompared(self, judged: Judged) -> None:
        op = judged.operator
        judged.reason = "%s was never written" % ", ".join(op.outputs)
        judged.accepted = all(self.aside.reason(op, slot) for slot in range(len(op.outputs)))

    def _spread(self, group: List[Judged], tainted: Set[str], inputs_bad: bool) -> None:
        """Mark which blobs are wrong in the run after a group."""
        for judged in group:
            failed = judged.run.status in ("failed", "died", "not run")
            for slot, name in enumerate(judged.operator.outputs):
                comparison = judged.run.comparisons.get(slot)
                bad = comparison.verdict is Verdict.FAIL if comparison else failed or inputs_bad
                (tainted.add if bad else tainted.discard)(name)

    def _quote_lint(self, judged: Judged) -> None:
        first = judged.operator.index if judged.since is None else judged.since
        behind = self.net.operators[first : judged.operator.index + 1]
        nodes = {op.node.index for op in behind if op.node}
        places = {"predict_net operator %d" % op.index for op in behind if not op.node}
        for finding in self.session.model.findings:
            here = finding["node"] in places or finding["index"] in nodes
            if here and finding["effect"] != "note":
                repair = "; --import repaired: %s" % finding["repair"] if finding["repair"] else ""
                words = (finding["code"], finding["op_type"], finding["node"], finding["message"], repair)
                judged.hints.append("lint %s at %s %s: %s%s" % words)

    # -- counting ----------------------------------------------------------------------------

    def _tally(self) -> Tally:
        tally = Tally()
        for judged in self.judged:
            for slot in range(len(judged.operator.outputs)):
                self._count(judged, slot, tally)
        for name in self._unmade():
            if name not in self.absent.names:
                tally.miss("no operator gives output %s" % name)
        for name, words in self.absent.names.items():
            tally.miss("no operator gives %s: %s" % (name, words))
        return tally

    def _unmade(self) -> List[str]:
        """Outputs of the model that are no operator's, no input and no weight: a node that was left out gave them."""
        held = self.session.history.initial
        return [n for n in self.session.model.output_names() if not self.net.producers(n) and n not in held]

    def _count(self, judged: Judged, slot: int, tally: Tally) -> None:
        sides = [side.comparisons[slot] for side in (judged.run, judged.alone) if slot in side.comparisons]
        op = judged.operator
        if judged.label == UNCOMPARED and sides and is_random(op):
            tally.skip("%s: %s" % (op, judged.reason))
        elif sides:
            worst = next((c for c in sides if c.verdict is Verdict.FAIL), sides[-1])
            tally.add(Verdict.worst(c.verdict for c in sides), "%s: %s" % (op, worst.reason))
        elif judged.label == ORIGIN:
            tally.add(Verdict.FAIL, "%s: %s" % (op, judged.reason))
        elif self.aside.reason(op, slot):
            tally.set_aside(self.aside.reason(op, slot))
        elif (op.index, slot) in self.golden:
            tally.skip("%s: %s was never written" % (op, op.outputs[slot]))
        else:
            tally.miss(self.golden.missing((op.index, slot)) or "no golden value for %s" % op.outputs[slot])

    def _verdict(self, tally: Tally) -> Verdict:
        if any(j.label == ORIGIN or j.run.bad and j.label == PROPAGATED for j in self.judged):
            return Verdict.FAIL
        return tally.verdict if not tally.failed else Verdict.FAIL


def _there(found: Iterable[Tuple[int, Optional[Comparison]]]) -> Iterator[Tuple[int, Comparison]]:
    return ((slot, comparison) for slot, comparison in found if comparison is not None)


def _as_computed(golden: np.ndarray, made: Optional[Output]) -> Optional[np.ndarray]:
    """The golden value in the dtype in which Caffe2 holds it; None where it is of another kind."""
    if made is None or made.kind != TENSOR or not made.summary.dtype or str(golden.dtype) == made.summary.dtype:
        return golden
    if golden.dtype.kind in "OSU":
        return None
    with np.errstate(all="ignore"):
        return golden.astype(made.summary.dtype)


def _why(side: Side) -> str:
    worst = side.worst
    if side.error or worst is None:
        return side.error
    words = worst.reason or "; ".join(worst.figures())
    if worst.dtype and worst.dtype != worst.reference_dtype:
        words += "; dtype %s against %s" % (worst.dtype, worst.reference_dtype)
    return words
