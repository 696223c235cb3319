"""The copy of a model that Caffe2's backend and the rules look at: all of its graph, none of its weight.

Worker only.  Large initializers are left out of the copy but listed as graph inputs with their shape,
so that neither shape inference nor conversion moves their bytes about.
"""

from typing import Any, Dict, List, Sequence, Tuple

import onnx
from onnx import numpy_helper

from .onnxfile import dense, shape_of, widened

__all__ = ["Shapes", "infer", "inferable", "light_copy", "weights", "without_nodes"]

Shapes = Dict[str, Sequence[int]]

_SMALL = 1024  # elements: initializers up to this stay in the copy, shape inference may read them


def light_copy(model: Any, shapes: Shapes, notes: List[str], constants: bool = True) -> Any:
    """The model without its large weights, with initializers as inputs and fixed input shapes.

    With `constants`, every Constant node is given a `value`.
    """
    light = onnx.ModelProto()
    light.ir_version = model.ir_version
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph = light.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    _weights_as_inputs(model, graph, notes)
    for value in graph.input:
        if value.name in shapes and value.type.HasField("tensor_type"):
            _fix_shape(value, shapes[value.name])
    if constants:
        _give_constants_values(graph, notes)
    return light


def _weights_as_inputs(model: Any, graph: Any, notes: List[str]) -> None:
    names = {value.name for value in graph.input}
    for name, code, dims, tensor in weights(model):
        if tensor is not None and _elements(dims) <= _SMALL:
            graph.initializer.add().CopyFrom(tensor)
        if name not in names:
            graph.input.add().CopyFrom(onnx.helper.make_tensor_value_info(name, code, dims))
    notes.extend(widened(model))


def weights(model: Any) -> List[Tuple[str, int, List[int], Any]]:
    """Each initializer as (name, ONNX element type, dims, TensorProto or None for a sparse one)."""
    found = [(tensor.name, tensor.data_type, list(tensor.dims), tensor) for tensor in model.graph.initializer]
    found.extend(
        (sparse.values.name, sparse.values.data_type, list(sparse.dims), None)
        for sparse in model.graph.sparse_initializer
    )
    return found


def _elements(dims: Sequence[int]) -> int:
    count = 1
    for dim in dims:
        count *= dim
    return count


def _fix_shape(value: Any, shape: Sequence[int]) -> None:
    value.type.tensor_type.shape.Clear()
    for size in shape:
        value.type.tensor_type.shape.dim.add().dim_value = size


def without_nodes(light: Any, model: Any) -> Any:
    """The init model: every initializer by name and shape, no nodes, so that nothing runs twice."""
    init = onnx.ModelProto()
    init.graph.input.extend(light.graph.input)
    for name, code, dims, _ in weights(model):
        stub = init.graph.initializer.add()
        stub.name, stub.data_type = name, code
        stub.dims.extend(dims)
    return init


def infer(light: Any, notes: List[str], data: bool = False) -> Any:
    """`light` with inferred shapes; where inference fails, `light` itself and a note.

    With `data`, shapes that are computed from other shapes are followed too.
    """
    ranks = {tensor.name: len(tensor.dims) for tensor in light.graph.initializer}
    for value in list(light.graph.input) + list(light.graph.value_info):
        ranks[value.name] = len(shape_of(value.type) or ())
    deadly = [index for index, node in enumerate(light.graph.node) if not inferable(node, ranks)]
    domains = [light.graph.node[index].domain for index in deadly]
    for index in deadly:
        light.graph.node[index].domain = "not inferred"
    try:
        inferred = _inferred(light, data)
    except Exception as error:
        notes.append("shapes could not be inferred: %s" % (str(error).splitlines() or [type(error).__name__])[0])
        inferred = light
    for model in (light, inferred):
        for index, domain in zip(deadly, domains):
            model.graph.node[index].domain = domain
    return inferred


def _inferred(light: Any, data: bool) -> Any:
    if data:
        try:
            return onnx.shape_inference.infer_shapes(light, data_prop=True)
        except Exception:  # what the values of a shape break, inference without them still tells
            pass
    return onnx.shape_inference.infer_shapes(light)


def inferable(node: Any, ranks: Dict[str, int]) -> bool:
    """Whether onnx's shape inference survives this node: it divides by strides, and takes ranks of Conv for equal."""
    if any(attribute.name == "strides" and 0 in attribute.ints for attribute in node.attribute):
        return False
    if node.op_type not in ("Conv", "ConvTranspose") or any(a.name == "kernel_shape" for a in node.attribute):
        return True
    known = [ranks.get(name) or 0 for name in node.input[:2]]
    return 0 in known or len(set(known)) == 1


# --- Constant ------------------------------------------------------------------------------------


def _give_constants_values(graph: Any, notes: List[str]) -> None:
    for index, node in enumerate(graph.node):
        for attribute in node.attribute:
            for inner in list(attribute.graphs) + ([attribute.g] if attribute.HasField("g") else []):
                _give_constants_values(inner, notes)
        if node.op_type == "Constant" and not any(attribute.name == "value" for attribute in node.attribute):
            _give_constant_value(node, index, notes)


def _give_constant_value(node: Any, index: int, notes: List[str]) -> None:
    for attribute in list(node.attribute):
        tensor = _constant_tensor(attribute)
        if tensor is not None:
            node.attribute.remove(attribute)
            node.attribute.add().CopyFrom(onnx.helper.make_attribute("value", tensor))
            notes.append(
                "node %s: Constant's %s is written as `value`, else the backend ends in SIGSEGV"
                % (node.name or "Constant_%d" % index, attribute.name)
            )
            return


def _constant_tensor(attribute: Any) -> Any:
    make, kinds = onnx.helper.make_tensor, onnx.TensorProto
    if attribute.name == "sparse_value":
        return numpy_helper.from_array(dense(attribute.sparse_tensor))
    scalars = {"value_float": (kinds.FLOAT, "f"), "value_int": (kinds.INT64, "i"), "value_string": (kinds.STRING, "s")}
    lists = {
        "value_floats": (kinds.FLOAT, "floats"),
        "value_ints": (kinds.INT64, "ints"),
        "value_strings": (kinds.STRING, "strings"),
    }
    if attribute.name in scalars:
        kind, field = scalars[attribute.name]
        return make("", kind, [], [getattr(attribute, field)])
    if attribute.name in lists:
        kind, field = lists[attribute.name]
        values = list(getattr(attribute, field))
        return make("", kind, [len(values)], values)
    return None
