"""Where the bad elements are: NaN and Inf alone, a few slices of an axis, the border."""

from typing import List, Tuple

import numpy as np

from .comparison import Comparison

__all__ = ["place_hints"]

BLOCK = 1 << 16
MOST_NAMED = 6
BORDERS = (1, 2, 3)


def place_hints(found: Comparison, a: np.ndarray, b: np.ndarray) -> List[str]:
    """What is common to the places of the bad elements of a comparison of these two arrays."""
    if found.max_abs is None:
        return ["no element is finite on both sides"]
    if found.disagree == found.bad:
        return ["the finite values agree, only NaN or Inf differ, at %d place%s" % (found.bad, "s" * (found.bad > 1))]
    if found.bad in (1, a.size):
        return []
    bad = bad_places(found, a, b)
    hints = [_slices(bad, axis) for axis in range(bad.ndim)]
    return [hint for hint in hints if hint] + _border(bad)


def bad_places(found: Comparison, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """True where an element broke the tolerance of the comparison."""
    bad = np.empty(a.size, bool)
    a_flat, b_flat = (side.reshape(-1) if side.flags.c_contiguous else side.flat for side in (a, b))
    with np.errstate(all="ignore"):
        for start in range(0, a.size, BLOCK):
            ours, theirs = (side[start : start + BLOCK].astype(np.float64) for side in (a_flat, b_flat))
            limit = found.atol + found.slack + found.rtol * np.abs(theirs)
            good = (np.abs(ours - theirs) <= limit) & np.isfinite(theirs)
            good |= (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
            bad[start : start + BLOCK] = ~good
    return bad.reshape(a.shape)


def _slices(bad: np.ndarray, axis: int) -> str:
    """That all bad elements are in a few slices of an axis, where that says something."""
    count = bad.shape[axis]
    touched = np.flatnonzero(bad.any(axis=tuple(other for other in range(bad.ndim) if other != axis)))
    if bad.ndim < 2 or not 0 < touched.size <= max(1, count // 4) or count < 3:
        return ""
    listed = ", ".join(map(str, touched[:MOST_NAMED])) + (", ..." if touched.size > MOST_NAMED else "")
    return "all bad elements are in %d of %d slices of axis %d: %s" % (touched.size, count, axis, listed)


def _border(bad: np.ndarray) -> List[str]:
    """That the bad elements are on the border of two neighbouring axes, as padding makes them."""
    for first in range(bad.ndim - 2, 0, -1):
        for width in BORDERS:
            if min(bad.shape[first : first + 2]) < 2 * width + 2:
                break
            for name, start, stop in (
                ("the last %d of rows and columns", 0, -width),
                ("the first %d of rows and columns", width, None),
                ("the border of %d", width, -width),
            ):
                if not bad[_window(bad.ndim, first, slice(start, stop))].any():
                    return ["all bad elements are in %s, axes %d and %d" % (name % width, first, first + 1)]
    return []


def _window(axes: int, first: int, part: slice) -> Tuple[slice, ...]:
    return tuple(part if axis in (first, first + 1) else slice(None) for axis in range(axes))
