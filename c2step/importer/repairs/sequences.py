"""Sequences and optionals, which Caffe2 has no blobs for, followed at import where their length is fixed.

A sequence is a list of value names; building, changing and reading it at fixed places needs no operator at all.
"""

from typing import List, Optional

import numpy as np

from ..rewriter import Node, Rewriter, Unrepairable
from .building import concat, copy, expand_dims, split, squeeze
from .control import inline_graph

__all__ = ["RULES"]


def _missing(node: Node, g: Rewriter) -> None:
    g.found("no-sequences", "refuse", "Caffe2 has no sequences and no optionals")
    for name in node.outputs:
        if g.is_output(name) and g.values.kind(name) == "sequence_type":
            raise Unrepairable("a sequence cannot be an output of a net")


def _parts(g: Rewriter, name: str) -> List[str]:
    if name not in g.sequences:
        raise Unrepairable("sequence %s comes from outside" % name)
    return g.sequences[name]


def _place(g: Rewriter, name: str, size: int) -> int:
    place = int(g.need(name, "the position").reshape(-1)[0])
    return place + size if place < 0 else place


def construct(node: Node, g: Rewriter) -> Optional[str]:
    """SequenceConstruct and SequenceEmpty."""
    _missing(node, g)
    g.sequences[node.out] = list(node.inputs)
    return "followed at import"


def insert(node: Node, g: Rewriter) -> Optional[str]:
    """SequenceInsert at a fixed place."""
    _missing(node, g)
    parts = list(_parts(g, node.input(0)))
    parts.insert(_place(g, node.input(2), len(parts)) if node.input(2) else len(parts), node.input(1))
    g.sequences[node.out] = parts
    return "followed at import"


def erase(node: Node, g: Rewriter) -> Optional[str]:
    """SequenceErase at a fixed place."""
    _missing(node, g)
    parts = list(_parts(g, node.input(0)))
    del parts[_place(g, node.input(1), len(parts)) if node.input(1) else len(parts) - 1]
    g.sequences[node.out] = parts
    return "followed at import"


def at(node: Node, g: Rewriter) -> Optional[str]:
    """SequenceAt a fixed place."""
    _missing(node, g)
    parts = _parts(g, node.input(0))
    copy(g, parts[_place(g, node.input(1), len(parts))], node.out)
    return "followed at import"


def length(node: Node, g: Rewriter) -> Optional[str]:
    """SequenceLength is a constant."""
    _missing(node, g)
    copy(g, g.const(np.array(len(_parts(g, node.input(0))), np.int64)), node.out)
    return "a constant"


def split_to(node: Node, g: Rewriter) -> Optional[str]:
    """SplitToSequence into pieces of known size."""
    _missing(node, g)
    axis = int(node.attr("axis", 0)) % g.rank(node.input(0))
    size = g.known(node.input(0))[axis]
    sizes = [1] * size
    if node.input(1):
        given = g.need(node.input(1), "the sizes")
        step = int(given.reshape(-1)[0])
        sizes = given.tolist() if given.ndim else [step] * (size // step) + ([size % step] if size % step else [])
    parts = split(g, node.input(0), [int(s) for s in sizes], axis)
    if not node.input(1) and not node.attr("keepdims", 1):
        parts = [squeeze(g, p, [axis]) for p in parts]
    g.sequences[node.out] = parts
    return "written as Split"


def concat_from(node: Node, g: Rewriter) -> Optional[str]:
    """ConcatFromSequence as Concat."""
    _missing(node, g)
    parts, axis = list(_parts(g, node.input(0))), int(node.attr("axis"))
    if node.attr("new_axis", 0):
        axis %= g.rank(parts[0]) + 1
        parts = [expand_dims(g, p, [axis]) for p in parts]
    concat(g, parts, axis % g.rank(parts[0]), node.out)
    return "written as Concat"


def each(node: Node, g: Rewriter) -> Optional[str]:
    """SequenceMap: the body once for each element."""
    _missing(node, g)
    first = _parts(g, node.input(0))
    made: List[List[str]] = [[] for _ in node.outputs]
    for i in range(len(first)):
        inputs = [_parts(g, name)[i] if name in g.sequences else name for name in node.inputs]
        for column, name in zip(made, inline_graph(g, node, node.attr("body"), inputs)):
            column.append(name)
    g.sequences.update(zip(node.outputs, made))
    return "written out for %d elements" % len(first)


def some(node: Node, g: Rewriter) -> Optional[str]:
    """Optional of a tensor, or of nothing: followed as a sequence of one or none."""
    _missing(node, g)
    if any(name in g.sequences or g.is_output(node.out) for name in node.inputs):
        raise Unrepairable("an optional sequence, or an optional as an output, is nothing that a net can hold")
    g.sequences[node.out] = [name for name in node.inputs if name]
    return "followed at import"


def optional(node: Node, g: Rewriter) -> Optional[str]:
    """OptionalHasElement and OptionalGetElement of a plain tensor, or of an optional that is followed."""
    _missing(node, g)
    name = node.input(0)
    if name in g.sequences and g.values.kind(name) == "optional_type":
        parts = g.sequences[name]
        if node.op == "OptionalGetElement" and not parts:
            raise Unrepairable("optional %s is empty" % name)
        copy(g, parts[0] if node.op == "OptionalGetElement" else g.const(np.array(bool(parts))), node.out)
        return "followed at import"
    if node.op == "OptionalHasElement":
        if name and g.values.kind(name) == "optional_type":
            raise Unrepairable("optional %s comes from outside" % name)
        copy(g, g.const(np.array(bool(name))), node.out)
        return "a constant"
    if g.values.kind(name) != "tensor_type":
        raise Unrepairable("optional %s comes from outside" % name)
    copy(g, name, node.out)
    return "a copy"


RULES = {
    "SequenceConstruct": construct,
    "SequenceEmpty": construct,
    "SequenceInsert": insert,
    "SequenceErase": erase,
    "SequenceAt": at,
    "SequenceLength": length,
    "SplitToSequence": split_to,
    "ConcatFromSequence": concat_from,
    "SequenceMap": each,
    "Optional": some,
    "OptionalHasElement": optional,
    "OptionalGetElement": optional,
}
