"""Commands that run other commands, or Python."""

import ast
import contextlib
import io
import os
import traceback
from typing import Any, Dict, Iterator, Optional

import numpy as np

from ...errors import C2StepError, UsageError
from ...render import first_line, quote
from ..context import USER_CODE, Context
from ..registry import Result, command
from ..types import FilePath, PythonCode


@command(aliases=(".",))
def source(context: Context, file: FilePath) -> Iterator[Result]:
    """Run the commands of a file, one a line; `;` separates commands, `#` begins a comment.

    The first user error ends it.
    """
    try:
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError("cannot read %s: %s" % (quote(file), reason)) from None
    return context.interpreter.script(text.splitlines(), os.path.abspath(file))


@command("!")
def python(context: Context, code: PythonCode) -> str:
    """Run the rest of the line as Python: `!np.abs(blob('conv1')).max()`.

    `session` is the session, `np` numpy, `blob(NAME)` the array of a blob; names that you assign stay.
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = _evaluate(code, _namespace(context))
    shown = [printed.getvalue().rstrip("\n")] + ([repr(value)] if value is not None else [])
    return "\n".join(text for text in shown if text)


def _namespace(context: Context) -> Dict[str, Any]:
    def blob(name: str, version: Optional[int] = None) -> Any:
        return context.session.fetch(name, version).real()

    context.namespace.update(session=context.session, np=np, blob=blob)
    return context.namespace


def _evaluate(code: str, namespace: Dict[str, Any]) -> Any:
    try:
        tree = ast.parse(code, USER_CODE)
        last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        tree.body = [statement for statement in tree.body if statement is not last]
        exec(compile(tree, USER_CODE, "exec"), namespace)
        return eval(compile(ast.Expression(last.value), USER_CODE, "eval"), namespace) if last else None
    except C2StepError:
        raise
    except Exception as error:
        reason = traceback.format_exception_only(type(error), error)[-1]
        raise UsageError("python: %s" % first_line(reason)) from None
