"""Commands that show blobs after each stop."""

from typing import Any, Iterable, List, Optional

from ...errors import C2StepError, UsageError
from ...render import blob_label, quote, summary_line, table, values_text
from ..context import Context
from ..lexer import Token
from ..registry import command
from ..types import ArgumentType, BlobRef, Candidate
from .blobs import part


class Displayed(ArgumentType):
    """What `display` shows: by number, or all of a blob."""

    label = "NUMBER|BLOB"
    about = "the number of a display, or its blob; `info display` shows them"

    def __init__(self, numbers: List[int]) -> None:
        self.numbers = numbers

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        known = context.displays.all
        if token.text.isdecimal() and int(token.text) in [number for number, _ in known]:
            return cls([int(token.text)])
        found = [number for number, ref in known if token.text in (ref.name, str(ref))]
        if not found:
            raise UsageError(
                "%s is not displayed" % quote(token.text), "displayed: %s" % (context.displays.text() or "nothing")
            )
        return cls(found)

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return [Candidate(str(ref), str(ref)) for _, ref in context.displays.all]


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
def undisplay(context: Context, which: Optional[List[Displayed]] = None) -> str:
    """Show blobs after stops no more, by the number of the display or by name; without any, none of them."""
    known: List[int] = [shown for shown, _ in context.displays.all]
    for each in dict.fromkeys(number for found in which for number in found.numbers) if which else known:
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
