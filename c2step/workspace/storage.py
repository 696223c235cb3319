"""Which blobs share storage, from the addresses at which their tensors were last seen.

`Alias` lets an operator change a blob that it does not name.  Each live tensor has memory of its own
otherwise, so two ranges that overlap are one storage, seen without reading a value.
"""

import bisect
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import numpy as np

from ..blob import Blob

__all__ = ["Sharing", "Storage"]

Pair = Tuple[str, str]

_NEAREST = 16  # ranges that begin before another one and may reach into it


class Storage:
    """Address ranges of blobs; a blob that was fed or removed must be forgotten."""

    def __init__(self) -> None:
        self._ranges: Dict[str, Tuple[int, int]] = {}
        self._sorted: List[Tuple[int, str]] = []
        self.joined: Dict[str, Set[str]] = {}  # those that share storage, where that is not known by addresses

    def place(self, name: str, array: Optional[np.ndarray]) -> bool:
        """Remember where a blob's tensor is, and say whether that is new.

        An array of its own memory, or none, is no tensor's.  An empty tensor may have storage for what is written next.
        """
        if array is None or _owns_memory(array):
            return self.forget(name)
        start = array.ctypes.data
        return self.put(name, start, start + max(array.nbytes, 1))

    def is_at(self, name: str, start: int, end: int) -> bool:
        """Whether a blob's tensor was last seen between two addresses."""
        return self._ranges.get(name) == (start, end)

    def put(self, name: str, start: int, end: int) -> bool:
        """Remember that a blob's tensor is between two addresses, and say whether that is new."""
        if self.is_at(name, start, end):
            return False
        self.forget(name)
        self._ranges[name] = (start, end)
        bisect.insort(self._sorted, (start, name))
        return True

    def alone(self, name: str) -> bool:
        """Whether a blob shares its memory with none, where until now none did with any other."""
        start, end = self._ranges[name]
        place = bisect.bisect_left(self._sorted, (start, name))
        before, after = self._sorted[place - 1 : place], self._sorted[place + 1 : place + 2]
        return not (before and self._ranges[before[0][1]][1] > start) and not (after and after[0][0] < end)

    def holds(self, name: str, array: np.ndarray) -> bool:
        """Whether an array is the memory of this blob, as it was last seen, and no other's."""
        start = array.ctypes.data
        return self._ranges.get(name) == (start, start + max(array.nbytes, 1)) and not self.sharers(name)

    def forget(self, name: str) -> bool:
        """A blob is gone, or its tensor may be elsewhere; whether it was known."""
        known = self._ranges.pop(name, None)
        if known is not None:
            del self._sorted[bisect.bisect_left(self._sorted, (known[0], name))]
        return known is not None

    def part(self, name: str) -> None:
        """A blob has storage of its own again."""
        group = self.joined.pop(name, set())
        self.joined.update((member, group - {name}) for member in group - {name})

    def join(self, name: str, other: str) -> None:
        """Two blobs are known to share storage, in a Caffe2 that does not tell where its tensors are."""
        if name not in self._ranges:
            group = self.joined.get(other, {other}) | {name}
            self.joined.update((member, group) for member in group)

    def sharers(self, name: str) -> Set[str]:
        """The other blobs whose memory overlaps a blob's."""
        if name not in self._ranges:
            return self.joined.get(name, set()) - {name}
        start, end = self._ranges[name]
        first = bisect.bisect_left(self._sorted, (start, ""))
        last = bisect.bisect_left(self._sorted, (end, ""))
        near = self._sorted[max(0, first - _NEAREST) : last]
        return {other for _, other in near if other != name and self._ranges[other][1] > start}

    def reached(self, names: Iterable[str]) -> Set[str]:
        """Some blobs, those whose memory overlaps theirs, and so on."""
        found, ahead = set(names), list(names)
        while ahead:
            new = self.sharers(ahead.pop()) - found
            found |= new
            ahead += new
        return found


def _owns_memory(array: np.ndarray) -> bool:
    """Whether an array is, or is a view of, an array that numpy itself made."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.owndata:
            return True
        base = base.base
    return False


class Sharing:
    """Which blobs an operator changed, or came to share, without naming them."""

    def __init__(self, read: Callable[[str], Blob]) -> None:
        """`read` views a blob that was not seen yet."""
        self.storage = Storage()
        self._read = read
        self._seen: Set[str] = set()
        self._pairs: Set[Pair] = set()

    def see_inputs(self, names: Sequence[str]) -> None:
        """Look where the inputs of an operator are, those that were not seen yet."""
        for name in names:
            if name not in self._seen:
                self._seen.add(name)
                self.storage.place(name, self._read(name).array if name else None)

    def see_outputs(self, blobs: Sequence[Blob], alias_of: str = "") -> Tuple[List[Pair], Dict[str, bool]]:
        """Look where the outputs are; `alias_of` is the blob whose storage the operator gives to its output.

        Returns the pairs (output, other blob) that share storage, and for each other blob whether it came
        to share it by this operator: its value then is as it was.
        """
        self._seen.update(blob.name for blob in blobs)
        moved = [blob for blob in blobs if self.storage.place(blob.name, blob.array)]
        if alias_of:
            self.storage.join(blobs[0].name, alias_of)
        elif not moved and not self._pairs:  # the usual case, which is to cost next to nothing
            return [], {}
        named = {blob.name for blob in blobs}
        pairs = [(name, other) for name in sorted(named) for other in sorted(self.storage.sharers(name) - named)]
        new = {other: all(pair not in self._pairs for pair in pairs if pair[1] == other) for _, other in pairs}
        self._pairs = {pair for pair in self._pairs if not named & set(pair)}
        self._pairs |= {p for name, other in pairs for p in ((name, other), (other, name))}
        return pairs, new

    def settled(self, name: str, start: int, end: int) -> bool:
        """Look where the only output of an operator is: whether no blob shares storage with any, as before.

        Where not, `see_outputs` has more to say.
        """
        storage = self.storage
        if self._pairs or storage.joined:
            return False
        if storage.is_at(name, start, end):  # then it was seen, too
            return True
        self._seen.add(name)
        if not storage.put(name, start, end) or storage.alone(name):
            return True
        self.storage.forget(name)
        return False

    def forget(self, name: str) -> None:
        """A blob was fed or removed."""
        self._seen.discard(name)
        self.storage.part(name)
        self.storage.forget(name)
        self._pairs = {pair for pair in self._pairs if name not in pair}
