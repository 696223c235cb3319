"""The nets among an operator's arguments, and what they write in the workspace without the operator's naming it.

`If` and `While` run their nets in the workspace of the operator itself, and the runtime leaves there whatever they
write.  Worker side only.
"""

from typing import Any, Container, Dict, Iterator, List, Set, Tuple

__all__ = ["inner_nets", "operators_inside", "unnamed_reads", "unnamed_writes"]

_IN_PLACE = ("If", "While")
# The argument that lists the blobs which all time steps share; they are left beside the outputs.
_STEPPED = {"RecurrentNetwork": "recurrent_states", "RecurrentNetworkGradient": "backward_link_external"}


def inner_nets(op: Any) -> Iterator[Tuple[str, Any]]:
    """The nets among an operator's arguments, with the argument's name."""
    for arg in op.arg:
        if arg.HasField("n"):
            yield arg.name, arg.n
        for net in arg.nets:
            yield arg.name, net


def operators_inside(op: Any) -> Iterator[Tuple[Any, Any]]:
    """Every operator inside an operator, however deep, with the net that holds it."""
    for _, net in inner_nets(op):
        for inner in net.op:
            yield inner, net
            yield from operators_inside(inner)


def unnamed_writes(op: Any, outer: Container[str]) -> Tuple[str, ...]:
    """Blobs that the nets inside an operator may write in its workspace, beside its outputs.

    `outer` are the blobs that the net around it names: a step net has workspaces of its own, and writes in the
    one around them only what is there already, and the states of all time steps.
    """
    names = dict.fromkeys(_inside(op)) if op.arg else {}
    if op.type in _STEPPED:
        names.update((name, None) for _, net in inner_nets(op) for name in _writes(net) if name in outer)
    return tuple(name for name in names if name and name not in op.output)


def unnamed_reads(op: Any, outer: Container[str]) -> Tuple[str, ...]:
    """Blobs around an operator that the nets inside it may read beside its inputs.

    `outer` are the blobs that the net around it names.  What If and While run is in the same workspace and may read
    any blob there, such as one that init_net alone names.
    """
    if op.type == "Do" or not op.arg:  # Do names all that its net sees
        return ()
    if op.type in _IN_PLACE:
        names = dict.fromkeys(name for _, net in inner_nets(op) for name in _free(net))
        return tuple(name for name in names if name not in op.input)
    names = dict.fromkeys(name for inner, _ in operators_inside(op) for name in inner.input)
    return tuple(name for name in names if name in outer and name not in op.input)


def _free(net: Any) -> Iterator[str]:
    """What a net reads before it writes it."""
    written: Set[str] = set()
    for op in net.op:
        yield from (name for name in (*op.input, *unnamed_reads(op, ())) if name not in written)
        written.update((*op.output, *_inside(op)))


def _inside(op: Any) -> Iterator[str]:
    if op.type in _STEPPED:
        states = [arg.strings for arg in op.arg if arg.name == _STEPPED[op.type]]
        yield from (text.decode("utf-8", "replace") for texts in states for text in texts)
    elif op.type == "Do":
        bound = _bound(op)
        yield from (bound[name] for _, net in inner_nets(op) for name in _writes(net) if name in bound)
    elif op.type == "ONNXWhile" and not any(arg.name == "disable_scopes" and arg.i for arg in op.arg):
        return
    else:
        for _, net in inner_nets(op):
            if op.type == "ONNXWhile":
                yield from net.external_input
            yield from _writes(net)


def _writes(net: Any) -> Iterator[str]:
    for op in net.op:
        yield from op.output
        yield from _inside(op)


def _bound(op: Any) -> Dict[str, str]:
    """Which outer blob each inner name of a Do stands for."""
    outer: List[str] = list(op.input[:-1]) + list(op.output[:-1])
    inner: List[str] = []
    places: List[int] = []
    for arg in op.arg:
        if arg.name == "inner_blobs":
            inner = [text.decode("utf-8", "replace") for text in arg.strings]
        elif arg.name == "outer_blobs_idx":
            places = list(arg.ints)
    return {name: outer[place] for name, place in zip(inner, places) if 0 <= place < len(outer)}
