"""What has run so far: the steps, which version of each blob is live, and where versions are kept."""

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

import numpy as np

from .blob import MISSING, UNINITIALISED, BlobSummary
from .net import BlobVersion, Operator
from .unsummarised import Waiting

__all__ = ["Figures", "History", "Kept", "Output", "Step"]

_AT_HAND = 1024  # values

Figures = Union[BlobSummary, Waiting]
"""A summary, or a tensor that has none yet."""


def _summary(figures: Figures) -> BlobSummary:
    return figures.summary if isinstance(figures, Waiting) else figures


class Output(NamedTuple):
    """One blob version that a step wrote; `file` is inside the capture, None where no bytes were kept."""

    name: str
    version: int
    kind: str
    figures: Figures
    file: Optional[str]

    @property
    def summary(self) -> BlobSummary:
        """Shape, dtype and figures of the version."""
        return _summary(self.figures)

    def to_json(self) -> Dict[str, Any]:
        """As a journal row's entry."""
        return {
            "name": self.name,
            "version": self.version,
            "kind": self.kind,
            "dtype": self.summary.dtype,
            "shape": list(self.summary.shape),
            "file": self.file,
            "summary": self.summary.to_json(),
        }


@dataclass(repr=False)
class Step:
    """One executed operator; `status` is ok, failed or died.  Nobody changes one.

    `touched` are blobs that it changed without naming them: the nets inside it write them, or they share storage
    with an output;
    `shares` are the pairs (output, other blob) that share storage after it.
    """

    tick: int
    iteration: int
    index: int
    operator: Operator
    status: str
    error: Optional[str]
    inputs: Tuple[BlobVersion, ...]
    outputs: Tuple[Output, ...]
    seconds: float = 0.0
    touched: Tuple[Output, ...] = ()
    shares: Tuple[Tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        outputs = ", ".join("%s@%d" % (output.name, output.version) for output in self.outputs)
        return "<Step %d: %s %s%s>" % (self.tick, self.operator, self.status, " -> " + outputs if outputs else "")

    @property
    def written(self) -> Tuple[Output, ...]:
        """Every blob version that it left: those it names, and those it touched."""
        return self.outputs + self.touched

    def how_touched(self, name: str) -> str:
        """How a blob was changed that the operator does not name."""
        inside = name in self.operator.unnamed
        return "not named: the nets inside write it" if inside else "not named: it shares storage with an output"

    def to_json(self) -> Dict[str, Any]:
        """As a journal row."""
        op = self.operator
        row: Dict[str, Any] = {
            "index": self.index,
            "type": op.type,
            "name": op.name,
            "node": op.node.label if op.node else None,
            "status": self.status,
            "error": self.error,
            "inputs": [{"name": name, "version": version} for name, version in self.inputs],
            "outputs": [output.to_json() for output in self.outputs],
            "tick": self.tick,
            "iteration": self.iteration,
            "seconds": self.seconds,
        }
        if self.touched:
            row["touched"] = [output.to_json() for output in self.touched]
        if self.shares:
            row["shares"] = [list(pair) for pair in self.shares]
        return row


class Kept(NamedTuple):
    """A version whose bytes are in a file."""

    file: str
    kind: str
    figures: Figures

    @property
    def summary(self) -> BlobSummary:
        """Shape, dtype and figures of the version."""
        return _summary(self.figures)


class History:
    """Steps in order, and for every blob the live version and those that were kept.

    Version 0 is what init_net or a feed left; it exists for the blobs in `initial`.
    """

    def __init__(self) -> None:
        self.steps: List[Step] = []
        self.versions: Dict[str, int] = {}
        self.kept: Dict[BlobVersion, Kept] = {}
        self._figures: Dict[BlobVersion, Figures] = {}
        self.outside: Set[BlobVersion] = set()  # kept versions that are in no step's row
        self.initial: Set[str] = set()
        self.feeds: List[Tuple[int, str, int]] = []  # (after how many steps, blob, version it made)
        self.put_in: Dict[BlobVersion, int] = {}  # how many steps had run when such a value was put in
        self.objects: Set[str] = set()  # blobs that hold no array: counters, mutexes, databases
        self._values: Dict[BlobVersion, np.ndarray] = {}
        self.changes = 0  # counts up, so that what is derived from all this may be kept until it is old

    def version(self, name: str) -> int:
        """The live version."""
        return self.versions.get(name, 0)

    def known(self, name: str) -> List[int]:
        """The versions that exist so far, oldest first."""
        start = 0 if name in self.initial else 1
        return list(range(start, self.version(name) + 1))

    def keep(self, name: str, version: int, kept: Kept) -> None:
        """Remember where a version's bytes are."""
        self.kept[BlobVersion(name, version)] = kept
        self._figures[BlobVersion(name, version)] = kept.figures
        self.forget_values()
        self.outside.add(BlobVersion(name, version))

    def summary(self, version: BlobVersion) -> Optional[BlobSummary]:
        """The summary of a version, None where none is known."""
        found = self._figures.get(version)
        return None if found is None else _summary(found)

    def value(self, version: BlobVersion) -> Optional[np.ndarray]:
        """The value of a version if it is at hand: it came lately, or was looked at."""
        found = self._values.get(version)
        figures = self._figures.get(version) if found is None else None
        return figures.values if isinstance(figures, Waiting) else found

    def remember(self, version: BlobVersion, value: np.ndarray) -> None:
        """Keep the value of a version at hand, until the history goes otherwise than forward."""
        if len(self._values) >= _AT_HAND:
            self._values = {}
        self._values[version] = value

    def forget_values(self) -> None:
        """Versions may come to have other values."""
        self._values = {}

    def quanta(self, step: Step) -> List[float]:
        """The scales of the Int8 blobs that a step read, as far as they are known."""
        read = [self.summary(version) for version in step.inputs]
        return [summary.scale for summary in read if summary is not None and summary.scale]

    def version_at(self, name: str, place: int) -> int:
        """The version that was live after the step at `place`."""
        fed = max([feed[0] for feed in self.feeds if feed[1] == name and feed[0] <= place + 1], default=-1)
        for at in range(min(place, len(self.steps) - 1), -1, -1):
            if at + 1 <= fed:
                break
            found = [out.version for out in self.steps[at].written if out.name == name]
            if found:
                return found[-1]
        return next((v for at, blob, v in reversed(self.feeds) if blob == name and at == fed), 0)

    def is_kept(self, name: str, version: int) -> bool:
        """Whether a version's bytes are in a file."""
        return BlobVersion(name, version) in self.kept

    def forget(self, name: str, version: int) -> None:
        """A version has another value than the one that was kept."""
        self.kept.pop(BlobVersion(name, version), None)
        self.outside.discard(BlobVersion(name, version))
        self._figures.pop(BlobVersion(name, version), None)
        self.forget_values()

    def unkept_initial(self, names: Set[str]) -> List[str]:
        """Those of some blobs that still hold their initial value, of which no copy is kept."""
        return [
            name for name in names & self.initial if self.version(name) == 0 and BlobVersion(name, 0) not in self.kept
        ]

    def add(self, step: Step, folder: str) -> None:
        """Append a step and make what it wrote the live versions."""
        self.steps.append(step)
        self.changes += 1
        for name, version, kind, figures, file in step.written:
            self.versions[name] = version
            live = BlobVersion(name, version)
            self._figures[live] = figures
            if file:
                self.kept[live] = Kept("%s/%s" % (folder, file), kind, figures)

    def add_feed(self, name: str, version: int, at: Optional[int] = None) -> None:
        """A value from outside became `version`, after the first `at` steps (all of them unless given)."""
        self.forget_values()
        self.feeds.append((len(self.steps) if at is None else at, name, version))
        self.put_in[BlobVersion(name, version)] = len(self.steps)
        self.versions[name] = version
        self.changes += 1

    def refresh(self) -> None:
        """Find the live versions again, from the steps and the values put in."""
        self.forget_values()
        self.versions = self._live()
        self.changes += 1

    def drop_feed(self, name: str, version: int) -> None:
        """A value from outside goes away again; what it replaced is live, where nothing was written since."""
        self.forget_values()
        self.feeds = [feed for feed in self.feeds if feed[1:] != (name, version)]
        self.versions = self._live()
        self.changes += 1

    def undo(self, steps: int) -> Set[str]:
        """Take back the last `steps` steps and the feeds since; returns the blobs whose version changed."""
        self.forget_values()
        target = len(self.steps) - steps
        changed = {out.name for step in self.steps[target:] for out in step.written}
        changed |= {name for at, name, _ in self.feeds if at > target}
        del self.steps[target:]
        self.feeds = [feed for feed in self.feeds if feed[0] <= target]
        fed = {BlobVersion(name, version): at for at, name, version in self.feeds}
        self.put_in = {made: min(self.put_in.get(made, at), target) for made, at in fed.items()}
        self.changes += 1
        before = dict(self.versions)
        self.versions = self._live()
        for name in changed:
            for version in range(self.version(name) + 1, before.get(name, 0) + 1):
                self.forget(name, version)
        return changed

    def _live(self) -> Dict[str, int]:
        versions: Dict[str, int] = {}
        for _, _, live in self.walk():
            versions = live
        return versions

    def walk(self) -> Iterator[Tuple[int, Optional[Step], Dict[str, int]]]:
        """Each step with its place and the versions that were live before it; at the end None and those that are now.

        A value from outside counts where it was put, which for a patch may be before steps that have run.
        """
        live: Dict[str, int] = {}
        feeds: Dict[int, List[Tuple[str, int]]] = {}
        for at, name, version in self.feeds:
            feeds.setdefault(at, []).append((name, version))
        for place, step in enumerate(self.steps + [None]):
            live.update(feeds.get(place, ()))
            yield place, step, live
            if step is not None:
                live.update((out.name, out.version) for out in step.written)

    def shared(self) -> List[Tuple[str, str]]:
        """The pairs of blobs that share storage now: the second one's storage is the first one's too.

        A value from outside has storage of its own: what shared it by operators that had run goes on as it was.
        """
        parted: Dict[int, Set[str]] = {}
        for at, name, version in self.feeds:
            parted.setdefault(self.put_in.get(BlobVersion(name, version), at), set()).add(name)
        pairs: List[Tuple[str, str]] = []
        for place, step in enumerate(self.steps + [None]):
            fed = parted.get(place, set())
            pairs = [pair for pair in pairs if not fed & set(pair)]
            if step is not None:
                written = {out.name for out in step.outputs}
                pairs = [pair for pair in pairs if not written & set(pair)]
                pairs += [(name, other) for name, other in step.shares]
        return pairs

    def exists(self, name: str) -> bool:
        """Whether the live version of a blob has a value."""
        version = self.version(name)
        if version == 0:
            return name in self.initial
        summary = self.summary(BlobVersion(name, version))
        return summary is None or summary.kind not in (MISSING, UNINITIALISED)
