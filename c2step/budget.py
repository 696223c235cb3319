"""What a run will take, told before it: bytes of blobs, from the shapes that Caffe2 infers."""

import re
from typing import Any, Dict, List, NamedTuple, Sequence

from .errors import C2StepError
from .sizes import size_text
from .stepper import Session

__all__ = ["Estimate", "estimate", "memory_lines"]

# caffe2.proto TensorProto.DataType -> bytes of one element
_SIZES = {1: 4, 2: 4, 3: 1, 5: 1, 6: 1, 7: 1, 8: 2, 9: 2, 10: 8, 12: 2, 13: 8}
_HEADER = 128  # bytes of a .npy file beside its values


class Estimate(NamedTuple):
    """How many outputs there are, of how many the size is known, and the bytes of these."""

    outputs: int
    known: int
    nbytes: int


def estimate(session: Session, types: Sequence[str] = (), match: str = "") -> Estimate:
    """The outputs of one run, all or those of some operator types and blob names."""
    try:
        inferred: Dict[str, Any] = session.protected(session.workspace.infer_shapes)
    except (C2StepError, RuntimeError):
        return Estimate(0, 0, 0)
    sizes: List[int] = []
    outputs = 0
    for op in session.model.predict_net.operators:
        for name in op.outputs:
            if (types and op.type not in types) or (match and not re.search(match, name)):
                continue
            outputs += 1
            shape, dtype = inferred.get(name, ([], 0))
            if dtype in _SIZES:
                sizes.append(_elements(shape) * _SIZES[dtype] + _HEADER)
    return Estimate(outputs, len(sizes), sum(sizes))


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for dim in shape:
        count *= max(int(dim), 0)
    return count


def memory_lines(session: Session, limit: int) -> List[str]:
    """What to say of memory before a run within a limit."""
    there = session.memory()
    need = estimate(session)
    said = "memory: the worker holds %s, at most %s" % (size_text(there), size_text(limit))
    if not need.known:
        return [said]
    known = "%d of %d blobs have inferred shapes" % (need.known, need.outputs)
    lines = ["%s; blobs of the run take about %s (%s)" % (said, size_text(need.nbytes), known)]
    if there + need.nbytes > limit:
        lines.append("warning: that is more than the limit; the run will stop at the operator that needs more")
    return lines
