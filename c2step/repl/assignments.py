"""Arguments of the form `NAME = VALUE`: what `patch`, `edit` and `try` take."""

import ast
import re
from typing import Any, Iterable, List, Tuple

from ..errors import UsageError
from ..render import quote
from ..workspace import Change
from .context import Context
from .lexer import Token, next_word
from .types import ArgumentType, BlobName, BlobRef, Candidate, Where

__all__ = ["ArgumentChange", "ArgumentValues", "BlobValue", "OptionalWhere"]

_EQUALS = re.compile(r"\s*=(?!=)\s*")
_BARE = re.compile(r"(.*?)\s*=(?!=)\s*", re.DOTALL)
_WORDS = {"true": 1, "false": 0}


class BlobValue(ArgumentType):
    """`BLOB[SLICE] = VALUE`."""

    label = "BLOB[SLICE] = VALUE"
    about = "a blob, perhaps a part of it, and a .npy or .npz file, the word reference, or a Python expression"
    raw = True

    def __init__(self, ref: BlobRef, text: str) -> None:
        self.ref = ref
        self.text = text

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        word, rest = _split(token.text)
        if not rest:
            raise UsageError("%s has no value" % quote(word.text), "usage: patch %s" % cls.label)
        return cls(BlobRef.parse(word, context), rest)

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return BlobName.candidates(typed, context)


def _split(text: str) -> Tuple[Token, str]:
    """The word before the first `=`, and what stands after it."""
    word = next_word(text, 0)
    equals = _EQUALS.match(text, word.end)
    if equals:
        return word, text[equals.end() :].strip()
    bare = _BARE.match(text)
    if word.quoted or not bare:
        raise UsageError("%s has no =" % quote(text), "write NAME = VALUE")
    name = next_word(bare.group(1), 0)
    return name, text[bare.end() :].strip()


class OptionalWhere(Where):
    """An operator, left out where the word is an assignment."""

    @classmethod
    def accepts(cls, token: Token) -> bool:
        return bool(token.quoted) or "=" not in token.text


class ArgumentChange(ArgumentType):
    """A change of an operator: `pads=1,1,1,1`, `input:0=x`, `type=Relu`, `engine=`."""

    label = "NAME=VALUE"
    about = (
        "an argument and its value (pads=1,1,1,1; order=NHWC; kernel= takes it away), "
        "input:0=BLOB, type=TYPE or engine=NAME"
    )

    def __init__(self, change: Change) -> None:
        self.change = change

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        name, text = _name_and_text(token.text)
        return cls(_change(name, _literal(text) if text else None, context))

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return _argument_names(context)


class ArgumentValues(ArgumentType):
    """A change with several values to try: `pads=0,1,2`, `pads=[0,0,1,1],[1,1,1,1]`."""

    label = "NAME=V1,V2"
    about = "as for edit, with values that commas separate; a list stands in brackets: pads=[0,0,1,1],[1,1,1,1]"

    def __init__(self, changes: List[Tuple[str, List[Change]]]) -> None:
        self.changes = changes

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        name, text = _name_and_text(token.text)
        words = _separated(text)
        if not words:
            raise UsageError("%s has no values" % quote(token.text), "write %s" % cls.label)
        return cls([("%s=%s" % (name, word), [_change(name, _literal(word), context)]) for word in words])

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return _argument_names(context)


def _argument_names(context: Context) -> List[Candidate]:
    """The arguments that operators of the net have."""
    names = dict.fromkeys(arg.name for op in context.net.operators for arg in op.arguments if arg.kind != "net")
    return [Candidate(word + "=", word + "=") for word in [*names, "input:0", "type", "engine"]]


def _name_and_text(text: str) -> Tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError("%s is no NAME=VALUE" % quote(text), "such as pads=1,1,1,1, input:0=x or type=Relu")
    _check_brackets(value.strip())
    return name.strip(), value.strip()


def _check_brackets(text: str) -> None:
    """UsageError where a list is not closed, closed twice, or holds a list: no argument of Caffe2 does."""
    opened = ""
    for char in text:
        if char in "[(":
            if opened:
                raise UsageError("%s: a list holds no other list" % quote(text), "such as pads=[0,0,1,1]")
            opened = char
        elif char in "])":
            if opened + char not in ("[]", "()"):
                raise UsageError("%s: nothing is open where %s stands" % (quote(text), char), "such as pads=[0,0,1,1]")
            opened = ""
    if opened:
        raise UsageError("%s: the bracket %s is not closed" % (quote(text), opened), "such as pads=[0,0,1,1]")


def _change(name: str, value: Any, context: Context) -> Change:
    kind, colon, position = name.partition(":")
    if kind == "input" and colon:
        if not position.isdigit():
            raise UsageError("input:%s is no position" % position, "input:0=BLOB is the first input")
        return ("input", position, BlobRef.parse(Token(str(value), 0, 0), context).name)
    if colon:
        raise UsageError("%s cannot be changed" % name, "arguments, input:0=BLOB, type and engine can be")
    if name == "type":
        if not value:
            raise UsageError("type= names no operator type")
        return ("type", "", str(value))
    return ("engine", "", str(value or "")) if name == "engine" else ("arg", name, value)


def _literal(text: str) -> Any:
    """A number, a list of numbers or words, or the word itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    listed = text[:1] in ("[", "(") and text[-1:] in ("]", ")")
    parts = _separated(text[1:-1] if listed else text)
    if listed or len(parts) > 1:
        return [_literal(part) for part in parts]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, (int, float, str)) else text


def _separated(text: str) -> List[str]:
    """Split at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "[(") - (char in "])")
        if char == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in parts + [text[start:].strip()] if part]
