"""Measure a blob against its reference, and say whether it is close.

`measure` takes arrays, `compare_blobs` takes blobs with all that a blob can be instead of an array.
Neither raises on what it is given, and nothing passes because it could not be looked at:

- shapes that differ are a FAIL, never broadcast;
- NaN or Inf at the same place on both sides is equal, on one side only it is bad;
- a dtype that differs while the values agree is a note;
- two empty arrays of one shape are equal;
- values all below the absolute tolerance, with differences as large as themselves, are INCONCLUSIVE
  unless that tolerance was asked for: such values are rounding, or wrong, and nothing here can tell;
- a blob that is missing, was never written or is no tensor is INCONCLUSIVE.

The tolerance is described in `tolerance`.
"""

import math
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from ..blob import INT8, STRING, Blob
from .chunks import Pairs
from .comparison import Comparison
from .objects import compare_objects
from .scan import Limits, Scan
from .tolerance import Tolerance, Tolerances, epsilon
from .verdict import Verdict

__all__ = ["compare_blobs", "measure"]

SAMPLE = 4096  # elements that say what a small typical value is
ROUNDINGS = 64  # the least slack, in machine epsilons of it
DEVIATIONS = 32  # the measured slack, in rms differences
NEEDY = 0.25  # the share of elements that may need it
NEAR = 0.5  # an element this near to its limit, in units of it, deserves a second look if it stands out,
NEAR_L2 = 0.1  # and so does a blob with this relative L2, in units of rtol
VACUOUS = 0.1  # the relative L2 from which values below atol are not called close


def measure(actual: Any, reference: Any, tolerance: Optional[Tolerance] = None) -> Comparison:
    """Compare two arrays; without a tolerance the default of their dtypes holds."""
    actual, reference = np.asarray(actual), np.asarray(reference)
    if tolerance is None:
        tolerance = Tolerances().find(dtypes=(actual.dtype, reference.dtype))
    base = _base(actual, reference, tolerance)
    if actual.shape != reference.shape:
        return Comparison(Verdict.FAIL, shapes_differ(actual.shape, reference.shape), **base)
    if not actual.size:
        same = actual.dtype == reference.dtype
        return Comparison(Verdict.PASS, "equal, 0 elements", equal=same, **base)
    if not (_numbers(actual) and _numbers(reference)):
        return compare_objects(actual, reference, base)
    with np.errstate(all="ignore"):  # NaN, Inf and overflow are findings here, not surprises
        return _compare_numbers(_real(actual), _real(reference), tolerance, base)


def compare_blobs(actual: Blob, reference: Blob, tolerance: Optional[Tolerance] = None) -> Comparison:
    """Compare two blobs, Int8 ones by the values they stand for."""
    for side, blob in (("", actual), ("reference ", reference)):
        if blob.array is None:
            text = ": " + blob.text if blob.text else ""
            return Comparison(Verdict.INCONCLUSIVE, "%s%s is %s%s" % (side, blob.name, blob.kind, text))
    if (actual.kind == STRING) != (reference.kind == STRING):
        return Comparison(Verdict.FAIL, "%s against %s" % (actual.kind, reference.kind))
    scales = [blob.scale for blob in (actual, reference) if blob.kind == INT8]
    if tolerance is None and scales:
        tolerance = Tolerance.half_quantum(*scales)
    return measure(actual.real(), reference.real(), tolerance)


def shapes_differ(shape: Tuple[int, ...], reference: Tuple[int, ...]) -> str:
    """One line on two shapes; says so where they differ in dimensions of 1 only."""
    text = "shape %s against %s" % (shape, reference)
    if [dim for dim in shape if dim != 1] == [dim for dim in reference if dim != 1]:
        return text + ", only dimensions of 1 differ"
    return text


def _base(actual: np.ndarray, reference: np.ndarray, tolerance: Tolerance) -> Dict[str, Any]:
    """What every comparison says: shapes, dtypes, the tolerance, and whether the dtypes differ."""
    name = _dtype_name(reference)
    names = name if actual.dtype == reference.dtype else _dtype_name(actual), name
    notes = ("dtype %s against %s" % names,) if names[0] != names[1] else ()
    return {
        "shape": actual.shape,
        "reference_shape": reference.shape,
        "dtype": names[0],
        "reference_dtype": names[1],
        "rtol": tolerance.rtol,
        "atol": tolerance.atol,
        "notes": notes,
    }


def _dtype_name(array: np.ndarray) -> str:
    return "string" if array.dtype.kind in "OSU" else array.dtype.name


def _numbers(array: np.ndarray) -> bool:
    return array.dtype.kind in "biufc" or array.dtype.name.startswith(("bfloat", "float"))  # ml_dtypes' types


def _real(array: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs, along one more axis."""
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], axis=-1)


def _compare_numbers(
    actual: np.ndarray, reference: np.ndarray, tolerance: Tolerance, base: Dict[str, Any]
) -> Comparison:
    if actual.shape != reference.shape:  # complex against real
        return Comparison(Verdict.FAIL, "complex against real numbers", **base)
    pairs = Pairs(actual, reference)
    typical = _small_typical(pairs.sample(SAMPLE))
    least = min(ROUNDINGS * epsilon(actual.dtype, reference.dtype), tolerance.rtol) * typical
    limits = Limits(tolerance.rtol, tolerance.atol + least)
    scan = Scan(pairs, limits).run()
    findings = dict(base, **_figures(scan))
    findings.update(_judge(scan, tolerance))
    findings.update(_worst(findings.pop("place"), actual, reference))
    rounded = _rounded_on_the_way(pairs, scan)
    if rounded:
        findings["notes"] = base["notes"] + ("all values are the reference's rounded to float32",)
    return Comparison(**dict(findings, **_verdict(scan, tolerance, findings, rounded)))


def _small_typical(sample: np.ndarray) -> float:
    """The lower quartile of the sizes of what is neither zero nor NaN nor Inf."""
    sizes = np.abs(sample.astype(np.float64))
    sizes = sizes[(sizes > 0) & (sizes < np.inf)]
    return float(np.partition(sizes, sizes.size // 4)[sizes.size // 4]) if sizes.size else 0.0


def _figures(scan: Scan) -> Dict[str, Any]:
    """The figures that do not depend on the tolerance."""
    figures: Dict[str, Any] = {
        "compared": scan.pairs.size,
        "equal": scan.equal,
        "disagree": scan.disagree,
        "nan": scan.nan[0],
        "reference_nan": scan.nan[1],
        "inf": scan.inf[0],
        "reference_inf": scan.inf[1],
    }
    if scan.finite:
        figures.update(
            max_abs=scan.max_abs,
            max_rel=scan.max_rel if scan.bb.value or not scan.max_abs else math.inf,
            rel_l2=scan.dd.root_over(scan.bb),
            cosine=_cosine(scan),
            mean_abs=scan.sum_sizes.mean(scan.finite),
            mean=scan.sum.mean(scan.finite),
            ulp=scan.ulp if scan.pairs.types[1].kind == "f" else None,
        )
    return figures


def _cosine(scan: Scan) -> float:
    """The cosine of the angle between both sides; 1 for two zero vectors, 0 for one."""
    if not (scan.aa.value and scan.bb.value):
        return float(not scan.aa.value and not scan.bb.value)
    apart = scan.dd.over(scan.bb)
    if apart < 0.1:  # the difference says more exactly how little is missing from one
        lengths = scan.aa.root_over(scan.bb)
        missing = (apart - (lengths - 1) ** 2) / (2 * lengths)
        return 1.0 - max(missing, 0.0)
    return max(-1.0, min(1.0, scan.ab.over_roots(scan.aa, scan.bb)))


def _judge(scan: Scan, tolerance: Tolerance) -> Dict[str, Any]:
    """The count of bad elements, the worst, and the slack that was granted."""
    outside, ratio, place, base = scan.outside, scan.ratio, scan.worst, scan.limits.base
    if outside and outside <= NEEDY * scan.finite:
        honest = scan.inside.root_mean(scan.finite - outside)
        slack = min(DEVIATIONS * honest, tolerance.rtol * scan.bb.root_mean(scan.finite))
        if tolerance.atol + slack > base:
            base = tolerance.atol + slack
            outside, ratio, place = scan.again(Limits(tolerance.rtol, base))
    if tolerance.exact:
        ratio = math.inf if outside else 0.0
    if scan.first_disagreement is not None:
        place, ratio = scan.first_disagreement, math.inf
    return {"bad": outside + scan.disagree, "ratio": ratio, "place": place, "slack": base - tolerance.atol}


def _worst(place: Optional[int], actual: np.ndarray, reference: np.ndarray) -> Dict[str, Any]:
    if place is None:
        return {}
    index = tuple(int(i) for i in np.unravel_index(place, reference.shape))
    return {"worst": index, "worst_actual": _value(actual[index]), "worst_reference": _value(reference[index])}


def _value(element: Any) -> Any:
    value = element.item()
    return value if isinstance(value, (bool, int, float)) else float(value)


def _verdict(scan: Scan, tolerance: Tolerance, findings: Dict[str, Any], rounded: bool) -> Dict[str, Any]:
    if findings["bad"]:
        return {"verdict": Verdict.FAIL, "reason": _reason(scan, findings)}
    rel_l2 = findings.get("rel_l2") or 0.0
    if tolerance.default and scan.bb.value and rel_l2 > VACUOUS and (scan.bb.root_mean(scan.finite) <= tolerance.atol):
        return {
            "verdict": Verdict.INCONCLUSIVE,
            "reason": "the reference's values, about %.2g, are below the absolute "
            "tolerance %g, and differ by %.2g of themselves" % (scan.bb.root_mean(scan.finite), tolerance.atol, rel_l2),
        }
    return {
        "verdict": Verdict.PASS,
        "borderline": rounded or rel_l2 > NEAR_L2 * tolerance.rtol or _stands_out(scan, findings),
    }


def _stands_out(scan: Scan, findings: Dict[str, Any]) -> bool:
    """Whether the worst element came near to its limit, and by more than the rounding of the others."""
    if findings["ratio"] <= NEAR:
        return False
    worst = abs(findings["worst_actual"] - findings["worst_reference"])
    return bool(worst > DEVIATIONS * scan.inside.root_mean(scan.finite - scan.outside))


def _reason(scan: Scan, findings: Dict[str, Any]) -> str:
    parts: List[str] = ["%d of %d elements differ" % (findings["bad"], scan.pairs.size)]
    if scan.disagree:
        parts.append("%d of them NaN or Inf where the other side is not" % scan.disagree)
    parts.append(
        "worst at %s: %r against %r"
        % (findings["worst"], _short(findings["worst_actual"]), _short(findings["worst_reference"]))
    )
    return ", ".join(parts)


def _short(value: Any) -> Any:
    return float("%.6g" % value) if isinstance(value, float) else value


def _rounded_on_the_way(pairs: Pairs, scan: Scan) -> bool:
    """Whether float64 values are the reference's, but for having been float32 once."""
    if scan.equal or any(dtype != np.float64 for dtype in pairs.types):
        return False
    for start in pairs.starts():
        a, b = pairs.at(start)
        b = b.astype(np.float32).astype(np.float64)
        if not (np.equal(a, b) | (np.isnan(a) & np.isnan(b))).all():
            return False
    return True
