"""A reference loaded into a session: each output against its golden value, as the session steps."""

from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..blob import MISSING, UNINITIALISED, Blob
from ..errors import CaptureError
from ..history import Output, Step
from ..references import Reference
from ..stepper import Session
from .comparison import Comparison
from .golden import Golden
from .metrics import compare_blobs
from .tolerance import Tolerances
from .verdict import Verdict

__all__ = ["Against", "Row"]

_REMEMBERED = 512  # steps whose comparisons are not made again
_WORST: Dict[str, float] = {"cos": 0.0, "max_abs": float("inf"), "max_rel": float("inf"), "rel_l2": float("inf"),
                            "mean_abs": float("inf"), "ratio": float("inf"), "ulp": float("inf")}  # fmt: skip


class Row(NamedTuple):
    """One output of a step, and its comparison."""

    step: Step
    output: Output
    comparison: Comparison


class Against:
    """Golden values for a session's outputs; conditions of the session may ask for them from then on."""

    def __init__(
        self,
        session: Session,
        reference: Reference,
        tolerances: Optional[Tolerances] = None,
        label: str = "",
        how: Optional[Dict[str, Any]] = None,
    ) -> None:
        """`label` is what to call them, the reference's source unless given; `how` are the words they came of."""
        self.reference = reference
        self.how = how
        self.label = label or reference.source
        self.golden = Golden(session.model.predict_net, reference)
        self.tolerances = tolerances or Tolerances()
        self._session = session
        self._known: Dict[int, Tuple[Step, Dict[int, Optional[Comparison]]]] = {}
        session.compared = self.figures

    def of(self, session: Session) -> bool:
        """Whether these are a session's golden values; an operator that was entered has a session of its own."""
        return self._session is session

    def rows(self, steps: Tuple[Step, ...]) -> Iterator[Row]:
        """The comparisons of what steps wrote, where there are golden values."""
        for step in steps:
            for slot, output in enumerate(step.outputs):
                found = self.comparison(step, slot)
                if found is not None:
                    yield Row(step, output, found)

    def comparison(self, step: Step, slot: int) -> Optional[Comparison]:
        """One output against its golden value; None where there is none."""
        held = self._known.get(id(step))
        if held is None or held[0] is not step:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            held = self._known[id(step)] = (step, {})
        if slot not in held[1]:
            held[1][slot] = self._compare(step, slot)
        return held[1][slot]

    def _compare(self, step: Step, slot: int) -> Optional[Comparison]:
        golden = self.golden.blob((step.index, slot))
        output = step.outputs[slot]
        if golden is None:
            return None
        if output.kind in (UNINITIALISED, MISSING):
            return Comparison(Verdict.INCONCLUSIVE, "%s was never written" % output.name)
        made = self._session.kept(output)
        if made is None and self._session.version(output.name) == output.version:
            made = self._session.fetch(output.name)
        if made is None:
            return Comparison(Verdict.INCONCLUSIVE, "the value of %s was not kept" % output.name)
        return self.compare(made, golden, step.operator.type, self._session.history.quanta(step))

    def compare(self, actual: Blob, golden: Blob, op_type: str = "", quanta: Sequence[float] = ()) -> Comparison:
        """Two blobs, with the tolerance of the first; see `Tolerances.of`."""
        return compare_blobs(actual, golden, self.tolerances.of(actual, golden, op_type, quanta))

    def figures(self, step: Step, name: str) -> Optional[Mapping[str, Any]]:
        """The figures of an output that conditions ask for; where shapes differ they are the worst there are."""
        slot = next((slot for slot, output in enumerate(step.outputs) if output.name == name), None)
        found = None if slot is None else self.comparison(step, slot)
        if found is None:
            return None
        fails = found.verdict is Verdict.FAIL
        figures: Dict[str, Any] = {key: getattr(found, "cosine" if key == "cos" else key) for key in _WORST}
        if fails and found.max_abs is None:  # shapes that differ, or nothing finite: no element is right
            elements = int(np.prod(found.reference_shape)) if found.reference_shape else 1
            return dict(_WORST, fail=fails, bad=found.bad or max(elements, 1))
        return dict(figures, fail=fails, bad=found.bad)

    def value(self, name: str, version: Optional[int] = None) -> Blob:
        """The golden value of a blob: of what wrote the version (the live one), or of what will write it next."""
        session = self._session
        wanted = session.version(name) if version is None else version
        for step in reversed(session.steps):
            for slot, output in enumerate(step.outputs):
                if (output.name, output.version) == (name, wanted):
                    return self._held((step.index, slot), name)
        if wanted == 0 or version is None:
            return self._unwritten(name)
        return self.golden.value(name)

    def _unwritten(self, name: str) -> Blob:
        """Of a blob whose live version no operator wrote: the operator that it failed at, an input, or its last one."""
        op = self._session.next_operator()
        if op is not None and name in op.outputs:
            return self._held((op.index, op.outputs.index(name)), name)
        return self.golden.value(name)

    def _held(self, place: Tuple[int, int], name: str) -> Blob:
        found = self.golden.blob(place)
        if found is None:
            reason = self.golden.missing(place) or "it has other values, or none, of that name"
            raise CaptureError("the reference has no value for %s of operator %d: %s" % (name, place[0], reason))
        return found
