"""Where a point in time is among the steps, and where values came from."""

from typing import Callable, List, NamedTuple, Optional, Sequence

from .history import History, Step
from .model import Model
from .net import BlobVersion, Operator
from .sizes import counted

__all__ = ["Past", "before", "past_of", "readers_of"]


def before(steps: Sequence[Step], iteration: int, index: int) -> int:
    """How many steps had run when the session stood before an operator, in the iteration that it is in."""
    count = len(steps)
    while count and steps[count - 1].iteration == iteration and steps[count - 1].index >= index:
        count -= 1
    return count


class Past(NamedTuple):
    """Where one version of a blob came from: `how` in words, and the step that wrote it, if one did.

    `note` says how that step came to write it without naming it.
    """

    version: int
    how: str
    step: Optional[Step] = None
    note: str = ""


def past_of(
    name: str, history: History, model: Model, inputs: Sequence[str], patches: Callable[[str, int], object]
) -> List[Past]:
    """Where each version of a blob came from, oldest first; `patches` gives the patch that put one in, or None."""
    several = any(step.iteration > 1 for step in history.steps)
    found = {0: Past(0, _initial(name, model, inputs))} if name in history.initial else {}
    for at, blob, version in history.feeds:
        if blob == name:
            patch = patches(name, version)
            found[version] = Past(version, "patch %s" % patch if patch else "fed after %s" % counted(at, "step"))
    for step in history.steps:
        for out in step.written:
            if out.name == name:
                note = step.how_touched(name) if out in step.touched else ""
                how = "%s, iteration %d" % (step.operator, step.iteration) if several else str(step.operator)
                found[out.version] = Past(out.version, how, step, note)
    return [found[version] for version in sorted(found)]


def _initial(name: str, model: Model, inputs: Sequence[str]) -> str:
    makers = model.init_net.producers(name)
    if name in inputs:
        return "fed as an input"
    return "init_net %s" % makers[-1] if makers else "an initializer of the model"


class Reading(NamedTuple):
    """An operator that reads a blob; the version it read, None where it has not run."""

    operator: Operator
    version: Optional[int]


def readers_of(name: str, history: History, model: Model) -> List[Reading]:
    """The operators that read a blob, and which version they read when they ran last."""
    read = {step.index: version.version for step in history.steps for version in step.inputs if version.name == name}
    return [Reading(op, read.get(op.index)) for op in model.predict_net.consumers(name)]


def writers_ahead(name: str, history: History, model: Model, position: int) -> List[Operator]:
    """The operators that will write a blob and have not run yet."""
    return [op for op in model.predict_net.producers(name) if op.index >= position]


def label(name: str, version: int) -> str:
    """`conv1@2`."""
    return str(BlobVersion(name, version))
