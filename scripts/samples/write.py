"""Writes the sample models with their inputs, labels and expected values."""

import os
from typing import Dict

import numpy as np
import torch

from samples import digits
from samples.caffe2_form import caffe2_bytes
from samples.network import CEIL, CNN, LSTM, NATIVE, Network, forward
from samples.onnx_form import BATCH, onnx_bytes
from samples.training import feed, inputs, trained


def write_models(folder: str) -> None:
    """Train each network and write its folder, and the held-out digits beside them."""
    torch.set_num_threads(1)
    data, rest = digits.training(), digits.held_out()
    np.savez(os.path.join(folder, "held_out.npz"), images=(rest.images * 16).astype(np.uint8), labels=rest.labels)
    for network in (CNN, CEIL, LSTM, NATIVE):
        home = os.path.join(folder, network.name)
        os.mkdir(home)
        _write_model(network, home, data, digits.Digits(rest.images[:BATCH], rest.labels[:BATCH]))


def _write_model(network: Network, home: str, data: digits.Digits, batch: digits.Digits) -> None:
    weights = trained(network, data)
    values = forward(network, weights, feed(network, batch))
    _save(home, "input.npz", {network.input: inputs(network, batch)})
    _save(home, "expected.npz", _float32({"prob": values["prob"]}))
    np.save(os.path.join(home, "labels.npy"), batch.labels)
    if network is NATIVE:
        init_net, predict_net = caffe2_bytes(network, _float32(weights))
        _write(home, "init_net.pb", init_net)
        _write(home, "predict_net.pb", predict_net)
    else:
        _write(home, "model.onnx", onnx_bytes(network, _float32(weights)))
        _save(home, "reference.npz", _float32(values))


def _float32(values: Dict[str, torch.Tensor]) -> Dict[str, np.ndarray]:
    return {name: value.detach().numpy().astype(np.float32) for name, value in values.items()}


def _save(home: str, name: str, arrays: Dict[str, np.ndarray]) -> None:
    np.savez(os.path.join(home, name), **arrays)


def _write(home: str, name: str, content: bytes) -> None:
    with open(os.path.join(home, name), "wb") as stream:
        stream.write(content)
