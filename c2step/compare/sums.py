"""Sums that cannot overflow or vanish: the square of 1e300 fits, and so does that of 1e-300."""

import math
import sys
from typing import Tuple

import numpy as np

__all__ = ["Total", "scaled", "square"]

LARGEST = sys.float_info.max
# A sum of squares inside these limits is exact enough in the type itself; by its size in bytes.
SAFE = {4: (1e-30, 1e37), 8: (1e-280, 1e300)}


def scaled(value: float, exponent: int) -> float:
    """value * 2**exponent; the largest number instead of an overflow."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(LARGEST, value)


def safe(total: float, dtype: np.dtype) -> bool:
    """Whether a sum of squares taken in `dtype` neither overflowed nor lost its terms."""
    low, high = SAFE[dtype.itemsize]
    return low < total < high


def square(values: np.ndarray) -> Tuple[float, int]:
    """The sum of squares as value and exponent."""
    total = float(values.dot(values))
    if safe(total, values.dtype) or not values.any():
        return total, 0
    down, up = normalised(values)
    return float(down.dot(down)), 2 * up


def normalised(values: np.ndarray) -> Tuple[np.ndarray, int]:
    """float64 values below 1 in size, and the exponent of two that was taken out."""
    wide = values.astype(np.float64)
    up = math.frexp(float(np.abs(wide).max()))[1] if wide.size else 0
    return np.ldexp(wide, -up), up


class Total:
    """A sum kept as value * 2**exponent."""

    __slots__ = ("exponent", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.exponent = 0

    def add(self, value: float, exponent: int = 0) -> None:
        """Add value * 2**exponent."""
        if exponent != self.exponent and value:
            if not self.value or exponent > self.exponent:
                self.value = math.ldexp(self.value, self.exponent - exponent)
                self.exponent = exponent
            else:
                value = math.ldexp(value, exponent - self.exponent)
        self.value += value

    def over(self, other: "Total") -> float:
        """The quotient of two totals; 0 / 0 is 0."""
        if not other.value:
            return math.inf if self.value else 0.0
        return scaled(self.value / other.value, self.exponent - other.exponent)

    def mean(self, count: int) -> float:
        """The mean over `count` values."""
        return scaled(self.value / max(count, 1), self.exponent)

    def root_mean(self, count: int) -> float:
        """The root of the mean over `count` values, for a total of squares."""
        value, exponent = self._root()
        return scaled(value / math.sqrt(max(count, 1)), exponent)

    def root_over(self, other: "Total") -> float:
        """The quotient of two norms, for totals of squares; their own quotient may be out of range."""
        if not other.value:
            return math.inf if self.value else 0.0
        (value, exponent), (below, down) = self._root(), other._root()
        return scaled(value / below, exponent - down)

    def over_roots(self, first: "Total", second: "Total") -> float:
        """This total of products over the norms of both sides: a cosine."""
        (a, a_up), (b, b_up) = first._root(), second._root()
        return scaled(self.value / a / b, self.exponent - a_up - b_up)

    def _root(self) -> Tuple[float, int]:
        odd = self.exponent % 2
        return math.sqrt(max(self.value, 0.0) * (1 + odd)), (self.exponent - odd) // 2
