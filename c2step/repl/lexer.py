"""Lines into commands and tokens.

`;` separates commands, `#` at the start of a word begins a comment, a word in '...' or "..." may
hold anything, with the escapes \\n \\t \\r \\0 \\\\ \\' \\" \\xHH \\uHHHH \\UHHHHHHHH.  A slice such as
`[0, :5]` belongs to the word before it, spaces and all.  After `!` the rest of the line is Python.
"""

import re
from typing import List, NamedTuple, Tuple

from ..errors import UsageError

__all__ = ["Token", "last_command", "next_word", "rest_of", "split_commands", "tokenize"]

_SLICE = re.compile(r"\[(?:[-+\d\s:,.]|None)*\]")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", "'": "'", '"': '"'}
_CODES = {"x": 2, "u": 4, "U": 8}


class Token(NamedTuple):
    """A word of a command, with quotes taken off; `quoted` counts the leading characters that stood in quotes."""

    text: str
    start: int
    end: int
    quoted: int = 0
    open_quote: str = ""

    @property
    def is_option(self) -> bool:
        """Whether it is `--name`, which a quoted word never is."""
        return self.text.startswith("--") and len(self.text) > 2 and not self.quoted


def split_commands(line: str) -> List[str]:
    """The commands of a line, without comments and empty ones."""
    return [command.strip() for command in _commands(line) if command.strip()]


def last_command(line: str) -> str:
    """The command that is being typed at the end of a line."""
    return _commands(line)[-1].lstrip()


def _commands(line: str) -> List[str]:
    commands, start, at = [], 0, 0
    while at < len(line):
        if line[at] == "!" and not line[start:at].strip():
            at = len(line)
        elif line[at] == "#" and _starts_word(line, start, at):
            commands.append(line[start:at])
            start = at = len(line)
        elif line[at] == ";":
            commands.append(line[start:at])
            start = at = at + 1
        else:
            at = _after_quote(line, at) if line[at] in "'\"" else at + 1
    return commands + [line[start:]]


def _starts_word(line: str, start: int, at: int) -> bool:
    return at == start or line[at - 1].isspace()


def _after_quote(line: str, at: int) -> int:
    return _quoted(line, at)[1]


def tokenize(text: str, unfinished: bool = False) -> List[Token]:
    """The words of one command; `unfinished` lets the last quote stay open, as it is while typing."""
    tokens: List[Token] = []
    at = _skip_space(text, 0)
    while at < len(text):
        tokens.append(_token(text, at) if unfinished else next_word(text, at))
        at = _skip_space(text, tokens[-1].end)
    return tokens


def next_word(text: str, at: int) -> Token:
    """The word that begins at or after a position; UsageError for a quote that is not closed."""
    token = _token(text, _skip_space(text, at))
    if token.open_quote:
        raise UsageError(
            "a quote %s is not closed" % token.open_quote, "close it, or put the word in the other kind of quotes"
        )
    return token


def rest_of(text: str, at: int) -> Token:
    """Everything from a position on, as it stands."""
    return Token(text[at:].strip(), at, len(text))


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _token(text: str, start: int) -> Token:
    parts: List[str] = []
    at, quoted, open_quote = start, 0, ""
    while at < len(text) and not text[at].isspace():
        if text[at] in "'\"":
            quote, first = text[at], at == start
            part, at, closed = _quoted(text, at)
            quoted, open_quote = len(part) if first else quoted, "" if closed else quote
        else:
            part, at = _bare(text, at)
        parts.append(part)
    return Token("".join(parts), start, at, quoted, open_quote)


def _bare(text: str, at: int) -> Tuple[str, int]:
    match = _SLICE.match(text, at) if text[at] == "[" else None
    end = match.end() if match else at + 1
    return text[at:end], end


def _quoted(text: str, start: int) -> Tuple[str, int, bool]:
    """What stands between quotes, where it ends, and whether the quote is closed."""
    quote, at = text[start], start + 1
    chars: List[str] = []
    while at < len(text):
        if text[at] == quote:
            return "".join(chars), at + 1, True
        char, at = _escaped(text, at) if text[at] == "\\" else (text[at], at + 1)
        chars.append(char)
    return "".join(chars), at, False


def _escaped(text: str, at: int) -> Tuple[str, int]:
    kind = text[at + 1 : at + 2]
    if kind in _SIMPLE and kind:
        return _SIMPLE[kind], at + 2
    digits = text[at + 2 : at + 2 + _CODES.get(kind, 0)]
    if digits and len(digits) == _CODES[kind] and re.match(r"[0-9A-Fa-f]+$", digits) and int(digits, 16) < 0x110000:
        return chr(int(digits, 16)), at + 2 + len(digits)
    return "\\", at + 1  # an unknown escape stays as it is
