"""Commands that compare."""

from typing import Dict, List, Optional, Tuple

from ...blob import Blob
from ...compare.comparison import Comparison
from ...compare.metrics import compare_blobs
from ...compare.tolerance import Rule, Tolerance, Tolerances
from ...compare.verdict import Verdict
from ...errors import ExitStatus
from ...render import number, quote, table
from ..arrays import read_value
from ..context import Context
from ..registry import Result, command
from ..types import BlobRef, Number, Operand
from .blobs import part

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

    compare conv1                       its golden value, after `reference SPEC`
    compare conv1 golden.npy            a file
    compare conv1 golden.npz            its array conv1
    compare conv1 captured/             the same blob in a capture
    compare relu1[0] relu1@1[0]         a part of one version with that of another

    Values are close where |difference| <= atol + rtol * |reference| + slack.  The tolerance is the session's (c2step
    --rtol, --atol, --tolerance; else 0.001 and 1e-06 for float32, half a quantum for Int8, integers exactly), as at
    stops, in conditions and in blame.  The slack is the rounding that the rest of the blob shows, for values near zero.
    max rel is the largest |difference| / |reference| where the reference is not 0, as numpy.testing has it.
    """
    whole = context.session.fetch(blob.name, blob.version)
    other, label = _reference(context, blob, whole, reference)
    actual = part(whole, blob)
    found = compare_blobs(actual, other, _tolerance(context, blob, actual, other, Rule("*", rtol, atol)))
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
    label = quote(reference.path or "") + (", its only array %s" % quote(value.name) if value.name != blob.name else "")
    same = value.array is not None and whole.array is not None and value.array.shape == whole.array.shape
    if blob.index is None or not same:
        return value, label
    return part(value, blob), label + blob.index_text  # the slice is meant for both


def _tolerance(context: Context, ref: BlobRef, actual: Blob, other: Blob, given: Rule) -> Tolerance:
    """The tolerance that a stop would take for this blob, with the numbers that were given in its place."""
    session = context.session
    version = session.version(ref.name) if ref.version is None else ref.version
    wanted = (ref.name, version)
    writer = next((s for s in reversed(session.steps) if wanted in [(o.name, o.version) for o in s.written]), None)
    type_, quanta = (writer.operator.type, session.history.quanta(writer)) if writer else ("", [])
    found = (context.tolerances or Tolerances()).of(actual, other, type_, quanta)
    return found if given.rtol is None and given.atol is None else given.over(found)


def _figures(found: Comparison) -> List[str]:
    rows: List[List[str]] = []
    if found.max_abs is not None:
        rows += [
            ["compared", "%d values, %d bad" % (found.compared, found.bad)],
            ["tolerance", "rtol %g  atol %g  slack %.3g" % (found.rtol, found.atol, found.slack)],
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
