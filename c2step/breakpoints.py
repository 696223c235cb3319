"""Where a run stops: WHERE words, breakpoints, and the operators they mean."""

import fnmatch
from dataclasses import dataclass
from typing import Callable, List, Optional

from .errors import UsageError, near
from .net import Net, Operator

__all__ = ["Breakpoint", "Breakpoints", "find_operator", "matcher"]

Matches = Callable[[Operator], bool]


@dataclass
class Breakpoint:
    """Stops before each operator that `where` names."""

    number: int
    where: str
    temporary: bool = False
    enabled: bool = True
    hits: int = 0

    def __str__(self) -> str:
        kind = "temporary breakpoint" if self.temporary else "breakpoint"
        return "%s %d before %s, hit %d times%s" % (
            kind,
            self.number,
            self.where,
            self.hits,
            "" if self.enabled else ", disabled",
        )


class Breakpoints:
    """The breakpoints of a session, numbered from 1."""

    def __init__(self) -> None:
        self.all: List[Breakpoint] = []
        self._numbers = 0

    def add(self, net: Net, where: str, temporary: bool) -> Breakpoint:
        """Set one; UsageError where WHERE names nothing."""
        matcher(net, where)
        self._numbers += 1
        self.all.append(Breakpoint(self._numbers, where, temporary))
        return self.all[-1]

    def delete(self, number: int) -> None:
        """Take one away."""
        found = [point for point in self.all if point.number == number]
        if not found:
            raise UsageError(
                "there is no breakpoint %d" % number,
                "there are: %s" % (", ".join(str(p.number) for p in self.all) or "none"),
            )
        self.all.remove(found[0])

    def first_after(self, net: Net, position: int) -> Optional[int]:
        """The next operator behind `position` that one of them names."""
        tests = [matcher(net, point.where) for point in self.all if point.enabled]
        return next((op.index for op in net.operators[position + 1 :] if any(test(op) for test in tests)), None)

    def hit(self, net: Net, op: Optional[Operator]) -> bool:
        """Count a stop before `op`; temporary ones go away.  Whether any was hit."""
        hit = [point for point in self.all if op and point.enabled and matcher(net, point.where)(op)]
        for point in hit:
            point.hits += 1
            if point.temporary:
                self.all.remove(point)
        return bool(hit)


def matcher(net: Net, where: str) -> Matches:
    """A test for the operators that WHERE names: an index, a blob, an ONNX node, a type, or a pattern.

    `blob:`, `node:` and `type:` in front say which is meant.  UsageError names the near ones.
    """
    kind, colon, rest = where.partition(":")
    if colon and kind in ("blob", "node", "type"):
        found = _tests(rest)[("blob", "node", "type").index(kind)]
        return _checked(net, where, [found])
    number = where[1:] if where.startswith("#") else where
    if number.isdigit():
        if int(number) >= len(net):
            raise UsageError("there is no operator %s" % number, "predict_net has operators 0 to %d" % (len(net) - 1))
        return lambda op: op.index == int(number)
    return _checked(net, where, _tests(where))


def _tests(word: str) -> List[Matches]:
    if any(mark in word for mark in "*?["):
        return [
            lambda op: word in op.outputs,
            _node(word),
            lambda op: op.type == word,
            lambda op: any(fnmatch.fnmatchcase(name, word) for name in op.outputs + (op.type,)),
        ]
    return [lambda op: word in op.outputs, _node(word), lambda op: op.type == word]


def _node(word: str) -> Matches:
    return lambda op: op.node is not None and op.node.label == word


def _checked(net: Net, where: str, tests: List[Matches]) -> Matches:
    for test in tests:
        if any(test(op) for op in net.operators):
            return test
    names = list(
        dict.fromkeys(
            [name for op in net.operators for name in op.outputs]
            + [op.type for op in net.operators]
            + [op.node.label for op in net.operators if op.node]
        )
    )
    raise UsageError(
        "no operator is, writes or came from %s" % where,
        near(where, names) or "an index, a blob, an ONNX node name or an operator type is wanted",
    )


def find_operator(net: Net, where: str, position: int = 0) -> Operator:
    """The operator that WHERE names: the first at or after `position`, else the last before it."""
    name, _, version = where.rpartition("@")
    if name and version.isdigit() and not any(where in op.outputs for op in net.operators):
        return _writer(net, name, int(version))
    test = matcher(net, where)
    found = [op for op in net.operators if test(op)]
    ahead: Optional[Operator] = next((op for op in found if op.index >= position), None)
    return ahead or found[-1]


def _writer(net: Net, name: str, version: int) -> Operator:
    producers = net.producers(name)
    if not 1 <= version <= len(producers):
        raise UsageError(
            "%s is written %d times, there is no %s@%d" % (name, len(producers), name, version),
            "" if producers else near(name, net.blobs()),
        )
    return producers[version - 1]
