"""`conv1@2[0, :5]` taken apart, without evaluating anything."""

import re
from typing import Any, FrozenSet, Iterator, Optional, Tuple

from ..errors import UsageError

__all__ = ["Index", "parse_index", "split_reference"]

Index = Tuple[Any, ...]  # of int, slice, None and Ellipsis
Reference = Tuple[str, Optional[int], str]
_SUFFIX = re.compile(r"(?:@(\d{1,9}))?(\[[^\[\]]*\])?$")
_INTEGER = re.compile(r"\s*([-+]?\d{1,18})\s*$")
_HINT = "a slice holds integers, FIRST:LAST:STEP, ... and None: conv1[0, :5]"


def split_reference(text: str, quoted: int, known: FrozenSet[str]) -> Reference:
    """Name, version and slice text of a reference; the longest name that exists wins.

    The first `quoted` characters stood in quotes: they are the name.
    """
    suffix = _SUFFIX.match(text, quoted)
    if quoted and suffix:
        return text[:quoted], _version(suffix.group(1)), suffix.group(2) or ""
    cuts = list(_cuts(text))
    return next((cut for cut in cuts if cut[0] in known), cuts[-1])


def _version(digits: Optional[str]) -> Optional[int]:
    return int(digits) if digits else None


def _cuts(text: str) -> Iterator[Reference]:
    """Every way to take the text apart, the longest name first."""
    yield text, None, ""
    stem = text
    if text.endswith("]") and text.rfind("[") > 0:
        stem = text[: text.rfind("[")]
        yield stem, None, text[len(stem) :]
    name, _, version = stem.rpartition("@")
    if name and version.isdecimal() and len(version) < 10:
        yield name, int(version), text[len(stem) :]


def parse_index(text: str) -> Index:
    """The index that `[0, :5, ..., None]` stands for."""
    inner = text.strip()[1:-1]
    parts = inner.split(",")
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()  # [0,] as Python has it
    index = tuple(_part(part, text) for part in parts)
    if index.count(Ellipsis) > 1:
        raise UsageError("slice %s has more than one ..." % text, _HINT)
    return index


def _part(part: str, whole: str) -> Any:
    word = part.strip()
    if word in ("...", "None"):
        return Ellipsis if word == "..." else None
    if ":" not in word:
        return _integer(word, whole)
    bounds = word.split(":")
    if len(bounds) > 3:
        raise UsageError("slice %s has too many colons" % whole, _HINT)
    values = [_integer(bound, whole) if bound.strip() else None for bound in bounds]
    if len(values) == 3 and values[2] == 0:
        raise UsageError("slice %s has a step of 0" % whole, _HINT)
    return slice(*values)


def _integer(word: str, whole: str) -> int:
    match = _INTEGER.match(word)
    if not match:
        raise UsageError("slice %s cannot be read" % whole, _HINT)
    return int(match.group(1))
