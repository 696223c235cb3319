"""Feature maps: a tensor as small pictures of its channels, large ones made smaller.

A value keeps the mean of its block when a map is made smaller; a difference keeps the value that is
furthest from zero, so that one wrong element among thousands is still seen.
"""

from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .palettes import COLOURS, DIVERGING, GAP, MINUS_INF, NAN, PLUS_INF, SEQUENTIAL
from .png import encode

__all__ = ["Chosen", "choose", "difference_of", "difference_png", "finite_range", "shrink", "to_indices", "values_png"]

Index = Tuple[int, ...]
LEAST = 32  # pixels of a map's longer side


class Chosen(NamedTuple):
    """Which maps of a tensor are shown: the index of each before its last two axes, and its picture's place."""

    indices: List[Index]
    height: int
    width: int
    total: int

    def take(self, array: np.ndarray) -> np.ndarray:
        """The chosen maps of an array of that shape, as float64 (count, height, width)."""
        return np.stack(
            [np.asarray(array[index], np.float64).reshape(self.height, self.width) for index in self.indices]
        )

    def labels(self) -> List[str]:
        """The names of the maps, as slices: `[0, 3]`."""
        return ["[%s]" % ", ".join(map(str, index)) if index else "" for index in self.indices]


def choose(shape: Sequence[int], most: int, worst: Optional[Index] = None) -> Optional[Chosen]:
    """The maps to show of a tensor: of the sample that holds `worst`, its channel among them.

    None where the tensor has no two axes that make a picture.
    """
    if len(shape) < 2 or 0 in shape or shape[-1] * shape[-2] < 2 or min(shape[-2:]) < 2:
        return None
    lead = tuple(shape[:-2])
    at = tuple(worst[: len(lead)]) if worst is not None and len(worst) == len(shape) else (0,) * len(lead)
    if not lead:
        return Chosen([()], shape[-2], shape[-1], 1)
    indices = [at[:-1] + (channel,) for channel in range(min(lead[-1], most))]
    if at not in indices:
        indices[-1] = at
    return Chosen(indices, shape[-2], shape[-1], int(np.prod(lead)))


def shrink(maps: np.ndarray, largest: int, furthest: bool = False) -> np.ndarray:
    """Maps (count, height, width) with no side above `largest`: means of blocks, or what is furthest from zero."""
    for axis in (1, 2):
        factor = -(-maps.shape[axis] // largest)
        if factor > 1:
            maps = _blocks(maps, axis, factor, furthest)
    return maps


def _blocks(maps: np.ndarray, axis: int, factor: int, furthest: bool) -> np.ndarray:
    moved = np.moveaxis(maps, axis, -1)
    rest = -moved.shape[-1] % factor
    if rest:
        moved = np.concatenate([moved] + [moved[..., -1:]] * rest, axis=-1)
    blocks = moved.reshape(moved.shape[:-1] + (-1, factor))
    if not furthest:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(np.moveaxis(blocks.mean(-1), -1, axis))
    sizes = np.where(np.isnan(blocks), np.inf, np.abs(blocks))
    picked: np.ndarray = np.take_along_axis(blocks, sizes.argmax(-1)[..., None], -1)[..., 0]
    return np.asarray(np.moveaxis(picked, -1, axis))


def finite_range(array: np.ndarray) -> Tuple[float, float]:
    """The least and greatest finite value; (0, 0) where there is none."""
    values = array[np.isfinite(array)]
    return (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)


def difference_of(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Element by element in float64; NaN on both sides, or the same Inf, is no difference."""
    with np.errstate(all="ignore"):
        difference = mine.astype(np.float64) - theirs.astype(np.float64)
        same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
    return np.where(same, 0.0, difference)


def to_indices(maps: np.ndarray, low: float, high: float) -> np.ndarray:
    """Palette indices of values: `low` to `high` over the colours, marks for NaN and Inf."""
    span = high - low if high > low else 1.0
    with np.errstate(all="ignore"):
        scaled = (maps - low) / span * (COLOURS - 1)
        indices: np.ndarray = np.clip(np.nan_to_num(np.rint(scaled)), 0, COLOURS - 1).astype(np.uint8)
    indices[np.isnan(maps)] = NAN
    indices[np.isposinf(maps)] = PLUS_INF
    indices[np.isneginf(maps)] = MINUS_INF
    return indices


def _mosaic(indices: np.ndarray) -> np.ndarray:
    """Pictures (count, height, width) beside each other, in rows of about a square, with gaps between them."""
    larger = max(1, LEAST // max(indices.shape[1:]))  # so that the gaps stay narrow beside small maps
    indices = indices.repeat(larger, axis=1).repeat(larger, axis=2)
    count, height, width = indices.shape
    columns = int(np.ceil(np.sqrt(count)))
    rows = -(-count // columns)
    canvas = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1), GAP, np.uint8)
    for number in range(count):
        top, left = (number // columns) * (height + 1), (number % columns) * (width + 1)
        canvas[top : top + height, left : left + width] = indices[number]
    return canvas


def values_png(maps: np.ndarray, low: float, high: float, largest: int = 64) -> bytes:
    """Maps (count, height, width) as one PNG, from `low` to `high`."""
    return encode(_mosaic(to_indices(shrink(maps, largest), low, high)), SEQUENTIAL)


def difference_png(maps: np.ndarray, limit: float, largest: int = 64) -> bytes:
    """Differences as one PNG, from -`limit` to `limit` about zero."""
    return encode(_mosaic(to_indices(shrink(maps, largest, furthest=True), -limit, limit)), DIVERGING)
