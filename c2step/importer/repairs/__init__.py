"""Repairs: what Caffe2's backend refuses or gets wrong, written with operators that Caffe2 has.

One file a family; each says in its docstring what it matches, what it rewrites and why.  A rule takes a node
and the rewriter.  It reports what stock Caffe2 would do (this is what lint shows), then emits the replacement
and returns one line about it; it returns None to leave the node as it is, and raises Unrepairable where no
Caffe2 operators can express it.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Set

import numpy as np
import onnx

from ..light import Shapes, infer, light_copy, weights
from ..onnxfile import model_opset
from ..ranks import ranks_backward
from ..rewriter import CAFFE2, Applied, Finding, Node, Rewriter, Rule
from ..structure import SORTED, captured, order, structure
from ..values import Values
from . import (
    activations,
    arithmetic,
    arranging,
    axes,
    control,
    convolution,
    drawing,
    dtypes,
    functions,
    indexing,
    losses,
    normalization,
    padding,
    pooling,
    products,
    recurrent,
    reductions,
    resize,
    sampling,
    scattering,
    sequences,
    spectra,
)

__all__ = ["Repaired", "repair", "rules"]

_FAMILIES = (
    dtypes,
    arithmetic,
    activations,
    axes,
    indexing,
    padding,
    scattering,
    arranging,
    reductions,
    pooling,
    convolution,
    resize,
    normalization,
    products,
    losses,
    recurrent,
    control,
    sequences,
    sampling,
    spectra,
    drawing,
)


def rules() -> Dict[str, Rule]:
    """The rule for each ONNX operator; `operator` and `domain` are those for all others."""
    table: Dict[str, Rule] = {"operator": functions.unknown, "domain": functions.private}
    for family in _FAMILIES:
        table.update(family.RULES)
    return table


class Repaired(NamedTuple):
    """The repaired model: its graph, with large weights left where they were, and what was done."""

    model: Any  # ModelProto; initializers above 1024 elements are stubs without data
    applied: List[Applied]
    findings: List[Finding]
    origins: List[int]  # for each node of `model` the index of the node it comes from
    added: Dict[str, np.ndarray]  # new initializers
    fixed: Dict[str, np.ndarray]  # inputs whose fed value was taken for good


def repair(
    model: Any,
    input_shapes: Optional[Shapes] = None,
    opset: Optional[int] = None,
    input_values: Optional[Dict[str, np.ndarray]] = None,
) -> Repaired:
    """Rewrite every node of `model` that a rule matches.

    `input_shapes` fixes the inputs' symbolic dimensions.  Where a node needs to know more than that, such as axes
    that are an input of the model, the small ones among `input_values` are taken for good and listed in `fixed`.
    """
    opset = opset or model_opset(model)
    done = _repair(model, input_shapes or {}, opset, {})
    if input_values and any(f.effect != "note" and not f.repair for f in done.findings):
        again = _repair(model, input_shapes or {}, opset, input_values)
        return again if again.fixed else done
    return done


def _repair(model: Any, shapes: Shapes, opset: int, fed: Dict[str, np.ndarray]) -> Repaired:
    notes: List[str] = []
    light = light_copy(model, shapes, notes, constants=False)
    moved = order(light.graph)
    wrong = structure(light.graph, opset, moved is not None)
    if moved:
        _rearrange(light.graph, moved)
    values = Values(infer(light, notes, data=True), opset, model.graph.initializer, model.graph.sparse_initializer, fed)
    ranks_backward(values, light.graph.node)
    rewriter = Rewriter(
        values,
        rules(),
        _names(light),
        [i.name for i in light.graph.input],
        [o.name for o in light.graph.output],
        {(f.domain, f.name): f for f in light.functions},
    )
    for index, proto in zip(moved or range(len(light.graph.node)), light.graph.node):
        rewriter.process(Node(proto, opset, index))
    _drop_unused(rewriter, light)
    return Repaired(
        _assemble(light, rewriter, model),
        ([Applied("node-order", "the graph", SORTED)] if moved else []) + rewriter.applied,
        wrong + rewriter.findings,
        rewriter.origins,
        rewriter.added,
        {name: fed[name] for name in sorted(values.used_fed)},
    )


def _rearrange(graph: Any, moved: List[int]) -> None:
    nodes = list(graph.node)
    del graph.node[:]
    graph.node.extend(nodes[index] for index in moved)


def _names(light: Any) -> List[str]:
    graph = light.graph
    names = [value.name for group in (graph.input, graph.output, graph.value_info) for value in group]
    for node in graph.node:
        names += list(node.input) + list(node.output)
    return names


def _drop_unused(rewriter: Rewriter, light: Any) -> None:
    """Take away nodes and constants that only served nodes which are no longer there."""
    wanted = {value.name for value in light.graph.output}
    wanted |= _dangling(light.graph)
    kept = []
    for node, origin in zip(reversed(rewriter.nodes), reversed(rewriter.origins)):
        if wanted.intersection(node.output) or _in_place(node):
            wanted.update(node.input)
            wanted.update(captured(node))
            kept.append((node, origin))
    rewriter.nodes[:] = [node for node, _ in reversed(kept)]
    rewriter.origins[:] = [origin for _, origin in reversed(kept)]
    for name in [n for n in rewriter.added if n not in wanted]:
        del rewriter.added[name]


def _in_place(node: Any) -> bool:
    return bool(set(node.input) & set(node.output))


def _dangling(graph: Any) -> Set[str]:
    """Outputs that nothing used in the model as it came: their nodes stay."""
    used = {name for node in graph.node for name in list(node.input) + list(captured(node))}
    return {name for node in graph.node for name in node.output} - used


def _assemble(light: Any, rewriter: Rewriter, model: Any) -> Any:
    result = onnx.ModelProto()
    result.CopyFrom(light)
    graph = result.graph
    del graph.node[:], graph.value_info[:]
    graph.node.extend(rewriter.nodes)
    given = {value.name for group in (graph.input, graph.output) for value in group}
    graph.value_info.extend(
        rewriter.values.value_infos(
            name for node in rewriter.nodes for name in node.output if name and name not in given
        )
    )
    have = {tensor.name for tensor in graph.initializer}
    for name, code, dims, _ in weights(model):
        if name not in have:
            stub = graph.initializer.add()
            stub.name, stub.data_type = name, code
            stub.dims.extend(dims)
    for name, array in rewriter.added.items():
        graph.initializer.add().CopyFrom(_tensor(name, array))
    result.opset_import.add(domain=CAFFE2, version=1)
    return result


def _tensor(name: str, array: np.ndarray) -> Any:
    if array.dtype.kind == "O":
        return onnx.helper.make_tensor(name, onnx.TensorProto.STRING, array.shape, array.ravel().tolist())
    return onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
