"""Where to stop: `[WHERE] [if CONDITION]`."""

from typing import Any, Iterable, Tuple

from ..errors import UsageError
from ..render import quote
from .context import Context
from .lexer import Token, next_word
from .types import ArgumentType, BlobName, Candidate, Where, known_blob

__all__ = ["StopPlace", "WatchPlace"]


class StopPlace(ArgumentType):
    """Operators, and a condition that must hold after one."""

    label = "[WHERE] [if CONDITION]"
    about = "a WHERE or a pattern (* with a condition alone), and a condition"
    raw = True

    def __init__(self, where: str, condition: str) -> None:
        self.where = where
        self.condition = condition

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        where, condition = _split(token.text)
        return cls(where or "*", condition)

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return Where.candidates(typed, context)


class WatchPlace(StopPlace):
    """A blob, and a condition that must hold too."""

    label = "BLOB [if CONDITION]"
    about = "a blob, and a condition that must hold too"

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        where, condition = _split(token.text)
        return cls(known_blob(where, context), condition)

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return BlobName.candidates(typed, context)


def _split(text: str) -> Tuple[str, str]:
    """The word in front of `if`, and the condition behind it."""
    word = next_word(text, 0)
    if word.text == "if" and not word.quoted:
        where, rest = "", text[word.end :]
    else:
        where, rest = word.text, text[word.end :].strip()
        if not rest:
            return where, ""
        following = next_word(rest, 0)
        if following.text != "if" or following.quoted:
            raise UsageError("%s is one word too many" % quote(following.text), "a condition begins with if")
        rest = rest[following.end :]
    if not rest.strip():
        raise UsageError("no condition stands behind if", "such as nan, max > 10 or np.abs(conv1).max() > 3")
    return where, rest.strip()
