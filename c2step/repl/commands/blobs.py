"""Commands that look at blobs."""

import glob
from typing import List, Optional, Tuple

from ...blob import MISSING, Blob, BlobSummary
from ...errors import UsageError
from ...render import blob_label, blob_rows, quote, shape_text, stats_rows, summary_lines, values_text
from ..context import Context
from ..registry import command
from ..types import BlobPattern, BlobRef


@command()
def blobs(context: Context, pattern: Optional[BlobPattern] = None) -> str:
    """List the blobs that are there, with their version, dtype and shape.

    blobs conv       those with conv in their name
    blobs 'conv?'    those whose whole name fits a pattern with * or ?
    """
    found = _found(context, pattern)
    return "\n".join(_marked(context, found, blob_rows(found))) or _none(pattern)


@command()
def stats(context: Context, pattern: Optional[BlobPattern] = None) -> str:
    """List the blobs that are there with min, max, mean, std, and how many zeros, NaN and Inf."""
    found = _found(context, pattern)
    return "\n".join(_marked(context, found, stats_rows(found))) if found else _none(pattern)


def _marked(context: Context, found: List[Tuple[str, int, BlobSummary]], lines: List[str]) -> List[str]:
    """The lines of blobs, the last ones of `lines`, with a mark at those that are old because of a patch or an edit."""
    dirty = context.session.dirty_blobs()
    heading = len(lines) - len(found)
    return lines[:heading] + [
        line + ("  *dirty" if name in dirty else "") for line, (name, _, _) in zip(lines[heading:], found)
    ]


def _found(context: Context, pattern: Optional[str]) -> List[Tuple[str, int, BlobSummary]]:
    if pattern and not any(mark in pattern for mark in "*?"):
        pattern = "*%s*" % glob.escape(pattern)
    return context.session.blobs(pattern or "")


def _none(pattern: Optional[str]) -> str:
    return "no blob that is there matches %s" % quote(pattern) if pattern else "no blob is there yet"


@command(aliases=("i", "p", "print"))
def inspect(context: Context, blobs: List[BlobRef], *, all: bool = False) -> str:
    """Show blobs: dtype, shape, min, max, mean, std, zeros, NaN and Inf counts, and values.

    inspect conv1            the value it has now
    inspect conv1@2          what its second write left
    inspect conv1[0, :5]     a part of it, with the figures of that part
    inspect conv1 --all      every value, none left out
    """
    return "\n\n".join(_screen(context, ref, all) for ref in blobs)


def _screen(context: Context, ref: BlobRef, everything: bool) -> str:
    session = context.session
    version = session.version(ref.name) if ref.version is None else ref.version
    whole = session.fetch(ref.name, ref.version)
    blob = part(whole, ref)
    heading = blob_label(ref.name, version) + ref.index_text
    if version == session.version(ref.name) and ref.name in session.dirty_blobs():
        heading += "  *dirty"
    if blob is not whole and whole.array is not None:
        heading += "  of %s" % shape_text(whole.array.shape)
    summary = session.summary(ref.name, ref.version) if blob is whole else blob.summary()
    return "\n".join(line for line in [heading, *summary_lines(summary), values_text(blob, everything)] if line)


def part(blob: Blob, ref: BlobRef) -> Blob:
    """The part of a blob that a reference names, the blob itself when it names no part."""
    if ref.index is None:
        return blob
    if blob.array is None and blob.kind == MISSING:
        raise UsageError("%s has no value yet, so it has no part %s" % (blob_label(ref.name), ref.index_text))
    if blob.array is None:
        raise UsageError("%s holds no array, so it has no part %s" % (blob_label(ref.name), ref.index_text))
    try:
        return blob.part(ref.index)
    except IndexError as error:
        raise UsageError("%s does not fit the shape %s: %s" % (ref, shape_text(blob.array.shape), error)) from None
