"""The same values, all of them, in another order: read as another shape in between, or sorted otherwise."""

from itertools import permutations, product
from typing import List

import numpy as np

from .matching import Matcher, telling_places, without_ones

__all__ = ["rearranged_hints"]

MOST_SORTED = 1 << 21
MOST_AXES = 4


def rearranged_hints(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """How two arrays of one size hold the same values; only where they do, which sorting shows."""
    if a.size != b.size or not 2 <= a.size <= MOST_SORTED:
        return []
    if not match.close(np.sort(a, axis=None), np.sort(b, axis=None)):
        return []
    found = _read_in_between(match, a, b)
    if found or a.shape != b.shape:
        return found or ["the values are the same in another order"]
    for axis in range(a.ndim):
        if a.shape[axis] > 1 and match.close(np.sort(a, axis=axis), np.sort(b, axis=axis)):
            return ["along axis %d the values are the same in another order" % axis]
    return ["the values are the same in another order"]


def _read_in_between(match: Matcher, a: np.ndarray, b: np.ndarray) -> List[str]:
    """Transposed, read as another shape, transposed again: what a reshape in place of a transposition gives."""
    if a.ndim != b.ndim or not 2 <= a.ndim <= MOST_AXES:
        return []
    places = telling_places(a)
    for first, second in product(permutations(range(b.ndim)), permutations(range(a.ndim))):
        shape = tuple(a.shape[second.index(axis)] for axis in range(a.ndim))
        moved = tuple(b.shape[axis] for axis in first)
        if without_ones(shape) == without_ones(moved):
            continue  # that is a transposition alone
        flat = np.ravel_multi_index(tuple(places[second.index(axis)] for axis in range(a.ndim)), shape)
        index = np.unravel_index(flat, moved)
        if match.screen(a[places], b[tuple(index[first.index(axis)] for axis in range(b.ndim))]) and match.close(
            a, b.transpose(first).reshape(shape).transpose(second)
        ):
            moves = "transposed by %s, " % (first,) if first != tuple(sorted(first)) else ""
            again = ", and transposed by %s" % (second,) if second != tuple(sorted(second)) else ""
            return ["actual is the reference %sread as shape %s%s" % (moves, shape, again)]
    return []
