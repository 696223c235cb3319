"""Small tensors whose summaries nobody has asked for yet: made late, and then for many at once."""

from typing import Dict, List, Optional, Tuple

import numpy as np

from .blob import TENSOR, BlobSummary, row_figures

__all__ = ["Unsummarised", "Waiting"]

_MANY = 256  # tensors that may wait


class Waiting:
    """One tensor; `values` are there for a while, `summary` is made when it is first asked for."""

    __slots__ = ("_data", "_found", "_others", "dtype", "shape")

    def __init__(self, others: "Unsummarised", dtype: str, shape: Tuple[int, ...], data: bytes) -> None:
        self._others, self._found = others, None  # type: Unsummarised, Optional[BlobSummary]
        self.dtype, self.shape = dtype, shape
        self._data: Optional[bytes] = data

    @property
    def summary(self) -> BlobSummary:
        """Its summary."""
        if self._found is None:
            self._others.summarise()
        assert self._found is not None
        return self._found

    @property
    def values(self) -> Optional[np.ndarray]:
        """Its values, which nobody can change; None where they were let go of."""
        return None if self._data is None else np.frombuffer(self._data, self.dtype).reshape(self.shape)


class Unsummarised:
    """The tensors that came last; those of one form get their summaries together."""

    def __init__(self) -> None:
        self._waiting: List[Waiting] = []
        self._done: List[Waiting] = []

    def add(self, dtype: str, shape: Tuple[int, ...], data: bytes) -> Waiting:
        """Take one."""
        if len(self._waiting) >= _MANY:
            self.summarise()
        made = Waiting(self, dtype, shape, data)
        self._waiting.append(made)
        return made

    def summarise(self) -> None:
        """Make the summaries of all that wait, and let go of the values of those before."""
        for old in self._done:
            old._data = None
        self._done, self._waiting = self._waiting, []
        forms: Dict[Tuple[str, Tuple[int, ...]], List[Waiting]] = {}
        for one in self._done:
            forms.setdefault((one.dtype, one.shape), []).append(one)
        for (dtype, shape), found in forms.items():
            data = b"".join([one._data or b"" for one in found])
            values: np.ndarray = np.frombuffer(data, dtype).reshape(len(found), -1)
            for one, figures in zip(found, row_figures(values)):
                one._found = BlobSummary(TENSOR, dtype, shape, **figures)
