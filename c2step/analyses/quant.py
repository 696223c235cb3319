"""A quantised run against a float one, blob by blob: SNR, saturation, scale and zero point, histograms.

A Caffe2 Int8 blob carries its scale and zero point.  In values of onnxruntime a quantised tensor is plain
integers; scale and zero point are those that the ONNX file names for it, and the real values follow from
them.  Without the file (an .npz) they are read off the integers and what DequantizeLinear made of them, under the
names that quantisers use.
"""

import math
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from ..blob import INT8, STRING, Blob
from ..pictures.histogram import Histogram, histogram
from ..references import Reference

__all__ = ["LeftOut", "Quantised", "left_out", "quant"]

# How onnxruntime's quantiser calls the integers of a value, and what they stand for.
_STORED = ("%s_quantized", "%s_QuantizeLinear_Output", "%s_QuantizeLinear")
_BACK = ("%s_DequantizeLinear_Output", "%s_dequantized", "%s_DequantizeLinear")


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


class LeftOut(NamedTuple):
    """What was not compared: blobs of the float side with the reason, and what only the quantised side has."""

    reasons: Dict[str, str]
    others: List[str]


class _Values(NamedTuple):
    """What one value is on the quantised side: its name there, the real numbers, and the integers behind them."""

    name: str
    array: np.ndarray
    stored: Optional[np.ndarray] = None
    scale: Any = None
    zero_point: Any = None


def quant(real: Reference, quantised: Reference, names: Optional[Mapping[str, str]] = None) -> List[Quantised]:
    """Every blob that both sides have with one shape; `names` gives for names of the float side those of the other."""
    return [found for _, found in _each(real, quantised, names or {}) if isinstance(found, Quantised)]


def left_out(real: Reference, quantised: Reference, names: Optional[Mapping[str, str]] = None) -> LeftOut:
    """What `quant` does not compare."""
    reasons, used = {}, set()
    for name, found in _each(real, quantised, names or {}):
        used |= {*_forms(quantised, (names or {}).get(name, name))}
        if isinstance(found, str):
            reasons[name] = found
    return LeftOut(reasons, [name for name in quantised.names() if name not in used])


def _each(real: Reference, quantised: Reference, names: Mapping[str, str]) -> Iterator[Tuple[str, Any]]:
    """Each name of the float side with its figures, or with the reason why there are none."""
    for name in real.names():
        mine = _numbers(real.blob(name))
        if mine is None:
            yield name, "it holds no float values"
            continue
        found = _values(quantised, names.get(name, name))
        if isinstance(found, str):
            yield name, found
        elif found.array.shape != mine.shape:
            yield name, "shape %s against %s" % (mine.shape, found.array.shape)
        else:
            yield name, _compared(name, mine, found)


def _forms(side: Reference, name: str) -> List[str]:
    """The names of a value, of its integers and of what they stand for, as far as the quantised side has them."""
    lines: Mapping[str, Any] = side.meta.get("quantised") or {}
    told = [stored for stored, line in lines.items() if name in line["names"]]
    told += [real for stored in told for real in lines[stored]["names"]]
    forms = told + [form % name for form in _STORED + _BACK] + [name]
    return [form for form in dict.fromkeys(forms) if form in side]


def _values(side: Reference, name: str) -> Any:
    """The values of a name on the quantised side, or why there are none."""
    forms = _forms(side, name)
    integers = {form: side.blob(form) for form in forms if _is_stored(side.blob(form))}
    for form, blob in integers.items():
        found = _told(side, form, blob)
        if found is not None:
            return found
    for form in forms:
        array = _numbers(side.blob(form))
        if array is not None:
            stored = next(iter(integers.values()), None) if form != name else None
            if stored is None or stored.array is None:
                return _Values(form, array)
            return _Values(form, array, np.asarray(stored.array), *_line(stored.array, array))
    if integers:
        return "the scale of %s is not known" % next(iter(integers))
    return side.missing.get(name) or "only the float side has it" if name not in side else "it holds no float values"


def _is_stored(blob: Blob) -> bool:
    return blob.array is not None and blob.array.dtype.kind in "iu" and bool(blob.array.size)


def _told(side: Reference, name: str, blob: Blob) -> Optional[_Values]:
    """The real values of integers whose scale is told: by the blob itself, or by the ONNX file."""
    stored = np.asarray(blob.array)
    if blob.kind == INT8:
        return _Values(name, np.asarray(blob.real()), stored, blob.scale, blob.zero_point)
    line = (side.meta.get("quantised") or {}).get(name)
    if line is None:
        return None
    scale, zero = _number(side, line["scale"]), _number(side, line["zero_point"])
    if scale is None or zero is None:
        return None
    if scale.size > 1:
        shape = [1] * stored.ndim
        shape[line["axis"]] = -1
        scale, zero = scale.reshape(shape), zero.reshape(shape) if zero.size > 1 else zero
    real = (stored.astype(np.float64) - zero) * scale
    if scale.size > 1:
        return _Values(name, real.astype(np.float32), stored)
    return _Values(name, real.astype(np.float32), stored, float(scale), int(zero))


def _number(side: Reference, told: Any) -> Optional[np.ndarray]:
    """A scale or zero point, which may itself be a value of the run."""
    if isinstance(told, str):
        found = side.find(told)
        return None if found is None or not found.size else np.asarray(found, np.float64).reshape(-1).squeeze()
    return np.asarray(told, np.float64)


def _numbers(blob: Blob) -> Optional[np.ndarray]:
    array = None if blob.kind == STRING else blob.real()
    return array if array is not None and array.size and array.dtype.kind == "f" else None


def _compared(blob: str, mine: np.ndarray, other: _Values) -> Quantised:
    theirs, stored = other.array, other.stored
    difference = mine.astype(np.float64) - theirs.astype(np.float64)
    noise, signal = float(np.square(difference).sum()), float(np.square(mine.astype(np.float64)).sum())
    snr = math.inf if noise == 0 else 10 * math.log10(signal / noise) if signal else -math.inf
    figures = (float(np.abs(difference).max()), float(mine.min()), float(mine.max()))
    counts = histogram(mine, theirs)
    if stored is None:
        return Quantised(blob, other.name, snr, *figures, str(theirs.dtype), None, None, None, counts)
    cut = _cut_off(mine, np.iinfo(stored.dtype), other.scale, other.zero_point)
    return Quantised(blob, other.name, snr, *figures, str(stored.dtype), other.scale, other.zero_point, cut, counts)


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
