"""The same values at other places: transposed, flattened, reversed, shifted, cropped, repeated."""

from itertools import permutations, product
from typing import Iterator, List, Optional, Sequence, Tuple

import numpy as np

from .matching import Matcher, lines, spread, without_ones

__all__ = ["layout_hints", "order_hints"]

MOST_AXES = 6
MOST_CROPS = 256
MOST_SLICES = 256
NAMED = {
    (0, 2, 3, 1): "actual is NCHW, the reference NHWC",
    (0, 3, 1, 2): "actual is NHWC, the reference NCHW",
    (1, 2, 0): "actual is CHW, the reference HWC",
    (2, 0, 1): "actual is HWC, the reference CHW",
}


def layout_hints(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """Layouts under which the arrays match; their shapes may differ."""
    if a.shape != b.shape and a.size == b.size and match.close(a.reshape(-1), b.reshape(-1)):
        return [_same_order(a.shape, b.shape)]
    return _transposed(match, a, b) + _flattened(match, a, b) + _cropped(match, a, b) + _repeated(match, a, b)


def order_hints(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """Orders and shifts along axes under which two arrays of one shape match."""
    return _slices_in_another_order(match, a, b) or _shifted(match, a, b)


def _same_order(ours: Sequence[int], theirs: Sequence[int]) -> str:
    if without_ones(ours) == without_ones(theirs):
        return "the values are the same, only dimensions of 1 differ"
    return "the values are the same in the same order, only the shape differs"


# ---- transposed ---------------------------------------------------------------------------------------


def _transposed(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """All transpositions that match; several do where values repeat."""
    if a.ndim != b.ndim:
        return _read_as(match, a, b)
    return [
        "actual transposed by %s matches the reference%s" % (axes, ": " + NAMED[axes] if axes in NAMED else "")
        for axes in _fitting(a.shape, b.shape)
        if match.close(a.transpose(axes), b)
    ]


def _fitting(ours: Tuple[int, ...], theirs: Tuple[int, ...]) -> Iterator[Tuple[int, ...]]:
    """Permutations that lead from one shape to the other and move more than dimensions of 1."""
    if len(ours) > MOST_AXES or sorted(ours) != sorted(theirs):
        return
    seen = {tuple(axis for axis in range(len(ours)) if ours[axis] != 1)} if ours == theirs else set()
    for axes in permutations(range(len(ours))):
        moved = tuple(axis for axis in axes if ours[axis] != 1)
        if tuple(ours[axis] for axis in axes) == theirs and moved not in seen:
            seen.add(moved)
            yield axes


def _read_as(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """For another number of axes: transpositions between the reference's shape and some order of its axes."""
    if a.size != b.size or max(a.ndim, b.ndim) > MOST_AXES:
        return []
    swap = a.ndim > b.ndim  # the side with more axes says which shapes there are
    few, many = (b, a) if swap else (a, b)
    names = ("reference", "actual") if swap else ("actual", "reference")
    found, seen = [], set()
    for axes in permutations(range(many.ndim)):
        shape = tuple(many.shape[axis] for axis in axes)
        moved = tuple(axis for axis in axes if many.shape[axis] != 1)
        if moved in seen or list(moved) == sorted(moved):
            continue
        seen.add(moved)
        if match.close(few.reshape(shape).transpose(np.argsort(axes)), many):
            found.append("%s holds the values of %s transposed by %s" % (names[0], names[1], axes))
    return found


def _flattened(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """The last axis was flattened from two others that were in the other order."""
    if a.shape != b.shape or not a.ndim or a.shape[-1] < 4:
        return []
    length = a.shape[-1]
    return [
        "the last axis holds %d x %d values, in the reference %d x %d: flattened from another layout, "
        "as NCHW and NHWC are" % (rows, length // rows, length // rows, rows)
        for rows in range(2, length // 2 + 1)
        if length % rows == 0 and _swapped(match, a, b, rows)
    ]


def _swapped(match: Matcher, a: np.ndarray, b: np.ndarray, rows: int) -> bool:
    columns = a.shape[-1] // rows
    places = np.unravel_index(spread(64, a.size), a.shape)
    column, row = np.divmod(places[-1], rows)
    if not match.screen(a[places[:-1] + (row * columns + column,)], b[places]):
        return False
    ours = a.reshape(-1, rows, columns).swapaxes(1, 2)
    return match.close(ours, b.reshape(-1, columns, rows))


# ---- cropped, repeated ----------------------------------------------------------------------------------


def _cropped(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """One side is a window of the other."""
    if a.ndim != b.ndim or a.shape == b.shape or not (a.size and b.size):
        return []
    ours = all(x <= y for x, y in zip(a.shape, b.shape))
    if not ours and not all(x >= y for x, y in zip(a.shape, b.shape)):
        return []
    small, large = (a, b) if ours else (b, a)
    names = ("actual", "reference") if ours else ("reference", "actual")
    for offsets in _offsets(small.shape, large.shape):
        window = tuple(slice(start, start + dim) for start, dim in zip(offsets, small.shape))
        if match.close(small, large[window]):
            return ["%s equals %s[%s]: %s" % (names + (_slices(window, large.shape), _what_is_cut(offsets)))]
    return []


def _offsets(small: Sequence[int], large: Sequence[int]) -> Iterator[Tuple[int, ...]]:
    """Where the window may begin: everywhere if that is not too much, else at both ends and in the middle."""
    room = [y - x for x, y in zip(small, large)]
    everywhere = np.prod([float(gap + 1) for gap in room]) <= MOST_CROPS
    choices = [range(gap + 1) if everywhere else sorted({0, gap // 2, gap - gap // 2, gap}) for gap in room]
    return product(*choices)


def _slices(window: Sequence[slice], shape: Sequence[int]) -> str:
    return ", ".join(
        ":" if part.start == 0 and part.stop == dim else "%d:%d" % (part.start, part.stop)
        for part, dim in zip(window, shape)
    )


def _what_is_cut(offsets: Sequence[int]) -> str:
    if any(offsets):
        return "a border differs, as padding makes it"
    return "the end differs, as ceil_mode or padding makes it"


def _repeated(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """One side repeats the other along an axis."""
    for small, large, text in ((a, b, "the reference repeats actual"), (b, a, "actual repeats the reference")):
        if small.size < large.size:
            try:
                spread_out = np.broadcast_to(small, large.shape)
            except ValueError:
                continue
            if match.close(spread_out, large):
                return [text + ", as broadcasting does"]
    return []


# ---- another order along an axis ------------------------------------------------------------------------


def _slices_in_another_order(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    found = []
    for axis in range(a.ndim):
        order = _order(match, a, b, axis)
        if order is not None:
            found.append(_order_text(order, axis))
    return found


def _order(match: Matcher, a: np.ndarray, b: np.ndarray, axis: int) -> Optional[List[int]]:
    """Which slice of actual each slice of the reference is, if all are there and not all in place."""
    count = a.shape[axis]
    if not 2 <= count <= MOST_SLICES:
        return None
    ours, theirs = lines(a, (axis,), 32), lines(b, (axis,), 32)
    with np.errstate(all="ignore"):
        apart = np.abs(ours[None, :, :] - theirs[:, None, :])
        apart = np.where(np.isnan(apart), 0, apart).sum(-1)
    order = [int(place) for place in apart.argmin(1)]
    if sorted(order) != list(range(count)) or order == list(range(count)):
        return None
    return order if match.close(np.take(a, order, axis), b) else None


def _order_text(order: List[int], axis: int) -> str:
    count = len(order)
    if order == list(range(count))[::-1]:
        colours = ": channels are RGB on one side, BGR on the other" if count == 3 else ""
        return "reversed along axis %d%s" % (axis, colours)
    if order == [2, 1, 0, 3]:
        return "channels of axis %d are RGBA on one side, BGRA on the other" % axis
    shift = order[0]
    if order == [(place + shift) % count for place in range(count)]:
        halves = ": its halves are swapped" if 2 * shift == count else ""
        return "rolled along axis %d: reference[i] is actual[i%+d]%s" % (
            axis,
            shift if 2 * shift <= count else shift - count,
            halves,
        )
    listed = str(order) if count <= 8 else "%s, ...]" % str(order[:8])[:-1]
    return "slices of axis %d are in another order: the reference's are actual's %s" % (axis, listed)


# ---- shifted --------------------------------------------------------------------------------------------


def _shifted(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """By one row, column or both; what moved in at the edge is not looked at."""
    for steps in _shifts(a.ndim):
        if any(step and a.shape[axis] < 3 for axis, step in enumerate(steps)):
            continue
        ours, theirs = a[tuple(map(_from, steps))], b[tuple(_from(-step) for step in steps)]
        if match.close(ours, theirs) and _varies(theirs, steps):
            axes = [axis for axis, step in enumerate(steps) if step]
            return [
                "shifted by one along axis %s: actual[%s] equals reference[%s]"
                % (
                    " and ".join(map(str, axes)),
                    ", ".join("i+1" if steps[axis] > 0 else "i-1" for axis in axes),
                    ", ".join("i" for _ in axes),
                )
            ]
    return []


def _shifts(axes: int) -> Iterator[Tuple[int, ...]]:
    """One step along one axis, or along two neighbouring ones."""
    still = (0,) * axes
    for axis in range(axes):
        for step in (1, -1):
            yield still[:axis] + (step,) + still[axis + 1 :]
    for axis in range(axes - 1):
        for step, other in product((1, -1), repeat=2):
            yield still[:axis] + (step, other) + still[axis + 2 :]


def _from(step: int) -> slice:
    return slice(1, None) if step > 0 else slice(None, -1) if step < 0 else slice(None)


def _varies(array: np.ndarray, steps: Sequence[int]) -> bool:
    """Whether a shift of this array would be seen at all."""
    return all(
        not step
        or bool(
            (
                array[tuple(slice(1, None) if i == axis else slice(None) for i in range(array.ndim))]
                != array[tuple(slice(None, -1) if i == axis else slice(None) for i in range(array.ndim))]
            ).any()
        )
        for axis, step in enumerate(steps)
    )
