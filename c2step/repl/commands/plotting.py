"""Pictures of blobs at the prompt."""

import os
from typing import Any, Optional, Tuple

import numpy as np

from ...blob import STRING, Blob
from ...errors import UsageError
from ...pictures.maps import choose, difference_of, difference_png, finite_range, values_png
from ...pictures.palettes import DIVERGING, SEQUENTIAL
from ...pictures.plots import save_plot
from ...pictures.text import histogram_text, inline_image, line_text, map_colours, map_text
from ...render import quote, shape_text
from ..arrays import read_value
from ..context import Context
from ..lexer import Token
from ..registry import command
from ..types import BlobRef, Choice, FilePath, Operand
from .blobs import part


class PlotKind(Choice):
    """How to draw."""

    label = "KIND"
    about = "hist, map (feature maps), heat (rows and columns), line (the values in order) or diff (from the reference)"
    choices = ("hist", "map", "heat", "line", "diff")

    @classmethod
    def accepts(cls, token: Token) -> bool:
        return token.text in cls.choices and not token.quoted


@command()
def plot(
    context: Context,
    blob: BlobRef,
    kind: Optional[PlotKind] = None,
    *,
    output: Optional[FilePath] = None,
    against: Optional[Operand] = None,
) -> str:
    """Draw a blob, in the terminal or into a file.

    plot conv1                          its first feature map; a line or rows where it has no maps
    plot conv1[0, 3] heat               one channel
    plot fc1 hist -o fc1.png            a histogram as a picture (.png, .svg, .pdf; needs matplotlib)
    plot conv1 diff                     the difference to its golden value, after `reference SPEC`
    plot conv1 diff --against golden/   to a file, a capture or another blob
    plot conv1 map --against relu1      both, beside each other or in one picture
    """
    value = part(context.session.fetch(blob.name, blob.version), blob)
    array = _numbers(value, str(blob))
    chosen = str(kind or _fitting(array))
    reference, label = _reference(context, blob, against, array, chosen)
    title = "%s  %s" % (
        blob if chosen != "diff" else "%s - %s, the difference" % (blob, label),
        shape_text(array.shape),
    )
    if chosen == "diff" and reference is not None and not difference_of(array, reference).any():
        title += "  equal"
    if output is not None:
        save_plot(chosen, array, output, title, reference, (str(blob), label))
        return "wrote %s%s" % (quote(output), ": equal" if title.endswith("equal") else "")
    if reference is None or chosen == "diff":
        return "%s\n%s" % (title, _text(context, chosen, array, reference))
    other = "%s  %s\n%s" % (label, shape_text(array.shape), _text(context, chosen, reference, None))
    return "%s\n%s\n%s" % (title, _text(context, chosen, array, None), other)


def _numbers(blob: Blob, label: str) -> np.ndarray:
    array = blob.real()
    if array is None or blob.kind == STRING or not array.size:
        raise UsageError(
            "%s holds no numbers to draw: %s" % (label, blob.text or blob.kind if array is None else "empty")
        )
    return np.asarray(array)


def _reference(
    context: Context, blob: BlobRef, against: Optional[Operand], array: np.ndarray, kind: str
) -> Tuple[Optional[np.ndarray], str]:
    """What to draw beside the blob, and its name; for `diff` the loaded golden values where nothing is named."""
    if against is None and kind != "diff":
        return None, ""
    if against is None:
        if context.against is None:
            raise UsageError(
                "diff needs something to compare with",
                "plot %s diff --against FILE, CAPTURE or BLOB; or load golden values: reference SPEC" % blob,
            )
        found, label = part(context.against.value(blob.name, blob.version), blob), quote(context.against.label)
    else:
        found, label = _named(context, blob, against, array), str(against)
    reference = _numbers(found, label)
    if reference.shape != array.shape:
        raise UsageError("%s is %s, %s is %s" % (blob, shape_text(array.shape), label, shape_text(reference.shape)))
    return reference, label


def _named(context: Context, blob: BlobRef, against: Operand, array: np.ndarray) -> Blob:
    if against.blob is not None:
        found = part(context.session.fetch(against.blob.name, against.blob.version), against.blob)
    else:
        found = read_value(context, against.path or "", blob.name)
        if found.array is not None and found.array.shape != array.shape:
            found = part(found, blob)
    return found


def _fitting(array: np.ndarray) -> str:
    return "line" if choose(array.shape, 1) is None else "map" if array.ndim > 2 else "heat"


def _text(context: Context, kind: str, array: np.ndarray, reference: Optional[np.ndarray]) -> str:
    plain = not _is_unicode(context)
    if kind == "diff":
        array = difference_of(array, np.asarray(reference))
        kind = "map" if choose(array.shape, 1) else "line"
        return _maps(context, array, plain, True) if kind == "map" else line_text(array, plain=plain)
    if kind == "hist":
        return histogram_text(array, plain=plain)
    if kind == "line":
        return line_text(array, plain=plain)
    if kind == "map" and choose(array.shape, 1):
        return _maps(context, array, plain, False)
    return map_text(array.reshape(-1, array.shape[-1] if array.ndim else 1), plain=plain)


def _maps(context: Context, array: np.ndarray, plain: bool, apart: bool) -> str:
    """Pictures where the terminal can show them, else the first map in characters."""
    chosen = choose(array.shape, 16)
    assert chosen is not None
    maps = chosen.take(array)
    low, high = finite_range(maps)
    png = difference_png(maps, max(abs(low), abs(high)) or 1.0) if apart else values_png(maps, low, high)
    image = inline_image(png, os.environ) if context.environment.is_tty else ""
    if image:
        return "%s\n%d of %d maps, %.5g to %.5g" % (image, len(maps), chosen.total, low, high)
    words = "map %s of %d" % (chosen.labels()[0], chosen.total)
    low, high = finite_range(maps[0])
    limit = max(abs(low), abs(high)) or 1.0
    if context.environment.colour and not plain:
        drawn = (
            map_colours(maps[0], (-limit, limit), DIVERGING) if apart else map_colours(maps[0], (low, high), SEQUENTIAL)
        )
    elif apart:
        words, drawn = words + ", |difference|", map_text(np.abs(maps[0]), (0.0, limit), plain=plain)
    else:
        drawn = map_text(maps[0], plain=plain)
    return words + "\n" + drawn


def _is_unicode(context: Context) -> bool:
    encoding: Any = getattr(context.environment.stdout, "encoding", None)
    return "utf" in str(encoding or "utf-8").lower()
