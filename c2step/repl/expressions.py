"""Python expressions over blobs, as `patch` takes them: `np.maximum(conv1, 0) * 0.5`."""

import ast
import traceback
from typing import Any, Dict, List, Optional

import numpy as np

from ..errors import C2StepError, UsageError
from ..render import first_line
from .context import USER_CODE, Context

__all__ = ["digits_meant", "evaluate"]


def evaluate(context: Context, text: str, names: Dict[str, Any]) -> Any:
    """The value of an expression.

    Blobs stand for their arrays under their names, where those are identifiers; `blob(NAME)`, `golden(NAME)`
    and `np` are there, and what `!` has assigned.  `names` go before all of these.
    """

    def blob(name: str, version: Optional[int] = None) -> Any:
        return context.session.fetch(name, version).real()

    def golden(name: str) -> Any:
        return context.loaded().value(name).real()

    try:
        tree = ast.parse(text.strip(), USER_CODE, "eval")
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        values: Dict[str, Any] = dict(context.namespace, np=np, blob=blob, golden=golden)
        values.update((name, blob(name)) for name in context.blob_names() if name in used and name not in names)
        values.update(names)
        return eval(compile(tree, USER_CODE, "eval"), values)
    except C2StepError:
        raise
    except Exception as error:
        reason = traceback.format_exception_only(type(error), error)[-1]
        raise UsageError("%s: %s" % (text.strip(), first_line(reason))) from None


def digits_meant(context: Context, text: str) -> List[str]:
    """What to say of numbers that are computed with and are names of blobs too."""
    operands: List[ast.expr] = []
    for node in ast.walk(ast.parse(text.strip(), USER_CODE, "eval")):
        operands += [node.left, node.right] if isinstance(node, ast.BinOp) else []
        operands += node.args[:1] if isinstance(node, ast.Call) else []
    names = [name for name in dict.fromkeys(map(_digits, operands)) if name and name in context.blob_names()]
    return ['note: %s is the number; blob("%s") is the blob of that name' % (name, name) for name in names]


def _digits(operand: ast.expr) -> str:
    try:
        value = ast.literal_eval(operand)
    except ValueError:
        return ""
    return str(value) if isinstance(value, int) else ""
