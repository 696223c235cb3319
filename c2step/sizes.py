"""Numbers in words: bytes as people write them (1000, 64k, 200M, 2G), and counts of things."""

from .errors import UsageError

__all__ = ["counted", "parse_size", "size_text"]

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def counted(count: int, word: str) -> str:
    """`1 operator`, `2 operators`."""
    return "%d %s%s" % (count, word, "" if count == 1 else "s")


def parse_size(text: str) -> int:
    """The number of bytes that a text means; UsageError where it means none."""
    unit = text[-1:].lower()
    number = text[:-1] if unit in "kmgt" and unit else text
    try:
        found = int(float(number) * _UNITS[unit if unit in "kmgt" else ""])
    except (ValueError, KeyError, OverflowError):
        found = -1
    if found < 0:
        raise UsageError("%s is no size" % (text or "an empty word"), "1000, 64k, 200M or 2G is wanted")
    return found


def size_text(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return "%.3g %s" % (count, unit)
        count /= 1000
    return "%.3g GB" % count
