"""Where a run stops: WHERE words, breakpoints, watched blobs, and the operators they mean.

A breakpoint without a condition stops before an operator.  One with a condition stops right after an
operator for which it holds, and a watch after an operator that changed the blob.
"""

import fnmatch
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple, Union

from .conditions import SUMMARY, Condition, Facts
from .errors import UsageError, near
from .net import Net, Operator
from .sizes import counted

__all__ = ["Breakpoint", "Breakpoints", "Place", "Sets", "find_operator", "judges", "matcher"]

Place = Union[str, int]
"""A WHERE: an operator's index, as a number too, or words; see `matcher`."""

KINDS = ("blob", "node", "type", "name")
_PREFIXES = tuple(kind + ":" for kind in KINDS)
Matches = Callable[[Operator], bool]
Changed = Callable[[str], str]
"""How a blob changed, in words; empty where it did not."""


@dataclass(eq=False)
class Breakpoint:
    """Stops before each operator that `where` names, or after one for which `condition` holds.

    With `watch`, `where` is a blob, and it stops after an operator that changed it.  `ignore` is how many
    more hits go by, `commands` are run at each stop, `owner` is the wrap whose check it is.
    """

    number: int
    where: str
    temporary: bool = False
    enabled: bool = True
    hits: int = 0
    condition: Optional[Condition] = None
    watch: bool = False
    ignore: int = 0
    commands: List[str] = field(default_factory=list)
    owner: str = ""

    @property
    def before(self) -> bool:
        """Whether it stops before an operator, not after it."""
        return not self.watch and self.condition is None

    @property
    def word(self) -> str:
        """What it is called."""
        if self.owner:
            return "%s, breakpoint" % self.owner
        return "watch" if self.watch else "temporary breakpoint" if self.temporary else "breakpoint"

    def __str__(self) -> str:
        side = "of" if self.watch else "before" if self.condition is None else "after"
        return "%s %d %s %s%s, hit %s%s" % (
            self.word,
            self.number,
            side,
            self.where,
            " if %s" % self.condition if self.condition else "",
            counted(self.hits, "time"),
            "" if self.enabled else ", disabled",
        )

    def after(self, facts: Facts, changed: Changed) -> str:
        """Why it stops after an operator, empty where it does not."""
        said = ""
        if self.watch:
            said = changed(self.where)
            if not said:
                return ""
        if self.condition is None:
            return said
        why = self.condition.holds(facts)
        return "; ".join(filter(None, (said, why))) if why else ""


class _Tested(NamedTuple):
    """A breakpoint, the operators before or after which it must be looked at, and what the workspace is told of it."""

    point: Breakpoint
    passing: FrozenSet[int]
    declared: Optional[Dict[str, Any]]


class Sets:
    """Enabled breakpoints: those before operators, those after them, and the operators that they are for.

    `looks` are the operators after which only the front can judge; `declared` are the conditions that summaries
    decide, for the workspace to stop at: operator indices and text; `watched` are blobs.
    """

    def __init__(self, net: Optional[Net], tested: List[_Tested]) -> None:
        self.net = net
        self.points = [each.point for each in tested]
        self.before = [each for each in tested if each.point.before]
        self.after = [each for each in tested if not each.point.before]
        self.declared = [each.declared for each in self.after if each.declared is not None]
        self.watched = [point.where for point in self.points if point.watch]
        self.stops = frozenset().union(*[each.passing for each in self.before])
        self.looks = frozenset().union(*[each.passing for each in self.after if each.declared is None])


@dataclass
class _Numbers:
    """The last number that was given; a session and those inside it count together."""

    last: int = 0


class Breakpoints:
    """The breakpoints of a session, numbered from 1."""

    def __init__(self) -> None:
        self.all: List[Breakpoint] = []
        self._reached: Dict[int, Breakpoint] = {}  # temporary ones that are gone; their commands are still to run
        self._numbers = _Numbers()
        self._tests: Dict[int, Tuple[Net, _Tested]] = {}  # made once, while the net is the same
        self._sets = Sets(None, [])

    def add(
        self,
        net: Net,
        where: Place,
        temporary: bool = False,
        condition: Optional[Condition] = None,
        watch: bool = False,
    ) -> Breakpoint:
        """Set one; UsageError where WHERE names nothing, or the condition a blob that is not there."""
        where = str(where)
        if not watch:
            matcher(net, where)
        for name in condition.blobs if condition else ():
            _known_blob(net, name)
        if watch:
            _known_blob(net, where)
        self._numbers.last += 1
        self.all.append(Breakpoint(self._numbers.last, where, temporary, condition=condition, watch=watch))
        return self.all[-1]

    def adopt(self, net: Net, point: Breakpoint) -> bool:
        """Take over one of another session with its number, hits and commands; whether the net has its place."""
        try:
            if point.watch:
                _known_blob(net, point.where)
            else:
                matcher(net, point.where)
            for name in point.condition.blobs if point.condition else ():
                _known_blob(net, name)
        except UsageError:
            return False
        self.all.append(point)
        self._numbers.last = max(self._numbers.last, point.number)
        return True

    def count_with(self, outer: "Breakpoints") -> None:
        """Take numbers that those of the net around do not have."""
        self._numbers = outer._numbers

    def find(self, number: int) -> Breakpoint:
        """The one with a number."""
        found = [point for point in self.all if point.number == number]
        if not found:
            raise UsageError(
                "there is no breakpoint %d" % number,
                "there are: %s" % (", ".join(str(p.number) for p in self.all) or "none"),
            )
        return found[0]

    def commands_of(self, number: int) -> List[str]:
        """The commands to run at a stop there."""
        points = self.all + list(self._reached.values())
        return next((list(point.commands) for point in points if point.number == number), [])

    def delete(self, number: int) -> None:
        """Take one away."""
        self.all.remove(self.find(number))

    def sets(self, net: Net) -> "Sets":
        """The breakpoints that are enabled, sorted out once while they and the net are the same."""
        known = self._sets
        if known.net is not net or known.points != [point for point in self.all if point.enabled]:
            points = [point for point in self.all if point.enabled]
            known = self._sets = Sets(net, [self._tested(net, point) for point in points])
        return known

    def _tested(self, net: Net, point: Breakpoint) -> _Tested:
        known = self._tests.get(point.number)
        if known is None or known[0] is not net or known[1].point is not point:
            test = judges(net, point)
            passing = [op.index for op in net.operators if test(op)]
            told = {"text": str(point.condition), "indices": passing} if _declared(point) else None
            known = self._tests[point.number] = (net, _Tested(point, frozenset(passing), told))
        return known[1]

    def next_look(self, net: Net, position: int) -> Optional[int]:
        """Where a run from `position` must pause: before an operator, or after one that only the front can judge."""
        sets = self.sets(net)
        if not sets.stops and not sets.looks:
            return None
        for index in range(position, len(net)):
            if index > position and index in sets.stops:
                return index
            if index in sets.looks:
                return index + 1
        return None

    def stands_at(self, net: Net, op: Optional[Operator]) -> List[int]:
        """The numbers of those that stop before `op`; nothing is counted."""
        if op is None or op.index not in self.sets(net).stops:
            return []
        return [tested.point.number for tested in self.sets(net).before if op.index in tested.passing]

    def before(self, net: Net, op: Optional[Operator]) -> Dict[int, str]:
        """Count a stop before `op`; temporary ones go away.  Those that are not to be ignored, by number, in words."""
        words = {number: self.named(number) for number in self.stands_at(net, op)}
        return {number: words[number] for number in self._count(list(words))}

    def named(self, number: int) -> str:
        """A breakpoint as `breakpoint 1 at Relu`."""
        point = self.find(number)
        return "%s %d at %s" % (point.word, number, point.where)

    def after(self, net: Net, op: Operator, facts: Facts, changed: Changed) -> Dict[int, str]:
        """Count the stops after an operator that ran: why, by number."""
        why = self.would_stop(net, op, facts, changed)
        return {number: why[number] for number in self._count(list(why))}

    def would_stop(self, net: Net, op: Operator, facts: Facts, changed: Changed) -> Dict[int, str]:
        """As `after`, and nothing is counted."""
        after = self.sets(net).after
        points = [tested.point for tested in after if tested.point.watch or op.index in tested.passing]
        why = {point: point.after(facts, changed) for point in points}
        return {point.number: "%s %d: %s" % (point.word, point.number, words) for point, words in why.items() if words}

    def _count(self, numbers: Sequence[int]) -> List[int]:
        hit = []
        for point in map(self.find, numbers):
            point.hits += 1
            if point.ignore:
                point.ignore -= 1
                continue
            hit.append(point.number)
            if point.temporary:
                self.all.remove(point)
                self._reached[point.number] = point
        return hit


def _declared(point: Breakpoint) -> bool:
    return not point.watch and point.condition is not None and point.condition.kind == SUMMARY


def judges(net: Net, point: Breakpoint) -> Matches:
    """The operators before or after which a breakpoint must be looked at."""
    if point.watch:
        return lambda op: point.where in op.writes
    try:
        return matcher(net, point.where)
    except UsageError:  # an edit took the last one away
        return lambda op: False


def _known_blob(net: Net, name: str) -> None:
    if name not in net.blobs():
        raise UsageError("there is no blob %s" % name, near(name, net.blobs()))


def matcher(net: Net, where: Place) -> Matches:
    """A test for the operators that WHERE names: an index, a blob, an ONNX node, a type, a name, or a pattern.

    `blob:`, `node:`, `type:` and `name:` in front say which is meant.  UsageError names the near ones.
    """
    where = str(where)
    kind, colon, rest = where.partition(":")
    if colon and kind in KINDS:
        return _checked(net, where, [_tests(rest)[KINDS.index(kind)]])
    number = where[1:] if where.startswith("#") else where
    if number.isdigit():
        if int(number) >= len(net):
            hint = "blob:%s is the blob of that name; " % number if str(number) in net.blobs() else ""
            raise UsageError(
                "there is no operator %s" % number, hint + "predict_net has operators 0 to %d" % (len(net) - 1)
            )
        return lambda op: op.index == int(number)
    return _checked(net, where, _tests(where))


def _tests(word: str) -> List[Matches]:
    """One test for each of KINDS, the strongest first, and one for a pattern."""
    tests: List[Matches] = [
        lambda op: word in op.writes,
        _node(word),
        lambda op: op.type == word,
        lambda op: bool(word) and op.name == word,
    ]
    if any(mark in word for mark in "*?["):
        tests.append(lambda op: any(fnmatch.fnmatchcase(name, word) for name in op.writes + (op.type, op.name)))
    return tests


def _node(word: str) -> Matches:
    return lambda op: op.node is not None and op.node.label == word


def _checked(net: Net, where: str, tests: List[Matches]) -> Matches:
    for test in tests:
        if any(test(op) for op in net.operators):
            return test
    names = list(
        dict.fromkeys(
            [name for op in net.operators for name in op.writes]
            + [op.type for op in net.operators]
            + [op.node.label for op in net.operators if op.node]
            + [op.name for op in net.operators if op.name]
        )
    )
    outer = next((op for op in net.operators if any(test(inner) for inner in op.inner for test in tests)), None)
    if outer is not None:
        hint = "%s has it inside: step enters that, and a breakpoint set there stays for each time" % outer
        raise UsageError("no operator of this net is, writes or came from %s" % where, hint)
    raise UsageError(
        "no operator is, writes or came from %s" % where,
        near(where.partition(":")[2] if where.startswith(_PREFIXES) else where, names)
        or "an index, a blob, an ONNX node's or operator's name or an operator type is wanted",
    )


def find_operator(net: Net, where: Place, position: int = 0) -> Operator:
    """The operator that WHERE names: the first at or after `position`, else the last before it."""
    where = str(where)
    name, _, version = where.rpartition("@")
    if name and version.isdigit() and not any(where in op.writes for op in net.operators):
        return _writer(net, name, int(version))
    test = matcher(net, where)
    found = [op for op in net.operators if test(op)]
    ahead: Optional[Operator] = next((op for op in found if op.index >= position), None)
    return ahead or found[-1]


def _writer(net: Net, name: str, version: int) -> Operator:
    producers = net.producers(name)
    if not 1 <= version <= len(producers):
        raise UsageError(
            "%s is written %s, there is no %s@%d" % (name, counted(len(producers), "time"), name, version),
            "" if producers else near(name, net.blobs()),
        )
    return producers[version - 1]
