"""Commands that cut operators out."""

from typing import Optional

from ...errors import ExitStatus, UsageError
from ...reproducing import make_repro
from ..context import Context
from ..registry import Result, command
from ..types import Folder, OperatorPattern


@command()
def repro(context: Context, where: Optional[OperatorPattern] = None, *, output: Folder) -> Result:
    """Cut an operator out with what it read and wrote, so that it runs on its own, and run it.

    repro -o crash             the operator that failed or died, else the last one that ran
    repro conv1 -o conv1-only  the operator that writes conv1, with the others of its ONNX node
    repro 4-9 -o part          a range

    Golden values are those of the loaded reference.
    """
    session = context.session
    if where is None:
        stands_at_failure = session.status(session.position) in ("F", "D")
        if not (stands_at_failure or session.steps):
            raise UsageError("nothing has run yet")
        where = OperatorPattern(str(session.position if stands_at_failure else session.steps[-1].index))
    against = context.against
    found = make_repro(session, where, output, against.reference if against else None)
    text = "\n".join([str(found)] + ["note: %s" % note for note in found.notes])
    return Result(text, status=None if found.reproduces else ExitStatus.DIFFERS)
