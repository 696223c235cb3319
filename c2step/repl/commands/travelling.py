"""Commands that move through what has run, and tell where values came from."""

from typing import TYPE_CHECKING, List, Optional

from ...errors import UsageError
from ...net import is_random, is_stateful
from ...render import blob_label, operator_line, quote, summary_line, table
from ...travel import Past, past_of, readers_of, writers_ahead
from ..context import Context
from ..registry import Result, command
from ..telling import stopped
from ..types import BlobName, BlobRef, Where, known_blob

if TYPE_CHECKING:
    from ...stepper import Session


@command()
def goto(context: Context, where: Where) -> Result:
    """Stand before an operator: go back to it, or run to it.

    What going back undoes is put back from the capture, bit for bit.

    goto 0         the beginning of this iteration
    goto conv1     before the operator that writes conv1
    """
    return stopped(context, context.session.goto(where))


@command(aliases=("rc", "reverse-continue"), repeats=True)
def rcontinue(context: Context) -> Result:
    """Go back to the last place where a breakpoint or a watch would have stopped, else to the beginning."""
    return stopped(context, context.session.rcontinue())


@command("who-wrote")
def who_wrote(context: Context, blob: BlobRef) -> str:
    """Say what wrote a blob: the operator, a feed, a patch, init_net.

    who-wrote relu1      the value that it has now
    who-wrote relu1@1    its first write
    """
    session = context.session
    version = session.version(blob.name) if blob.version is None else blob.version
    for past in _past(context, blob.name):
        if past.version == version:
            note = " (%s)" % past.note if past.note else ""
            lines = ["%s: %s%s" % (blob_label(blob.name, version), past.how, note)]
            return "\n".join(lines + ([operator_line(past.step.operator)] if past.step else []))
    ahead = writers_ahead(blob.name, session.history, session.model, session.position)
    if blob.version is not None or not ahead:
        known = ", ".join(blob_label(blob.name, v) for v in session.versions(blob.name)) or "none yet"
        raise UsageError("%s is not there" % blob_label(blob.name, version), "there is: %s" % known)
    return "nothing yet; it will be written by\n%s" % operator_line(ahead[0])


def _past(context: Context, name: str, of: Optional["Session"] = None) -> List[Past]:
    session = of or context.session
    found = past_of(name, session.history, session.model, list(session.inputs), session.changes.of)
    inside = next((each for each in context.frames.entered if each.session is session), None)
    if inside is not None and found and not found[0].version:
        outer = inside.outer
        there = [past.how for past in _past(context, name, outer) if past.version == outer.version(name)]
        how = "from outside, %s" % there[0] if there else "given to what is inside %s" % inside.operator
        found[0] = Past(0, how)
    return found


@command("who-reads")
def who_reads(context: Context, blob: BlobName) -> str:
    """List the operators that read a blob, and the version that each read."""
    session = context.session
    known_blob(blob, context)
    rows = [
        [session.status(found.operator.index), operator_line(found.operator), _read(blob, found.version)]
        for found in readers_of(blob, session.history, session.model)
    ]
    return "\n".join(table(rows)) or "no operator reads %s" % quote(blob)


def _read(name: str, version: object) -> str:
    return "not run" if not isinstance(version, int) else "read %s" % blob_label(name, version)


@command()
def history(context: Context, blob: BlobName) -> str:
    """List the versions of a blob: where each came from, what it is, and whether its bytes are kept.

    Marks: > the live one, ~ one that another run may give otherwise, since a random or stateful operator wrote it.
    """
    session = context.session
    known_blob(blob, context)
    rows: List[List[str]] = []
    for past in _past(context, blob):
        live = past.version == session.version(blob)
        op = past.step.operator if past.step else None
        inexact = op is not None and (is_random(op) or is_stateful(op))
        kept = live or session.history.is_kept(blob, past.version)
        said = summary_line(session.summary(blob, past.version)) if kept else "not kept"
        said += "  (%s)" % past.note if past.note else ""
        mark = (">" if live else "") + ("~" if inexact else "")
        rows.append([mark or " ", blob_label(blob, past.version), past.how, said])
    return "\n".join(table(rows)) or "%s has no value yet" % quote(blob)
