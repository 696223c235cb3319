"""Values put in place of what operators wrote, and which later values are old because of them.

A patch belongs to the operator that wrote the blob (to the beginning, for an input or a weight): its value
is there right after that operator, also when it runs again.  What has run on other values than are there
now is dirty until it has run again.
"""

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import numpy as np

from .blob import INT8, TENSOR, Blob, blob_of
from .errors import C2StepError, UsageError
from .history import Step
from .net import BlobVersion, Operator
from .timeline import Timeline
from .workspace import Change

__all__ = ["Changes", "Patch"]


def _change(words: Sequence[Any]) -> Change:
    kind, name, value = words
    return str(kind), str(name), value


@dataclass(frozen=True)
class Patch:
    """A value in place of what operator `index` writes to a blob (None: of its initial value).

    With `part`, an index as numpy takes it, only these elements are replaced.  A single number stands for a blob of
    that number, of the shape and dtype that the operator gives.
    """

    name: str
    index: Optional[int]
    blob: Blob
    source: str
    part: Optional[Tuple[Any, ...]] = None

    def __str__(self) -> str:
        where = "from the start" if self.index is None else "after operator %d" % self.index
        part = "" if self.part is None else "[%s]" % ", ".join(map(_part_text, self.part))
        return "%s%s = %s, %s" % (self.name, part, self.source, where)


def _part_text(part: Any) -> str:
    if isinstance(part, slice):
        words = ["" if bound is None else str(bound) for bound in (part.start, part.stop, part.step)]
        return ":".join(words if words[2] else words[:2])
    return "..." if part is Ellipsis else str(part)


class Changes:
    """What a user changed in a session: patches and edited operators, and what is dirty because of them."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.patches: List[Patch] = []
        self.edits: Dict[int, Tuple[Change, ...]] = {}
        self.originals: Dict[int, Operator] = {}  # operators that were edited, as they were at first
        self._live: Dict[Tuple[str, int], int] = {}  # (blob, after how many steps) -> the version that a patch made
        self._ran_as: Dict[int, Tuple[Change, ...]] = {}  # place of a step -> the changes that its operator had
        self._stale: Set[int] = set()  # places of steps that read a value which a patch has replaced
        self._known = (-1, set())  # type: Tuple[int, Set[int]]

    # -- patches ------------------------------------------------------------------------------

    def patch(self, blob: Blob, source: str, position: int, part: Optional[Tuple[Any, ...]] = None) -> Patch:
        """Put a value in place of the blob's live one, or where it has none, of what is still to be written."""
        name = blob.name
        self._timeline.known(name)
        at, index = self._place(name, position)
        with self._whole(name):
            self._lay_new(Patch(name, index, blob, source, part), at)
        return self.patches[-1]

    @contextmanager
    def _whole(self, name: str) -> Iterator[None]:
        """A change that cannot be made (a full disk, a value that Caffe2 does not take) is none."""
        history = self._timeline.history
        before = list(self.patches), dict(self._live), set(self._stale), list(history.feeds)
        try:
            yield
        except C2StepError:
            self.patches, self._live, self._stale = before[:3]
            laid = history.feeds != before[3]
            history.feeds = before[3]
            history.refresh()
            if laid:
                self._timeline.give_back(name)
            raise

    def _lay_new(self, patch: Patch, at: Optional[int]) -> None:
        """Let a patch hold: put it in now, unless its operator is still to run."""
        name, index = patch.name, patch.index
        if at is not None:
            self._drop(name, at)
        if patch.part is None:
            self.patches = [p for p in self.patches if (p.name, p.index) != (name, index)]
        self.patches.append(patch)
        if at is not None:
            self._put(name, index, at)

    def unpatch(self, name: str) -> List[Patch]:
        """Give a blob its own value again, here and when its operators run again; returns what was taken away."""
        gone = [patch for patch in self.patches if patch.name == name]
        if not gone:
            names = ", ".join(patch.name for patch in self.patches) or "none"
            raise UsageError("%s is not patched" % name, "patched: %s" % names)
        self.patches = [patch for patch in self.patches if patch.name != name]
        for at in [at for blob, at in self._live if blob == name]:
            self._drop(name, at)
        self._timeline.give_back(name)
        return gone

    def _put(self, name: str, index: Optional[int], at: int) -> None:
        """Put in what a blob's patches come to, one over the other."""
        blob: Optional[Blob] = None
        for patch in self.patches:
            if (patch.name, patch.index) == (name, index):
                blob = self._fitted(patch, blob)
        assert blob is not None
        self._timeline.put_at(self._quantised(blob), at)
        self._live[name, at] = self._timeline.history.version(name)

    def _fitted(self, patch: Patch, under: Optional[Blob]) -> Blob:
        """The patch's value in the shape and dtype of what it replaces, as far as it stands for such a value."""
        array, name = patch.blob.array, patch.name
        if array is None or (under is None and not self._timeline.history.exists(name)):
            return patch.blob
        live = self._timeline.summary(name)
        if under is None and patch.part is None and str(array.dtype) == live.dtype and (array.ndim or not live.shape):
            return patch.blob
        current = (under or self._timeline.fetch(name)).array
        return patch.blob if current is None else Blob(name, patch.blob.kind, _laid_over(current, array, patch))

    def _quantised(self, blob: Blob) -> Blob:
        """Stored integers in place of an Int8 blob's are an Int8 blob of the same scale."""
        if blob.array is None or blob.kind != TENSOR or not self._timeline.history.exists(blob.name):
            return blob
        live = self._timeline.summary(blob.name)
        same = live.kind == INT8 and str(blob.array.dtype) == live.dtype
        return (
            replace(blob, kind=INT8, scale=live.scale, zero_point=live.zero_point)
            if same
            else blob_of(blob.name, blob.array)
        )

    def _drop(self, name: str, at: int) -> None:
        """Take a patch's value out of the history; who read it is dirty, whatever value comes next."""
        version = self._live.pop((name, at), None)
        if version is not None:
            read = BlobVersion(name, version)
            self._stale |= {place for place, step in enumerate(self._timeline.steps) if read in step.inputs}
            self._timeline.history.drop_feed(name, version)

    def _place(self, name: str, position: int) -> Tuple[Optional[int], Optional[int]]:
        """After how many steps the live value came to be (None: it is still to come), and which operator wrote it."""
        history = self._timeline.history
        if not history.exists(name):
            makers = [op.index for op in self._timeline.model.predict_net.producers(name)]
            ahead = next((index for index in makers if index >= position), None)
            return (None, ahead) if ahead is not None else (len(history.steps), makers[-1] if makers else None)
        fed = max([at for at, blob, _ in history.feeds if blob == name], default=0)
        for place in range(len(history.steps) - 1, -1, -1):
            if any(out.name == name for out in history.steps[place].written):
                return max(place + 1, fed), history.steps[place].index
        return fed, None

    def next_pause(self, position: int) -> Optional[int]:
        """After which operator from `position` on a patch must be put in."""
        return min((p.index + 1 for p in self.patches if p.index is not None and p.index >= position), default=None)

    def took(self, step: Step) -> None:
        """Take note of a step, one of the last."""
        place = step.tick
        self._ran_as.pop(place, None)
        changes = self.edits.get(step.index)
        if changes:
            self._ran_as[place] = changes

    def lay(self, index: Optional[int]) -> None:
        """Put in the patches of an operator that has just run (None: of initial values)."""
        at = len(self._timeline.steps)
        for patch in self.patches:
            if patch.index == index and (patch.name, at) not in self._live:
                self._put(patch.name, index, at)

    def began(self) -> None:
        """The session starts again: initial values are patched again."""
        self._live, self._ran_as, self._stale = {}, {}, set()
        self.lay(None)

    def went_back(self) -> None:
        """Steps were undone, and the patches after them."""
        count = len(self._timeline.steps)
        self._stale = {place for place in self._stale if place < count}
        self._ran_as = {place: changes for place, changes in self._ran_as.items() if place < count}
        self._live = {key: version for key, version in self._live.items() if key[1] <= count}

    def of(self, name: str, version: int) -> Optional[Patch]:
        """The patch that put in a version of a blob; None where another thing made it."""
        places = [at for (blob, at), made in self._live.items() if (blob, made) == (name, version)]
        steps = self._timeline.steps
        behind = {steps[at - 1].index if at else None for at in places}
        found = [patch for patch in self.patches if patch.name == name] if places else []
        return next((patch for patch in found if patch.index in behind), found[-1] if found else None)

    # -- a session that is resumed ------------------------------------------------------------

    def state(self) -> Dict[str, Any]:
        """What `resume` needs beside the patches, as JSON."""
        return {
            "edits": [[index, [list(change) for change in found]] for index, found in sorted(self.edits.items())],
            "live": [[name, at, version] for (name, at), version in self._live.items()],
            "ran_as": [[place, [list(change) for change in found]] for place, found in self._ran_as.items()],
            "stale": sorted(self._stale),
        }

    def resume(self, state: Dict[str, Any], patches: Sequence[Patch]) -> None:
        """Take over what another session left; its edits must have been made again."""
        self.patches = list(patches)
        self._live = {(name, at): version for name, at, version in state["live"]}
        self._ran_as = {place: tuple(_change(change) for change in found) for place, found in state["ran_as"]}
        self._stale = set(state["stale"])
        self._known = (-1, set())

    def laid(self, name: str, version: int) -> None:
        """A value from outside is a patch's, if the operator that ran last has one for that blob."""
        steps = self._timeline.steps
        if steps and any((patch.name, patch.index) == (name, steps[-1].index) for patch in self.patches):
            self._live[name, len(steps)] = version

    # -- edits --------------------------------------------------------------------------------

    def edit(self, index: int, changes: Sequence[Change]) -> Operator:
        """Change an operator, beside what was changed of it before; UsageError where a change does not fit."""
        original = self.originals.setdefault(index, self._timeline.model.predict_net.operators[index])
        merged = {change[:2]: change for change in self.edits.get(index, ())}
        for change in changes:
            merged.pop(change[:2], None)
            added = change[0] == "arg" and change[2] is None and original.argument(change[1]) is None
            if not (added and any(change[:2] == known[:2] for known in self.edits.get(index, ()))):
                merged[change[:2]] = change
        return self._apply(index, tuple(merged.values()))

    def unedit(self, index: int) -> Operator:
        """Give an operator back what it was at first."""
        if not self.edits.get(index):
            known = ", ".join(str(self.originals[i]) for i, changes in sorted(self.edits.items()) if changes) or "none"
            raise UsageError("operator %d was not edited" % index, "edited: %s" % known)
        return self._apply(index, ())

    def _apply(self, index: int, changes: Tuple[Change, ...]) -> Operator:
        edits = dict(self.edits)
        edits[index] = changes
        made = self._timeline.edit(edits, index)
        self.edits = {place: found for place, found in edits.items() if found}
        self._timeline.history.changes += 1
        return made

    # -- what is dirty ------------------------------------------------------------------------

    def dirty(self) -> Set[int]:
        """The places of steps that ran on other values, or as another operator, than they would now."""
        history = self._timeline.history
        if not (history.feeds or self._stale or self._ran_as or self.edits):
            return set()
        if self._known[0] != history.changes:
            self._known = (history.changes, self._find_dirty())
        return self._known[1]

    def _find_dirty(self) -> Set[int]:
        places: Set[int] = set()
        old: Set[BlobVersion] = set()
        for place, step, live in self._timeline.history.walk():
            if step is None:
                break
            other = any(live.get(name, 0) != version for name, version in step.inputs)
            as_now = self._ran_as.get(place, ()) == self.edits.get(step.index, ())
            if place in self._stale or other or not as_now or old & set(step.inputs):
                places.add(place)
                old |= {BlobVersion(out.name, out.version) for out in step.written}
        return places

    def edited(self) -> Set[int]:
        """The operators that ran as something else than they are now."""
        ran = [(place, self._timeline.steps[place].index) for place in self.dirty()]
        return {index for place, index in ran if self._ran_as.get(place, ()) != self.edits.get(index, ())}

    def laid_in(self, first: int, last: int) -> List[Tuple[Patch, int]]:
        """The patches that were put in after more than `first` steps and at most `last`, with their versions."""
        found = []
        for (name, at), version in sorted(self._live.items(), key=lambda item: item[0][1]):
            patch = next((patch for patch in self.patches if patch.name == name), None)
            if patch is not None and first < at <= last:
                found.append((patch, version))
        return found

    def dirty_blobs(self) -> Set[str]:
        """Blobs whose live value a dirty step wrote."""
        history = self._timeline.history
        places = self.dirty()
        written = {(out.name, out.version) for place in places for out in history.steps[place].written}
        return {name for name, version in written if history.version(name) == version}


def _laid_over(current: np.ndarray, array: np.ndarray, patch: Patch) -> np.ndarray:
    """A patch's array in place of what an operator wrote; UsageError where its part does not fit that."""
    value = _in_dtype(array, current.dtype)
    if patch.part is None:
        return np.full(current.shape, value) if value.ndim == 0 else value
    made = np.array(current)
    try:
        made[patch.part] = value
    except (ValueError, TypeError, IndexError) as error:
        raise UsageError("the patch %s does not fit: %s" % (patch, error), "unpatch %s" % patch.name) from None
    return made


def _in_dtype(array: np.ndarray, dtype: Any) -> np.ndarray:
    """In a blob's dtype, where nothing but rounding is lost."""
    if array.dtype.kind not in "biuf" or np.dtype(dtype).kind not in "biuf":
        return array
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
        rounded = array.dtype.kind == cast.dtype.kind == "f" and np.array_equal(np.isinf(cast), np.isinf(array))
        return cast if rounded or np.array_equal(cast.astype(array.dtype), array) else array
