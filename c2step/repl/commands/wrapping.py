"""Commands that do something whenever operators of a type run: save, check, call."""

from typing import Any, Iterable, Optional

from ...hooks import load_hook
from ...wraps import CHECKS, condition_of
from ..context import Context
from ..lexer import Token
from ..registry import command
from ..types import Candidate, FilePath, Folder, OperatorType, Rest
from .stopping import wraps_text


class Check(Rest):
    """What a wrap checks."""

    label = "CHECK"
    about = "nan, range, range:LOW:HIGH or reference"
    raw = False

    @classmethod
    def parse(cls, token: Token, context: Context) -> Any:
        condition_of(token.text, "")  # raises where there is no such check
        return cls(token.text)

    @classmethod
    def candidates(cls, typed: str, context: Context) -> Iterable[Candidate]:
        return [Candidate(word, word) for word in CHECKS]


class Function(FilePath):
    """A function of the user's."""

    label = "FILE.py:FUNCTION"
    about = "a Python function that takes a c2step.hooks.Call and may return {blob: array}"


@command()
def wrap(
    context: Context,
    type: OperatorType,
    *,
    save: Optional[Folder] = None,
    check: Optional[Check] = None,
    call: Optional[Function] = None,
) -> str:
    """Do something whenever an operator of a type runs; without an option, save what it reads and writes.

    wrap Conv --save out/          each Conv leaves its inputs and outputs as .npy files in out/
    wrap '*' --check nan           stop after an operator that gives a NaN or Inf
    wrap Softmax --check range     stop where values are outside what the type (else float16) can give
    wrap Conv --check reference    stop where an output is not close to the loaded golden value
    wrap Relu --call my.py:clip    call a function with the arrays; what it returns takes the place of outputs
    """
    hook = load_hook(call, type) if call is not None else None
    context.session.wrap(type, save, check or "", hook)
    return wraps_text(context)


@command()
def unwrap(context: Context, type: OperatorType) -> str:
    """Take a wrap of a type away."""
    context.session.unwrap(type)
    return wraps_text(context)
