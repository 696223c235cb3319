"""Other values at the same places: scaled, offset, clipped, rounded, normalised along another axis, sorted."""

from functools import partial
from itertools import takewhile
from typing import Callable, List, Optional, Sequence, Tuple

import numpy as np

from .matching import Matcher, fit, lines, spread, telling_places

__all__ = ["factor_text", "value_hints"]

Change = Callable[[np.ndarray], np.ndarray]

SAMPLE = 4096
FIT = 0.999  # an R^2 from which a line that does not match is still worth telling
MOST_CHANNELS = 4096
ONE = 1e-3  # how near to one a sum has to be


def value_hints(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """What would turn the reference's values into actual's; both have one shape."""
    for finder in (_constant, _clipped, _rounded, _line, _line_by_channel, _sums_to_one):
        found = finder(match, a, b)
        if found:
            return found
    return []


def _constant(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    low, high = a.min(), a.max()
    if a.size < 2 or low != high or b.min() == b.max():
        return []
    return ["actual is %s everywhere" % _short(float(low))]


def _clipped(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    for ours, theirs, text in (
        (a, b, "actual is the reference clipped to [%s, %s]"),
        (b, a, "the reference is actual clipped to [%s, %s]"),
    ):
        low, high = float(ours.min()), float(ours.max())
        below = low > float(theirs.min()) and np.count_nonzero(ours == low) > 1
        above = high < float(theirs.max()) and np.count_nonzero(ours == high) > 1
        limits = low if below else -np.inf, high if above else np.inf
        if (below or above) and match.close_values(ours, theirs, partial(_clip, *limits)):
            return [text % (_short(limits[0]), _short(limits[1]))]
    return []


def _clip(low: float, high: float, values: np.ndarray) -> np.ndarray:
    return np.asarray(np.minimum(np.maximum(values, low), high))


def _along(factor: float, offset: float, values: np.ndarray) -> np.ndarray:
    return np.asarray(factor * values + offset)


def _bfloat16(values: np.ndarray) -> np.ndarray:
    """Rounded to the upper half of a float32, to nearest even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).astype(np.uint64)
    kept = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return kept.astype(np.uint32).view(np.float32).astype(np.float64)


def _rounded(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """Bit for bit what a narrower type, or a whole number, makes of the reference."""
    ways: Sequence[Tuple[str, Change]] = (
        ("float32", lambda x: x.astype(np.float32).astype(np.float64)),
        ("float16", lambda x: x.astype(np.float16).astype(np.float64)),
        ("bfloat16", _bfloat16),
        ("the nearest whole number", np.rint),
        ("whole numbers towards zero", np.trunc),
        ("whole numbers below", np.floor),
    )
    with np.errstate(all="ignore"):
        for name, way in ways:
            if _everywhere(a, b, way):
                return ["actual is the reference rounded to " + name]
    return []


def _everywhere(a: np.ndarray, b: np.ndarray, way: Change) -> bool:
    """Whether `way` makes exactly `a` of `b`."""
    a_flat, b_flat = (side.reshape(-1) if side.flags.c_contiguous else side.flat for side in (a, b))
    block = 1 << 16
    for start in range(0, a.size, block):
        ours = a_flat[start : start + block].astype(np.float64)
        theirs = way(b_flat[start : start + block].astype(np.float64))
        if not ((ours == theirs) | (np.isnan(ours) & np.isnan(theirs))).all():
            return False
    return True


# ---- lines ----------------------------------------------------------------------------------------------


def _line(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """One factor and offset for all."""
    places = np.unravel_index(spread(SAMPLE, a.size), a.shape)
    ours, theirs = a[places].astype(np.float64), b[places].astype(np.float64)
    found = fit(ours, theirs)
    if found is None:
        return []
    factor, offset, explained = found
    for k, c in ((_factor_alone(ours, theirs), 0.0), (1.0, _median(ours - theirs)), (factor, offset)):
        if match.close_values(a, b, partial(_along, k, c)):
            return [_line_text(k, c)]
    rest, apart = np.abs(ours - factor * theirs - offset), np.abs(ours - theirs)
    if explained > FIT and _median(rest) < 0.1 * _median(apart):
        return ["nearly %s, R^2 %.6f" % (_line_text(factor, offset), explained)]
    return []


def _factor_alone(a: np.ndarray, b: np.ndarray) -> float:
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = a[finite], b[finite]
    return float(np.dot(a, b) / np.dot(b, b))


def _median(values: np.ndarray) -> float:
    values = values[np.isfinite(values)]
    return float(np.median(values)) if values.size else 0.0


def _line_text(factor: float, offset: float) -> str:
    if factor == 1:
        return "actual is the reference %s %s" % ("-" if offset < 0 else "+", _short(abs(offset)))
    if offset == 0 and abs(factor + 1) < 1e-3:
        return "the sign is flipped: actual is -reference"
    text = "actual is %s * reference" % factor_text(factor)
    return text + (" %s %s" % ("-" if offset < 0 else "+", _short(abs(offset))) if offset else "")


def factor_text(factor: float) -> str:
    """A factor as people write it: 255, 1/255, -2, 0.37."""
    for number, form in ((factor, "%d"), (1 / factor if factor else 0.0, "1/%d")):
        whole = round(number)
        if abs(whole) > 1 and abs(number - whole) < 1e-3 * abs(whole) and abs(whole) < 1e6:
            return (form % whole).replace("1/-", "-1/")
    return _short(factor)


def _short(value: float) -> str:
    return "%.6g" % value


def _line_by_channel(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """A factor and an offset for each slice of the channel axis."""
    for axis in sorted({1 if a.ndim > 2 else a.ndim - 1, a.ndim - 1}):
        channels = a.shape[axis] if a.ndim > 1 else 0
        if not 2 <= channels <= MOST_CHANNELS or a.size < 8 * channels:
            continue
        sides = list(zip(np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)))
        found = list(takewhile(bool, (_channel_line(match, ours, theirs) for ours, theirs in sides)))
        if len(found) == channels and all(
            match.close_values(ours, theirs, partial(_along, *line))
            for (ours, theirs), line in zip(sides, found)
            if line
        ):
            return [_channel_text([line[0] for line in found if line], [line[1] for line in found if line], axis)]
    return []


def _channel_line(match: Matcher, a: np.ndarray, b: np.ndarray) -> Optional[Tuple[float, float]]:
    """The simplest line that fits some elements of one channel, or None."""
    places = np.unravel_index(spread(64, a.size), a.shape)
    ours, theirs = a[places].astype(np.float64), b[places].astype(np.float64)
    offset = _median(ours - theirs)
    if match.screen(ours, theirs + offset):
        return 1.0, offset
    line = fit(ours, theirs)
    if line is None:
        return None
    factor, offset, _ = line
    if abs(offset) < 1e-3 * float(np.abs(ours).max()):
        offset = 0.0
    return (factor, offset) if match.screen(ours, factor * theirs + offset) else None


def _channel_text(factors: List[float], offsets: List[float], axis: int) -> str:
    if all(factor == 1 for factor in factors):
        return "off by a constant in each slice of axis %d, as a bias is: %s" % (axis, _list(offsets))
    if not any(offsets):
        return "scaled by a factor in each slice of axis %d: %s" % (axis, _list(factors))
    return "each slice of axis %d has its own factor %s and offset %s" % (axis, _list(factors), _list(offsets))


def _list(numbers: List[float]) -> str:
    shown = ", ".join("%.4g" % number for number in numbers[:4])
    return "[%s%s]" % (shown, ", ..." if len(numbers) > 4 else "")


# ---- softmax --------------------------------------------------------------------------------------------


def _sums_to_one(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """Both are softmax outputs (or logarithms of such), over other axes."""
    changes: Sequence[Tuple[str, Optional[Change]]] = (("values", None), ("exponentials", np.exp))
    for name, change in changes:
        if not all(_probabilities(side[telling_places(side)], change) for side in (a, b)):
            continue
        ours, theirs = _unit_axes(a, change), _unit_axes(b, change)
        if ours and theirs and ours != theirs:
            return [
                "the %s sum to one along %s, the reference's along %s: softmax over another axis"
                % (name, _axes(ours), _axes(theirs))
            ]
    return []


def _unit_axes(array: np.ndarray, change: Optional[Change]) -> List[Tuple[int, ...]]:
    """The axes, alone or flattened with all after them, along which everything sums to one."""
    axes = [axis for axis in range(array.ndim) if array.shape[axis] > 1]
    groups = [(axis,) for axis in axes] + [tuple(axes[place:]) for place in range(len(axes) - 1)]
    return [group for group in groups if _unit(lines(array, group, 64), change)]


def _unit(columns: np.ndarray, change: Optional[Change]) -> bool:
    if columns.shape[0] < 2 or not _probabilities(columns, change):
        return False
    values = columns if change is None else change(columns)
    return bool((np.abs(values.sum(0) - 1) < ONE).all())


def _probabilities(values: np.ndarray, change: Optional[Change]) -> bool:
    """Whether all are between zero and one, after the change."""
    low, high = (0.0, 1.0) if change is None else (-np.inf, 0.0)
    return bool((values >= low).all() and (values <= high + ONE).all())


def _axes(groups: List[Tuple[int, ...]]) -> str:
    return " or ".join("axis %d" % group[0] if len(group) == 1 else "axes %s" % (group,) for group in groups)
