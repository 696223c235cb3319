"""The sample networks as lists of layers, and what each layer computes, in PyTorch and float64.

The same lists are written as ONNX (`onnx_form`) and as Caffe2 nets (`caffe2_form`).  Everything is
computed in float64: a processor that adds in another order changes the last of 16 digits, and after
rounding to GRID (weights) or to float32 (expected values) the bytes are the same on any machine.
"""

from typing import Callable, Dict, NamedTuple, Tuple

import numpy as np
import torch
from torch.nn import functional as F

GRID = 256  # weights are multiples of 1/256
EPSILON = 1e-5
CLASSES = 10

Values = Dict[str, torch.Tensor]


class Layer(NamedTuple):
    """One layer; its output is called like the layer."""

    kind: str
    name: str
    size: int = 0
    kernel: int = 0
    stride: int = 1
    ceil: bool = False


class Network(NamedTuple):
    """A named list of layers over one input."""

    name: str
    about: str
    input: str
    layers: Tuple[Layer, ...]
    seed: int
    rate: float
    epochs: int


_HEAD = (Layer("mean", "pool2"), Layer("flatten", "flat"), Layer("fc", "fc", CLASSES), Layer("softmax", "prob"))

_WITH_BN = (
    Layer("conv", "conv1", 8, kernel=3),
    Layer("bn", "bn1", 8),
    Layer("relu", "relu1"),
    Layer("maxpool", "pool1", kernel=2, stride=2),
    Layer("conv", "conv2", 16, kernel=3),
    Layer("bn", "bn2", 16),
    Layer("relu", "relu2"),
    *_HEAD,
)

_WITH_CEIL = (
    Layer("conv", "conv1", 8, kernel=3),
    Layer("relu", "relu1"),
    Layer("maxpool", "pool1", kernel=3, stride=2, ceil=True),
    Layer("conv", "conv2", 16, kernel=3),
    Layer("relu", "relu2"),
    *_HEAD,
)

_WITH_LSTM = (Layer("lstm", "lstm", 16), Layer("fc", "fc", CLASSES), Layer("softmax", "prob"))

CNN = Network("digits_cnn", "CNN with BatchNormalization", "digits", _WITH_BN, seed=1, rate=0.2, epochs=12)
CEIL = Network("digits_ceil", "MaxPool with ceil_mode, which Caffe2 ignores", "digits", _WITH_CEIL, 2, 0.1, 20)
LSTM = Network("digits_lstm", "LSTM over the rows of a digit", "rows", _WITH_LSTM, seed=3, rate=0.1, epochs=20)
NATIVE = Network("digits_native", "Caffe2 nets, in-place operators, no ONNX", "data", _WITH_BN, 4, 0.2, 12)


def initial(network: Network) -> Values:
    """Seeded random weights; numpy's RandomState gives the same numbers in every version."""
    random = np.random.RandomState(network.seed)
    values: Values = {}
    width = 8 if network.input == "rows" else 1
    for layer in network.layers:
        for name, array in _weights(layer, width, random).items():
            values["%s_%s" % (layer.name, name)] = torch.from_numpy(np.asarray(array, np.float64))
        width = layer.size or width
    return values


def _weights(layer: Layer, width: int, random: np.random.RandomState) -> Dict[str, np.ndarray]:
    def uniform(fan_in: int, *shape: int) -> np.ndarray:
        return random.uniform(-1, 1, shape) * (3.0 / fan_in) ** 0.5

    size, kernel = layer.size, layer.kernel
    if layer.kind == "conv":
        return {"w": uniform(width * kernel * kernel, size, width, kernel, kernel), "b": np.zeros(size)}
    if layer.kind == "bn":
        return {"scale": np.ones(size), "bias": np.zeros(size), "mean": np.zeros(size), "var": np.ones(size)}
    if layer.kind == "fc":
        return {"w": uniform(width, size, width), "b": np.zeros(size)}
    if layer.kind == "lstm":  # ONNX's layout: gates in the order input, output, forget, cell
        weights = {"w": uniform(width, 1, 4 * size, width), "r": uniform(size, 1, 4 * size, size)}
        return dict(weights, b=np.zeros((1, 8 * size)))
    return {}


def rounded(weights: Values) -> Values:
    """The weights on the grid, without negative zeros; variances stay above zero."""
    grid = {name: torch.round(value.detach() * GRID) / GRID + 0.0 for name, value in weights.items()}
    return {name: value.clamp(min=1 / GRID) if name.endswith("_var") else value for name, value in grid.items()}


def forward(network: Network, weights: Values, x: torch.Tensor, training: bool = False) -> Values:
    """Every layer's output by name, in order."""
    values: Values = {}
    for layer in network.layers:
        mine = {name[len(layer.name) + 1 :]: w for name, w in weights.items() if name.startswith(layer.name + "_")}
        x = values[layer.name] = _COMPUTE[layer.kind](layer, mine, x, training)
    return values


def _batch_norm(layer: Layer, w: Values, x: torch.Tensor, training: bool) -> torch.Tensor:
    return F.batch_norm(x, w["mean"], w["var"], w["scale"], w["bias"], training, momentum=0.1, eps=EPSILON)


def _lstm(layer: Layer, w: Values, x: torch.Tensor, training: bool) -> torch.Tensor:
    size = layer.size
    bias = w["b"][0, : 4 * size] + w["b"][0, 4 * size :]
    hidden = cell = torch.zeros(x.shape[1], size, dtype=x.dtype)
    for row in x:
        gates = row @ w["w"][0].t() + hidden @ w["r"][0].t() + bias
        enter, leave, forget, new = gates.split(size, dim=1)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
        hidden = torch.sigmoid(leave) * torch.tanh(cell)
    return hidden


_COMPUTE: Dict[str, Callable[[Layer, Values, torch.Tensor, bool], torch.Tensor]] = {
    "conv": lambda layer, w, x, training: F.conv2d(x, w["w"], w["b"], padding=layer.kernel // 2),
    "bn": _batch_norm,
    "relu": lambda layer, w, x, training: F.relu(x),
    "maxpool": lambda layer, w, x, training: F.max_pool2d(x, layer.kernel, layer.stride, ceil_mode=layer.ceil),
    "mean": lambda layer, w, x, training: x.mean((2, 3), keepdim=True),
    "flatten": lambda layer, w, x, training: x.flatten(1),
    "fc": lambda layer, w, x, training: x @ w["w"].t() + w["b"],
    "softmax": lambda layer, w, x, training: F.softmax(x, dim=1),
    "lstm": _lstm,
}
