"""Blobs that are shown after each stop."""

from typing import TYPE_CHECKING, List, Tuple

from ..errors import UsageError

if TYPE_CHECKING:
    from .types import BlobRef

__all__ = ["Displays"]


class Displays:
    """References to show, numbered from 1."""

    def __init__(self) -> None:
        self.all: List[Tuple[int, "BlobRef"]] = []
        self._numbers = 0

    def add(self, ref: "BlobRef") -> int:
        """Show one from now on; returns its number."""
        self._numbers += 1
        self.all.append((self._numbers, ref))
        return self._numbers

    def remove(self, number: int) -> None:
        """Show one no more."""
        if number not in [known for known, _ in self.all]:
            raise UsageError("there is no display %d" % number, "there are: %s" % (self.text() or "none"))
        self.all = [item for item in self.all if item[0] != number]

    def text(self) -> str:
        """Number and reference of each."""
        return ", ".join("%d: %s" % item for item in self.all)
