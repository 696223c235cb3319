"""What the nets inside an operator do to blobs that the operator does not name.  Worker side only."""

from typing import Any, Iterable, List, Sequence, Tuple

from caffe2.proto import caffe2_pb2

from ..blob import Blob
from ..importer.inner import inner_nets, unnamed_writes
from . import reader
from .instrument import mentioned

__all__ = ["changed", "names_in", "unnamed_in"]


def unnamed_in(net: Any, op: Any) -> Tuple[str, ...]:
    """The blobs that the nets inside an operator of a net may write beside its outputs."""
    if not any(inner_nets(op)):
        return ()
    return unnamed_writes(op, {name for other in net.op for name in list(other.input) + list(other.output)})


def names_in(op: Any) -> List[str]:
    """Every blob that an operator names, and those that the nets inside it do."""
    if not any(inner_nets(op)):
        return list(dict.fromkeys(list(op.input) + list(op.output)))
    return list(mentioned(caffe2_pb2.NetDef(op=[op])))


def changed(names: Iterable[str], before: Sequence[Blob]) -> List[Blob]:
    """Those blobs whose value is no longer the one that was read before, as views."""
    now = [reader.read(name, view=True) for name in names]
    return [blob for blob, old in zip(now, before) if not _same(blob, old)]


def _same(one: Blob, other: Blob) -> bool:
    if one.array is None or other.array is None:
        return one.array is other.array
    if one.kind != other.kind or one.array.dtype != other.array.dtype or one.array.shape != other.array.shape:
        return False
    if one.array.dtype.kind in "OSU":
        return bool((one.array == other.array).all())
    scales = (one.scale, one.zero_point) == (other.scale, other.zero_point)
    return scales and one.array.tobytes() == other.array.tobytes()
