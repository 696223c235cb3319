"""Two arrays as pairs of chunks, and what one chunk less the other is.

A chunk and its working copies stay in the processor's cache, so a dozen figures cost about as much as
two passes through memory.  float32 and smaller are subtracted in float32, everything else in float64,
integers exactly; only a chunk with NaN, Inf or an overflow is taken apart.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np

__all__ = ["CHUNK", "Difference", "Pairs", "Subtract", "UlpDistance"]

# Elements in a chunk, by bytes of the type it is computed in.  BLAS adds up this many in one thread, so that
# no figure depends on how many threads there are.
CHUNK = {4: 32768, 8: 8192}
SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}
UNSIGNED = {2: np.uint16, 4: np.uint32, 8: np.uint64}


class Pairs:
    """Two arrays of one shape as pairs of contiguous chunks in native byte order."""

    def __init__(self, actual: np.ndarray, reference: np.ndarray) -> None:
        self.size = actual.size
        self.types = _plain(actual.dtype), _plain(reference.dtype)
        self.integers = all(dtype.kind in "iu" for dtype in self.types)
        small = all(dtype.kind == "f" and dtype.itemsize <= 4 for dtype in self.types)
        self.working = np.dtype(np.float32 if small else np.float64)
        self.chunk = min(CHUNK[self.working.itemsize], max(self.size, 1))
        self._flat = _flat(actual), _flat(reference)

    def starts(self) -> range:
        """Where each chunk begins."""
        return range(0, self.size, self.chunk)

    def at(self, start: int) -> Tuple[np.ndarray, np.ndarray]:
        """The chunk of both sides that begins at element `start`."""
        stop = min(start + self.chunk, self.size)
        (a, b), (a_type, b_type) = self._flat, self.types
        return native(a[start:stop], a_type), native(b[start:stop], b_type)

    def sample(self, count: int) -> np.ndarray:
        """Up to `count` elements of the reference, spread evenly but without a period."""
        flat, dtype = self._flat[1], self.types[1]
        if self.size <= count:
            return native(flat[0 : self.size], dtype)
        return native(flat[(_spread(count) * self.size).astype(np.intp)], dtype)


@lru_cache(maxsize=2)
def _spread(count: int) -> np.ndarray:
    """Numbers from 0 to 1, spread evenly: multiples of the golden ratio fall into step with no row length."""
    places = np.arange(1, count + 1) * 0.6180339887498949 % 1.0
    places.flags.writeable = False
    return np.asarray(places)


def _flat(array: np.ndarray) -> Any:
    return array.reshape(-1) if array.flags.c_contiguous else array.flat


def _plain(dtype: np.dtype) -> np.dtype:
    """The type a chunk is read as: native byte order, bool as uint8, bfloat16 and its like as float32."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    if dtype.kind not in "iuf":
        return np.dtype(np.float32)
    return np.dtype(np.float64) if dtype.itemsize > 8 else dtype.newbyteorder("=")


def native(chunk: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The chunk in this type; the chunk itself where it has it."""
    return chunk if chunk.dtype == dtype else chunk.astype(dtype)


class Difference(NamedTuple):
    """Both sides where both are finite, and actual - reference = values * 2**exponent.

    `sizes` are the absolute values, `largest` the greatest of them; `where` gives the places in the
    chunk, or None for the whole chunk.
    """

    actual: np.ndarray
    reference: np.ndarray
    values: np.ndarray
    sizes: np.ndarray
    largest: float
    exponent: int = 0
    where: Optional[np.ndarray] = None


class Subtract:
    """Differences of chunks, in buffers that are used again."""

    def __init__(self, pairs: Pairs) -> None:
        self.integers, self.dtype = pairs.integers, pairs.working
        self._values, self._sizes = np.empty(pairs.chunk, self.dtype), np.empty(pairs.chunk, self.dtype)

    def __call__(self, a: np.ndarray, b: np.ndarray) -> Difference:
        """The difference of two chunks, valid until the next call."""
        if self.integers:
            values = _integer_difference(a, b)
            sizes = np.abs(values)
            return Difference(a.astype(np.float64), b.astype(np.float64), values, sizes, float(sizes.max()))
        a, b = native(a, self.dtype), native(b, self.dtype)
        values = np.subtract(a, b, out=self._values[: a.size])
        sizes = np.abs(values, out=self._sizes[: a.size])
        largest = float(np.maximum.reduce(sizes))
        if math.isfinite(largest):
            return Difference(a, b, values, sizes, largest)
        return _finite_difference(a, b)


def _integer_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b as float64: never wrapped, and zero only where they are equal."""
    common = np.result_type(a, b)
    if common.kind == "f":  # uint64 and a signed type: no integer type holds both
        apart = (a < 0) | (b < 0)
        exact = _wide_difference(a.astype(np.uint64), b.astype(np.uint64))
        return np.where(apart, a.astype(np.float64) - b.astype(np.float64), exact)
    if common.itemsize < 8:
        return np.subtract(a, b, dtype=np.int64).astype(np.float64)
    return _wide_difference(a.astype(common), b.astype(common))


def _wide_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    gap = np.maximum(a, b).view(np.uint64) - np.minimum(a, b).view(np.uint64)
    return np.where(a < b, -1.0, 1.0) * gap.astype(np.float64)


def _finite_difference(a: np.ndarray, b: np.ndarray) -> Difference:
    """The difference where both sides are finite, in float64."""
    where = np.flatnonzero(np.isfinite(a) & np.isfinite(b))
    a, b = a[where].astype(np.float64), b[where].astype(np.float64)
    values, exponent = a - b, 0
    if not np.isfinite(values).all():  # the difference of two finite numbers can be twice the largest one
        values, exponent = a * 0.5 - b * 0.5, 1
    sizes = np.abs(values)
    return Difference(a, b, values, sizes, float(sizes.max()) if sizes.size else 0.0, exponent, where)


class UlpDistance:
    """How many representable values lie between two chunks of one float type, at most."""

    def __init__(self, dtype: np.dtype, chunk: int) -> None:
        self._signed, self._unsigned = SIGNED[dtype.itemsize], UNSIGNED[dtype.itemsize]
        self._bits, self._steps = np.empty(chunk, self._unsigned), np.empty(chunk, self._signed)
        self._sign = 1 << (8 * dtype.itemsize - 1)

    def bits(self, a: np.ndarray, b: np.ndarray) -> int:
        """0 where all bits agree; the sign bit is set where a sign differs."""
        apart = np.bitwise_xor(a.view(self._unsigned), b.view(self._unsigned), out=self._bits[: a.size])
        return int(np.maximum.reduce(apart))

    def __call__(self, a: np.ndarray, b: np.ndarray, bits: int) -> int:
        """The distance, given what `bits` has just said of the same chunks."""
        steps = np.subtract(a.view(self._signed), b.view(self._signed), out=self._steps[: a.size])
        steps = np.abs(steps, out=steps).view(self._unsigned)
        if bits < self._sign:
            return int(np.maximum.reduce(steps))
        # Of opposite sign: the way leads through zero.  Products with a mask cost the same for any mask.
        mask = self._unsigned(self._sign - 1)
        through = (a.view(self._unsigned) & mask) + (b.view(self._unsigned) & mask)
        crosses = self._bits[: a.size] > mask
        np.multiply(through, crosses, out=through)
        np.multiply(steps, np.logical_not(crosses, out=crosses), out=steps)
        return int(max(np.maximum.reduce(steps), np.maximum.reduce(through)))
