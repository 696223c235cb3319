"""Commands that show blobs after each stop."""

from typing import List, Optional

from ...errors import C2StepError
from ...render import blob_label, summary_line, table, values_text
from ..context import Context
from ..registry import command
from ..types import BlobRef, Count
from .blobs import part


@command()
def display(context: Context, blob: Optional[BlobRef] = None) -> str:
    """Show a blob, or a part of it, now and after each stop.

    display conv1            its figures
    display conv1[0, :5]     a part of it, with its values
    """
    if blob is None:
        return "\n".join(display_lines(context)) or displays_text(context)
    context.displays.add(blob)
    return "\n".join(_lines(context, *context.displays.all[-1]))


@command()
def undisplay(context: Context, number: Optional[Count] = None) -> str:
    """Show a blob after stops no more, or none of them."""
    known: List[int] = [shown for shown, _ in context.displays.all]
    for each in known if number is None else [number]:
        context.displays.remove(each)
    return displays_text(context)


def displays_text(context: Context) -> str:
    """What is displayed."""
    return "\n".join(table([[str(number), str(ref)] for number, ref in context.displays.all])) or "nothing is displayed"


def display_lines(context: Context) -> List[str]:
    """What the displays show now."""
    return [line for number, ref in context.displays.all for line in _lines(context, number, ref)]


def _lines(context: Context, number: int, ref: BlobRef) -> List[str]:
    session = context.session
    try:
        if not session.history.exists(ref.name):
            return ["%d: %s  no value yet" % (number, ref)]
        blob = part(session.fetch(ref.name, ref.version), ref)
    except C2StepError as error:
        return ["%d: %s  %s" % (number, ref, error.message)]
    version = session.version(ref.name) if ref.version is None else ref.version
    head = "%d: %s%s  %s" % (number, blob_label(ref.name, version), ref.index_text, summary_line(blob.summary()))
    return [head] + ([values_text(blob)] if ref.index is not None else [])
