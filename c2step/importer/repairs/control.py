"""If, Loop and Scan.

Caffe2's If runs its branches, but their results stay under the branches' own names; its ONNXWhile cannot see outer
values.  A branch whose condition is fixed is put in the place of the If; with a condition known only at run time both
branches are computed and the result chosen, where they agree in shape.  A Loop or Scan with a known number of rounds is
written out round by round; one that may end before by a condition of the data keeps its state from there on.
"""

from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from ..rewriter import Node, Rewriter, Unrepairable
from .building import broadcast_shape, concat, copy, expand, expand_dims, slice_axis, squeeze

__all__ = ["RULES", "inline_graph"]

_ROUNDS = 256


def inline_graph(g: Rewriter, node: Node, graph: Any, inputs: Sequence[str]) -> List[str]:
    """Put the nodes of a subgraph in place, its inputs bound to `inputs`; the names of its outputs."""
    names: Dict[str, str] = {value.name: name for value, name in zip(graph.input, inputs)}
    for tensor in graph.initializer:
        names[tensor.name] = g.const(numpy_helper.to_array(tensor))
    for inner in graph.node:
        replaced = onnx.NodeProto()
        replaced.CopyFrom(inner)
        replaced.name = ""
        _rename(g, replaced, names)
        g.inline(Node(replaced, node.opset, node.index))
    return [g.settled(names.get(value.name, value.name)) for value in graph.output]


def _rename(g: Rewriter, node: Any, names: Dict[str, str]) -> None:
    for i, name in enumerate(node.input):
        node.input[i] = names.get(name, name)
    for attribute in node.attribute:
        for graph in list(attribute.graphs) + ([attribute.g] if attribute.HasField("g") else []):
            _rename_captured(graph, names)
    for i, name in enumerate(node.output):
        if name:
            names[name] = g.fresh()
            node.output[i] = names[name]


def _rename_captured(graph: Any, names: Dict[str, str]) -> None:
    """Rename what a nested subgraph reads from outside."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name not in own:
                node.input[i] = names.get(name, name)
        for attribute in node.attribute:
            for inner in list(attribute.graphs) + ([attribute.g] if attribute.HasField("g") else []):
                _rename_captured(inner, {k: v for k, v in names.items() if k not in own})
        own |= set(node.output)
    for value in graph.output:
        if value.name not in own:
            value.name = names.get(value.name, value.name)


def _chosen(g: Rewriter, condition: str, yes: str, no: str, out: str = "") -> str:
    """One of two values of the same shape, by one truth value."""
    shape = list(g.known(yes))
    if [int(d) for d in broadcast_shape(g.known(yes), g.known(condition))] != shape:
        if shape:
            condition = expand(g, g.onnx("Reshape", condition, g.const([1] * len(shape), "int64")), shape)
        else:
            condition = g.onnx("Reshape", condition, g.const(np.zeros(0), "int64"))
    return g.onnx("Where", condition, yes, no, out=out)


def branch(node: Node, g: Rewriter) -> Optional[str]:
    """If with the branch chosen at import, or both computed."""
    g.found(
        "if-outputs",
        "wrong",
        "Caffe2's If leaves its results under the branches' own names: the outputs are never written",
    )
    condition = g.value(node.input(0))
    if condition is not None:
        chosen = node.attr("then_branch" if bool(condition.reshape(-1)[0]) else "else_branch")
        for name, out in zip(inline_graph(g, node, chosen, []), node.outputs):
            copy(g, name, out)
        return "its condition is fixed: the %s branch in its place" % (
            "then" if bool(condition.reshape(-1)[0]) else "else"
        )
    results = [inline_graph(g, node, node.attr(part), []) for part in ("then_branch", "else_branch")]
    for yes, no, out in zip(results[0], results[1], node.outputs):
        if g.known(yes) != g.known(no) or g.dtype(yes) != g.dtype(no):
            raise Unrepairable(
                "its branches give results of different shapes, and the condition is known at run time only"
            )
        _chosen(g, node.input(0), yes, no, out)
    return "both branches computed, the result chosen"


def loop(node: Node, g: Rewriter) -> Optional[str]:
    """Loop written out, as long as each round's condition is fixed."""
    body = node.attr("body")
    effect = "fail" if _reads_outside(body) else "wrong"
    g.found(
        "loop",
        effect,
        "Caffe2's ONNXWhile %s"
        % (
            "does not see values from outside its body"
            if effect == "fail"
            else "gives scan outputs and states otherwise than ONNX"
        ),
    )
    limit = g.given(node.input(0)) if node.input(0) else None
    if node.input(0) and limit is None:
        raise Unrepairable("its trip count is known at run time only")
    rounds = int(limit.reshape(-1)[0]) if limit is not None else _ROUNDS
    if rounds > _ROUNDS:
        raise Unrepairable("%d rounds are too many to be written out" % rounds)
    return _written_out(node, g, body, rounds, limit is None)


def _written_out(node: Node, g: Rewriter, body: Any, rounds: int, endless: bool) -> str:
    going, alive = node.input(1), ""  # `alive` is whether it still goes on, where that depends on the data
    states = list(node.inputs[2:])
    scans: List[List[str]] = [[] for _ in range(len(body.output) - 1 - len(states))]
    done = 0
    while done < rounds:
        value = g.given(going) if going else np.array(True)
        if value is None:
            alive = _still(g, alive, going, endless or bool(scans))
        elif not value.reshape(-1)[0]:
            break
        results = inline_graph(
            g, node, body, [g.const(done, "int64"), alive or going or g.const(np.array(True))] + states
        )
        going, before, states, made = results[0], states, results[1 : 1 + len(states)], results[1 + len(states) :]
        if alive:
            states = [_kept(g, alive, new, old) for new, old in zip(states, before)]
        for scan, name in zip(scans, made):
            scan.append(name)
        done += 1
    if endless and done == rounds:
        raise Unrepairable("it does not end within %d rounds" % _ROUNDS)
    for name, out in zip(states, node.outputs):
        copy(g, name, out)
    for scan, out in zip(scans, node.outputs[len(states) :]):
        if out:
            _stack(g, scan, out, 0)
    return "written out: %d rounds%s" % (done, ", each taken while the condition holds" if alive else "")


def _still(g: Rewriter, alive: str, going: str, open_ended: bool) -> str:
    if open_ended:
        raise Unrepairable("whether it goes on is known at run time only, and so is how many rounds there are")
    return g.onnx("And", alive, going) if alive else going


def _kept(g: Rewriter, alive: str, new: str, old: str) -> str:
    if g.known(new) != g.known(old) or g.dtype(new) != g.dtype(old):
        raise Unrepairable("whether it goes on is known at run time only, and its state changes shape")
    return _chosen(g, alive, new, old)


def _stack(g: Rewriter, parts: Sequence[str], out: str, axis: int) -> None:
    if not parts:
        copy(g, g.const(np.zeros([d or 0 for d in (g.shape(out) or (0,))], g.dtype(out) or "float32")), out)
        return
    concat(g, [expand_dims(g, p, [axis]) for p in parts], axis, out) if len(parts) > 1 else expand_dims(
        g, parts[0], [axis], out
    )


def _reads_outside(graph: Any) -> bool:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer} | {""}
    for node in graph.node:
        if set(node.input) - own:
            return True
        own |= set(node.output)
    return False


def scan(node: Node, g: Rewriter) -> Optional[str]:
    """Scan written out over a known length."""
    g.found("no-operator", "refuse", "Caffe2 has no Scan")
    if node.opset < 9:
        return _scan_8(node, g)
    body, count = node.attr("body"), int(node.attr("num_scan_inputs"))
    states, sequences = list(node.inputs[:-count]), list(node.inputs[-count:])
    axes = [int(a) % g.rank(s) for a, s in zip(node.attr("scan_input_axes") or [0] * count, sequences)]
    backward = node.attr("scan_input_directions") or [0] * count
    steps = g.known(sequences[0])[axes[0]]
    outputs = _scan_rounds(node, g, body, states, sequences, axes, backward, steps)
    made = len(node.outputs) - len(states)
    out_axes = node.attr("scan_output_axes") or [0] * made
    turned = node.attr("scan_output_directions") or [0] * made
    for name, out in zip(outputs[0], node.outputs):
        copy(g, name, out)
    for parts, out, axis, turn in zip(outputs[1], node.outputs[len(states) :], out_axes, turned):
        _stack(g, parts[::-1] if turn else parts, out, int(axis) % (g.rank(parts[0]) + 1))
    return "written out: %d rounds" % steps


def _scan_rounds(
    node: Node,
    g: Rewriter,
    body: Any,
    states: List[str],
    sequences: Sequence[str],
    axes: Sequence[int],
    backward: Sequence[int],
    steps: int,
) -> Any:
    if steps > _ROUNDS:
        raise Unrepairable("%d rounds are too many to be written out" % steps)
    made: List[List[str]] = [[] for _ in range(len(body.output) - len(states))]
    for t in range(steps):
        parts = []
        for name, axis, back in zip(sequences, axes, backward):
            at = steps - 1 - t if back else t
            parts.append(squeeze(g, slice_axis(g, name, axis, at, at + 1), [axis]))
        results = inline_graph(g, node, body, list(states) + parts)
        states = results[: len(states)]
        for column, name in zip(made, results[len(states) :]):
            column.append(name)
    return states, made


def _scan_8(node: Node, g: Rewriter) -> str:
    """Scan of opset 8: a batch dimension first, optional sequence_lens as the first input."""
    body, count = node.attr("body"), int(node.attr("num_scan_inputs"))
    if node.input(0):
        raise Unrepairable("Scan-8 with sequence_lens is not rewritten")
    states, sequences = list(node.inputs[1:-count]), list(node.inputs[-count:])
    batch, steps = g.known(sequences[0])[:2]
    backward = node.attr("directions") or [0] * count
    finals, scans = [], []
    for i in range(batch):
        own = [squeeze(g, slice_axis(g, s, 0, i, i + 1), [0]) for s in states]
        rows = [squeeze(g, slice_axis(g, s, 0, i, i + 1), [0]) for s in sequences]
        last, made = _scan_rounds(node, g, body, own, rows, [0] * count, backward, steps)
        finals.append(last)
        scans.append([concat(g, [expand_dims(g, p, [0]) for p in column], 0) for column in made])
    for position, out in enumerate(node.outputs):
        rows = [f[position] for f in finals] if position < len(states) else [s[position - len(states)] for s in scans]
        _stack(g, rows, out, 0)
    return "written out: %d rounds" % steps


RULES = {"If": branch, "Loop": loop, "Scan": scan}
