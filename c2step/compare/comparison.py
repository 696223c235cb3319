"""What a comparison of two blobs found: figures, positions, and a verdict with its reason."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Optional, Tuple

from .verdict import Verdict

__all__ = ["Comparison"]

_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_TUPLES = ("shape", "reference_shape", "worst", "notes")
_FIGURES = (
    "max_abs",
    "max_rel",
    "rel_l2",
    "cosine",
    "mean_abs",
    "mean",
    "ratio",
    "rtol",
    "atol",
    "slack",
    "worst_actual",
    "worst_reference",
)


@dataclass(frozen=True)
class Comparison:
    """The figures of `actual` against `reference`, in the units of the values.

    `max_abs` to `ulp` are over the elements that are finite on both sides, and None where there are none
    or where the shapes differ.  `mean` is signed (actual - reference), `max_rel` the largest |d| / |reference|
    over the elements whose reference is not 0, as numpy.testing.assert_allclose says it (inf where all are 0),
    `rel_l2` the norm of the difference over that of the reference (inf where that is 0),
    `ulp` counts representable values of the reference's float type.  `bad` elements break the tolerance
    or are NaN or Inf on one side only (`disagree` of them).  `worst` is the index of the worst element,
    `ratio` its difference in units of what it was allowed: `atol` + `rtol` * |reference| + `slack`.
    `borderline` marks a PASS that is worth a second look; `notes` are worth telling whatever the verdict.
    """

    verdict: Verdict
    reason: str = ""
    shape: Tuple[int, ...] = ()
    reference_shape: Tuple[int, ...] = ()
    dtype: str = ""
    reference_dtype: str = ""
    compared: int = 0
    equal: bool = False
    bad: int = 0
    max_abs: Optional[float] = None
    max_rel: Optional[float] = None
    rel_l2: Optional[float] = None
    cosine: Optional[float] = None
    mean_abs: Optional[float] = None
    mean: Optional[float] = None
    ulp: Optional[int] = None
    ratio: Optional[float] = None
    worst: Optional[Tuple[int, ...]] = None
    worst_actual: Any = None
    worst_reference: Any = None
    nan: int = 0
    reference_nan: int = 0
    inf: int = 0
    reference_inf: int = 0
    disagree: int = 0
    rtol: float = 0.0
    atol: float = 0.0
    slack: float = 0.0
    borderline: bool = False
    notes: Tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the verdict is PASS."""
        return self.verdict is Verdict.PASS

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON values, NaN and Inf as text; `from_json` is the inverse."""
        data = {key: _plain(value) for key, value in asdict(self).items() if value is not None}
        return dict(data, verdict=str(self.verdict))

    @classmethod
    def from_json(cls, data: Dict[str, Any]) -> "Comparison":
        """The comparison that `to_json` wrote."""
        values = dict(data, verdict=Verdict(data["verdict"]))
        for key in _TUPLES:
            if values.get(key) is not None:
                values[key] = tuple(values[key])
        for key in _FIGURES:
            if isinstance(values.get(key), dict):
                values[key] = _SPECIAL[values[key]["float"]]
        return cls(**values)

    def _repr_html_(self) -> str:
        """The figures as a table, for notebooks."""
        from ..html import figure, html_table

        keys = ("compared", "bad", "max_abs", "max_rel", "rel_l2", "cosine", "ulp", "rtol", "atol", "worst")
        title = "%s  %s" % (self.verdict, self.reason)
        return html_table(title.rstrip(), keys, [[figure(getattr(self, key)) for key in keys]])

    def line(self) -> str:
        """One line: the verdict, why, and the figures that matter."""
        parts = [str(self.verdict)]
        parts.extend([self.reason] if self.reason else [])
        parts.extend(self.figures())
        parts.extend("note: " + note for note in self.notes)
        return "  ".join(parts)

    def figures(self) -> List[str]:
        """`max|d| 1e-06`, `rel L2 2e-07` and so on; what is not there is left out."""
        named = (("max|d|", self.max_abs), ("max rel", self.max_rel), ("rel L2", self.rel_l2), ("mean d", self.mean))
        parts = ["%s %.3g" % (name, value) for name, value in named if value is not None and not self.equal]
        if self.cosine is not None and not self.equal:
            parts.append("cos %s" % _cosine(self.cosine))
        if self.ulp:
            parts.append("ulp %d" % self.ulp)
        parts.extend(
            "%s %d/%d" % (name, ours, theirs)
            for name, ours, theirs in (("NaN", self.nan, self.reference_nan), ("Inf", self.inf, self.reference_inf))
            if ours or theirs
        )
        return parts


def _cosine(value: float) -> str:
    """Enough digits to see what is missing from one."""
    return "1-%.2g" % (1 - value) if 0 < 1 - value < 1e-3 else "%.4g" % value


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, tuple):
        return list(value)
    return value
