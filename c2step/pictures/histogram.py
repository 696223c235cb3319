"""Histograms over the finite values of one blob or two, on common bins."""

from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np

__all__ = ["Histogram", "histogram"]


class Histogram(NamedTuple):
    """Counts in equal bins from `low` to `high`, one list for each array; NaN and Inf are counted apart."""

    low: float
    high: float
    counts: List[List[int]]
    left_out: List[int]

    @property
    def bins(self) -> int:
        """How many bins."""
        return len(self.counts[0])

    def edges(self) -> np.ndarray:
        """The borders of the bins, one more than there are bins."""
        return np.linspace(self.low, self.high, self.bins + 1)

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON values."""
        return {"low": self.low, "high": self.high, "counts": self.counts, "left_out": self.left_out}


def histogram(*arrays: Any, bins: int = 48) -> Optional[Histogram]:
    """Count arrays of numbers on common bins; None where no array has a finite value."""
    flat = [np.asarray(array).reshape(-1) for array in arrays]
    finite = [values[np.isfinite(values)] if values.dtype.kind == "f" else values for values in flat]
    filled = [values for values in finite if values.size]
    if not filled:
        return None
    low, high = min(float(v.min()) for v in filled), max(float(v.max()) for v in filled)
    if not np.isfinite(high - low):
        return None
    low, high = (low, high) if low < high else _around(low)
    counts = [np.histogram(values.astype(np.float64), bins=bins, range=(low, high))[0] for values in finite]
    left_out = [int(all_.size - kept.size) for all_, kept in zip(flat, finite)]
    return Histogram(low, high, [[int(c) for c in row] for row in counts], left_out)


def _around(value: float) -> "tuple[float, float]":
    """A range about the only value that there is."""
    half = max(abs(value) * 0.01, 0.5 if value == 0 else 1e-12)
    return value - half, value + half
