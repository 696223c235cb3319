"""What the channels of each blob do, over the inputs of one capture or many: mean activation, dead and weak ones."""

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional

import numpy as np

from ..blob import STRING, Blob
from ..capture import Capture
from ..digests import of_header
from ..errors import UsageError
from ..net import BlobVersion

__all__ = ["ChannelSums", "Channels", "channel_figures", "channels"]


class Channels(NamedTuple):
    """One blob's channels: `mean` and `largest` (of |x|) and the share of `zeros`, one number for each channel.

    `dead` channels are zero everywhere in all inputs; `weak` ones never reach `weak_share` of the median
    channel's largest value.  `captures` counts the captures that hold the blob.
    """

    blob: BlobVersion
    type: str
    captures: int
    mean: List[float]
    largest: List[float]
    zeros: List[float]
    dead: List[int]
    weak: List[int]

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON values."""
        return dict(self._asdict(), blob=str(self.blob))


def channels(captures: Iterable[Capture], weak_share: float = 0.01, axis: int = 1) -> List[Channels]:
    """The channels (axis 1 of a batch) of every blob that has some, in the order of the first capture.

    Raises UsageError where the captures are of several models, or no blob has such an axis.
    """
    listed = list(captures)
    _same_model(listed)
    sums: Dict[BlobVersion, ChannelSums] = {}
    for capture in listed:
        for stored in capture.blobs():
            blob = capture.load(stored.name, stored.version, mapped=True) if capture.has_value(stored) else None
            figures = None if blob is None else channel_figures(blob, axis)
            if figures is not None:
                key = BlobVersion(stored.name, stored.version)
                sums.setdefault(key, ChannelSums(stored.type)).add(figures)
    if not sums:
        places = ", ".join(capture.path for capture in listed)
        raise UsageError("no blob of %s has an axis %d with numbers" % (places, axis), "--axis 1 is that of NCHW")
    return [found.result(key, weak_share) for key, found in sums.items() if found.count]


def _same_model(captures: List[Capture]) -> None:
    first = captures[0] if captures else None
    for capture in captures[1:]:
        assert first is not None
        ours, theirs = of_header(first.header), of_header(capture.header)
        if ours and theirs and not ours & theirs:
            raise UsageError("%s and %s are captures of two models" % (first.path, capture.path),
                             "channels go by blob names: give captures of one model")  # fmt: skip


def channel_figures(blob: Blob, axis: int = 1) -> Optional[Dict[str, Any]]:
    """Of each channel the sum of its values, the number of zeros, the largest |x|, and how many values each has.

    As plain JSON; None where the blob has no channels.
    """
    array = None if blob.kind == STRING else blob.real()
    if array is None or not -array.ndim <= axis < array.ndim or array.dtype.kind not in "fiu" or not array.size:
        return None
    rows = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
    with np.errstate(all="ignore"):
        total = rows.sum(1, dtype=np.float64)
        largest = np.maximum(rows.max(1).astype(np.float64), -rows.min(1).astype(np.float64))
    zeros = (rows == 0).sum(1)
    return {"count": rows.shape[1], "sum": total.tolist(), "zeros": zeros.tolist(), "largest": largest.tolist()}


class ChannelSums:
    """The figures of one blob's channels over many inputs, added in their order."""

    def __init__(self, type: str) -> None:
        self.type = type
        self.captures = self.count = 0
        self.sum: Any = None
        self.zeros: Any = None
        self.largest: Any = None

    def add(self, figures: Mapping[str, Any]) -> None:
        """Add what `channel_figures` gave for one input; another number of channels is left out."""
        total, zeros, largest = (np.array([float(v) for v in figures[key]]) for key in ("sum", "zeros", "largest"))
        if self.sum is not None and len(self.sum) != len(total):
            return
        first = self.sum is None
        self.sum = total if first else self.sum + total
        self.zeros = zeros if first else self.zeros + zeros
        self.largest = largest if first else np.maximum(self.largest, largest)
        self.captures, self.count = self.captures + 1, self.count + figures["count"]

    def result(self, blob: BlobVersion, weak_share: float) -> Channels:
        """The figures over everything added."""
        limit = weak_share * float(np.median(self.largest))
        dead = [int(i) for i in np.flatnonzero(self.largest == 0)]
        weak = [int(i) for i in np.flatnonzero((self.largest > 0) & (self.largest < limit))]
        return Channels(blob, self.type, self.captures, _list(self.sum / self.count), _list(self.largest),
                        _list(self.zeros / self.count), dead, weak)  # fmt: skip


def _list(values: np.ndarray) -> List[float]:
    return [float(value) for value in values]
