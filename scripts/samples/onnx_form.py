"""A sample network as ONNX, with readable value names.

IR version 4 keeps initializers out of the graph's inputs, as exporters do today.
"""

from typing import Dict, List, Union

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from samples.network import CLASSES, EPSILON, Layer, Network

IR_VERSION = 4
OPSET = 10  # the first with ceil_mode
BATCH = 4  # of the LSTM: Caffe2 takes none without an initial state, and its shape holds the batch


def onnx_bytes(network: Network, weights: Dict[str, np.ndarray]) -> bytes:
    """The serialized model."""
    nodes: List[onnx.NodeProto] = []
    source = network.input
    for layer in network.layers:
        nodes += _nodes(layer, source)
        source = layer.name
        if layer.kind == "lstm":
            weights = dict(weights, **_state(layer))
    count: Union[str, int] = BATCH if network.input == "rows" else "N"
    dims = [8, count, 8] if network.input == "rows" else [count, 1, 8, 8]
    graph = helper.make_graph(
        nodes,
        network.name,
        [helper.make_tensor_value_info(network.input, TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info(source, TensorProto.FLOAT, [count, CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, producer_name="c2step", opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    return bytes(model.SerializeToString())


def _nodes(layer: Layer, source: str) -> List[onnx.NodeProto]:
    name, kernel = layer.name, [layer.kernel] * 2

    def node(op_type: str, weights: str = "", **attributes: object) -> List[onnx.NodeProto]:
        takes = [source] + ["%s_%s" % (name, weight) for weight in weights.split()]
        return [helper.make_node(op_type, takes, [name], name=name, **attributes)]

    if layer.kind == "conv":
        return node("Conv", "w b", kernel_shape=kernel, pads=[layer.kernel // 2] * 4)
    if layer.kind == "bn":
        return node("BatchNormalization", "scale bias mean var", epsilon=EPSILON)
    if layer.kind == "maxpool":
        ceil = {"ceil_mode": 1} if layer.ceil else {}
        return node("MaxPool", kernel_shape=kernel, strides=[layer.stride] * 2, **ceil)
    if layer.kind == "fc":
        return node("Gemm", "w b", transB=1)
    if layer.kind == "lstm":
        return _lstm(layer, source)
    simple = {"relu": "Relu", "mean": "GlobalAveragePool", "flatten": "Flatten", "softmax": "Softmax"}
    return node(simple[layer.kind], **({"axis": 1} if layer.kind in ("flatten", "softmax") else {}))


def _lstm(layer: Layer, source: str) -> List[onnx.NodeProto]:
    name = layer.name
    takes = [source, name + "_w", name + "_r", name + "_b", "", *_state(layer)]
    last = name + "_last"  # the hidden state after the last row, with a leading axis for the direction
    gives = [name + "_all", last, name + "_state"]
    return [
        helper.make_node("LSTM", takes, gives, name=name + "_cell", hidden_size=layer.size),
        helper.make_node("Squeeze", [last], [name], name=name, axes=[0]),
    ]


def _state(layer: Layer) -> Dict[str, np.ndarray]:
    zeros = np.zeros((1, BATCH, layer.size), np.float32)
    return {layer.name + "_h0": zeros, layer.name + "_c0": zeros}
