"""Pictures through matplotlib, to a file: PNG, SVG or PDF by its ending."""

from typing import Any, Optional

import numpy as np

from ..errors import UsageError
from .maps import choose, finite_range

__all__ = ["save_plot"]


def save_plot(kind: str, array: np.ndarray, path: str, title: str, reference: Optional[np.ndarray] = None) -> None:
    """Draw `hist`, `map`, `heat`, `line` or `diff` (which needs a reference of the same shape) and write the file."""
    figure = _figure()
    draw = {"hist": _hist, "map": _map, "heat": _heat, "line": _line, "diff": _diff}[kind]
    draw(figure, array, reference)
    figure.suptitle(title)
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise UsageError("cannot write %s: %s" % (path, error), "FILE.png, .svg or .pdf") from error


def _figure() -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "pictures in files need matplotlib: %s" % error,
            "pip install 'c2step[plot]'; without a file plot shows text",
        ) from error
    figure = Figure(figsize=(8, 5), constrained_layout=True)
    FigureCanvasAgg(figure)
    return figure


def _finite(array: np.ndarray) -> np.ndarray:
    flat = np.asarray(array, np.float64).reshape(-1)
    return np.asarray(flat[np.isfinite(flat)])


def _hist(figure: Any, array: np.ndarray, reference: Optional[np.ndarray]) -> None:
    axes = figure.subplots()
    sides = [(array, "Caffe2")] + ([(reference, "reference")] if reference is not None else [])
    both = np.concatenate([_finite(side) for side, _ in sides])
    edges = np.histogram_bin_edges(both, 64) if both.size else 64
    for side, name in sides:
        axes.hist(_finite(side), bins=edges, alpha=0.6, label=name)
    axes.set_xlabel("value")
    axes.set_ylabel("count")
    axes.legend() if len(sides) > 1 else None


def _line(figure: Any, array: np.ndarray, reference: Optional[np.ndarray]) -> None:
    axes = figure.subplots()
    if reference is not None:
        axes.plot(np.asarray(reference, np.float64).reshape(-1), linewidth=3, alpha=0.6, label="reference")
    axes.plot(np.asarray(array, np.float64).reshape(-1), linewidth=1, label="Caffe2")
    axes.set_xlabel("element")
    axes.legend() if reference is not None else None


def _heat(figure: Any, array: np.ndarray, reference: Optional[np.ndarray]) -> None:
    axes = figure.subplots()
    matrix = np.asarray(array, np.float64)
    matrix = matrix.reshape(-1, matrix.shape[-1]) if matrix.ndim else matrix.reshape(1, 1)
    figure.colorbar(axes.imshow(matrix, aspect="auto", interpolation="nearest"), ax=axes)


def _map(figure: Any, array: np.ndarray, reference: Optional[np.ndarray]) -> None:
    chosen = choose(array.shape, 16)
    if chosen is None:
        _heat(figure, array, reference)
        return
    maps = chosen.take(array)
    _tiles(figure, maps, chosen.labels(), finite_range(maps), "viridis")


def _diff(figure: Any, array: np.ndarray, reference: Optional[np.ndarray]) -> None:
    assert reference is not None
    difference = np.asarray(array, np.float64) - np.asarray(reference, np.float64)
    limit = max(map(abs, finite_range(difference))) or 1.0
    chosen = choose(difference.shape, 16)
    if chosen is None:
        _line(figure, difference, None)
        return
    _tiles(figure, chosen.take(difference), chosen.labels(), (-limit, limit), "RdBu_r")


def _tiles(figure: Any, maps: np.ndarray, labels: Any, limits: Any, colours: str) -> None:
    columns = int(np.ceil(np.sqrt(len(maps))))
    grid = figure.subplots(-(-len(maps) // columns), columns, squeeze=False)
    for axes in grid.reshape(-1):
        axes.axis("off")
    for axes, picture, label in zip(grid.reshape(-1), maps, labels):
        image = axes.imshow(picture, vmin=limits[0], vmax=limits[1], cmap=colours, interpolation="nearest")
        axes.set_title(label, fontsize=8)
    figure.colorbar(image, ax=list(grid.reshape(-1)))
