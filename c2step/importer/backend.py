"""ONNX to Caffe2 nets through Caffe2's own backend (worker only).

Each node is converted by the backend itself.  What the backend cannot do with today's onnx is done
around it, on a copy of the model without the weights, and every such remedy is said in `notes`:

1. initializers are listed as graph inputs, since the backend knows weights only from there;
2. an operator whose name starts with Conv or contains Pool loses that name, since Caffe2 then applies
   a check meant for convolution and pooling to it;
3. the split in init_net and predict_net is made without onnx.optimizer, after shape inference;
4. the model's own opset is used, not the backend's default of 9;
5. a Constant without `value` gets one, since the backend ends the process at any other form.
"""

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ..errors import ConversionError
from ..net import OnnxNode
from .fills import fill_ops  # after stock: onnx must be imported before caffe2's protobuf
from .light import Shapes, infer, light_copy, weights, without_nodes
from .onnxfile import declared, describe_node, initializers, load, model_opset
from .repairs import repair
from .repairs.functions import OF_CAFFE2
from .rewriter import CAFFE2, NOT_REPAIRED, OPEN, Applied, Finding
from .stock import NodeConverter, caffe2_pb2, cpu, onnx_version, reason

__all__ = [
    "Converted",
    "Refused",
    "clear_names",
    "convert",
    "declared",
    "describe_node",
    "fill_ops",
    "import_model",
    "initializers",
    "load",
    "model_opset",
    "onnx_nodes",
]

OnNode = Callable[[int, OnnxNode], None]
_KNOWN_OPSET = 9  # what the backend says of itself


class Refused(NamedTuple):
    """A node that the backend does not take; its operators would start at `position` in predict_net."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody wants here
    label: str
    op_type: str
    reason: str
    position: int
    outputs: Tuple[str, ...] = ()

    def __str__(self) -> str:
        return "%s %s: %s" % (self.op_type, self.label, self.reason)


@dataclass
class Converted:
    """Both nets with the ONNX node behind each operator; `init_ops` holds no initializer fills."""

    predict: Any
    init_ops: List[Any] = field(default_factory=list)
    nodes: List[OnnxNode] = field(default_factory=list)
    node_of: List[int] = field(default_factory=list)
    init_node_of: List[int] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    refused: List[Refused] = field(default_factory=list)
    opset: int = 0
    findings: List[Finding] = field(default_factory=list)
    applied: List[Applied] = field(default_factory=list)
    added: Dict[str, np.ndarray] = field(default_factory=dict)
    fixed: Dict[str, np.ndarray] = field(default_factory=dict)  # inputs that may not be fed another value
    model: Any = None

    def blobs(self) -> Iterator[Tuple[str, np.ndarray]]:
        """The values to feed before anything runs: the model's initializers and those that repairs added."""
        for name, array in initializers(self.model):
            yield name, array
        for name, array in self.added.items():
            yield name, array


def _ignore(index: int, node: OnnxNode) -> None:
    pass


def convert(
    model: Any,
    opset: Optional[int] = None,
    on_node: OnNode = _ignore,
    input_shapes: Optional[Shapes] = None,
    strict: bool = True,
) -> Converted:
    """Convert `model`; ConversionError lists every refused node, unless not `strict`.

    `on_node` is called before each node, so that a conversion that ends the process can be named.
    `input_shapes` fixes the symbolic dimensions of inputs for shape inference.
    """
    result = Converted(caffe2_pb2.NetDef(), nodes=onnx_nodes(model), opset=opset or model_opset(model))
    light = light_copy(model, input_shapes or {}, result.notes)
    converter = NodeConverter(without_nodes(light, model), infer(light, result.notes), result.opset)
    _note_versions(model, result)
    for index, node in enumerate(light.graph.node):
        on_node(index, result.nodes[index])
        _convert_node(converter, index, node, result)
    _finish(result, light)
    if strict and result.refused:
        raise _refusal(result, "c2step lint says what can be done; --import repaired rewrites what it can")
    return result


def import_model(
    model: Any,
    repaired: bool = False,
    on_node: OnNode = _ignore,
    input_shapes: Optional[Shapes] = None,
    strict: bool = True,
    input_values: Optional[Dict[str, np.ndarray]] = None,
) -> Converted:
    """`model` as Caffe2 nets, faithfully or repaired; `nodes` and `node_of` are those of `model` either way."""
    if not repaired:
        result = convert(model, on_node=on_node, input_shapes=input_shapes, strict=strict)
        result.model = model
        return result
    done = repair(model, input_shapes, input_values=input_values)
    nodes = onnx_nodes(model)
    result = convert(
        done.model,
        None,
        lambda index, _: on_node(done.origins[index], nodes[done.origins[index]]),
        input_shapes,
        strict=False,
    )
    result.nodes, result.model, result.added = nodes, model, done.added
    result.node_of = [done.origins[i] for i in result.node_of]
    result.init_node_of = [done.origins[i] for i in result.init_node_of]
    result.refused = [
        r._replace(index=done.origins[r.index], label=nodes[done.origins[r.index]].label) for r in result.refused
    ]
    result.findings, result.applied, result.fixed = done.findings, done.applied, done.fixed
    if strict and result.refused:
        raise _refusal(result, "no repair takes these; --partial goes on without them, or cut the model before them")
    result.notes += [
        "input %s is taken as %s for good, since a repair depends on it" % (name, str(value.tolist())[:60])
        for name, value in done.fixed.items()
    ]
    result.notes += ["repaired %s: %s" % (a.node, a.message) for a in done.applied]
    return result


def _refusal(result: Converted, hint: str) -> ConversionError:
    """What the backend refuses, each node with the reason that no repair was found where one was looked for."""
    why = {f.index: f.message.partition(NOT_REPAIRED)[2] for f in result.findings if NOT_REPAIRED in f.message}
    lines = [str(r) + (NOT_REPAIRED + why[r.index] if r.index in why else "") for r in result.refused]
    words = "Caffe2's ONNX backend refuses %d of %d nodes:\n  %s"
    if any(line.endswith(OPEN) for line in lines):
        hint = "more can be repaired once the sizes of inputs are known: --dim NAME=N, or --input"
    return ConversionError(words % (len(lines), len(result.nodes), "\n  ".join(lines)), hint, nodes=lines)


def onnx_nodes(model: Any) -> List[OnnxNode]:
    """The nodes of the graph as plain data, in order."""
    return [
        OnnxNode(index, node.name, node.op_type, node.domain, tuple(node.input), tuple(node.output))
        for index, node in enumerate(model.graph.node)
    ]


def _convert_node(converter: NodeConverter, index: int, node: Any, result: Converted) -> None:
    label = result.nodes[index].label
    net = result.predict
    try:
        ops, printed = converter.convert(node)
    except Exception as error:  # the backend raises whatever its Python or C++ raised
        result.refused.append(Refused(index, label, node.op_type, reason(error), len(net.op), tuple(node.output)))
        return
    result.notes.extend("node %s: a node inside it was left out: %s" % (label, line) for line in printed)
    if node.domain not in ("", "ai.onnx", CAFFE2) + OF_CAFFE2:
        result.notes.append(
            "node %s: node domain %s was ignored, %s is taken as the standard operator"
            % (label, node.domain, node.op_type)
        )
    result.init_ops.extend(ops.init_ops)
    result.init_node_of.extend([index] * len(ops.init_ops))
    net.op.extend(ops.ops)
    result.node_of.extend([index] * len(ops.ops))
    net.external_input.extend(ops.interface_blobs)


def _finish(result: Converted, light: Any) -> None:
    net = result.predict
    net.name = light.graph.name + "_predict"
    net.device_option.CopyFrom(cpu())
    net.external_output.extend(value.name for value in light.graph.output)
    net.external_input.extend(value.name for value in light.graph.input)
    result.notes += clear_names(list(net.op) + result.init_ops)


def clear_names(operators: Iterable[Any]) -> List[str]:
    """Take away the names that Caffe2 takes for those of convolutions; returns a note where there were any."""
    named = [op for op in operators if op.name.startswith("Conv") or "Pool" in op.name]
    for op in named:
        op.name = ""
    words = (
        "the names of %d operators are cleared: Caffe2 asks every operator whose name starts with "
        "Conv or contains Pool for a kernel size"
    )
    return [words % len(named)] if named else []


def _note_versions(model: Any, result: Converted) -> None:
    more = ": operators that changed after it may be refused or misread" if result.opset > _KNOWN_OPSET else ""
    written = "" if result.opset == _KNOWN_OPSET else " (the backend was written for %d%s)" % (_KNOWN_OPSET, more)
    unlisted = {name for name, _, _, _ in weights(model)} - {value.name for value in model.graph.input}
    listed = ", %d initializers listed as graph inputs" % len(unlisted) if unlisted else ""
    result.notes.append(
        "converted as opset %d, the model's own%s; split without onnx.optimizer, which onnx %s does not have%s"
        % (result.opset, written, onnx_version(), listed)
    )
    for entry in model.opset_import:
        if entry.domain not in ("", "ai.onnx", CAFFE2) + OF_CAFFE2:
            result.notes.append("operator set %s is not known to Caffe2's backend" % entry.domain)
