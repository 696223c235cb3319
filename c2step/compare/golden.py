"""Which golden value belongs to which output of which operator.

Names are not keys: a blob that is written several times has several values.  A run of Caffe2 gives
every version; an ONNX value stands for what its node leaves in the blob that holds it, and the name of another
blob for its last write.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from ..blob import Blob
from ..errors import CaptureError
from ..history import Kept
from ..net import Net
from ..references import Reference

__all__ = ["Golden", "Slot"]

Slot = Tuple[int, int]
"""(operator index, output slot)"""


class _Place(NamedTuple):
    name: str
    version: Optional[int]


class Golden:
    """The golden values of a net's outputs, by operator and output slot."""

    def __init__(self, net: Net, reference: Reference) -> None:
        self.reference = reference
        self._places: Dict[Slot, _Place] = {}
        self._missing: Dict[Slot, str] = {}
        ours = reference.meta.get("kind") == "run"
        last: Dict[str, int] = {}
        ssa = net.ssa()
        for _, writes in ssa:
            last.update((name, version) for name, version in writes)
        values = {} if ours else net.onnx_values()
        for op, (_, writes) in zip(net.operators, ssa):
            for slot, (name, version) in enumerate(writes):
                self._place((op.index, slot), name, version, ours, version == last[name], values)

    def _place(self, slot: Slot, name: str, version: int, ours: bool, is_last: bool, values: Dict[Slot, str]) -> None:
        exact, value = "%s@%d" % (name, version), values.get(slot) or (name if is_last else "")
        if exact in self.reference:
            self._places[slot] = _Place(exact, None)
        elif ours and version in self.reference.versions(name):
            self._places[slot] = _Place(name, version)
        elif not ours and value in self.reference:
            self._places[slot] = _Place(value, None)
        else:
            missing = self.reference.missing
            self._missing[slot] = missing.get(value) or missing.get(name, "")

    def __contains__(self, slot: object) -> bool:
        return slot in self._places

    def __len__(self) -> int:
        return len(self._places)

    def blob(self, slot: Slot) -> Optional[Blob]:
        """The golden value of an output, None where there is none."""
        place = self._places.get(slot)
        return None if place is None else self.reference.blob(place.name, place.version)

    def kept(self, slot: Slot) -> Optional[Kept]:
        """The file with the golden value of an output, where it is one of a capture."""
        place = self._places.get(slot)
        return None if place is None else self.reference.kept(place.name, place.version)

    def missing(self, slot: Slot) -> str:
        """Why an output has no golden value, as far as the reference says."""
        return self._missing.get(slot, "")

    def unused(self, net: Net) -> List[str]:
        """Names of the reference that no operator of the net writes."""
        known = {place.name for place in self._places.values()} | set(net.blobs())
        return [name for name in self.reference.names() if name not in known]

    def value(self, name: str) -> Blob:
        """A golden value by name, for inputs; CaptureError where there is none."""
        if name not in self.reference:
            raise CaptureError("the reference has no %s" % name)
        return self.reference.blob(name)
