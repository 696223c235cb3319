"""How one input was made from the other: scale, mean, std, channel order, layout, crop.

The same picture often comes in two files, one for each framework, and each framework's own preprocessing
has been applied.  `explain_inputs` finds the arithmetic between them, channel by channel, and tells it only
when every value confirms it.  A resize mixes neighbours and is not found.
"""

from itertools import product
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from .matching import fit, spread
from .values import factor_text

__all__ = ["explain_inputs"]

CHANNELS = (1, 3, 4)
PLACES = 64
MOST_CROPS = 4096
NEAR = 1e-3  # of the value range: what rounding to float16, or JPEG-free arithmetic, may leave
WHOLE = 1.001  # what rounding or truncating to whole numbers may leave
REVERSED = "channels reversed"
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class View(NamedTuple):
    """A way to look at the first array, with a word for each thing done to it."""

    array: np.ndarray
    words: Tuple[str, ...] = ()


class Channels(NamedTuple):
    """The line b = factor * a + offset of each channel of `axis` (None: one line for all)."""

    factors: np.ndarray
    offsets: np.ndarray
    axis: Optional[int]


def explain_inputs(a: Any, b: Any) -> Optional[str]:
    """One line that says how `b` is made from `a` or `a` from `b`, or None."""
    first, second = np.asarray(a), np.asarray(b)
    if not all(side.dtype.kind in "biuf" and side.size for side in (first, second)):
        return None
    with np.errstate(all="ignore"):
        return _explain(first, second, ("a", "b")) or _explain(second, first, ("b", "a"))


def _explain(a: np.ndarray, b: np.ndarray, names: Tuple[str, str]) -> Optional[str]:
    allowed = _allowed(b)
    for axis in _channel_axes(b):
        for view in _views(a, b, axis):
            lines = _channels(view.array, b, axis, allowed)
            if lines is not None and _confirmed(view.array, b, lines, allowed):
                return "%s = %s%s" % (names[1], _formula(names[0], a, lines), _words(view.words, lines))
    return None


def _channel_axes(array: np.ndarray) -> List[Optional[int]]:
    """Where the channels of a picture may be; None for something that is no picture."""
    axes: List[Optional[int]] = []
    if array.ndim >= 3:
        axes = [axis for axis in (array.ndim - 3, array.ndim - 1) if array.shape[axis] in CHANNELS]
    return axes or [None]


# ---- ways to look at the first array --------------------------------------------------------------------


def _views(a: np.ndarray, b: np.ndarray, axis: Optional[int]) -> Iterator[View]:
    """Layouts, orders and crops of `a` that have the shape of `b`, simple ones first."""
    for view in _with_axes_of(a, b):
        for laid in _layouts(view):
            if _fits(laid.array, b, axis):
                for ordered in _orders(laid, axis):
                    yield from _crops(ordered, b)


def _with_axes_of(a: np.ndarray, b: np.ndarray) -> Iterator[View]:
    """`a` with as many axes as `b`: batches of one come and go."""
    while a.ndim > b.ndim and a.shape[0] == 1:
        a = a[0]
    while a.ndim < b.ndim and b.shape[b.ndim - a.ndim - 1] == 1:
        a = a[None]
    if a.ndim == b.ndim:
        yield View(a)


def _layouts(view: View) -> Iterator[View]:
    yield view
    if view.array.ndim >= 3:
        yield View(np.moveaxis(view.array, -1, -3), view.words + ("channels moved to the front (NHWC to NCHW)",))
        yield View(np.moveaxis(view.array, -3, -1), view.words + ("channels moved to the end (NCHW to NHWC)",))


def _fits(a: np.ndarray, b: np.ndarray, axis: Optional[int]) -> bool:
    """Whether `b` may be `a` or a crop of it; only rows and columns of a picture are cropped."""
    if axis is None:
        return a.shape == b.shape
    spatial = {b.ndim - 3, b.ndim - 2, b.ndim - 1} - {axis}
    return all(
        ours >= theirs if i in spatial else ours == theirs for i, (ours, theirs) in enumerate(zip(a.shape, b.shape))
    )


def _orders(view: View, axis: Optional[int]) -> Iterator[View]:
    """As it is, with channels reversed, mirrored, upside down."""
    yield view
    if axis is None:
        return
    count = view.array.shape[axis]
    flips = [((), ())] + [
        ((where,), (word,)) for where, word in zip(_spatial(view.array.ndim, axis), ("upside down", "mirrored"))
    ]
    for where, words in flips:
        flipped = View(np.flip(view.array, where) if where else view.array, view.words + words)
        if where:
            yield flipped
        if count > 1:
            order = [2, 1, 0] + list(range(3, count))
            yield View(np.take(flipped.array, order, axis), flipped.words + (REVERSED,))


def _spatial(axes: int, channels: int) -> List[int]:
    return [axis for axis in range(axes - 3, axes) if axis != channels]


def _crops(view: View, b: np.ndarray) -> Iterator[View]:
    """Windows of the shape of `b`: the middle, the corners, then everywhere while that is not too much."""
    room = [ours - theirs for ours, theirs in zip(view.array.shape, b.shape)]
    if not any(room):
        yield view
        return
    ends = [[gap // 2] + sorted({0, gap} - {gap // 2}) for gap in room]
    everywhere = np.prod([float(gap + 1) for gap in room]) <= MOST_CROPS
    starts = [tuple(gap // 2 for gap in room)]
    starts += product(*([range(gap + 1) for gap in room] if everywhere else ends))
    for start in dict.fromkeys(starts):
        window = view.array[tuple(slice(at, at + dim) for at, dim in zip(start, b.shape))]
        cut = [(at, gap) for at, gap in zip(start, room) if gap]
        middle = all(at == gap // 2 for at, gap in cut)
        word = "cropped in the middle" if middle else "cropped from %s on" % (tuple(at for at, _ in cut),)
        yield View(window, view.words + (word,))


# ---- the arithmetic -------------------------------------------------------------------------------------


def _channels(a: np.ndarray, b: np.ndarray, axis: Optional[int], allowed: float) -> Optional[Channels]:
    """The lines that fit a few elements of each channel, or None."""
    found = []
    for ours, theirs in _by_channel(a, b, axis):
        index = np.unravel_index(spread(PLACES, ours.size), ours.shape)
        x, y = ours[index].astype(np.float64), theirs[index].astype(np.float64)
        line = fit(y, x)
        if line is None and (np.ptp(x) or np.ptp(y)):
            return None
        if line is not None and np.abs(line[0] * x + line[1] - y).max() > 2 * allowed:
            return None
        found.append(line)
    known = [line for line in found if line is not None]
    if not known:
        return None
    factors = np.array([known[0][0] if line is None else line[0] for line in found])
    return _refined(a, b, Channels(factors, np.zeros(len(found)), axis), found)


def _refined(a: np.ndarray, b: np.ndarray, lines: Channels, found: List[Any]) -> Channels:
    """The same lines from all elements of each channel; a channel of one value takes another's factor."""
    factors, offsets = lines.factors.copy(), lines.offsets.copy()
    for i, (ours, theirs) in enumerate(_by_channel(a, b, lines.axis)):
        index = np.unravel_index(spread(1 << 16, ours.size), ours.shape)
        x, y = ours[index].astype(np.float64), theirs[index].astype(np.float64)
        line = fit(y, x) if found[i] is not None else None
        factors[i] = line[0] if line else factors[i]
        offsets[i] = line[1] if line else float(np.mean(y - factors[i] * x))
    return Channels(factors, offsets, lines.axis)


def _by_channel(a: np.ndarray, b: np.ndarray, axis: Optional[int]) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    if axis is None:
        return iter([(a, b)])
    return zip(np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0))


def _allowed(b: np.ndarray) -> float:
    """How far a value of `b` may be from its line."""
    if b.dtype.kind in "biu":
        return WHOLE
    finite = b[np.isfinite(b)]
    return NEAR * float(np.ptp(finite)) if finite.size else 0.0


def _confirmed(a: np.ndarray, b: np.ndarray, lines: Channels, allowed: float) -> bool:
    return all(
        bool((np.abs(factor * ours.astype(np.float64) + offset - theirs) <= allowed).all())
        for (ours, theirs), factor, offset in zip(_by_channel(a, b, lines.axis), lines.factors, lines.offsets)
    )


# ---- in words -------------------------------------------------------------------------------------------


def _formula(name: str, a: np.ndarray, lines: Channels) -> str:
    """The lines as people write preprocessing."""
    factors, offsets = lines.factors, lines.offsets
    reach = np.abs(factors).max() * max(float(np.abs(a[np.isfinite(a)]).max()), 1e-30)
    if (np.abs(offsets) <= NEAR * reach).all():
        return _scaled(name, factors)
    if (np.abs(factors - 1) < NEAR).all():
        return "%s %s" % (name, _signed(offsets))
    if (factors > 0).all():
        normal = _normalised(name, a, factors, offsets)
        if normal:
            return normal
    return "%s * %s %s" % (name, _list(factors), _signed(offsets))


def _scaled(name: str, factors: np.ndarray) -> str:
    if (np.abs(factors - 1) < NEAR).all():
        return name
    if np.ptp(factors) > NEAR * np.abs(factors).max():
        return "%s * %s" % (name, _list(factors))
    text = factor_text(float(factors.mean()))
    return "%s / %s" % (name, text[2:]) if text.startswith("1/") else "%s * %s" % (name, text)


def _normalised(name: str, a: np.ndarray, factors: np.ndarray, offsets: np.ndarray) -> str:
    """(a / 255 - mean) / std or its inverse, where the numbers are such as people use."""
    high = float(a[np.isfinite(a)].max())
    scale, text = (255.0, name + " / 255") if high > 2 else (1.0, name)
    std = 1 / (factors * scale)
    mean = -offsets * std
    if _usual(std, mean):
        return "(%s - %s) / %s%s" % (text, _list(mean), _list(std), _whose(mean, std))
    std, mean = factors / 255, offsets / 255
    if _usual(std, mean):
        return "(%s * %s + %s) * 255%s" % (name, _list(std), _list(mean), _whose(mean, std))
    return ""


def _usual(std: np.ndarray, mean: np.ndarray) -> bool:
    return bool((std > 0.05).all() and (std < 5).all() and (mean > 0).all() and (mean < 1).all())


def _whose(mean: np.ndarray, std: np.ndarray) -> str:
    """That these are ImageNet's, in whichever order of channels."""
    found = np.array([mean, std])
    known = found.shape == (2, 3) and any(
        np.abs(found - order).max() < 2e-3 for order in (IMAGENET, np.array(IMAGENET)[:, ::-1])
    )
    return ", ImageNet's mean and std" if known else ""


def _signed(numbers: np.ndarray) -> str:
    return "- " + _list(-numbers) if (numbers <= 0).all() else "+ " + _list(numbers)


def _list(numbers: np.ndarray) -> str:
    """One number where all are the same, a list otherwise."""
    if np.ptp(numbers) <= NEAR * max(np.abs(numbers).max(), 1e-12):
        return _rounded(float(numbers.mean()))
    return "[%s]" % ", ".join(_rounded(float(number)) for number in numbers)


def _rounded(number: float) -> str:
    """As few digits as say the same within a thousandth."""
    for digits in (1, 2, 3):
        short = "%.*g" % (digits, number)
        if abs(float(short) - number) <= 2e-4 * abs(number):
            return short
    return "%.4g" % number


def _words(words: Tuple[str, ...], lines: Channels) -> str:
    several = lines.factors.size > 1 and (np.ptp(lines.factors) > 0 or np.ptp(lines.offsets) > 0)
    if REVERSED in words and several and np.ptp(lines.offsets) > NEAR:
        words += ("numbers in the order after that",)
    return "".join(", " + word for word in words)
