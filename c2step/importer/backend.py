"""ONNX to Caffe2 nets through Caffe2's own backend (worker only).

Each node is converted by the backend itself.  What the backend cannot do with today's onnx is done
around it, on a copy of the model without the weights, and every such remedy is a line in `notes`:

1. initializers are listed as graph inputs, since the backend knows weights only from there;
2. an operator whose name starts with Conv or contains Pool loses that name, since Caffe2 then applies
   a check meant for convolution and pooling to it;
3. the split in init_net and predict_net is made without onnx.optimizer, after shape inference;
4. the model's own opset is used, not the backend's default of 9;
5. a Constant without `value` gets one, since the backend ends the process at any other form.
"""
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import onnx
from onnx import numpy_helper

from c2step.errors import ConversionError
from c2step.importer.onnxfile import (declared, dense, describe_node, initializers, load, model_opset, tensors_in,
                                      widened)
from c2step.importer.stock import NodeConverter, caffe2_pb2, cpu, onnx_version, reason
from c2step.importer.fills import fill_ops  # after stock: onnx must be imported before caffe2's protobuf
from c2step.net import OnnxNode

__all__ = ["Converted", "Refused", "convert", "declared", "describe_node", "fill_ops", "initializers", "load",
           "model_opset", "onnx_nodes"]

OnNode = Callable[[int, OnnxNode], None]
Shapes = Dict[str, Sequence[int]]

_KNOWN_OPSET = 9  # what the backend says of itself
_SMALL = 1024  # elements: initializers up to this stay in the copy, shape inference may read them


class Refused(NamedTuple):
    """A node that the backend does not take; its operators would start at `position` in predict_net."""

    index: int
    label: str
    op_type: str
    reason: str
    position: int

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


def _ignore(index: int, node: OnnxNode) -> None:
    pass


def convert(model: Any, opset: Optional[int] = None, on_node: OnNode = _ignore,
            input_shapes: Optional[Shapes] = None, strict: bool = True) -> Converted:
    """Convert `model`; ConversionError lists every refused node, unless not `strict`.

    `on_node` is called before each node, so that a conversion that ends the process can be named.
    `input_shapes` fixes the symbolic dimensions of inputs for shape inference.
    """
    result = Converted(caffe2_pb2.NetDef(), nodes=onnx_nodes(model), opset=opset or model_opset(model))
    light = _light_copy(model, input_shapes or {}, result.notes)
    converter = NodeConverter(_without_nodes(light, model), _infer(light, result.notes), result.opset)
    _note_versions(model, result)
    for index, node in enumerate(light.graph.node):
        on_node(index, result.nodes[index])
        _convert_node(converter, index, node, result)
    _finish(result, light)
    if strict and result.refused:
        raise ConversionError("Caffe2's ONNX backend refuses %d of %d nodes:\n  %s" % (
            len(result.refused), len(result.nodes), "\n  ".join(map(str, result.refused))),
            "c2step lint says what can be done; --import repaired rewrites what it can",
            nodes=map(str, result.refused))
    return result


def onnx_nodes(model: Any) -> List[OnnxNode]:
    """The nodes of the graph as plain data, in order."""
    return [OnnxNode(index, node.name, node.op_type, node.domain, tuple(node.input), tuple(node.output))
            for index, node in enumerate(model.graph.node)]


def _convert_node(converter: NodeConverter, index: int, node: Any, result: Converted) -> None:
    label = result.nodes[index].label
    net = result.predict
    try:
        ops, printed = converter.convert(node)
    except Exception as error:  # the backend raises whatever its Python or C++ raised
        result.refused.append(Refused(index, label, node.op_type, reason(error), len(net.op)))
        return
    result.notes.extend("node %s: a node inside it was left out: %s" % (label, line) for line in printed)
    if node.domain not in ("", "ai.onnx"):
        result.notes.append("node %s: node domain %s was ignored, %s is taken as the standard operator" % (
            label, node.domain, node.op_type))
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
    cleared = 0
    for op in list(net.op) + result.init_ops:
        if op.name.startswith("Conv") or "Pool" in op.name:
            op.name = ""
            cleared += 1
    if cleared:
        result.notes.append("the names of %d operators are cleared: Caffe2 asks every operator whose name starts with "
                            "Conv or contains Pool for a kernel size" % cleared)


# --- the copy that the backend sees -------------------------------------------------------------

def _light_copy(model: Any, shapes: Shapes, notes: List[str]) -> Any:
    """The model without its large weights, with initializers as inputs and fixed input shapes."""
    light = onnx.ModelProto()
    light.ir_version = model.ir_version
    light.opset_import.extend(model.opset_import)
    if hasattr(model, "functions"):
        light.functions.extend(model.functions)
    graph = light.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    _weights_as_inputs(model, graph, notes)
    for value in graph.input:
        if value.name in shapes:
            _fix_shape(value, shapes[value.name])
    _give_constants_values(graph, notes)
    return light


def _weights_as_inputs(model: Any, graph: Any, notes: List[str]) -> None:
    names = {value.name for value in graph.input}
    added = 0
    for name, code, dims, tensor in _weights(model):
        if tensor is not None and _elements(dims) <= _SMALL:
            graph.initializer.add().CopyFrom(tensor)
        if name not in names:
            graph.input.add().CopyFrom(onnx.helper.make_tensor_value_info(name, code, dims))
            added += 1
    if added:
        notes.append("%d initializers are listed as graph inputs, where Caffe2's backend looks for weights" % added)
    notes.extend(widened(model))


def _weights(model: Any) -> List[Tuple[str, int, List[int], Any]]:
    found = [(tensor.name, tensor.data_type, list(tensor.dims), tensor) for tensor in model.graph.initializer]
    found.extend((sparse.values.name, sparse.values.data_type, list(sparse.dims), None)
                 for sparse in model.graph.sparse_initializer)
    return found


def _elements(dims: Sequence[int]) -> int:
    count = 1
    for dim in dims:
        count *= dim
    return count


def _fix_shape(value: Any, shape: Sequence[int]) -> None:
    dims = value.type.tensor_type.shape
    del dims.dim[:]
    for size in shape:
        dims.dim.add().dim_value = size


def _without_nodes(light: Any, model: Any) -> Any:
    """The init model: every initializer by name and shape, no nodes, so that nothing runs twice."""
    init = onnx.ModelProto()
    init.graph.input.extend(light.graph.input)
    for name, code, dims, _ in _weights(model):
        stub = init.graph.initializer.add()
        stub.name, stub.data_type = name, code
        stub.dims.extend(dims)
    return init


def _infer(light: Any, notes: List[str]) -> Any:
    try:
        return onnx.shape_inference.infer_shapes(light)
    except Exception as error:
        notes.append("shapes could not be inferred: %s" % reason(error))
        return light


def _note_versions(model: Any, result: Converted) -> None:
    result.notes.append("init_net and predict_net are split without onnx.optimizer, which onnx %s does not have; "
                        "shapes are inferred first" % onnx_version())
    if result.opset != _KNOWN_OPSET:
        more = ": operators that changed after 9 may be refused or misread" if result.opset > _KNOWN_OPSET else ""
        result.notes.append("converted as opset %d, the model's own; the backend was written for %d%s" % (
            result.opset, _KNOWN_OPSET, more))
    for entry in model.opset_import:
        if entry.domain not in ("", "ai.onnx"):
            result.notes.append("operator set %s is not known to Caffe2's backend" % entry.domain)


# --- Constant ------------------------------------------------------------------------------------

def _give_constants_values(graph: Any, notes: List[str]) -> None:
    for index, node in enumerate(graph.node):
        for attribute in node.attribute:
            for inner in list(attribute.graphs) + ([attribute.g] if attribute.HasField("g") else []):
                _give_constants_values(inner, notes)
        if node.op_type != "Constant" or any(attribute.name == "value" for attribute in node.attribute):
            continue
        for attribute in list(node.attribute):
            tensor = _constant_tensor(attribute)
            if tensor is None:
                continue
            node.attribute.remove(attribute)
            node.attribute.add().CopyFrom(onnx.helper.make_attribute("value", tensor))
            notes.append("node %s: Constant's %s is written as `value`, else the backend ends in SIGSEGV" % (
                node.name or "Constant_%d" % index, attribute.name))
            break


def _constant_tensor(attribute: Any) -> Any:
    make, kinds = onnx.helper.make_tensor, onnx.TensorProto
    if attribute.name == "value_float":
        return make("", kinds.FLOAT, [], [attribute.f])
    if attribute.name == "value_floats":
        return make("", kinds.FLOAT, [len(attribute.floats)], list(attribute.floats))
    if attribute.name == "value_int":
        return make("", kinds.INT64, [], [attribute.i])
    if attribute.name == "value_ints":
        return make("", kinds.INT64, [len(attribute.ints)], list(attribute.ints))
    if attribute.name == "value_string":
        return make("", kinds.STRING, [], [attribute.s])
    if attribute.name == "value_strings":
        return make("", kinds.STRING, [len(attribute.strings)], list(attribute.strings))
    if attribute.name == "sparse_value":
        return numpy_helper.from_array(dense(attribute.sparse_tensor))
    return None
