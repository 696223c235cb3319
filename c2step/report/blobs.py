"""The values of one output for its page: figures of both sides, histograms, feature maps, worst positions."""

from typing import Any, Dict, Iterable, List, Optional, Tuple

import numpy as np

from ..blob import STRING, Blob
from ..pictures.histogram import histogram
from ..pictures.maps import Chosen, choose, difference_of, difference_png, finite_range, values_png
from ..pictures.png import data_uri
from ..render import shape_text

__all__ = ["Detail", "drawn"]

MOST_POINTS = 256
WORST = 8
MOST_STRINGS = 32
LONGEST_STRING = 200


class Detail:
    """How much may be drawn; `left` counts down the bytes of pictures that the file may still hold."""

    def __init__(self, budget: int, operators: int) -> None:
        self.left = budget
        self.many = operators > 200

    def maps(self, important: bool) -> int:
        """How many feature maps of a blob."""
        return 16 if important else 4 if self.many else 9

    def side(self, important: bool) -> int:
        """The longest side of a map, in pixels."""
        return 64 if important else 32 if self.many else 48


def drawn(ours: Optional[Blob], golden: Optional[Blob], worst: Any, detail: Detail, important: bool) -> Dict[str, Any]:
    """Everything that a page shows of the values; empty where there are none."""
    if STRING in {side.kind for side in (ours, golden) if side is not None}:
        return _strings(ours, golden)
    mine, theirs = _numbers(ours), _numbers(golden)
    if detail.left <= 0:
        return {"left_out": True} if mine is not None else {}
    shown: Dict[str, Any] = {}
    both = [side for side in (mine, theirs) if side is not None]
    if not both:
        return {}
    shown.update(_histograms(mine, theirs))
    same = mine is not None and theirs is not None and mine.shape == theirs.shape
    if not same and mine is not None and theirs is not None:
        shown["remarks"] = [
            "No difference is shown: the shapes %s and %s differ." % (shape_text(mine.shape), shape_text(theirs.shape))
        ]
    if same and mine is not None and theirs is not None:
        shown["worst"] = _worst(mine, theirs)
        worst = shown["worst"][0][0] if shown["worst"] else worst
    shown.update(_pictures(mine, theirs, worst, detail, important) or _lines(mine, theirs))
    detail.left -= _room(shown)
    return shown


def _room(shown: Dict[str, Any]) -> int:
    """About how many bytes it takes in the file."""
    texts = sum(map(len, shown.get("pictures", {}).get("maps", {}).values()))
    return 1500 + texts + 12 * sum(len(shown.get("line", {}).get(side, ())) for side in ("ours", "golden"))


def _numbers(blob: Optional[Blob]) -> Optional[np.ndarray]:
    if blob is None or blob.kind == STRING:
        return None
    array = blob.real()
    return array if array is not None and array.size and array.dtype.kind in "fiub" else None


def _histograms(mine: Optional[np.ndarray], theirs: Optional[np.ndarray]) -> Dict[str, Any]:
    both = [side for side in (mine, theirs) if side is not None]
    found = histogram(*both)
    shown = {"histogram": found.to_json() if found else None, "sides": len(both)}
    if mine is not None and theirs is not None and mine.shape == theirs.shape:
        difference = histogram(difference_of(mine, theirs))
        shown["difference"] = difference.to_json() if difference else None
    return shown


def _worst(mine: np.ndarray, theirs: np.ndarray) -> List[Tuple[List[int], Any, Any, float]]:
    """The elements that are furthest apart: index, both values, difference."""
    difference = difference_of(mine, theirs).reshape(-1)
    sizes = np.where(np.isnan(difference), np.inf, np.abs(difference))
    count = min(WORST, sizes.size)
    places = np.argpartition(-sizes, count - 1)[:count]
    rows = []
    for place in sorted(places, key=lambda p: -sizes[p]):
        if sizes[place] > 0:
            index = tuple(int(i) for i in np.unravel_index(place, mine.shape))
            rows.append((list(index), mine[index].item(), theirs[index].item(), float(difference[place])))
    return rows


def _pictures(
    mine: Optional[np.ndarray], theirs: Optional[np.ndarray], worst: Any, detail: Detail, important: bool
) -> Dict[str, Any]:
    most, largest = detail.maps(important), detail.side(important)
    sides = {"ours": mine, "golden": theirs}
    chosen = {key: _chosen(array, worst, most) for key, array in sides.items()}
    maps = {key: c.take(sides[key]) for key, c in chosen.items() if c is not None}  # type: ignore[arg-type]
    if not maps:
        return {}
    scaled = maps["golden"] if np.isfinite(maps.get("golden", np.nan)).any() else maps.get("ours", maps.get("golden"))
    low, high = finite_range(scaled)  # type: ignore[arg-type]
    first = next(c for c in chosen.values() if c is not None)
    shown: Dict[str, Any] = {
        "range": [low, high] if np.isfinite(scaled).any() else None,  # type: ignore[arg-type]
        "marks": _marks(maps.values()),
        "labels": first.labels(),
        "total": first.total,
        "maps": {key: data_uri(values_png(array, low, high, largest)) for key, array in maps.items()},
        "size": [first.height, first.width],
    }
    if len(maps) == 2 and maps["ours"].shape == maps["golden"].shape:
        difference = difference_of(maps["ours"], maps["golden"])
        limit = max(map(abs, finite_range(difference)))
        shown["limit"] = limit if np.isfinite(difference).any() else None
        shown["maps"]["difference"] = data_uri(difference_png(difference, limit, largest))
    return {"pictures": shown}


def _marks(maps: Iterable[np.ndarray]) -> List[str]:
    """What of NaN and Inf is in the pictures, each with a colour of its own."""
    kinds: Dict[str, Any] = {"NaN": np.isnan, "+Inf": np.isposinf, "-Inf": np.isneginf}
    shown = list(maps)
    return [name for name, holds in kinds.items() if any(holds(array).any() for array in shown)]


def _strings(ours: Optional[Blob], golden: Optional[Blob]) -> Dict[str, Any]:
    """The first strings of both sides."""
    sides = {"ours": ours, "golden": golden}
    flat = {key: side.array.reshape(-1) for key, side in sides.items() if side is not None and side.array is not None}
    found: Dict[str, Any] = {key: [_word(value) for value in array[:MOST_STRINGS]] for key, array in flat.items()}
    found["size"] = max(array.size for array in flat.values()) if flat else 0
    return {"strings": found}


def _word(value: Any) -> str:
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= LONGEST_STRING else text[:LONGEST_STRING] + "..."


def _chosen(array: Optional[np.ndarray], worst: Any, most: int) -> Optional[Chosen]:
    if array is None:
        return None
    fits = worst is not None and len(worst) == array.ndim and all(i < s for i, s in zip(worst, array.shape))
    return choose(array.shape, most, tuple(worst) if fits else None)


def _lines(mine: Optional[np.ndarray], theirs: Optional[np.ndarray]) -> Dict[str, Any]:
    """The values themselves, as many as a line can show."""
    lines = {}
    for key, array in (("ours", mine), ("golden", theirs)):
        if array is not None:
            flat = array.reshape(-1)[:MOST_POINTS].astype(np.float64)
            lines[key] = [float("%.6g" % value) for value in flat]
    size = max(array.size for array in (mine, theirs) if array is not None)
    return {"line": dict(lines, size=size)}
