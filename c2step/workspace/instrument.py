"""Put calls to Python before and after chosen operators of a net.

A net so changed runs as it did: the same operators, in the same order, with the state that they keep
(seeds, counters), as the same type of net.  Around each chosen operator stands a Python operator that
reads and writes no blob; what it calls may look at the workspace that the net runs in, be it a
predictor's or a step net's own.  Control inputs keep its place in nets that run in parallel.
"""

import fnmatch
import pickle
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from caffe2.proto import caffe2_pb2

from ..importer.inner import inner_nets

__all__ = ["Site", "add_calls", "add_inside", "call_operator", "fits", "mentioned", "parsed", "site_of"]

_BUILDER = "pickled_builder"  # the Python operator calls what this makes; it lives and dies with the operator
_MARK = b"c2step.workspace"


@dataclass(frozen=True)
class Site:
    """A chosen operator: the net that it stands in (outer/inner for nested ones), its index there, its blobs."""

    net: str
    index: int
    type: str
    name: str
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]


Builder = Callable[[Site, str], Tuple[Any, Tuple[Any, ...]]]
"""For a site and a side (before, after) a function that can be pickled by name, and its arguments."""


def add_calls(net: Any, patterns: Sequence[str], builder: Builder, path: str = "") -> bool:
    """Change a NetDef in place; whether it has any chosen operator, in nested nets too."""
    path = path or net.name
    made: List[Any] = []
    index = count = 0
    for op in net.op:
        if _is_call(op):
            made.append(op)
            continue
        count += add_inside(op, patterns, builder, "%s/%d" % (path, index))
        chosen = fits(op.type, patterns)
        made += _surrounded(op, site_of(op, path, index), builder) if chosen else [op]
        count += chosen
        index += 1
    if len(made) > len(net.op):
        operators = [caffe2_pb2.OperatorDef.FromString(op.SerializeToString()) for op in made]
        del net.op[:]
        net.op.extend(operators)
    return bool(count)


def make_sequential(net: Any) -> None:
    """Let a net and the nets inside it run one operator after the other.

    For those that Caffe2 runs without letting go of Python's lock: in a net that runs in parallel a call would wait
    for it forever.  The operators give the same values.
    """
    net.type = "simple"
    for op in net.op:
        make_sequential_inside(op)


def make_sequential_inside(op: Any) -> None:
    """The same for the nets inside an operator."""
    for _, inner in inner_nets(op):
        make_sequential(inner)


def fits(type_: str, patterns: Iterable[str]) -> bool:
    """Whether an operator type fits one of the patterns."""
    return any(fnmatch.fnmatchcase(type_, pattern) for pattern in patterns)


def site_of(op: Any, path: str, index: int) -> Site:
    """Where an operator stands."""
    return Site(path, index, op.type, op.name, tuple(op.input), tuple(op.output))


def add_inside(op: Any, patterns: Sequence[str], builder: Builder, path: str) -> bool:
    """Change the nets inside an operator in place; whether they have any chosen operator."""
    changed = [add_calls(net, patterns, builder, "%s:%s" % (path, name)) for name, net in inner_nets(op)]
    if any(changed):
        for arg in op.arg:
            if arg.name == "enable_rnn_executor":
                arg.i = 0  # it reorders the step net's operators by their blobs; one after the other gives the same
    return any(changed)


def _surrounded(op: Any, site: Site, builder: Builder) -> List[Any]:
    blobs = list(dict.fromkeys(site.inputs + site.outputs))
    first, last = builder(site, "before"), builder(site, "after")
    return [call_operator(first, blobs), op, call_operator(last, blobs)]


def call_operator(made: Tuple[Any, Tuple[Any, ...]], control: Iterable[str]) -> Any:
    """A Python operator that calls what `made` builds, after those that write the `control` blobs."""
    call = caffe2_pb2.OperatorDef(type="Python")
    call.arg.add(name=_BUILDER).s = pickle.dumps((made[0], made[1], {}), 2)
    call.arg.add(name="pass_workspace").i = 1
    call.control_input.extend(control)
    return call


def _is_call(op: Any) -> bool:
    return op.type == "Python" and any(arg.name == _BUILDER and _MARK in arg.s for arg in op.arg)


def mentioned(net: Any) -> Dict[str, bool]:
    """Every blob that a net or a net inside it names; True where an operator writes it."""
    names: Dict[str, bool] = {}
    for op in net.op:
        for name in op.input:
            names.setdefault(name, False)
        names.update((name, True) for name in op.output)
        for _, inner in inner_nets(op):
            for name, written in mentioned(inner).items():
                names[name] = written or names.get(name, False)
    return names


def parsed(data: bytes) -> Optional[Any]:
    """A NetDef from bytes, None where they are none."""
    try:
        return caffe2_pb2.NetDef.FromString(data)
    except Exception:  # Caffe2 itself will say what is wrong with it
        return None
