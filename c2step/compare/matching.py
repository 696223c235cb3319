"""Whether two arrays match: a look at a few hundred elements first, then at all of them."""

from typing import Callable, List, Optional, Sequence, Tuple

import numpy as np

from .metrics import measure
from .tolerance import Tolerance

__all__ = ["Matcher", "fit", "lines", "spread", "telling_places", "without_ones"]

SCREEN = 256
BLOCK = 1 << 18
MOST = 1 << 19
# The screen is coarser than the tolerance, so that it turns away nothing that the full look would accept.
ENOUGH = 0.9


def spread(count: int, size: int) -> np.ndarray:
    """Up to `count` places among `size`, spread evenly but without a period; all places if there are fewer."""
    if size <= count:
        return np.arange(size)
    return np.asarray(np.arange(1, count + 1) * 0.6180339887498949 % 1.0 * size).astype(np.intp)


def lines(array: np.ndarray, axes: Tuple[int, ...], count: int) -> np.ndarray:
    """Whole lines along an axis, or along several flattened ones, as the columns of a float64 matrix.

    There are up to `count` of them, fewer where they are long; NaN and Inf stay.
    """
    others = tuple(axis for axis in range(array.ndim) if axis not in axes)
    length, shape = _product(array, axes), tuple(array.shape[axis] for axis in others)
    places = spread(max(1, min(count, MOST // max(length, 1))), _product(array, others))
    index = (slice(None),) * len(axes) + (np.unravel_index(places, shape) if shape else ())
    return np.asarray(array.transpose(axes + others)[index], dtype=np.float64).reshape(length, -1)


def without_ones(shape: Sequence[int]) -> List[int]:
    """The dimensions that are not 1."""
    return [dim for dim in shape if dim != 1]


def _product(array: np.ndarray, axes: Tuple[int, ...]) -> int:
    size = 1
    for axis in axes:
        size *= array.shape[axis]
    return size


def telling_places(array: np.ndarray) -> Tuple[np.ndarray, ...]:
    """An index of a few hundred elements, not zero where there are enough of those: zeros match anything sparse."""
    places = spread(8 * SCREEN, array.size)
    filled = places[array[np.unravel_index(places, array.shape)] != 0]
    if filled.size < SCREEN // 8:
        filled = places
    return tuple(np.unravel_index(filled[:: max(1, filled.size // SCREEN)], array.shape))


class Matcher:
    """Decides whether arrays match within one tolerance."""

    def __init__(self, tolerance: Tolerance) -> None:
        self.tolerance = tolerance

    def close(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Whether all elements of two arrays of one shape match."""
        if a.shape != b.shape or not a.size:
            return False
        places = telling_places(b)
        return self.screen(a[places], b[places]) and measure(a, b, self.tolerance).passed

    def close_values(self, a: np.ndarray, b: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> bool:
        """Whether `a` matches `change` of `b`, applied to float64 blocks so that no copy of all is made."""
        places = telling_places(b)
        if not self.screen(a[places], change(b[places].astype(np.float64))):
            return False
        a_flat, b_flat = (side.reshape(-1) if side.flags.c_contiguous else side.flat for side in (a, b))
        for start in range(0, a.size, BLOCK):
            changed = change(b_flat[start : start + BLOCK].astype(np.float64))
            if a.dtype.kind == "f":
                changed = changed.astype(a.dtype)
            if not measure(a_flat[start : start + BLOCK], changed, self.tolerance).passed:
                return False
        return True

    def screen(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Whether nearly all of a few elements match."""
        a, b = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(all="ignore"):
            sizes = np.abs(b)
            finite = sizes[np.isfinite(sizes)]
            large = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0
            limit = self.tolerance.atol + self.tolerance.rtol * (sizes + large)
            good = (np.abs(a - b) <= limit) | (a == b) | (np.isnan(a) & np.isnan(b))
        return bool(good.mean() >= ENOUGH)


def fit(a: np.ndarray, b: np.ndarray) -> Optional[Tuple[float, float, float]]:
    """The line a = factor * b + offset and its R^2, over the elements finite on both sides."""
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = a[finite].astype(np.float64), b[finite].astype(np.float64)
    if a.size < 3 or b.max() == b.min() or a.max() == a.min():
        return None
    with np.errstate(all="ignore"):
        a_mean, b_mean = a.mean(), b.mean()
        factor = float(np.dot(a - a_mean, b - b_mean) / np.dot(b - b_mean, b - b_mean))
        offset = float(a_mean - factor * b_mean)
        rest = a - factor * b - offset
        explained = 1.0 - float(np.dot(rest, rest) / np.dot(a - a_mean, a - a_mean))
    return (factor, offset, explained) if np.isfinite([factor, offset, explained]).all() else None
