"""`c2step expose`: an ONNX file whose inner values are outputs too, for any other runtime."""

import os
from typing import List, NamedTuple, Optional, Sequence

from ..errors import UsageError
from .engine import Engine, Shown

__all__ = ["Exposed", "expose"]


class Exposed(NamedTuple):
    """What was written: the new outputs after the old ones, and those of unknown type or rank."""

    path: str
    outputs: List[str]
    names: List[str]
    untyped: List[str]

    def text(self) -> str:
        """In words, for the command line."""
        said = "%s: %d values are outputs now, after the %d that were" % (self.path, len(self.names), len(self.outputs))
        if self.untyped:
            said += "\nno type is known for %s: onnxruntime finds it out, onnx.checker wants it stated" % ", ".join(
                self.untyped
            )
        return said


def expose(
    model: str,
    out: str,
    python: str,
    types: Optional[Sequence[str]] = None,
    match: Optional[str] = None,
    every: bool = False,
    shown: Optional[Shown] = None,
) -> Exposed:
    """Write `out`, a copy of `model` in which the chosen values are outputs too.

    `types` are ONNX operator types, `match` is a regular expression that a name must contain, `every`
    takes all values.  The original outputs come first and are as they were.  Weights in external files
    are written beside `out`.  Runs in the interpreter `python`, which needs onnx alone.
    """
    _check(types, match, every)
    with Engine(python, "onnx_engine", "onnx", shown) as engine:
        done = engine.ask(
            {
                "do": "expose",
                "model": os.path.abspath(model),
                "out": os.path.abspath(out),
                "types": list(types) if types else None,
                "match": match,
            }
        )
    return Exposed(out, done["outputs"], done["names"], done["untyped"])


def _check(types: Optional[Sequence[str]], match: Optional[str], every: bool) -> None:
    import re

    if not (types or match or every):
        raise UsageError("nothing was chosen to be exposed", "give --type Conv,Gemm, --match REGEX or --all")
    try:
        re.compile(match or "")
    except re.error as error:
        raise UsageError("--match %s is no regular expression: %s" % (match, error)) from error
