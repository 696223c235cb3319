"""Commands that compare."""

from typing import Dict, List, Optional, Tuple

from ...blob import TENSOR, Blob
from ...compare.comparison import Comparison
from ...compare.metrics import compare_blobs
from ...compare.tolerance import Tolerance
from ...compare.verdict import Verdict
from ...errors import ExitStatus
from ...render import number, quote, table
from ..arrays import read_value
from ..context import Context
from ..registry import Result, command
from ..types import BlobRef, Number, Operand
from .blobs import part

RTOL, ATOL = 1e-3, 1e-5
STATUSES: Dict[Verdict, Optional[ExitStatus]] = {
    Verdict.PASS: None,
    Verdict.FAIL: ExitStatus.DIFFERS,
    Verdict.INCONCLUSIVE: ExitStatus.INCONCLUSIVE,
}


@command(aliases=("cmp",))
def compare(
    context: Context,
    blob: BlobRef,
    reference: Optional[Operand] = None,
    *,
    rtol: Optional[Number] = None,
    atol: Optional[Number] = None,
) -> Result:
    """Compare a blob with a file, with another blob, or with the loaded reference.

    Values are close where |difference| <= atol + rtol * |reference|.

    compare conv1                       its golden value, after `reference SPEC`
    compare conv1 golden.npy            a file
    compare conv1 golden.npz            its array conv1
    compare conv1 captured/             the same blob in a capture
    compare relu1[0] relu1@1[0]         a part of one version with that of another

    Without --rtol and --atol: 0.001 and 1e-05 for floats, half a quantum for Int8, integers exactly.
    """
    whole = context.session.fetch(blob.name, blob.version)
    other, label = _reference(context, blob, whole, reference)
    actual = part(whole, blob)
    found = compare_blobs(actual, other, _tolerance([actual, other], rtol, atol))
    reason = found.reason or ("equal" if found.equal else "")
    heading = "%s against %s: %s  %s" % (blob, label, found.verdict, reason)
    return Result("\n".join([heading.rstrip(), *_figures(found)]), status=STATUSES[found.verdict])


def _reference(context: Context, blob: BlobRef, whole: Blob, reference: Optional[Operand]) -> Tuple[Blob, str]:
    if reference is None:
        against = context.loaded()
        return part(against.value(blob.name, blob.version), blob), quote(against.label)
    if reference.blob is not None:
        named = reference.blob
        return part(context.session.fetch(named.name, named.version), named), str(named)
    value = read_value(context, reference.path or "", blob.name)
    same = value.array is not None and whole.array is not None and value.array.shape == whole.array.shape
    if blob.index is None or not same:
        return value, quote(reference.path or "")
    return part(value, blob), quote(reference.path or "") + blob.index_text  # the slice is meant for both


def _tolerance(blobs: List[Blob], rtol: Optional[float], atol: Optional[float]) -> Optional[Tolerance]:
    given = rtol is not None or atol is not None
    floats = all(b.kind == TENSOR and b.array is not None and b.array.dtype.kind == "f" for b in blobs)
    if not (given or floats):
        return None
    return Tolerance(
        RTOL if rtol is None else rtol,
        ATOL if atol is None else atol,
        "given" if given else "default of compare",
        not given,
    )


def _figures(found: Comparison) -> List[str]:
    rows: List[List[str]] = []
    if found.max_abs is not None:
        rows += [
            ["compared", "%d values, %d bad" % (found.compared, found.bad)],
            ["tolerance", "rtol %g  atol %g" % (found.rtol, found.atol)],
            ["max |d|", number(found.max_abs)],
            ["max rel", number(found.max_rel)],
            ["rel L2", number(found.rel_l2)],
            ["cosine", number(found.cosine)],
            ["mean d", number(found.mean)],
        ]
    if found.worst is not None and not found.equal:
        rows.append(
            [
                "worst",
                "at %s: %s, reference %s"
                % (list(found.worst), _value(found.worst_actual), _value(found.worst_reference)),
            ]
        )
    for word, ours, theirs in (("NaN", found.nan, found.reference_nan), ("Inf", found.inf, found.reference_inf)):
        if ours or theirs:
            rows.append([word, "%d, reference %d" % (ours, theirs)])
    return table(rows + [["note", note] for note in found.notes])


def _value(value: object) -> str:
    return number(value) if isinstance(value, (int, float)) else str(value)
