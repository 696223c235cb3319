"""Columns of numbers, one for each figure, with an entry for each input; on disk where they would take much memory."""

import tempfile
from typing import Any, Dict, Optional

import numpy as np

__all__ = ["SPREAD", "Columns", "spread"]

SPREAD = ("count", "min", "median", "p95", "max", "worst")

_IN_MEMORY = 64 << 20  # bytes of columns that are held in memory


class Columns:
    """Makes columns of `length` entries."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._held = 0

    def new(self) -> np.ndarray:
        """A column of NaN."""
        size = 8 * self.length
        if self._held + size <= _IN_MEMORY:
            self._held += size
            return np.full(self.length, np.nan)
        with tempfile.TemporaryFile() as file:  # the mapping keeps it
            file.truncate(size)
            made = np.memmap(file, np.float64, "r+", shape=(self.length,))
        for start in range(0, self.length, 1 << 20):
            made[start : start + (1 << 20)] = np.nan
        return made


def spread(column: np.ndarray) -> Optional[Dict[str, Any]]:
    """How the numbers of a column lie: count, min, median, p95, max, and where the largest one is; None for none.

    The median and the 95th percentile are numpy's, between two numbers in proportion.  Of several largest ones
    the first is meant.
    """
    there = column[~np.isnan(column)]
    if not there.size:
        return None
    with np.errstate(invalid="ignore"):  # Inf among the numbers
        median, p95 = _between(np.sort(there), 0.5), _between(np.sort(there), 0.95)
    return {
        "count": int(there.size),
        "min": float(there.min()),
        "median": median,
        "p95": p95,
        "max": float(there.max()),
        "worst": int(np.nanargmax(column)),
    }


def _between(ordered: np.ndarray, share: float) -> float:
    """A quantile; where it lies between a number and Inf it is Inf, and not NaN as with numpy."""
    place = share * (ordered.size - 1)
    low = int(place)
    high = min(low + 1, ordered.size - 1)
    if ordered[low] == ordered[high] or place == low:
        return float(ordered[low])
    return float(ordered[low] + (place - low) * (ordered[high] - ordered[low]))
