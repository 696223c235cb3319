"""An ONNX graph as a list of nodes that can be run alone, each as a model of its own.

Running nodes one by one on stored values gives what the whole graph gives with optimisations
off, holds no more in memory than one node needs, and leaves every other node standing when one is
refused or ends the process.
"""

import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import numpy as np
import onnx
from onnx import external_data_helper, helper, numpy_helper

from c2step.errors import ModelError, ReferenceFailed
from c2step.importer.weights import array_of, is_stored, parse

from .values import NUMPY_TYPES, WIDER, type_proto

__all__ = ["Call", "Graph", "captured", "dense", "model_of", "size_of"]

_STANDARD = ("", "ai.onnx")
_LARGE = 1 << 20
_PLAIN = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64, onnx.TensorProto.INT32)


class Call(NamedTuple):
    """A node with the values it reads.

    `constants` are TensorProtos or arrays by name; `types` gives onnxruntime's type text of each fed
    value, such as `tensor(float)`.
    """

    node: Any
    opset: int
    feeds: Dict[str, Any]
    types: Dict[str, str]
    constants: Dict[str, Any]

    @property
    def standard(self) -> bool:
        """Whether the node belongs to ONNX itself."""
        return self.node.domain in _STANDARD

    def value(self, slot: int) -> Any:
        """The value at one input, constant or fed; None where the node leaves it out."""
        name = self.node.input[slot] if slot < len(self.node.input) else ""
        if name in self.constants:
            return dense(self.constants[name])
        return self.feeds.get(name)


class Graph:
    """The nodes of an ONNX file in an order that can be run, and its initializers."""

    def __init__(self, path: str, light: bool = False) -> None:
        """Read `path` without its external weights; ReferenceFailed says what is wrong with it.

        A `light` one leaves the large weights of the file itself there too, until a node needs them.
        """
        self.path = os.path.abspath(path)
        self.folder = os.path.dirname(self.path)
        self.model = _parse(self.path, light)
        self._check_weights()
        graph = self.model.graph
        self.initializers: Dict[str, Any] = {t.name: t for t in graph.initializer}
        self.initializers.update((t.values.name, t) for t in graph.sparse_initializer)
        self.opset = next((int(e.version) for e in self.model.opset_import if e.domain in _STANDARD), 1)
        self.nodes: List[Tuple[int, Any]] = list(self._in_order())
        self.fixed: Set[str] = {name for _, node in self.nodes if _is_constant(node) for name in node.output}
        self._own: Set[int] = {id(node) for _, node in self.nodes}

    def inputs(self) -> List[Any]:
        """The ValueInfoProtos of the inputs that are no initializers."""
        return [value for value in self.model.graph.input if value.name not in self.initializers]

    def reads(self, node: Any) -> List[str]:
        """Every value that a node needs, those that its subgraphs take from outside included."""
        return list(dict.fromkeys([name for name in node.input if name] + list(captured(node))))

    def find(self, which: Any) -> Tuple[int, Any]:
        """A node by its index in the file or by the name of one of its outputs."""
        for index, node in self.nodes:
            if index == which or (isinstance(which, str) and which in node.output):
                return index, node
        raise ReferenceFailed("%s has no node %s" % (self.path, which))

    def call(self, node: Any, feeds: Dict[str, Any], types: Dict[str, str]) -> Call:
        """A node with its feeds; initializers and outputs of Constant nodes stay constants."""
        constants = {
            name: self.loaded(self.initializers[name])
            for name in self.reads(node)
            if name in self.initializers and name not in feeds
        }
        fixed = [n for n in feeds if n in self.fixed and types[n] not in WIDER and isinstance(feeds[n], np.ndarray)]
        constants.update((name, feeds[name]) for name in fixed)
        rest = {name: value for name, value in feeds.items() if name not in fixed}
        return Call(node, self.opset, rest, {name: types[name] for name in rest}, constants)

    def loaded(self, tensor: Any) -> Any:
        """An initializer with its bytes, or the array of one whose bytes were left in the file or are in another."""
        if isinstance(tensor, onnx.TensorProto) and is_stored(tensor):
            return self._left(tensor)
        if not isinstance(tensor, onnx.TensorProto) or not external_data_helper.uses_external_data(tensor):
            return tensor
        copy = onnx.TensorProto()
        copy.CopyFrom(tensor)
        external_data_helper.load_external_data_for_tensor(copy, self.folder)
        copy.data_location = onnx.TensorProto.DEFAULT
        del copy.external_data[:]
        return copy

    def _left(self, tensor: Any) -> np.ndarray:
        try:
            return array_of(tensor)
        except ModelError as error:
            raise ReferenceFailed(error.message, error.hint) from error

    def key(self, call: Call) -> Optional[Tuple[Any, ...]]:
        """What calls of one node that need the same session agree in; None for a node that is none of the file's."""
        if id(call.node) not in self._own:
            return None
        return id(call.node), tuple(call.types.items()), tuple(call.constants)

    def _check_weights(self) -> None:
        for tensor in self.model.graph.initializer:
            if external_data_helper.uses_external_data(tensor):
                place = external_data_helper.ExternalDataInfo(tensor).location
                if not os.path.isfile(os.path.join(self.folder, place)):
                    raise ReferenceFailed(
                        "weights file %s, which tensor %s needs, is not beside %s" % (place, tensor.name, self.path),
                        "copy it into %s" % self.folder,
                    )

    def _in_order(self) -> Iterator[Tuple[int, Any]]:
        """Nodes in file order, except that one which comes too early waits for its inputs."""
        waiting = list(enumerate(self.model.graph.node))
        made = {name for _, node in waiting for name in node.output}
        while waiting:
            late = []
            before = len(waiting)
            for index, node in waiting:
                if any(name in made for name in self.reads(node) if name not in node.output):
                    late.append((index, node))
                    continue
                made.difference_update(node.output)
                yield index, node
            waiting = late
            if len(waiting) == before:  # a cycle: onnxruntime will say so node by node
                for item in waiting:
                    yield item
                return


def _parse(path: str, light: bool) -> Any:
    try:
        model = parse(path) if light else onnx.load(path, load_external_data=False)
    except OSError as error:
        raise ReferenceFailed("cannot read %s: %s" % (path, error.strerror or error)) from error
    except Exception as error:
        raise ReferenceFailed("%s is no ONNX model" % path, "give the .onnx file that was converted") from error
    if not model.graph.node and not model.graph.output:
        raise ReferenceFailed("%s holds no ONNX graph" % path, "give the .onnx file that was converted")
    return model


def _is_constant(node: Any) -> bool:
    return node.op_type == "Constant" and node.domain in _STANDARD


def captured(node: Any) -> Iterator[str]:
    """The outer values that a node's subgraphs read, at any depth."""
    for attribute in node.attribute:
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            for name in _free(graph):
                yield name


def _free(graph: Any) -> Iterator[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own.update(name for node in graph.node for name in node.output)
    for node in graph.node:
        for name in [n for n in node.input if n] + list(captured(node)):
            if name not in own:
                yield name
    for value in graph.output:
        if value.name not in own:
            yield value.name


def dense(tensor: Any) -> np.ndarray:
    """The array of a constant: an array itself, a TensorProto or a SparseTensorProto."""
    if isinstance(tensor, np.ndarray):
        return tensor
    if isinstance(tensor, onnx.TensorProto):
        return np.asarray(numpy_helper.to_array(tensor))
    values, indices = numpy_helper.to_array(tensor.values), numpy_helper.to_array(tensor.indices)
    array = np.zeros(tuple(tensor.dims), values.dtype)
    if indices.ndim == 1:
        array.reshape(-1)[indices] = values
    else:
        array[tuple(indices.T)] = values
    return array


def model_of(
    graph: Graph, call: Call, outputs: Optional[Dict[str, str]] = None, apart: Optional[Dict[str, np.ndarray]] = None
) -> Any:
    """One node as a model: its feeds are inputs, its outputs have no type, or the type `outputs` gives.

    Values of types that numpy has not are widened at the borders, which loses nothing.  Where `apart` is
    given, large constants go there and leave an initializer without bytes.
    """
    node = onnx.NodeProto()
    node.CopyFrom(call.node)
    nodes, inputs = [node], []
    for name, kind in call.types.items():
        inputs.append(_input(name, kind, nodes))
    outs = [_output(name, (outputs or {}).get(name, ""), nodes) for name in node.output if name]
    made = helper.make_graph(nodes, "node", inputs, outs)
    model = helper.make_model(made, ir_version=min(max(int(graph.model.ir_version), 4), onnx.IR_VERSION))
    del model.opset_import[:]
    _copy_opsets(graph, model, call)
    model.functions.extend(graph.model.functions)
    external_data_helper.load_external_data_for_model(model, graph.folder)
    for name, constant in call.constants.items():
        _add_constant(model.graph, name, constant, apart)
    if node.op_type == "Resize" and call.standard and call.opset < 13:
        _fill_left_out(model.graph)
    return model


def _fill_left_out(made: Any) -> None:
    """Empty roi and scales for those that exporters leave out: onnxruntime takes that from opset 13 on only."""
    node = next(node for node in made.node if node.op_type == "Resize")
    for slot in [i for i, name in enumerate(node.input) if not name]:
        node.input[slot] = "%s__left_out_%d" % (node.output[0], slot)
        made.initializer.append(numpy_helper.from_array(np.zeros(0, np.float32), node.input[slot]))


def _copy_opsets(graph: Graph, model: Any, call: Call) -> None:
    domains = {"" if e.domain in _STANDARD else e.domain: int(e.version) for e in graph.model.opset_import}
    domains[""] = call.opset
    for domain, version in domains.items():
        model.opset_import.append(helper.make_opsetid(domain, version))


def _add_constant(made: Any, name: str, constant: Any, apart: Optional[Dict[str, np.ndarray]]) -> None:
    if isinstance(constant, onnx.SparseTensorProto):
        made.sparse_initializer.append(constant)
    elif apart is not None and _is_large(constant):
        apart[name] = dense(constant)
        made.initializer.append(_hollow(name, apart[name]))
    elif isinstance(constant, np.ndarray):
        made.initializer.append(numpy_helper.from_array(constant, name))
    else:
        made.initializer.append(constant)


def size_of(constant: Any) -> int:
    """The bytes of a constant, an array or a message."""
    return int(constant.nbytes if isinstance(constant, np.ndarray) else constant.ByteSize())


def _is_large(constant: Any) -> bool:
    plain = constant.dtype.kind in "fiu" if isinstance(constant, np.ndarray) else constant.data_type in _PLAIN
    return plain and size_of(constant) > _LARGE


def _hollow(name: str, array: np.ndarray) -> Any:
    tensor = onnx.TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=name)
    return tensor


def _input(name: str, kind: str, nodes: List[Any]) -> Any:
    if kind not in WIDER:
        return helper.make_value_info(name, type_proto(kind))
    wide = name + "__wide"
    nodes.insert(0, helper.make_node("Cast", [wide], [name], name=wide, to=NUMPY_TYPES[kind]))
    return helper.make_value_info(wide, type_proto(WIDER[kind]))


def _output(name: str, kind: str, nodes: List[Any]) -> Any:
    if kind not in WIDER:
        return onnx.ValueInfoProto(name=name)
    wide = name + "__wide"
    nodes.append(helper.make_node("Cast", [name], [wide], name=wide, to=NUMPY_TYPES[WIDER[kind]]))
    return helper.make_value_info(wide, type_proto(WIDER[kind]))
