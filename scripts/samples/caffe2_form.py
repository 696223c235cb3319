"""A sample network as init_net.pb and predict_net.pb, with SpatialBN and Relu in place.

An in-place operator overwrites its input: the blob `conv1` holds in turn what the layers conv1, bn1
and relu1 give.
"""

from typing import Dict, List, Tuple

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import core, utils

from samples.network import EPSILON, Layer, Network

IN_PLACE = ("bn", "relu")


def caffe2_bytes(network: Network, weights: Dict[str, np.ndarray]) -> Tuple[bytes, bytes]:
    """The serialized init_net and predict_net."""
    init_net = _net(network.name + "_init", [_fill(name, value) for name, value in weights.items()])
    init_net.external_output.extend(weights)
    operators, source = _operators(network)
    predict_net = _net(network.name, operators)
    predict_net.external_input.extend([network.input, *weights])
    predict_net.external_output.append(source)
    return init_net.SerializeToString(), predict_net.SerializeToString()


def _net(name: str, operators: List[caffe2_pb2.OperatorDef]) -> caffe2_pb2.NetDef:
    net = caffe2_pb2.NetDef(name=name)
    net.op.extend(operators)
    return net


def _fill(name: str, value: np.ndarray) -> caffe2_pb2.OperatorDef:
    arguments = [utils.MakeArgument("shape", value.shape), utils.MakeArgument("values", value.ravel())]
    return core.CreateOperator("GivenTensorFill", [], [name], arg=arguments)


def _operators(network: Network) -> Tuple[List[caffe2_pb2.OperatorDef], str]:
    operators, source = [], network.input
    for layer in network.layers:
        target = source if layer.kind in IN_PLACE else layer.name
        operators.append(_operator(layer, source, target))
        source = target
    return operators, source


def _operator(layer: Layer, source: str, target: str) -> caffe2_pb2.OperatorDef:
    def op(kind: str, weights: str = "", **arguments: object) -> caffe2_pb2.OperatorDef:
        takes = [source] + ["%s_%s" % (layer.name, weight) for weight in weights.split()]
        return core.CreateOperator(kind, takes, [target], name=layer.name, **arguments)

    if layer.kind == "conv":
        return op("Conv", "w b", kernel=layer.kernel, pad=layer.kernel // 2, stride=1, order="NCHW")
    if layer.kind == "bn":
        return op("SpatialBN", "scale bias mean var", is_test=1, epsilon=EPSILON, order="NCHW")
    if layer.kind == "maxpool":
        return op("MaxPool", kernel=layer.kernel, stride=layer.stride, order="NCHW")
    if layer.kind == "mean":
        return op("AveragePool", global_pooling=1, order="NCHW")
    if layer.kind == "flatten":
        return op("Flatten", axis=1)
    if layer.kind == "softmax":
        return op("Softmax", axis=1)
    return op({"relu": "Relu", "fc": "FC"}[layer.kind], "w b" if layer.kind == "fc" else "")
