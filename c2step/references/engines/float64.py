"""Convolution, pooling and the older operators in float64, with numpy alone.

onnx's own reference evaluator lacks these, is slow at them, or knows only their newest meaning.
Each function takes the node's attributes and its inputs in order (None for one left out).
"""

import itertools
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

__all__ = ["KERNELS", "Attributes", "Kernel"]

Attributes = Dict[str, Any]
Inputs = Sequence[Any]
Kernel = Callable[[Attributes, Inputs, int], Optional[List[np.ndarray]]]
"""Takes attributes, inputs and the number of outputs; None where it does not do this form."""


class _Window(NamedTuple):
    """A sliding window over the spatial axes; `after` may exceed the stated padding (ceil_mode)."""

    kernel: Tuple[int, ...]
    strides: Tuple[int, ...]
    dilations: Tuple[int, ...]
    before: Tuple[int, ...]
    after: Tuple[int, ...]
    out: Tuple[int, ...]

    def reads(self) -> Any:
        """For each position in the kernel, the slices of the padded input that it meets."""
        for at in itertools.product(*[range(k) for k in self.kernel]):
            starts = [a * d for a, d in zip(at, self.dilations)]
            yield at, tuple(slice(s, s + (o - 1) * st + 1, st) for s, o, st in zip(starts, self.out, self.strides))

    def pad(self, x: np.ndarray, fill: float) -> np.ndarray:
        """The input with its padding, cut where the padding is negative."""
        width = [(0, 0)] * 2 + [(max(b, 0), max(a, 0)) for b, a in zip(self.before, self.after)]
        padded = np.pad(x, width, mode="constant", constant_values=fill)
        cut = [slice(None)] * 2 + [
            slice(max(-b, 0), padded.shape[i + 2] - max(-a, 0)) for i, (b, a) in enumerate(zip(self.before, self.after))
        ]
        return np.asarray(padded[tuple(cut)])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _window(attributes: Attributes, spatial: Sequence[int], kernel: Sequence[int]) -> _Window:
    rank = len(spatial)
    strides = tuple(attributes.get("strides") or (1,) * rank)
    dilations = tuple(attributes.get("dilations") or (1,) * rank)
    pads = list(attributes.get("pads") or (0,) * 2 * rank)
    auto = _text(attributes.get("auto_pad", "NOTSET"))
    up = bool(attributes.get("ceil_mode", 0))
    before, after, out = [], [], []
    for i, size in enumerate(spatial):
        b, a, o = _axis(size, (kernel[i] - 1) * dilations[i] + 1, strides[i], pads[i], pads[i + rank], auto, up)
        before.append(b)
        after.append(a)
        out.append(o)
    return _Window(tuple(kernel), strides, dilations, tuple(before), tuple(after), tuple(out))


def _axis(size: int, reach: int, stride: int, before: int, after: int, auto: str, up: bool) -> Tuple[int, int, int]:
    """Padding before and after and the output size along one axis."""
    if auto.startswith("SAME"):
        out = -(-size // stride)
        total = max((out - 1) * stride + reach - size, 0)
        small = total // 2
        before, after = (small, total - small) if auto == "SAME_UPPER" else (total - small, small)
        return before, after, out
    if auto == "VALID":
        before = after = 0
    room = size + before + after - reach
    out = (-(-room // stride) if up else room // stride) + 1
    if up and (out - 1) * stride >= size + before:  # a window that would start in the padding at the end
        out -= 1
    return before, max(after, (out - 1) * stride + reach - size - before), out


def _conv(attributes: Attributes, inputs: Inputs, outputs: int) -> Optional[List[np.ndarray]]:
    x, w = inputs[0], inputs[1]
    bias = inputs[2] if len(inputs) > 2 else None
    window = _window(attributes, x.shape[2:], w.shape[2:])
    groups = attributes.get("group", 1)
    padded = window.pad(x, 0.0)
    batch, maps = x.shape[0], w.shape[0]
    result = np.zeros((batch, groups, maps // groups, int(np.prod(window.out, dtype=np.int64))))
    weights = w.reshape((groups, maps // groups) + w.shape[1:])
    for at, where in window.reads():
        part = padded[(slice(None), slice(None)) + where]
        part = part.reshape(batch, groups, x.shape[1] // groups, result.shape[3])
        result += np.matmul(np.ascontiguousarray(weights[(slice(None),) * 3 + at]), part)
    result = result.reshape((batch, maps) + window.out)
    return [result if bias is None else result + bias.reshape((-1,) + (1,) * len(window.out))]


def _conv_transpose(attributes: Attributes, inputs: Inputs, outputs: int) -> Optional[List[np.ndarray]]:
    x, w = inputs[0], inputs[1]
    bias = inputs[2] if len(inputs) > 2 else None
    groups, spatial = attributes.get("group", 1), x.shape[2:]
    window, full = _spread(attributes, spatial, w.shape[2:])
    batch, maps = x.shape[0], w.shape[1] * groups
    canvas = np.zeros((batch, groups, w.shape[1]) + full)
    weights = w.reshape((groups, x.shape[1] // groups, w.shape[1]) + w.shape[2:])
    values = x.reshape(batch, groups, x.shape[1] // groups, int(np.prod(spatial, dtype=np.int64)))
    for at, where in window.reads():
        part = np.matmul(np.ascontiguousarray(np.swapaxes(weights[(slice(None),) * 3 + at], 1, 2)), values)
        canvas[(slice(None),) * 3 + where] += part.reshape(canvas.shape[:3] + spatial)
    whole = canvas.reshape((batch, maps) + full)
    cut = tuple(slice(b, f - a) for b, a, f in zip(window.before, window.after, full))
    whole = whole[(slice(None), slice(None)) + cut]
    return [whole if bias is None else whole + bias.reshape((-1,) + (1,) * len(spatial))]


def _spread(attributes: Attributes, spatial: Sequence[int], kernel: Sequence[int]) -> Tuple[_Window, Tuple[int, ...]]:
    """The window of a transposed convolution, its cut before and after, and the size before the cut."""
    rank = len(spatial)
    strides = tuple(attributes.get("strides") or (1,) * rank)
    dilations = tuple(attributes.get("dilations") or (1,) * rank)
    extra = attributes.get("output_padding") or (0,) * rank
    pads = list(attributes.get("pads") or (0,) * 2 * rank)
    auto, wanted = _text(attributes.get("auto_pad", "NOTSET")), attributes.get("output_shape")
    if wanted is None and auto.startswith("SAME"):
        wanted = [s * stride for s, stride in zip(spatial, strides)]
    full = tuple(
        st * (s - 1) + e + (k - 1) * d + 1 for s, k, st, d, e in zip(spatial, kernel, strides, dilations, extra)
    )
    if wanted is not None:
        totals = [max(f - o, 0) for f, o in zip(full, wanted[-rank:])]
        halves = [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in totals]
        pads = halves + [t - h for t, h in zip(totals, halves)]
    elif auto == "VALID":
        pads = [0] * 2 * rank
    return _Window(tuple(kernel), strides, dilations, tuple(pads[:rank]), tuple(pads[rank:]), tuple(spatial)), full


def _max_pool(attributes: Attributes, inputs: Inputs, outputs: int) -> Optional[List[np.ndarray]]:
    if outputs > 1:
        return None
    x = inputs[0]
    window = _window(attributes, x.shape[2:], attributes["kernel_shape"])
    padded = window.pad(x, -np.inf)
    result = np.full(x.shape[:2] + window.out, -np.inf)
    for _, where in window.reads():
        result = np.maximum(result, padded[(slice(None), slice(None)) + where])
    return [result]


def _average_pool(attributes: Attributes, inputs: Inputs, outputs: int) -> Optional[List[np.ndarray]]:
    x = inputs[0]
    window = _window(attributes, x.shape[2:], attributes["kernel_shape"])
    count = _counted(attributes, window, x.shape[2:])
    padded = window.pad(x, 0.0)
    total, number = np.zeros(x.shape[:2] + window.out), np.zeros((1, 1) + window.out)
    for _, where in window.reads():
        total += padded[(slice(None), slice(None)) + where]
        number += count[(slice(None), slice(None)) + where]
    return [total / number]


def _counted(attributes: Attributes, window: _Window, spatial: Tuple[int, ...]) -> np.ndarray:
    """Ones where a mean counts: the input, with `count_include_pad` its stated padding too."""
    rank = len(spatial)
    if not attributes.get("count_include_pad", 0):
        return window.pad(np.ones((1, 1) + spatial), 0.0)
    after = window.after
    if not _text(attributes.get("auto_pad", "NOTSET")).startswith("SAME"):
        after = tuple(attributes.get("pads") or (0,) * 2 * rank)[rank:]
    stated = tuple(s + b + a for s, b, a in zip(spatial, window.before, after))
    beyond = tuple(w - a for w, a in zip(window.after, after))
    return window._replace(before=(0,) * rank, after=beyond).pad(np.ones((1, 1) + stated), 0.0)


def _flat(attributes: Attributes, x: np.ndarray) -> np.ndarray:
    """Before opset 13 the axes from `axis` on were taken as one."""
    axis = attributes.get("axis", 1)
    return x.reshape(int(np.prod(x.shape[: axis + x.ndim if axis < 0 else axis], dtype=np.int64)), -1)


def _softmax(attributes: Attributes, inputs: Inputs, outputs: int) -> Optional[List[np.ndarray]]:
    rows = _flat(attributes, inputs[0])
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return [(powers / powers.sum(axis=1, keepdims=True)).reshape(inputs[0].shape)]


def _log_softmax(attributes: Attributes, inputs: Inputs, outputs: int) -> Optional[List[np.ndarray]]:
    rows = _flat(attributes, inputs[0])
    rows = rows - rows.max(axis=1, keepdims=True)
    return [(rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))).reshape(inputs[0].shape)]


def _hardmax(attributes: Attributes, inputs: Inputs, outputs: int) -> Optional[List[np.ndarray]]:
    rows = _flat(attributes, inputs[0])
    result = np.zeros_like(rows)
    result[np.arange(len(rows)), rows.argmax(axis=1)] = 1
    return [result.reshape(inputs[0].shape)]


def _upsample(attributes: Attributes, inputs: Inputs, outputs: int) -> Optional[List[np.ndarray]]:
    result = inputs[0]
    scales = attributes.get("scales") or inputs[1].tolist()
    nearest = _text(attributes.get("mode", "nearest")) == "nearest"
    for axis, scale in enumerate(scales):
        if scale != 1:
            # the position is worked out in float32, as every runtime does: 3 / 0.3 is no longer 10 otherwise
            places = np.arange(int(np.floor(np.float32(result.shape[axis]) * np.float32(scale))), dtype=np.float32)
            result = _resample(result, axis, places / np.float32(scale), nearest)
    return [result]


def _resample(x: np.ndarray, axis: int, places: np.ndarray, nearest: bool) -> np.ndarray:
    last = x.shape[axis] - 1
    low = np.minimum(np.floor(places).astype(np.int64), last)
    if nearest:
        return np.asarray(np.take(x, low, axis=axis))
    high = np.minimum(low + 1, last)
    shape = [1] * x.ndim
    shape[axis] = len(places)
    part = (np.minimum(places.astype(np.float64), last) - low).reshape(shape)
    return np.asarray(np.take(x, low, axis=axis) * (1 - part) + np.take(x, high, axis=axis) * part)


def _batch_norm(attributes: Attributes, inputs: Inputs, outputs: int) -> Optional[List[np.ndarray]]:
    if outputs > 1 or attributes.get("training_mode", 0) or not attributes.get("spatial", 1):
        return None
    x = inputs[0]
    scale, bias, mean, variance = (v.reshape((-1,) + (1,) * (x.ndim - 2)) for v in inputs[1:5])
    return [(x - mean) / np.sqrt(variance + attributes.get("epsilon", 1e-5)) * scale + bias]


def _dropout(attributes: Attributes, inputs: Inputs, outputs: int) -> Optional[List[np.ndarray]]:
    return [inputs[0]]


KERNELS: Dict[str, Tuple[int, Kernel]] = {
    "Conv": (1 << 30, _conv),
    "ConvTranspose": (1 << 30, _conv_transpose),
    "MaxPool": (1 << 30, _max_pool),
    "AveragePool": (1 << 30, _average_pool),
    "BatchNormalization": (1 << 30, _batch_norm),
    "Dropout": (12, _dropout),
    "Softmax": (13, _softmax),
    "LogSoftmax": (13, _log_softmax),
    "Hardmax": (13, _hardmax),
    "Upsample": (1 << 30, _upsample),
    "Resize": (11, _upsample),
}
"""For each operator the first opset it is not meant for, and the function."""
