"""Some operators of a model on their own: nets that stock Caffe2 runs, and an ONNX backend test.  Worker side only."""

import os
from typing import Any, Dict, Iterator, List, Mapping, Sequence

import numpy as np
from caffe2.proto import caffe2_pb2
from google.protobuf import text_format

from ..blob import INT8, Blob
from ..errors import ConversionError
from .fills import fill_ops
from .opening import Opened

__all__ = ["onnx_values", "write_cut", "write_onnx_test"]

_LARGEST_INIT = 64 << 20  # bytes of values; what is larger is fed from its .npy file alone
_LARGEST_TEXT = 1 << 20


def write_cut(opened: Opened, first: int, last: int, directory: str, values: Sequence[Blob]) -> List[str]:
    """Write the operators `first` to `last` (exclusive) as predict_net and the values as init_net, both .pb and .pbtxt.

    Returns the names of values that init_net does not have.
    """
    net = caffe2_pb2.NetDef(name="repro", type="simple")
    if opened.predict_net.HasField("device_option"):
        net.device_option.CopyFrom(opened.predict_net.device_option)
    net.op.extend(opened.predict_net.op[first:last])
    net.external_input.extend(blob.name for blob in values)
    net.external_output.extend(dict.fromkeys(name for op in net.op for name in op.output))
    init = caffe2_pb2.NetDef(name="repro_init", type="simple")
    missing = [blob.name for blob in values if not _add_fill(init, blob)]
    for name, made in (("init_net", init), ("predict_net", net)):
        _write(os.path.join(directory, name + ".pb"), made.SerializeToString())
        if made.ByteSize() < _LARGEST_TEXT:
            _write(os.path.join(directory, name + ".pbtxt"), text_format.MessageToString(made).encode("utf-8"))
    return missing


def _add_fill(init: Any, blob: Blob) -> bool:
    if blob.array is None or init.ByteSize() + blob.array.nbytes > _LARGEST_INIT:
        return False
    try:
        init.op.extend([_int8_fill(blob)] if blob.kind == INT8 else fill_ops(blob.name, blob.array))
    except ConversionError:
        return False
    return True


def _int8_fill(blob: Blob) -> Any:
    assert blob.array is not None
    wide = blob.array.dtype == np.int32
    op = caffe2_pb2.OperatorDef(type="Int8GivenIntTensorFill" if wide else "Int8GivenTensorFill", output=[blob.name])
    op.arg.add(name="shape").ints.extend(blob.array.shape)
    values = op.arg.add(name="values")
    if wide:
        values.ints.extend(blob.array.reshape(-1).tolist())
    else:
        values.s = blob.array.tobytes()
    op.arg.add(name="Y_scale").f = blob.scale or 1.0
    op.arg.add(name="Y_zero_point").i = blob.zero_point or 0
    return op


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


# -- ONNX -------------------------------------------------------------------------------------


def write_onnx_test(opened: Opened, first: int, last: int, directory: str, known: Mapping[str, np.ndarray]) -> str:
    """Write model.onnx and test_data_set_0 for the ONNX nodes of a range of operators, with the values `known`.

    Returns what there is to say about it: why there is none, or what it lacks.
    """
    if opened.onnx_model is None:
        return "none, the model is no ONNX model"
    wanted = set(opened.node_of[first:last])
    whole = [i for i, node in enumerate(opened.node_of) if node in wanted]
    if whole != list(range(first, last)):
        return "none, operators %d to %d are not whole ONNX nodes" % (first, last - 1)
    return _Test(opened.onnx_model, sorted(wanted), known).write(directory)


class _Test:
    def __init__(self, model: Any, nodes: Sequence[int], known: Mapping[str, np.ndarray]) -> None:
        import onnx

        self._onnx = onnx
        self._model = model
        self._nodes = [model.graph.node[index] for index in nodes]
        self._known = known

    def write(self, directory: str) -> str:
        made = {name for node in self._nodes for name in node.output}
        free = [name for name in dict.fromkeys(self._read()) if name not in made]
        from .weights import whole

        constants = {tensor.name: tensor for tensor in self._model.graph.initializer}
        constants.update(self._constant_nodes())
        inputs = [name for name in free if name not in constants]
        outputs = [name for node in self._nodes for name in node.output if name]
        unknown = [name for name in inputs if name not in self._known]
        if unknown:
            return "none, its input %s has no value" % unknown[0]
        model = self._sub_model(inputs, outputs, whole(constants[name] for name in free if name in constants))
        _write(os.path.join(directory, "model.onnx"), model.SerializeToString())
        for side, names in (("input", inputs), ("output", outputs)):
            for number, name in enumerate(names):
                if name not in self._known:
                    continue
                tensor = self._onnx.numpy_helper.from_array(np.ascontiguousarray(self._known[name]), name)
                path = os.path.join(directory, "test_data_set_0", "%s_%d.pb" % (side, number))
                _write(path, tensor.SerializeToString())
        return self._checked(model)

    def _read(self) -> Iterator[str]:
        for node in self._nodes:
            yield from _reads(node)

    def _constant_nodes(self) -> Dict[str, Any]:
        found = {}
        for node in self._model.graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                tensor = self._onnx.TensorProto()
                tensor.CopyFrom(node.attribute[0].t)
                tensor.name = node.output[0]
                found[node.output[0]] = tensor
        return found

    def _sub_model(self, inputs: Sequence[str], outputs: Sequence[str], constants: Sequence[Any]) -> Any:
        model = self._onnx.ModelProto(ir_version=self._model.ir_version, producer_name="c2step")
        model.opset_import.extend(self._model.opset_import)
        graph = model.graph
        graph.name = "repro"
        graph.node.extend(self._nodes)
        graph.initializer.extend(constants)
        graph.input.extend(self._info(name, self._known[name]) for name in inputs)
        graph.output.extend(self._output(name) for name in outputs)
        if self._model.ir_version < 4:  # initializers had to be inputs too
            graph.input.extend(self._info(t.name, self._onnx.numpy_helper.to_array(t)) for t in constants)
        return model

    def _output(self, name: str) -> Any:
        if name in self._known:
            return self._info(name, self._known[name])
        declared = list(self._model.graph.output) + list(self._model.graph.value_info)
        return next((value for value in declared if value.name == name), self._onnx.ValueInfoProto(name=name))

    def _info(self, name: str, array: np.ndarray) -> Any:
        kind = self._onnx.numpy_helper.from_array(np.zeros(1, array.dtype) if array.dtype.kind not in "OSU" else array)
        return self._onnx.helper.make_tensor_value_info(name, kind.data_type, array.shape)

    def _checked(self, model: Any) -> str:
        missing = [name for node in self._nodes for name in node.output if name and name not in self._known]
        said = ["no value for its output %s" % missing[0]] if missing else []
        try:
            self._onnx.checker.check_model(model)
        except Exception as error:  # the model is cut as it is; a bad node may be what is looked for
            said.append("onnx's checker refuses it: %s" % str(error).strip().split("\n")[0])
        return "; ".join(said)


def _reads(node: Any) -> List[str]:
    """What a node reads, the values of the outer graph that its own graphs use included."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in list(attribute.graphs) + ([attribute.g] if attribute.HasField("g") else []):
            inner = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            inner |= {name for inside in graph.node for name in inside.output}
            names += [name for inside in graph.node for name in _reads(inside) if name not in inner]
    return names


def onnx_values(opened: Opened, position: int, blobs: Sequence[Blob]) -> Dict[str, np.ndarray]:
    """The arrays of blobs before an operator, by the ONNX values that they hold there; numbers for Int8."""
    held: Dict[str, str] = {}
    for index in opened.node_of[:position]:
        node = opened.nodes[index]
        held.update(zip(node.blobs or node.outputs, node.outputs))
    arrays = [(held.get(blob.name, blob.name), blob.real()) for blob in blobs]
    return {name: np.asarray(array) for name, array in arrays if array is not None}
