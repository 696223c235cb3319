"""Times that can be compared: all sides take turns in one run, and a figure is a median with its quartiles."""

import time
from typing import Callable, Dict, List, NamedTuple, Sequence

__all__ = ["Figure", "added", "alternate", "figure", "quotient", "timed"]

PATIENCE = 60.0  # seconds that a figure may take
LEAST = 3  # rounds

Side = Callable[[], float]
"""Does its work once and returns the seconds that it took."""


class Figure(NamedTuple):
    """A median and the quartiles around it."""

    median: float
    low: float
    high: float


def timed(work: Callable[[], object]) -> Side:
    """A side that takes the time of `work` by the wall clock."""

    def side() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return side


def alternate(
    sides: Dict[str, Side], rounds: int, warmup: int = 1, patience: float = PATIENCE
) -> Dict[str, List[float]]:
    """The seconds of every side in every round; three rounds at least, even if that takes longer than `patience`.

    The order turns round from one round to the next, so that neither a drift of the machine nor what one side
    leaves in the caches favours another.
    """
    seconds: Dict[str, List[float]] = {name: [] for name in sides}
    begun = time.monotonic()
    for number in range(warmup + rounds):
        if number >= warmup + LEAST and time.monotonic() - begun > patience:
            break
        names = list(sides)
        for name in names if number % 2 else reversed(names):
            spent = sides[name]()
            if number >= warmup:
                seconds[name].append(spent)
    return seconds


def figure(values: Sequence[float]) -> Figure:
    """The median of some values, and their quartiles."""
    return Figure(_quantile(values, 0.5), _quantile(values, 0.25), _quantile(values, 0.75))


def quotient(ours: Sequence[float], theirs: Sequence[float]) -> Figure:
    """One side over the other, round by round."""
    return figure([a / b for a, b in zip(ours, theirs)])


def added(ours: Sequence[float], theirs: Sequence[float], each: int = 1) -> Figure:
    """What one side takes more than the other, round by round, for each of so many."""
    return figure([(a - b) / each for a, b in zip(ours, theirs)])


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    at = int(place)
    above = ordered[min(at + 1, len(ordered) - 1)]
    return ordered[at] + (place - at) * (above - ordered[at])
