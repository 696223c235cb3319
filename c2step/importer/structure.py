"""What is wrong with a graph as a whole: nodes out of order, values that nothing gives, values given twice.

ONNX allows none of these, and some runtimes, onnxruntime among them, sort nodes by themselves; Caffe2 runs them as
they stand.
"""

from typing import Any, Dict, Iterator, List, Optional, Set

from .rewriter import Finding, Node

__all__ = ["SORTED", "captured", "order", "structure"]

SORTED = "the nodes are sorted"


def captured(node: Any) -> List[str]:
    """The names that the subgraphs of a node read."""
    names: List[str] = []
    for attribute in node.attribute:
        for graph in list(attribute.graphs) + ([attribute.g] if attribute.HasField("g") else []):
            names += [o.name for o in graph.output]
            for inner in graph.node:
                names += list(inner.input) + captured(inner)
    return names


def order(graph: Any) -> Optional[List[int]]:
    """The indices of the nodes so that each comes after what it reads, else as they stand; None where they do already.

    None too where no order would do, since nodes read one another.
    """
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    behind = [
        {makers[name] for name in list(node.input) + captured(node) if name in makers} - {index}
        for index, node in enumerate(graph.node)
    ]
    if all(max(needed, default=-1) < index for index, needed in enumerate(behind)):
        return None
    result = list(_sorted(behind))
    return result if len(result) == len(behind) else None


def _sorted(behind: List[Set[int]]) -> Iterator[int]:
    done: Set[int] = set()
    for start in range(len(behind)):
        stack = [start]
        opened: Set[int] = set()
        while stack:
            index = stack[-1]
            waiting = sorted(behind[index] - done, reverse=True)
            if index in done or not waiting:
                stack.pop()
                if index not in done:
                    done.add(index)
                    yield index
            elif index in opened:  # a circle
                return
            else:
                opened.add(index)
                stack += waiting


def structure(graph: Any, opset: int, moved: bool) -> List[Finding]:
    """Each node that reads what is not there yet, or never, or writes what is; `moved` is whether sorting helps."""
    held = [value.name for value in graph.input] + [tensor.name for tensor in graph.initializer]
    there = set(held) | {tensor.values.name for tensor in graph.sparse_initializer} | {""}
    makers: Dict[str, str] = {}
    nodes = [Node(proto, opset, index) for index, proto in enumerate(graph.node)]
    for node in reversed(nodes):
        makers.update({name: node.label for name in node.outputs if name})
    found = []
    for node in nodes:
        for name in dict.fromkeys(name for name in node.inputs if name not in there):
            found.append(_absent(node, name, makers, moved))
        again = [name for name in node.outputs if name and name in there and name not in node.inputs]
        for name in again:
            words = "%s has a value already, and ONNX allows one: Caffe2 writes over it" % name
            found.append(Finding("written-twice", node.label, node.op, "wrong", "", words, node.index))
        there.update(node.outputs)
    return found


def _absent(node: Node, name: str, makers: Dict[str, str], moved: bool) -> Finding:
    if name in makers:
        words = "%s comes from %s, which stands behind it: Caffe2 runs nodes as they stand" % (name, makers[name])
        return Finding("node-order", node.label, node.op, "fail", SORTED if moved else "", words, node.index)
    words = "nothing in the model gives %s: no node, no initializer, no input" % name
    return Finding("undefined-input", node.label, node.op, "fail", "", words, node.index)
