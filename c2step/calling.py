"""Hooks in a session: the user's functions before and after chosen operators, with the arrays, able to change them.

What a hook returns becomes the next version of the blob, as if it had been put in from outside; going back over
the operator takes it away again.
"""

from typing import Dict, Iterable, List, Optional, Tuple

import numpy as np

from .blob import INT8, blob_of
from .errors import C2StepError, UsageError
from .hooks import AFTER, BEFORE, Call, Hook
from .net import Net, Operator
from .timeline import Timeline

__all__ = ["Calling"]


class Calling:
    """The hooks of one session, in the order in which they were set."""

    def __init__(self, timeline: Timeline) -> None:
        self.hooks: List[Hook] = []
        self._timeline = timeline
        self._called: Dict[
            Tuple[int, int], List[Tuple[str, int]]
        ] = {}  # (steps, operator) -> versions put in before it

    def next_pause(self, net: Net, position: int) -> Optional[int]:
        """Where a run from `position` must pause: before or after an operator that has a hook."""
        for op in net.operators[position:] if self.hooks else ():
            if op.index > position and self._fitting(op, BEFORE):
                return op.index
            if self._fitting(op, AFTER):
                return op.index + 1
        return None

    def before(self, op: Optional[Operator]) -> None:
        """Call the hooks of an operator that is about to run, once for each time that it runs."""
        hooks = self._fitting(op, BEFORE) if op else []
        place = (len(self._timeline.steps), op.index if op else -1)
        if op is None or not hooks or place in self._called:
            return
        made: List[Tuple[str, int]] = []
        try:
            for hook in hooks:
                made += self._call(hook, op, op.inputs, ())
        except BaseException:
            self._take_away(made)  # they are all called again when the operator is
            raise
        self._called[place] = made

    def began(self) -> None:
        """The session starts again."""
        self._called = {}

    def went_back(self) -> None:
        """Steps were undone: what was put in before them goes away, too."""
        for place in [place for place in self._called if place[0] >= len(self._timeline.steps)]:
            self._take_away(self._called.pop(place))

    def _take_away(self, versions: Iterable[Tuple[str, int]]) -> None:
        for name, version in versions:
            self._timeline.history.drop_feed(name, version)
            self._timeline.give_back(name)

    def after(self, op: Operator) -> None:
        """Call the hooks of the operator that has just run."""
        for hook in self._fitting(op, AFTER):
            self._call(hook, op, op.inputs, op.outputs)

    def _fitting(self, op: Operator, side: str) -> List[Hook]:
        return [hook for hook in self.hooks if hook.side == side and hook.fits(op.type)]

    def _call(self, hook: Hook, op: Operator, inputs: Iterable[str], outputs: Iterable[str]) -> List[Tuple[str, int]]:
        """Call one; the versions that it made."""
        read = self._as_read(op) if outputs else {}
        call = Call(op.index, op.type, op.name, "", self._arrays(inputs, read), self._arrays(outputs, {}))
        try:
            changed = hook(call)
        except C2StepError:
            raise
        except Exception as error:
            raise UsageError("%s at %s: %s: %s" % (hook, call, type(error).__name__, error)) from error
        for blob in [blob_of(name, array) for name, array in changed.items()]:
            self._timeline.put_at(blob, len(self._timeline.steps))
        return [(name, self._timeline.history.version(name)) for name in changed]

    def _as_read(self, op: Operator) -> Dict[str, int]:
        """The versions that the operator read, where it has just run: its outputs may have replaced them."""
        step = self._timeline.steps[-1]
        return dict(step.inputs) if step.index == op.index else {}

    def _arrays(self, names: Iterable[str], versions: Dict[str, int]) -> Dict[str, np.ndarray]:
        found: Dict[str, np.ndarray] = {}
        for name in dict.fromkeys(filter(None, names)):
            array = self._array(name, versions.get(name))
            if array is not None:
                found[name] = np.array(array)
        return found

    def _array(self, name: str, version: Optional[int]) -> Optional[np.ndarray]:
        try:
            blob = self._timeline.fetch(name, version)
        except UsageError:  # that version was not kept
            return None
        return blob.real() if blob.kind == INT8 else blob.array
