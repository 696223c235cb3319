"""What is said at a stop beside what ran: shared storage, comparisons with golden values, displays."""

from typing import TYPE_CHECKING, Dict, FrozenSet, List, Optional, Tuple

from ..compare.verdict import Tally, Verdict
from ..errors import ExitStatus
from ..render import blob_label, quote, table
from .budgets import budget_lines
from .commands.displaying import display_lines
from .context import Context

if TYPE_CHECKING:
    from ..compare.against import Row
    from ..stepper import Stop

__all__ = ["at_stop"]

SHOWN = 12  # comparisons, from the last; those that fail come first


def at_stop(context: Context, stop: "Stop") -> Tuple[List[str], Optional[ExitStatus]]:
    """Lines to say at a stop, and the exit status that the comparisons stand for."""
    compared, status = _compared(context, stop)
    said = _shared(stop) + _patched(context, stop) + budget_lines(context, stop)
    return said + compared + display_lines(context), status


def _shared(stop: "Stop") -> List[str]:
    """Blobs that came to share storage."""
    seen: Dict[FrozenSet[str], str] = {}
    for step in stop.steps:
        for name, other in step.shares:
            seen.setdefault(frozenset((name, other)), "%s shares its storage with %s: who changes one changes both" % (
                quote(name), quote(other)))  # fmt: skip
    return list(seen.values())


def _patched(context: Context, stop: "Stop") -> List[str]:
    """The patches that took the place of what was written."""
    session = context.session
    count = len(session.steps)
    ran = sum(step.status == "ok" for step in stop.steps)
    return [
        "%s is live, the patch %s" % (blob_label(patch.name, version), patch)
        for patch, version in session.changes.laid_in(count - ran, count)
    ]


def _compared(context: Context, stop: "Stop") -> Tuple[List[str], Optional[ExitStatus]]:
    against = context.against
    if against is None or not against.of(context.session) or not stop.steps:
        return [], None
    rows = list(against.rows(stop.steps))
    if not rows:
        return [], None
    tally = Tally()
    for row in rows:
        tally.add(row.comparison.verdict, row.comparison.reason)
    bad = [row for row in rows if row.comparison.verdict is Verdict.FAIL]
    shown = bad[:SHOWN] + [row for row in rows[-SHOWN:] if row not in bad][: max(0, SHOWN - len(bad))]
    shown.sort(key=lambda row: row.step.tick)
    heading = "against %s" % quote(against.label)
    if len(shown) < len(rows):
        heading += ": %d compared, %d differ" % (tally.compared, tally.failed)
        heading += ", the first is %s" % bad[0].step.operator if bad else ""
    failed = ExitStatus.DIFFERS if bad else None
    return [heading, *table([_cells(row) for row in shown], right=[1])], failed


def _cells(row: "Row") -> List[str]:
    found = row.comparison
    label = blob_label(row.output.name, row.output.version)
    figures = [found.reason] if found.reason else ["equal"] if found.equal else []
    return ["!" if found.verdict is Verdict.FAIL else " ", str(row.step.index), label, str(found.verdict),
            "  ".join(figures + found.figures())]  # fmt: skip
