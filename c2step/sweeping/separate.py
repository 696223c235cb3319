"""What tells inputs apart: a figure that is larger, or smaller, for each of those with a label than for all others."""

from typing import Any, Dict, Mapping, Optional

import numpy as np

from .columns import Columns

__all__ = ["Features"]

_FEW = 3  # inputs on either side, below which a difference is chance
_FIGURES = ("min", "max", "mean", "std")


class Features:
    """Figures of the inputs as columns: of each fed array its least, largest and mean value, spread and shape."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._found: Dict[str, np.ndarray] = {}

    def add(self, position: int, fed: Mapping[str, Any]) -> None:
        """Take in the `fed` of a row."""
        for name, said in fed.items():
            for figure in _FIGURES:
                if figure in said:
                    self._put("%s.%s" % (name, figure), position, said[figure])
            for axis, dim in enumerate(said["shape"]):
                self._put("%s.shape[%d]" % (name, axis), position, dim)

    def _put(self, name: str, position: int, value: float) -> None:
        if name not in self._found:
            self._found[name] = self._columns.new()
        self._found[name][position] = value

    def telling(self, those: np.ndarray, others: np.ndarray) -> Optional[str]:
        """Words for a figure that tells `those` inputs (a mask) from `others`; None where none does."""
        if min(int(those.sum()), int(others.sum())) < _FEW:
            return None
        for name, column in self._found.items():
            here, there = column[those], column[others]
            if np.isnan(here).any() or np.isnan(there).any():
                continue
            if here.min() > there.max():
                return "%s is %.6g or more for these, %.6g or less for the others" % (name, here.min(), there.max())
            if here.max() < there.min():
                return "%s is %.6g or less for these, %.6g or more for the others" % (name, here.max(), there.min())
        return None
