"""Pictures through matplotlib, to a file: PNG, SVG or PDF by its ending."""

from typing import Any, List, Optional, Tuple

import numpy as np

from ..errors import UsageError
from .maps import choose, difference_of, finite_range

__all__ = ["save_plot"]

Names = Tuple[str, str]


def save_plot(
    kind: str,
    array: np.ndarray,
    path: str,
    title: str,
    reference: Optional[np.ndarray] = None,
    names: Tuple[str, str] = ("Caffe2", "reference"),
) -> None:
    """Draw `hist`, `map`, `heat`, `line` or `diff` and write the file.

    A reference of the same shape, which `diff` needs, is drawn too; `names` are those of the two sides.
    """
    figure = _figure()
    draw = {"hist": _hist, "map": _map, "heat": _heat, "line": _line, "diff": _diff}[kind]
    draw(figure, array, reference, names)
    figure.suptitle(title, wrap=True)
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


def _sides(array: np.ndarray, reference: Optional[np.ndarray], names: Names) -> List[Tuple[np.ndarray, str]]:
    return [(array, names[0])] + ([(reference, names[1])] if reference is not None else [])


def _hist(figure: Any, array: np.ndarray, reference: Optional[np.ndarray], names: Names) -> None:
    axes = figure.subplots()
    sides = _sides(array, reference, names)
    both = np.concatenate([_finite(side) for side, _ in sides])
    edges = np.histogram_bin_edges(both, 64) if both.size else 64
    for side, name in sides:
        axes.hist(_finite(side), bins=edges, alpha=0.6, label=name)
    axes.set_xlabel("value")
    axes.set_ylabel("count")
    axes.legend() if len(sides) > 1 else None


def _line(figure: Any, array: np.ndarray, reference: Optional[np.ndarray], names: Names) -> None:
    axes = figure.subplots()
    if reference is not None:
        axes.plot(np.asarray(reference, np.float64).reshape(-1), linewidth=3, alpha=0.6, label=names[1])
    axes.plot(np.asarray(array, np.float64).reshape(-1), linewidth=1, label=names[0])
    _counted(axes.xaxis)
    axes.set_xlabel("element")
    axes.set_ylabel("value")
    axes.legend() if reference is not None else None


def _counted(axis: Any) -> None:
    """Ticks at whole numbers: what is counted has nothing between."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def _heat(figure: Any, array: np.ndarray, reference: Optional[np.ndarray], names: Names) -> None:
    sides = _sides(array, reference, names)
    low, high = finite_range(np.concatenate([np.asarray(side, np.float64).reshape(-1) for side, _ in sides]))
    grid = figure.subplots(1, len(sides), squeeze=False)[0]
    for axes, (side, name) in zip(grid, sides):
        matrix = np.asarray(side, np.float64)
        matrix = matrix.reshape(-1, matrix.shape[-1]) if matrix.ndim else matrix.reshape(1, 1)
        image = axes.imshow(matrix, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
        axes.set_xlabel("column")
        axes.set_ylabel("row")
        axes.set_title(name if len(sides) > 1 else "", fontsize=9)
        _counted(axes.xaxis)
        _counted(axes.yaxis)
    figure.colorbar(image, ax=list(grid), label="value")


def _map(figure: Any, array: np.ndarray, reference: Optional[np.ndarray], names: Names) -> None:
    sides = _sides(array, reference, names)
    chosen = choose(array.shape, 16 // len(sides))
    if chosen is None:
        _heat(figure, array, reference, names)
        return
    maps = np.concatenate([chosen.take(side) for side, _ in sides])
    labels = ["%s %s" % (name, label) if len(sides) > 1 else label for _, name in sides for label in chosen.labels()]
    _tiles(figure, maps, labels, finite_range(maps), "viridis", "value")


def _diff(figure: Any, array: np.ndarray, reference: Optional[np.ndarray], names: Names) -> None:
    assert reference is not None
    difference = difference_of(array, reference)
    limit = max(map(abs, finite_range(difference))) or 1.0
    chosen = choose(difference.shape, 16)
    if chosen is None:
        _line(figure, difference, None, names)
        figure.axes[0].set_ylabel("difference")
        return
    _tiles(figure, chosen.take(difference), chosen.labels(), (-limit, limit), "RdBu_r", "difference")


def _tiles(figure: Any, maps: np.ndarray, labels: Any, limits: Any, colours: str, unit: str) -> None:
    columns = int(np.ceil(np.sqrt(len(maps))))
    grid = figure.subplots(-(-len(maps) // columns), columns, squeeze=False)
    for axes in grid.reshape(-1):
        axes.axis("off")
    for axes, picture, label in zip(grid.reshape(-1), maps, labels):
        image = axes.imshow(picture, vmin=limits[0], vmax=limits[1], cmap=colours, interpolation="nearest")
        axes.set_title(label, fontsize=8)
    figure.colorbar(image, ax=list(grid.reshape(-1)), label=unit)
