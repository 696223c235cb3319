"""A quantised run against a float one, blob by blob: SNR, saturation, scale and zero point, histograms.

A Caffe2 Int8 blob carries its scale and zero point.  In values of onnxruntime a quantised tensor is plain
integers; the real values are those that its DequantizeLinear gives, under the names that quantisers
use, and scale and zero point are read off the two.
"""

import math
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from ..blob import INT8, STRING, Blob
from ..pictures.histogram import Histogram, histogram
from ..references import Reference

__all__ = ["Quantised", "quant"]

# How onnxruntime's quantiser calls the integers of a value, and what they stand for.
_STORED = ("%s_quantized", "%s_QuantizeLinear_Output", "%s_QuantizeLinear")
_REAL = ("%s_DequantizeLinear_Output", "%s_dequantized", "%s_DequantizeLinear", "%s")


class Quantised(NamedTuple):
    """One blob: `snr` in dB (inf where nothing differs), `saturated` the share of float values that
    lie outside of what the integers can stand for.

    `scale` and `zero_point` are None where the blob is not quantised itself; `name` is its name on the quantised side.
    """

    blob: str
    name: str
    snr: float
    max_abs: float
    low: float
    high: float
    dtype: str
    scale: Optional[float]
    zero_point: Optional[int]
    saturated: Optional[float]
    histogram: Optional[Histogram]

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON values."""
        shown = self.histogram.to_json() if self.histogram else None
        return dict(self._asdict(), snr=self.snr if math.isfinite(self.snr) else str(self.snr), histogram=shown)


def quant(real: Reference, quantised: Reference, names: Optional[Mapping[str, str]] = None) -> List[Quantised]:
    """Every blob that both sides have with one shape; `names` gives for names of the float side those of the other."""
    return list(_each(real, quantised, names or {}))


def _each(real: Reference, quantised: Reference, names: Mapping[str, str]) -> Iterator[Quantised]:
    for name in real.names():
        other = names.get(name, name)
        found = _values(quantised, other)
        mine = _numbers(real.blob(name))
        if found is None or mine is None or found[1].shape != mine.shape:
            continue
        theirs, values, stored = found
        yield _compared(name, theirs, mine, values, stored)


def _values(side: Reference, name: str) -> Optional[Tuple[str, np.ndarray, Optional[Blob]]]:
    """The name, the real values and the stored blob of a value on the quantised side."""
    stored = next((side.blob(form % name) for form in _STORED if form % name in side), None)
    for form in _REAL:
        if form % name in side:
            blob = side.blob(form % name)
            array = _numbers(blob)
            if array is not None:
                return form % name, array, blob if blob.kind == INT8 else stored
    return None


def _numbers(blob: Blob) -> Optional[np.ndarray]:
    array = None if blob.kind == STRING else blob.real()
    return array if array is not None and array.size and array.dtype.kind == "f" else None


def _compared(blob: str, name: str, mine: np.ndarray, theirs: np.ndarray, stored: Optional[Blob]) -> Quantised:
    difference = mine.astype(np.float64) - theirs.astype(np.float64)
    noise, signal = float(np.square(difference).sum()), float(np.square(mine.astype(np.float64)).sum())
    snr = math.inf if noise == 0 else 10 * math.log10(signal / noise) if signal else -math.inf
    figures = (float(np.abs(difference).max()), float(mine.min()), float(mine.max()))
    if stored is None or stored.array is None or stored.array.dtype.kind not in "iu":
        return Quantised(blob, name, snr, *figures, str(theirs.dtype), None, None, None, histogram(mine, theirs))
    scale, zero = (stored.scale, stored.zero_point) if stored.kind == INT8 else _line(stored.array, theirs)
    cut = _cut_off(mine, np.iinfo(stored.array.dtype), scale, zero)
    return Quantised(blob, name, snr, *figures, str(stored.array.dtype), scale, zero, cut, histogram(mine, theirs))


def _cut_off(mine: np.ndarray, limits: Any, scale: Optional[float], zero: Optional[int]) -> Optional[float]:
    """The share of float values that lie outside of what the integers can stand for, by more than half a quantum."""
    if scale is None or zero is None:
        return None
    low, high = ((end - zero) * scale for end in (limits.min - 0.5, limits.max + 0.5))
    return float(np.count_nonzero((mine < low) | (mine > high))) / mine.size


def _line(stored: np.ndarray, real: np.ndarray) -> Tuple[Optional[float], Optional[int]]:
    """Scale and zero point of real = scale * (stored - zero point), None where it is no such line."""
    if stored.shape != real.shape or stored.min() == stored.max():
        return None, None
    q, r = stored.reshape(-1).astype(np.float64), real.reshape(-1).astype(np.float64)
    low, high = int(q.argmin()), int(q.argmax())
    scale = float((r[high] - r[low]) / (q[high] - q[low]))
    if not scale:
        return None, None
    zero = int(round(q[low] - r[low] / scale))
    fits = np.abs(scale * (q - zero) - r).max() <= 1e-5 * np.abs(r).max() + 1e-12
    return (scale, zero) if fits else (None, None)
