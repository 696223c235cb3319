"""Colours for values: one way from low to high, one for differences about zero, and marks for NaN and Inf."""

from typing import List, Sequence, Tuple

import numpy as np

__all__ = ["COLOURS", "DIVERGING", "GAP", "MINUS_INF", "NAN", "PLUS_INF", "SEQUENTIAL"]

Colour = Tuple[int, int, int]

COLOURS = 248  # the indices from here on are marks
NAN, PLUS_INF, MINUS_INF, GAP = 248, 249, 250, 255
_MARKS = {NAN: (255, 0, 200), PLUS_INF: (255, 120, 0), MINUS_INF: (0, 200, 255)}

# Some stops of matplotlib's viridis (CC0), and blue - near white - red after ColorBrewer's RdBu.
_VIRIDIS = "440154 482475 414487 355f8d 2a788e 21918c 22a884 44bf70 7ad151 bddf26 fde725"
_RED_BLUE = "053061 2166ac 4393c3 92c5de d1e5f0 f7f7f7 fddbc7 f4a582 d6604d b2182b 67001f"


def _between(stops: str) -> List[Colour]:
    rgb = np.array([[int(word[i : i + 2], 16) for i in (0, 2, 4)] for word in stops.split()], np.float64)
    at = np.linspace(0, len(rgb) - 1, COLOURS)
    columns = [np.interp(at, np.arange(len(rgb)), rgb[:, c]) for c in range(3)]
    return [(int(r), int(g), int(b)) for r, g, b in np.rint(np.stack(columns, axis=1))]


def _whole(colours: List[Colour]) -> Sequence[Colour]:
    return tuple(colours + [_MARKS.get(i, (0, 0, 0)) for i in range(COLOURS, 256)])


SEQUENTIAL = _whole(_between(_VIRIDIS))
DIVERGING = _whole(_between(_RED_BLUE))
