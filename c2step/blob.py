"""A blob's value and its summary.

A blob is not always a tensor: a mask that an operator never wrote, a mutex, a database cursor, an
Int8 tensor with scale and zero point, strings.  `kind` says which, so that text such as
"mask, a C++ native class of type nullptr (uninitialized)." is never taken for a value.
"""

import functools
import math
import threading
from dataclasses import dataclass, replace
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from .errors import InputError

__all__ = [
    "INT8",
    "blob_of",
    "MISSING",
    "OTHER",
    "STRING",
    "TENSOR",
    "UNINITIALISED",
    "UNREADABLE",
    "Blob",
    "BlobSummary",
    "row_figures",
    "summarize",
    "summarize_tensor",
]

TENSOR = "tensor"
INT8 = "int8"
STRING = "string"
UNINITIALISED = "uninitialised"
OTHER = "other"  # a mutex, a database, a counter: no array
MISSING = "missing"  # not in the workspace
UNREADABLE = "unreadable"  # a tensor whose shape no memory could hold

CHUNK = 1 << 18  # a megabyte of float32, so that all passes but the first find it in the cache
_PIECE = 1 << 15
_ROW, _FEW = 1 << 13, 8
_SHORT = 1 << 10
_CANCELLED = 0.05
_FAINT = 1e-28  # a mean square so small that some squares may have lost digits, as float32 does near zero
_ROOT = 1e150  # the square of a larger number may be none
_SINGLE = np.dtype(np.float32)
_DOT_WARNS = tuple(int(part) for part in np.__version__.split(".")[:2]) >= (1, 24)  # of overflow; setting that is slow
_ZERO = np.zeros((), np.float32)
_SIGN = 1 << 31  # the bit of a float32 that says that it is negative
_least, _greatest = np.minimum.reduce, np.maximum.reduce


class BlobSummary(NamedTuple):
    """What one pass over a blob tells; figures are over the finite values only.

    `min` to `std` are None where there is no finite value.  For Int8 blobs they are of the real
    values, (q - zero_point) * scale.
    """

    kind: str
    dtype: str = ""
    shape: Tuple[int, ...] = ()
    min: Optional[float] = None
    max: Optional[float] = None
    mean: Optional[float] = None
    std: Optional[float] = None
    zeros: int = 0
    nan: int = 0
    inf: int = 0
    scale: Optional[float] = None
    zero_point: Optional[int] = None
    text: str = ""

    @property
    def size(self) -> int:
        """How many elements."""
        count = 1
        for dim in self.shape:
            count *= dim
        return count

    @property
    def nbytes(self) -> int:
        """How many bytes the values take; 0 for strings."""
        return 0 if self.dtype in ("", "string") else self.size * np.dtype(self.dtype).itemsize

    def _repr_html_(self, title: str = "blob") -> str:
        """The figures as a table, for notebooks."""
        from .html import figure, html_table

        keys = ("kind", "dtype", "shape", "min", "max", "mean", "std", "zeros", "nan", "inf")
        return html_table(title, keys, [[figure(getattr(self, key)) for key in keys]])

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON values; `from_json` is the inverse."""
        return {key: value for key, value in zip(self._fields, self) if value is not None}

    @classmethod
    def from_json(cls, data: Dict[str, Any]) -> "BlobSummary":
        """The summary that `to_json` wrote."""
        return cls(**dict(data, shape=tuple(data.get("shape", ()))))


@dataclass(frozen=True)
class Blob:
    """A fetched value: `array` is None where the kind has no array.

    An Int8 blob's array holds the stored integers; `real()` gives the values they stand for.
    """

    name: str
    kind: str
    array: Optional[np.ndarray] = None
    scale: Optional[float] = None
    zero_point: Optional[int] = None
    text: str = ""

    def part(self, index: Any) -> "Blob":
        """The part of it at a numpy index, as a blob; IndexError where that does not fit."""
        return replace(self, array=None if self.array is None else np.asarray(self.array[index]))

    def real(self) -> Optional[np.ndarray]:
        """The values as numbers: dequantised to float32 for Int8, the array itself otherwise."""
        if self.kind != INT8 or self.array is None:
            return self.array
        shifted = self.array.astype(np.int32) - np.int32(self.zero_point or 0)
        return np.asarray(shifted * np.float32(self.scale or 1.0), dtype=np.float32)

    def _repr_html_(self) -> str:
        """The figures and the values, the middle left out, for notebooks."""
        from html import escape

        array = self.real()
        edge = {0: 3, 1: 3, 2: 3, 3: 2}.get(array.ndim, 1) if array is not None else 0  # a screen holds what is shown
        form = {"float_kind": lambda value: "%.6g" % value}
        values = "" if array is None else np.array2string(array, threshold=64, edgeitems=edge, formatter=form)  # type: ignore[arg-type]
        return self.summary()._repr_html_(self.name) + ("<pre>%s</pre>" % escape(values) if values else "")

    def summary(self) -> BlobSummary:
        """Shape, dtype and figures in one pass."""
        return summarize(self)


_FED = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool")


def blob_of(name: str, value: Any, converted: bool = False) -> Blob:
    """A blob of a value from outside; InputError where Caffe2 has no such values.

    `converted`: numbers of any width will do, they are still to be converted.
    """
    array = np.asarray(value)
    if array.dtype.kind in "SU" or array.dtype.kind == "O" and all(isinstance(v, (str, bytes)) for v in array.flat):
        return Blob(name, STRING, array)
    if array.dtype.kind == "O":
        kinds = sorted({type(v).__name__ for v in array.flat})
        raise InputError("%s cannot hold %s" % (name, ", ".join(kinds)), "an array of numbers, or text, is wanted")
    if array.dtype.name not in _FED and not (converted and array.dtype.kind in "biuf"):
        hint = "Caffe2 takes float16 to float64, int8 to int64, uint8, uint16 and bool"
        raise InputError("%s cannot be %s" % (name, array.dtype), hint)
    return Blob(name, TENSOR, array)


def summarize(blob: Blob) -> BlobSummary:
    """Summarise a blob in one pass over chunks that stay in cache."""
    array = blob.array
    if array is None:
        return BlobSummary(blob.kind, text=blob.text)
    if array.dtype == _SINGLE and blob.kind == TENSOR and not blob.text:  # the usual case
        return summarize_tensor(array)
    base: Dict[str, Any] = {
        "kind": blob.kind,
        "shape": tuple(int(d) for d in array.shape),
        "dtype": "string" if array.dtype.kind in "OSU" else str(array.dtype),
        "scale": blob.scale,
        "zero_point": blob.zero_point,
        "text": blob.text,
    }
    if array.dtype.kind not in "fiub" or array.size == 0:
        return BlobSummary(**base)
    base.update(_figures(array))
    if blob.kind == INT8:
        base.update(_dequantised(base, blob))
    return BlobSummary(**base)


def summarize_tensor(array: np.ndarray) -> BlobSummary:
    """Summarise a tensor of numbers."""
    if array.dtype == _SINGLE and _SHORT <= array.size <= CHUNK:
        found = _usual(_flat(array))
        if found is not None:
            size, zeros, low, high, mean, square = found
            return BlobSummary(TENSOR, "float32", array.shape, low, high, mean, math.sqrt(square / size), zeros)
    return BlobSummary(TENSOR, str(array.dtype), array.shape, **(_figures(array) if array.size else {}))


def _flat(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1)


def _figures(array: np.ndarray) -> Dict[str, Any]:
    flat = _flat(array)
    return row_figures(flat.reshape(1, -1))[0] if flat.size < _SHORT else _chunked(flat)


def row_figures(rows: np.ndarray) -> List[Dict[str, Any]]:
    """What `BlobSummary` says of numbers, of each row of a matrix; the other rows make no difference to it."""
    if rows.dtype == np.bool_:
        rows = rows.view(np.uint8)
    if len(rows) == 1:
        return [_row_figures(rows[0])]
    lows, highs = np.minimum.reduce(rows, 1).tolist(), np.maximum.reduce(rows, 1).tolist()
    odd = [row for row, ends in enumerate(zip(lows, highs)) if not all(map(math.isfinite, ends))]
    if odd:
        found = dict(zip(odd, (_chunked(rows[row]) for row in odd)))
        even = iter(row_figures(np.delete(rows, odd, 0)))
        return [found[row] if row in found else next(even) for row in range(len(rows))]
    size = rows.shape[1]
    zeros = (size - np.add.reduce(rows != 0, 1)).tolist()
    wide = rows.astype(np.float64)
    means = np.add.reduce(wide, 1) / size
    wide -= means[:, np.newaxis]
    with np.errstate(over="ignore"):
        wide *= wide
        squares = np.add.reduce(wide, 1).tolist()
    return [
        {"zeros": zero, "nan": 0, "inf": 0, "min": low, "max": high, "mean": mean, "std": math.sqrt(square / size)}
        for zero, low, high, mean, square in zip(zeros, lows, highs, means.tolist(), squares)
    ]


def _row_figures(row: np.ndarray) -> Dict[str, Any]:
    """The same of a single row, by fewer calls."""
    size, low, high = row.size, np.minimum.reduce(row).item(), np.maximum.reduce(row).item()
    if not (math.isfinite(low) and math.isfinite(high)):
        return _chunked(row)
    wide = row.astype(np.float64)
    mean = np.add.reduce(wide).item() / size
    wide -= mean
    if low > -_ROOT and high < _ROOT:  # else their squares may overflow
        wide *= wide
    else:
        with np.errstate(over="ignore"):
            wide *= wide
    std = math.sqrt(np.add.reduce(wide).item() / size)
    zeros = size - int(np.count_nonzero(row))
    return {"zeros": zeros, "nan": 0, "inf": 0, "min": low, "max": high, "mean": mean, "std": std}


def _chunked(flat: np.ndarray) -> Dict[str, Any]:
    if flat.dtype == np.bool_:
        flat = flat.view(np.uint8)
    size = flat.size
    chunks = [flat] if size <= CHUNK else [flat[start : start + CHUNK] for start in range(0, size, CHUNK)]
    figures = _Figures()
    for chunk in chunks:
        found = _usual(chunk) if chunk.dtype == _SINGLE else None
        if found is not None:
            figures.extend(*found)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                figures.add(chunk)
    return figures.result()


_Part = Tuple[int, int, Any, Any, float, float]
"""How many numbers, how many of them are zero, the least, the greatest, the mean, the squared distances from it."""


class _Figures:
    """Sums over chunks, the variance combined as Chan, Golub and LeVeque do (1979)."""

    def __init__(self) -> None:
        self.count = self.zeros = self.nan = self.inf = 0
        self.low: Any = None
        self.high: Any = None
        self.mean = self.square = 0.0

    def add(self, part: np.ndarray) -> None:
        low, high = _least(part).item(), _greatest(part).item()
        if part.dtype.kind == "f" and not (math.isfinite(low) and math.isfinite(high)):
            part = self._finite(part)
            if not part.size:
                return
            low, high = _least(part).item(), _greatest(part).item()
        zeros = part.size - int(np.count_nonzero(part != 0))  # counting booleans is the faster way
        self.extend(part.size, zeros, low, high, *_moments(part))

    def extend(self, count: int, zeros: int, low: Any, high: Any, mean: float, square: float) -> None:
        self.zeros += zeros
        if not self.count:
            self.count, self.low, self.high, self.mean, self.square = count, low, high, mean, square
            return
        self.low, self.high = min(self.low, low), max(self.high, high)
        delta, total = mean - self.mean, self.count + count
        self.square += square + delta * delta * self.count * count / total
        self.mean += delta * count / total
        self.count = total

    def _finite(self, part: np.ndarray) -> np.ndarray:
        finite = np.isfinite(part)
        nan = int(np.isnan(part).sum())
        self.nan += nan
        self.inf += part.size - int(finite.sum()) - nan
        kept: np.ndarray = part[finite]
        return kept

    def result(self) -> Dict[str, Any]:
        figures: Dict[str, Any] = {"zeros": self.zeros, "nan": self.nan, "inf": self.inf}
        if self.count:
            figures.update(min=self.low, max=self.high, mean=self.mean, std=math.sqrt(self.square / self.count))
        return figures


def _pieces(part: np.ndarray) -> List[np.ndarray]:
    size = part.size
    return [part] if size <= _PIECE else [part[start : start + _PIECE] for start in range(0, size, _PIECE)]


def _warning(part: np.ndarray) -> Optional[_Part]:
    """Of a chunk of float32, summed as it is; None where one is not finite, all are faint, or digits would cancel.

    The pieces that are squared are short enough for that to be as good as what is shown.  Where their sum is
    finite every number is, and none of the later passes has anything to warn of.
    """
    size, pieces = part.size, _pieces(part)
    squares = sum([float(piece.dot(piece)) for piece in pieces])
    if not size * _FAINT < squares < math.inf or size < _SHORT:
        return None
    mean = _total(part) / size
    square = squares - size * mean * mean
    if not square > _CANCELLED * squares:
        return None
    return (size, *_ends(part), mean, square)


def _quiet(part: np.ndarray) -> Optional[_Part]:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return _warning(part)


_usual = _quiet if _DOT_WARNS else _warning


def _ends(part: np.ndarray) -> Tuple[int, float, float]:
    """How many of some finite float32 are zero, the least and the greatest.

    Of their bits as integers the greatest are those of the least number, where any is negative, else of the greatest
    number; and where some are zero and none is negative, it is known what the least number is.
    """
    extreme = _greatest(part.view(np.uint32))
    number = float(extreme.view(np.float32)) + 0.0  # no -0.0
    if int(extreme) >= _SIGN:
        high = float(_greatest(part))
        return _zeros(part) if high >= 0.0 else 0, number, high
    zeros = _zeros(part)
    return zeros, 0.0 if zeros else float(_least(part)), number


def _zeros(part: np.ndarray) -> int:
    """How many are zero; counting booleans is faster than counting numbers."""
    nonzero = np.not_equal(part, _ZERO, out=_room(threading.get_ident())[: part.size])
    return part.size - int(np.count_nonzero(nonzero))


@functools.lru_cache(maxsize=4)
def _room(thread: int) -> np.ndarray:
    """Memory for the booleans of a chunk, for one thread: new memory takes longer than what is done in it."""
    return np.empty(CHUNK, np.bool_)


def _total(part: np.ndarray) -> float:
    """The sum of some float32: of long ones rows are added up first, which is faster and as exact."""
    rows = part.size // _ROW
    if rows < _FEW:
        return float(np.add.reduce(part))
    added = np.add.reduce(part[: rows * _ROW].reshape(rows, _ROW), 0)
    return float(np.add.reduce(added)) + float(np.add.reduce(part[rows * _ROW :]))


def _moments(part: np.ndarray) -> Tuple[float, float]:
    """The mean of a chunk, and the sum of squared distances from it."""
    pieces = _pieces(part)
    mean = sum([float(np.add.reduce(piece, dtype=np.float64)) for piece in pieces]) / part.size
    return mean, sum([_squared(piece.astype(np.float64), mean) for piece in pieces])


def _squared(wide: np.ndarray, mean: float) -> float:
    wide -= mean
    return float(np.dot(wide, wide))


def _dequantised(figures: Dict[str, Any], blob: Blob) -> Dict[str, Any]:
    scale, zero = float(blob.scale or 1.0), int(blob.zero_point or 0)
    real = blob.real()
    assert real is not None
    return {
        "min": (figures["min"] - zero) * scale,
        "max": (figures["max"] - zero) * scale,
        "mean": (figures["mean"] - zero) * scale,
        "std": figures["std"] * abs(scale),
        "zeros": int(real.size - np.count_nonzero(real)),
    }
