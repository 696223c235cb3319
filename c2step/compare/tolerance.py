"""How far a value may be from its reference.

An element is close when

    |actual - reference|  <=  atol + rtol * |reference| + slack

`rtol` and `atol` mean what they mean in numpy.allclose, and everything that numpy.allclose accepts is
close.  `slack` is there because that rule alone is wrong near zero: an element near zero in a tensor
of large values is a difference of large values, and carries their rounding.  A fixed share of the
largest value would be wrong too: one mask of -1e9 would let everything pass, and a wrong channel of
small values would hide behind a large one.  So the slack is measured on the tensor itself:

    slack = 32 x the rms difference of the elements that are close with the least slack,
            at most rtol x the rms of the reference, and at least 64 machine epsilons (rtol, if that is
            less) of a small typical value: the lower quartile of |reference| without zeros.

Where the rest of a tensor agrees to 1e-7, an element that is off by 1e-5 of the typical value is
found; where honest rounding has grown to 1e-5 everywhere, an element near zero may be off by as much.
Slack is for the few: when more than a quarter of all elements need more than its minimum, none gets it.
What can hide: fewer than a quarter of the elements, off by less than 32 times the rounding of the rest.

Integers, booleans and strings are compared exactly, quantised values to half a quantum.
"""

import math
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Dict, Iterable, List, Optional, Tuple

import numpy as np

from ..blob import INT8, Blob
from ..errors import UsageError, near

__all__ = ["DEFAULTS", "EXACT", "Rule", "Tolerance", "Tolerances", "epsilon"]


@dataclass(frozen=True)
class Tolerance:
    """Relative and absolute tolerance; `source` says where they come from.

    `default` marks a tolerance that nobody asked for: such a one may not decide alone about values
    that are all smaller than its `atol`.
    """

    rtol: float = 0.0
    atol: float = 0.0
    source: str = "given"
    default: bool = False

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if not (math.isfinite(value) and value >= 0):
                raise UsageError("%s is %r" % (name, value), "give a number that is 0 or more, such as 1e-3")

    @property
    def exact(self) -> bool:
        """Whether only equal values are close."""
        return self.rtol == 0 and self.atol == 0

    @classmethod
    def half_quantum(cls, *scales: Optional[float]) -> "Tolerance":
        """For real values of an Int8 blob: half of the coarsest quantum, and its float32 rounding."""
        scale = max([abs(s) for s in scales if s] or [1.0])
        return cls(1e-6, scale * (0.5 + 1e-5), "half a quantum of %g" % scale)

    def __str__(self) -> str:
        return "exactly" if self.exact else "rtol %g, atol %g" % (self.rtol, self.atol)


EXACT = Tolerance(0.0, 0.0, "exact")
# float64: half of float32's epsilon is 6e-8, so a value that went through float32 passes, but only just.
DEFAULTS: Dict[str, Tolerance] = {
    name: Tolerance(rtol, atol, "default of " + name, True)
    for name, rtol, atol in (
        ("float64", 1e-7, 1e-12),
        ("float32", 1e-3, 1e-6),
        ("float16", 1e-2, 1e-3),
        ("bfloat16", 5e-2, 1e-2),
    )
}
_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_BY_SIZE = {2: "float16", 4: "float32", 8: "float64"}


def _coarsest(dtypes: Iterable[Any]) -> Optional[str]:
    """The float type with the largest epsilon among the dtypes, or None."""
    floats = [name for name in map(_float_name, dtypes) if name]
    return max(floats, key=lambda name: _EPSILON[name]) if floats else None


def _float_name(dtype: Any) -> str:
    """The type of the numbers in a dtype or a name of one; empty where they are no floats."""
    if isinstance(dtype, str) and dtype == "bfloat16":  # numpy itself does not know it
        return "bfloat16"
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return _BY_SIZE.get(dtype.itemsize, "float64")
    if dtype.kind == "c":
        return _BY_SIZE.get(dtype.itemsize // 2, "float64")
    return "bfloat16" if dtype.kind not in "biuOSUmM" else ""


def epsilon(*dtypes: Any) -> float:
    """The machine epsilon of the coarsest float type among the dtypes; 0 when there is none."""
    name = _coarsest(dtypes)
    return _EPSILON[name] if name else 0.0


@dataclass(frozen=True)
class Rule:
    """A tolerance for the blobs whose name fits `pattern`, or for an operator type.

    `rtol` or `atol` of None leaves the value that would hold otherwise.
    """

    pattern: str
    rtol: Optional[float] = None
    atol: Optional[float] = None
    by_type: bool = False

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Read `PATTERN=RTOL[,ATOL]`; `type:Softmax=1e-2` is for an operator type."""
        pattern, equals, numbers = text.rpartition("=")
        parts = numbers.split(",")
        if not equals or not pattern or len(parts) > 2:
            raise UsageError(
                "tolerance %r" % text, "write PATTERN=RTOL[,ATOL], for example conv*=1e-2,1e-4 or type:Softmax=1e-2"
            )
        rtol, atol = [_number(part, text) for part in parts + [""] * (2 - len(parts))]
        if pattern.startswith("type:"):
            return cls(pattern[len("type:") :], rtol, atol, True)
        return cls(pattern, rtol, atol)

    def fits(self, blob: str, op_type: str) -> bool:
        """Whether the rule is for this blob of this operator."""
        return fnmatchcase(op_type if self.by_type else blob, self.pattern)

    def __str__(self) -> str:
        numbers = ",".join("" if n is None else "%g" % n for n in (self.rtol, self.atol)).rstrip(",")
        return "%s%s=%s" % ("type:" if self.by_type else "", self.pattern, numbers)

    def over(self, base: Tolerance) -> Tolerance:
        """The tolerance with this rule's numbers in place of those of `base`."""
        return Tolerance(
            base.rtol if self.rtol is None else self.rtol, base.atol if self.atol is None else self.atol, str(self)
        )


def _number(text: str, whole: str) -> Optional[float]:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(
            "%r in tolerance %r is not a number that is 0 or more" % (text, whole), "write for example conv*=1e-2,1e-4"
        )
    return value


@dataclass(frozen=True)
class Tolerances:
    """Which tolerance holds for a blob.

    From weak to strong: the default of the dtype; `rtol` and `atol` for all float blobs; rules for
    operator types; rules for blob names.  Among rules of one kind the last that fits holds.
    """

    rtol: Optional[float] = None
    atol: Optional[float] = None
    rules: Tuple[Rule, ...] = ()

    @classmethod
    def parse(cls, *texts: str, rtol: Optional[float] = None, atol: Optional[float] = None) -> "Tolerances":
        """From command line texts such as `conv*=1e-2,1e-4` and `type:Softmax=1e-2`."""
        Tolerance(rtol or 0.0, atol or 0.0)
        return cls(rtol, atol, tuple(Rule.parse(text) for text in texts))

    def of(self, actual: Blob, reference: Blob, op_type: str = "", quanta: Iterable[float] = ()) -> Tolerance:
        """The tolerance of two blobs that are compared, by the name of the first.

        `op_type` is that of the operator that wrote it, `quanta` are the scales of the Int8 blobs that this read:
        what is computed from such is as coarse as they are.
        """
        both = (actual, reference)
        dtypes = [blob.array.dtype for blob in both if blob.array is not None] or ["float32"]
        floats = _coarsest(dtypes) is not None
        scales = [blob.scale for blob in both if blob.kind == INT8] + (list(quanta) if floats else [])
        return self.find(actual.name, op_type, dtypes, scales)

    def find(
        self,
        blob: str = "",
        op_type: str = "",
        dtypes: Iterable[Any] = ("float32",),
        scales: Iterable[Optional[float]] = (),
    ) -> Tolerance:
        """The tolerance of a blob; `dtypes` of both sides, `scales` of Int8 blobs among them."""
        tolerance = self._base(list(dtypes), [scale for scale in scales if scale])
        for by_type in (True, False):
            for rule in self.rules:
                if rule.by_type == by_type and rule.fits(blob, op_type):
                    tolerance = rule.over(tolerance)
        return tolerance

    def _base(self, dtypes: List[Any], scales: List[float]) -> Tolerance:
        if scales:
            return Tolerance.half_quantum(*scales)
        name = _coarsest(dtypes)
        if name is None:
            return EXACT
        base = DEFAULTS[name]
        if self.rtol is None and self.atol is None:
            return base
        return replace(Rule("*", self.rtol, self.atol).over(base), source="--rtol, --atol")

    def check(self, blobs: Iterable[str], types: Iterable[str]) -> None:
        """Raise UsageError for a rule that fits none of these blobs and operator types."""
        known = {True: list(types), False: list(blobs)}
        for rule in self.rules:
            names = known[rule.by_type]
            if not any(fnmatchcase(name, rule.pattern) for name in names):
                raise UsageError(
                    "tolerance %s fits no %s" % (rule, "operator type" if rule.by_type else "blob"),
                    near(rule.pattern, names),
                )
