"""Commands that save the inputs and outputs of chosen operators as they run."""

from typing import Optional

from ..context import Context
from ..registry import command
from ..types import FilePath, OperatorType
from .stopping import wraps_text


@command()
def wrap(context: Context, type: OperatorType, *, save: Optional[FilePath] = None) -> str:
    """Save the inputs and outputs of every operator of a type as it runs.

    wrap Conv --save out/     each Conv leaves its blobs as .npy files in out/
    """
    context.session.wrap(type, save)
    return wraps_text(context)


@command()
def unwrap(context: Context, type: OperatorType) -> str:
    """Stop saving the inputs and outputs of a type."""
    context.session.unwrap(type)
    return wraps_text(context)
