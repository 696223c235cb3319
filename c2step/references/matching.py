"""Module outputs of PyTorch matched to blobs: by name, by content, by shape between two matches.

Shapes alone prove nothing: a match that rests on them says so, and is `sure` only where no other
blob could be meant.
"""

import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .reference import Reference

__all__ = ["Match", "match_modules"]

NAME = "name"
CONTENT = "content in order"
ANYWHERE = "content, out of order"
OUTPUT = "the model's output"
SHARED = "content, the blob of another module too"
INNER = "the same value as its inner module"
SHAPE = "shape, the only one between two matches"
POSITION = "position, the only one between two matches"
AMBIGUOUS = "shape in order, ambiguous"

Blobs = Sequence[Tuple[str, np.ndarray]]
ROOT = "<root>"
_EXPORTED = re.compile(r"^\w+_output_\d+$")


class Match(NamedTuple):
    """A module's output and the blob that holds the same value; `sure` is False for a guess."""

    module: str
    blob: str
    how: str
    sure: bool


def match_modules(reference: Reference, blobs: Blobs, outputs: Sequence[str] = (), rtol: float = 1e-3) -> List[Match]:
    """Match the values of `reference` to `blobs` (name and value, in the order of the run).

    Names decide where they can, whatever the values.  Values match where the shapes agree and no element
    differs by more than `rtol` times the largest magnitude.  `outputs` are the blobs that the model
    gives, in the order of the module's own.  A module is in one match at most; a blob is in several
    only where a container or a module that changes nothing gives the same value.
    """
    return _Matching(reference, blobs, rtol).all(outputs)


class _Matching:
    def __init__(self, reference: Reference, blobs: Blobs, rtol: float) -> None:
        self.modules = reference.names()
        self.values = [reference.get(name) for name in self.modules]
        self.blobs = list(blobs)
        self.limits = [rtol * _scale(value) for value in self.values]
        self.found: Dict[int, Tuple[int, str, bool]] = {}
        self.taken: Dict[int, int] = {}

    def all(self, outputs: Sequence[str]) -> List[Match]:
        """Every match, in the order of the modules."""
        self._outputs(outputs)
        self._by_name()
        self._by_content()
        self._containers()
        self._by_shape()
        self._containers()
        return [Match(self.modules[m], self.blobs[b][0], how, sure) for m, (b, how, sure) in sorted(self.found.items())]

    def _take(self, module: int, blob: int, how: str, sure: bool = True) -> None:
        self.found[module] = (blob, how, sure)
        self.taken.setdefault(blob, module)

    def _outputs(self, outputs: Sequence[str]) -> None:
        """What the model as a whole gives is its outputs, whatever their values."""
        whole = [m for m, name in enumerate(self.modules) if name == ROOT or name.startswith(ROOT + ".")]
        last = {name: number for number, (name, _) in enumerate(self.blobs)}
        if len(whole) == len(outputs):
            for module, name in zip(whole, outputs):
                if name in last:
                    self._take(module, last[name], OUTPUT)

    def _by_name(self) -> None:
        """Equal names, and the names that PyTorch's exporter makes from the path of an innermost module."""
        last: Dict[str, int] = {}
        for number, (name, _) in enumerate(self.blobs):
            last[name] = number
            path = exported_path(name)
            if path and not self._is_container(path):
                last[path] = number
        for module, name in enumerate(self.modules):
            blob = last.get(name, last.get(_as_exported(name)))
            if module not in self.found and blob is not None:
                self._take(module, blob, NAME)

    def _is_container(self, path: str) -> bool:
        return any(name.startswith(path + ".") for name in self.modules)

    def _by_content(self) -> None:
        """The longest run of equal values in order, then equal values anywhere, then shared ones."""
        everything = [
            [b for b in range(len(self.blobs)) if self._equal(m, b)] if m not in self.found else []
            for m in range(len(self.modules))
        ]
        equal = [[b for b in candidates if b not in self.taken] for candidates in everything]
        for module, blob in _in_order(equal):
            self._take(module, blob, CONTENT, self._alone(module, equal))
        for module, candidates in enumerate(everything):
            free = [b for b in candidates if b not in self.taken]
            if module not in self.found and candidates:
                self._take(module, (free or candidates)[0], ANYWHERE if free else SHARED, len(candidates) == 1)

    def _alone(self, module: int, equal: List[List[int]]) -> bool:
        """Whether as many blobs hold this value as modules give it, so that their order settles it."""
        return len(equal[module]) <= sum(1 for other in equal if other == equal[module])

    def _containers(self) -> None:
        """A container that gives what its last inner module gives is that module's blob, and the other way round."""
        for step in (1, -1):
            for outer in list(range(1, len(self.modules)))[::step]:
                inner = outer - 1
                if self.modules[outer] not in (ROOT, self.modules[inner].rpartition(".")[0]):
                    continue
                known, other = (inner, outer) if inner in self.found else (outer, inner)
                if (
                    known in self.found
                    and other not in self.found
                    and np.array_equal(self.values[known], self.values[other])
                ):
                    self._take(other, self.found[known][0], INNER, self.found[known][2])

    def _by_shape(self) -> None:
        """What lies between two matches, where modules and blobs of one shape are equally many."""
        for modules, blobs in self._gaps():
            for shape in dict.fromkeys(self.values[m].shape for m in modules):
                self._pair(
                    [m for m in modules if self.values[m].shape == shape],
                    [b for b in blobs if self.blobs[b][1].shape == shape],
                    SHAPE,
                )
            self._pair([m for m in modules if m not in self.found], [b for b in blobs if b not in self.taken], POSITION)

    def _pair(self, modules: List[int], blobs: List[int], how: str) -> None:
        """A guess, never sure: one with one, or in order where there are as many."""
        if len(modules) != len(blobs) or (how == POSITION and len(modules) > 1):
            return
        for module, blob in zip(modules, blobs):
            self._take(module, blob, how if len(modules) == 1 else AMBIGUOUS, False)

    def _gaps(self) -> List[Tuple[List[int], List[int]]]:
        """The unmatched modules and blobs between each two neighbours that are matched in order."""
        gaps, floor, modules = [], 0, []
        for module in range(len(self.modules) + 1):
            blob = self.found[module][0] if module in self.found else None
            if module == len(self.modules):
                blob = len(self.blobs)
            if blob is None:
                modules.append(module)
            elif blob >= floor:
                gaps.append((modules, [b for b in range(floor, blob) if b not in self.taken]))
                floor, modules = blob + 1, []
        return gaps

    def _same_shape(self, module: int, blob: int) -> bool:
        return bool(self.values[module].shape == self.blobs[blob][1].shape)

    def _equal(self, module: int, blob: int) -> bool:
        a, b = self.values[module], self.blobs[blob][1]
        if not self._same_shape(module, blob) or a.dtype.kind != b.dtype.kind:
            return False
        if a.dtype.kind != "f":
            return bool(np.array_equal(a, b))
        head = slice(0, 1024)  # most pairs that differ do so here already
        return _close(a.reshape(-1)[head], b.reshape(-1)[head], self.limits[module]) and _close(
            a, b, self.limits[module]
        )


def _scale(a: np.ndarray) -> float:
    finite = a[np.isfinite(a)] if a.dtype.kind == "f" else a[:0]
    return float(np.max(np.abs(finite))) if finite.size else 0.0


def _close(a: np.ndarray, b: np.ndarray, limit: float) -> bool:
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)) or not np.array_equal(np.isnan(a), np.isnan(b)):
        return False
    gap = np.abs(a[finite].astype(np.float64) - b[finite])
    return not gap.size or float(gap.max()) <= limit


def _in_order(equal: List[List[int]]) -> List[Tuple[int, int]]:
    """The longest list of (module, blob) in which both rise."""
    best: Dict[int, Tuple[int, Optional[Tuple[int, int, object]]]] = {}
    for module, candidates in enumerate(equal):
        for blob in sorted(candidates, reverse=True):
            length, chain = max(
                ((n, c) for b, (n, c) in best.items() if b < blob), key=lambda item: item[0], default=(0, None)
            )
            if blob not in best or length + 1 > best[blob][0]:
                best[blob] = (length + 1, (module, blob, chain))
    chain = max(best.values(), key=lambda item: item[0], default=(0, None))[1]
    return list(reversed(list(_unwind(chain))))


def _unwind(chain: Optional[Tuple[int, int, object]]) -> Iterator[Tuple[int, int]]:
    while chain is not None:
        yield chain[0], chain[1]
        chain = chain[2]  # type: ignore[assignment]


def exported_path(name: str) -> str:
    """The path of the module in which PyTorch's exporter made a blob: `/layer1/layer1.0/conv/Conv_output_0`."""
    parts = name.split("/")
    if len(parts) < 3 or parts[0] or not _EXPORTED.match(parts[-1]):
        return ""
    return _path(parts[1:-1])


def _as_exported(name: str) -> str:
    """The exporter's path for a later call of a module: `relu#2` is `relu_1`."""
    path, _, call = name.partition("#")
    return "%s_%d" % (path, int(call) - 1) if call.isdigit() else name


def _path(scopes: Sequence[str]) -> str:
    """A module's path from the exporter's scopes."""
    steps: List[str] = []
    for scope in scopes:
        if steps and scope.startswith(steps[-1] + "."):
            steps[-1] = scope
        else:
            steps.append(scope)
    return ".".join(steps)
