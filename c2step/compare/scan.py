"""All figures of two arrays in one pass, and a second look at the chunks that need it."""

import math
from typing import Dict, List, Optional, Tuple

import numpy as np

from .chunks import Difference, Pairs, Subtract, UlpDistance, native
from .sums import LARGEST, SAFE, Total, normalised, safe, scaled, square

__all__ = ["Limits", "Scan"]

# Epsilon, smallest normal and largest number, by the type's size in bytes.
_RANGES = {4: (2.0**-23, 2.0**-126, 2.0**128 - 2.0**104), 8: (2.0**-52, 2.0**-1022, LARGEST)}


class Limits:
    """An element is outside when its difference is above `base + rtol * |reference|`."""

    def __init__(self, rtol: float, base: float) -> None:
        self.rtol, self.base = rtol, base
        self.exact = rtol == 0 and base == 0
        # By size in bytes: both numbers held within the type, and what a ratio may be, its rounding included.
        self._held: Dict[int, Tuple[float, float, float]] = {}
        for size, (eps, tiny, largest) in _RANGES.items():
            threshold = 0.0 if self.exact else 1.0 + 4 * eps
            self._held[size] = min(rtol, largest), min(max(base, tiny), largest), threshold

    def ratios(self, difference: Difference, magnitudes: np.ndarray) -> Tuple[np.ndarray, float]:
        """Each difference in units of its limit, written over `magnitudes` of the reference, and the
        ratio above which an element is outside."""
        rtol, base, threshold = self._held[magnitudes.itemsize]
        if self.exact:
            return difference.sizes, threshold
        np.multiply(magnitudes, rtol, out=magnitudes)
        np.add(magnitudes, base, out=magnitudes)
        if difference.exponent:
            magnitudes *= 0.5**difference.exponent
        return np.divide(difference.sizes, magnitudes, out=magnitudes), threshold


class Scan:
    """The figures of two arrays; the attributes are complete after `run`.

    Sums of squares and products: `aa`, `bb`, `ab`, and `dd` of the differences; `inside` is `dd` without
    the elements outside the limits.  Pairs of counts are of the actual and the reference side.
    """

    def __init__(self, pairs: Pairs, limits: Limits) -> None:
        self.pairs, self.limits = pairs, limits
        self.aa, self.bb, self.ab, self.dd, self.inside = (Total() for _ in range(5))
        self.sum, self.sum_sizes = Total(), Total()
        self.nan, self.inf = [0, 0], [0, 0]
        self.finite = self.outside = self.disagree = self.ulp = 0
        self.max_abs = self.max_rel = self.ratio = 0.0
        self.worst: Optional[int] = None
        self.first_disagreement: Optional[int] = None
        self.flagged: List[Tuple[int, float, float]] = []  # where, worst ratio, largest difference
        self._subtract = Subtract(pairs)
        self.equal = self._same_type = pairs.types[0] == pairs.types[1]
        self._ulps = UlpDistance(pairs.types[1], pairs.chunk) if pairs.types[1].kind == "f" else None
        self._scratch = np.empty(pairs.chunk, pairs.working)
        self._ones = np.ones(pairs.chunk, pairs.working)

    def run(self) -> "Scan":
        """Look at every chunk."""
        for start in self.pairs.starts():
            self._chunk(start, *self.pairs.at(start))
        return self

    def again(self, limits: Limits) -> Tuple[int, float, Optional[int]]:
        """How many elements are outside wider limits; the worst ratio and where it is."""
        outside, ratio, worst = 0, 0.0, None
        for start in self._doubtful(limits):
            difference = self._subtract(*self.pairs.at(start))
            ratios, threshold = limits.ratios(difference, self._magnitudes(difference))
            top = float(np.maximum.reduce(ratios))
            if top > threshold:
                outside += int(np.count_nonzero(ratios > threshold))
            if top > ratio:
                ratio, worst = top, start + _place(difference, int(ratios.argmax()))
        return outside, ratio, worst

    def _doubtful(self, limits: Limits) -> List[int]:
        """The chunks that may have elements outside wider limits, or else the one that came nearest."""
        starts = [start for start, _, largest in self.flagged if largest > limits.base]
        return starts or [max(self.flagged, key=lambda flag: flag[1])[0]]

    def _chunk(self, start: int, a: np.ndarray, b: np.ndarray) -> None:
        bits = self._bits(a, b)
        if not bits and self._plain_squares(b):
            return
        self.equal = self.equal and not bits
        difference = self._subtract(a, b)
        if difference.where is not None:
            self._not_finite(start, a, b, difference.where)
        self.finite += difference.sizes.size
        if not difference.sizes.size:
            return
        if self._ulps is not None and bits:
            self._ulp(self._ulps, difference.where, a, b, bits)
        total = self._sums(difference)
        if difference.largest:
            self._judge(start, difference, total)

    def _bits(self, a: np.ndarray, b: np.ndarray) -> int:
        """0 where both chunks are the same bit for bit."""
        if not self._same_type:
            return 1
        return self._ulps.bits(a, b) if self._ulps is not None else int(not np.array_equal(a, b))

    def _plain_squares(self, b: np.ndarray) -> bool:
        """Add a chunk that is equal on both sides; False where it has to go the long way."""
        b = native(b, self.pairs.working)
        total = float(b.dot(b))
        if not safe(total, b.dtype) and (total != 0 or b.any()):
            return False
        for sums in (self.aa, self.bb, self.ab):
            sums.add(total)
        self.finite += b.size
        return True

    def _not_finite(self, start: int, a: np.ndarray, b: np.ndarray, finite: np.ndarray) -> None:
        for side, values in enumerate((a, b)):
            if values.dtype.kind == "f":
                self.nan[side] += int(np.isnan(values).sum())
                self.inf[side] += int(np.isinf(values).sum())
        agree = np.equal(a, b) | (np.not_equal(a, a) & np.not_equal(b, b))
        agree[finite] = True
        count = agree.size - int(np.count_nonzero(agree))
        if count and self.first_disagreement is None:
            self.first_disagreement = start + int(agree.argmin())
        self.disagree += count

    def _ulp(self, ulps: UlpDistance, where: Optional[np.ndarray], a: np.ndarray, b: np.ndarray, bits: int) -> None:
        if where is not None or not self._same_type:
            a = native(a, b.dtype)
            a, b = (a, b) if where is None else (a[where], b[where])
            bits = ulps.bits(a, b)
        self.ulp = max(self.ulp, ulps(a, b, bits))

    def _sums(self, difference: Difference) -> Tuple[float, int]:
        """Add the sums of a chunk; return its sum of squared differences as value and exponent."""
        a, b, values, sizes = difference[:4]
        aa, bb, dd = float(a.dot(a)), float(b.dot(b)), float(values.dot(values))
        low, high = SAFE[a.itemsize]
        plain = low < aa < high and low < bb < high and (low < dd < high or not difference.largest)
        if difference.exponent or not plain:
            return self._scaled_sums(difference)
        ones = self._ones[: b.size]
        self.aa.add(aa)
        self.bb.add(bb)
        self.dd.add(dd)
        self.ab.add(float(a.dot(b)))
        self.sum.add(float(values.dot(ones)))
        self.sum_sizes.add(float(sizes.dot(ones)))
        return dd, 0

    def _scaled_sums(self, difference: Difference) -> Tuple[float, int]:
        (a, a_up), (b, b_up), (values, up) = (normalised(side) for side in difference[:3])
        up += difference.exponent
        dd = float(values.dot(values))
        self.aa.add(float(a.dot(a)), 2 * a_up)
        self.bb.add(float(b.dot(b)), 2 * b_up)
        self.dd.add(dd, 2 * up)
        self.ab.add(float(a.dot(b)), a_up + b_up)
        self.sum.add(float(values.sum()), up)
        self.sum_sizes.add(float(np.abs(values).sum()), up)
        return dd, 2 * up

    def _magnitudes(self, difference: Difference) -> np.ndarray:
        reference = difference.reference
        if reference.dtype != self._scratch.dtype:
            return np.asarray(np.abs(reference))
        magnitudes = self._scratch[: reference.size]
        np.abs(reference, out=magnitudes)
        return magnitudes

    def _judge(self, start: int, difference: Difference, total: Tuple[float, int]) -> None:
        """Which elements are outside the limits; `inside` gets the squares of the others."""
        self.max_abs = max(self.max_abs, scaled(difference.largest, difference.exponent))
        ratios, threshold = self.limits.ratios(difference, self._magnitudes(difference))
        top = float(np.maximum.reduce(ratios))
        if top > self.ratio:
            self.ratio, self.worst = top, start + _place(difference, int(ratios.argmax()))
        if top > threshold:
            inside = ratios <= threshold
            self.outside += inside.size - int(np.count_nonzero(inside))
            self.flagged.append((start, top, scaled(difference.largest, difference.exponent)))
            np.multiply(difference.values, inside, out=difference.values)
            value, exponent = square(difference.values)
            total = value, exponent + 2 * difference.exponent
        self.inside.add(*total)
        self._relative(difference)

    def _relative(self, difference: Difference) -> None:
        """The largest difference over its reference, where that is not zero."""
        magnitudes = self._magnitudes(difference)
        if not np.minimum.reduce(magnitudes):
            magnitudes[magnitudes == 0] = np.inf
        top = float(np.maximum.reduce(np.divide(difference.sizes, magnitudes, out=magnitudes)))
        if not math.isfinite(top):  # float32 does not hold what a tiny reference makes of it
            magnitudes = np.abs(difference.reference.astype(np.float64))
            kept = magnitudes > 0
            top = float(np.max(difference.sizes.astype(np.float64)[kept] / magnitudes[kept]))
        self.max_rel = max(self.max_rel, scaled(top, difference.exponent) if math.isfinite(top) else top)


def _place(difference: Difference, index: int) -> int:
    """The place in the chunk of an element of the difference."""
    return index if difference.where is None else int(difference.where[index])
