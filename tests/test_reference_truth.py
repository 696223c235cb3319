"""Float64 truths against onnxruntime's float64 kernels, PyTorch in double, and sums that float32 gets wrong."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from c2step.errors import ReferenceFailed
from c2step.references import Truth
from reference_support import PYTHON, InThisProcess, node, write_model

torch = pytest.importorskip("torch")


def random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape).astype(np.float32)


@pytest.fixture
def ask(monkeypatch, tmp_path):
    """The truth of a single node on inputs by name."""
    monkeypatch.setattr("c2step.references.truth.Engine", InThisProcess)

    def asked(one, inputs, opset=11, outputs=("y",), **options):
        path = write_model(tmp_path / "m.onnx", [one], inputs, outputs, opset=opset)
        with Truth(path, PYTHON) as truth:
            return truth.node(0, inputs, **options)

    return asked


def double(array):
    return torch.from_numpy(array.astype(np.float64))


def close(found, wanted):
    return np.allclose(found, wanted.numpy() if hasattr(wanted, "numpy") else wanted, rtol=1e-12, atol=1e-12)


F = torch.nn.functional
X, W, B = random(2, 4, 9, 8), random(6, 2, 3, 2), random(6)
WT = random(4, 3, 3, 2)
CONVOLUTIONS = {
    "plain": ({"group": 2}, lambda: F.conv2d(double(X), double(W), double(B), groups=2)),
    "strides, pads, dilations": (
        {"group": 2, "strides": [2, 1], "pads": [1, 2, 1, 2], "dilations": [2, 3]},
        lambda: F.conv2d(double(X), double(W), double(B), (2, 1), (1, 2), (2, 3), 2),
    ),
    "uneven pads": (
        {"group": 2, "pads": [0, 1, 2, 3]},
        lambda: F.conv2d(F.pad(double(X), (1, 3, 0, 2)), double(W), double(B), groups=2),
    ),
    "SAME_UPPER": (
        {"group": 2, "auto_pad": "SAME_UPPER"},
        lambda: F.conv2d(F.pad(double(X), (0, 1, 1, 1)), double(W), double(B), groups=2),
    ),
    "SAME_LOWER": (
        {"group": 2, "auto_pad": "SAME_LOWER"},
        lambda: F.conv2d(F.pad(double(X), (1, 0, 1, 1)), double(W), double(B), groups=2),
    ),
}


@pytest.mark.parametrize("which", list(CONVOLUTIONS))
def test_convolution_is_that_of_pytorch_in_double(which, ask):
    attributes, wanted = CONVOLUTIONS[which]
    found = ask(node("Conv", "x w b", "y", **attributes), {"x": X, "w": W, "b": B})
    assert close(found.values["y"], wanted())
    assert (found.how, found.doubt) == ("numpy in float64", "")


TRANSPOSED = {
    "plain": ({"group": 2}, {"groups": 2}),
    "strides, pads, extra": (
        {"strides": [2, 3], "pads": [1, 0, 1, 0], "output_padding": [1, 2], "group": 2},
        {"stride": (2, 3), "padding": (1, 0), "output_padding": (1, 2), "groups": 2},
    ),
    "dilations": ({"dilations": [2, 1], "group": 2}, {"dilation": (2, 1), "groups": 2}),
}


@pytest.mark.parametrize("which", list(TRANSPOSED))
def test_transposed_convolution_is_that_of_pytorch_in_double(which, ask):
    attributes, options = TRANSPOSED[which]
    found = ask(node("ConvTranspose", "x w b", "y", **attributes), {"x": X, "w": WT, "b": B})
    assert close(found.values["y"], F.conv_transpose2d(double(X), double(WT), double(B), **options))
    assert found.doubt == ""


@pytest.mark.parametrize("ceil", [0, 1])
def test_pooling_is_that_of_pytorch_in_double(ceil, ask):
    shape = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": ceil}
    most = ask(node("MaxPool", "x", "y", **shape), {"x": X})
    mean = ask(node("AveragePool", "x", "y", count_include_pad=1, **shape), {"x": X})
    inner = ask(node("AveragePool", "x", "y", **shape), {"x": X})
    assert close(most.values["y"], F.max_pool2d(double(X), (3, 2), 2, 1, ceil_mode=bool(ceil)))
    assert close(mean.values["y"], F.avg_pool2d(double(X), (3, 2), 2, 1, bool(ceil)))
    assert close(inner.values["y"], F.avg_pool2d(double(X), (3, 2), 2, 1, bool(ceil), count_include_pad=False))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_are_those_of_pytorch_in_double(kind, ask):
    layer = getattr(torch.nn, kind)(3, 4, bidirectional=True).float().double()  # weights that float32 holds
    order = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2]}[kind]  # PyTorch's gates in ONNX's order

    def gates(name):
        rows = [getattr(layer, name + end).detach().numpy() for end in ("", "_reverse")]
        return np.stack([np.concatenate([np.split(row, len(order))[g] for g in order]) for row in rows])

    bias = np.concatenate([gates("bias_ih_l0"), gates("bias_hh_l0")], axis=1)
    inputs = {"x": random(5, 2, 3), "w": gates("weight_ih_l0"), "r": gates("weight_hh_l0"), "b": bias}
    inputs = {name: value.astype(np.float32) for name, value in inputs.items()}
    with torch.no_grad():
        wanted, state = layer(double(inputs["x"]))
    outputs = "y h c" if kind == "LSTM" else "y h"
    more = {"linear_before_reset": 1} if kind == "GRU" else {}
    one = node(kind, "x w r b", outputs, hidden_size=4, direction="bidirectional", **more)
    found = ask(one, inputs, outputs=["y", "h"])
    assert close(found.values["y"], wanted.reshape(5, 2, 2, 4).permute(0, 2, 1, 3))
    assert close(found.values["h"], state[0] if kind == "LSTM" else state)
    assert found.doubt == ""


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_old_softmax_flattens(kind, ask):
    x = random(2, 3, 4)
    found = ask(node(kind, "x", "y", axis=1), {"x": x})
    flat = double(x).reshape(2, 12)
    assert close(
        found.values["y"].reshape(2, 12), getattr(torch, "softmax" if kind == "Softmax" else "log_softmax")(flat, 1)
    )
    assert found.doubt == ""


def test_new_softmax_does_not(ask):
    found = ask(node("Softmax", "x", "y", axis=1), {"x": random(2, 3, 4)}, opset=13)
    assert close(found.values["y"], torch.softmax(double(random(2, 3, 4)), 1))


def test_batch_normalisation_in_test_mode(ask):
    values = {name: np.abs(random(4)) + 0.5 for name in ("s", "b", "m", "v")}
    found = ask(node("BatchNormalization", "x s b m v", "y"), dict(values, x=X), opset=9)
    wanted = F.batch_norm(double(X), *[double(values[name]) for name in ("m", "v", "s", "b")])
    assert np.allclose(found.values["y"], wanted.numpy(), rtol=1e-7)  # epsilon is stored as float32
    assert found.doubt == ""


def test_upsample_linear_is_checked_by_onnxruntime(ask):
    scales = np.float32([1, 1, 2, 1.5])
    found = ask(node("Upsample", "x s", "y", mode="linear"), {"x": X, "s": scales}, opset=9)
    assert found.values["y"].dtype == np.float64 and found.doubt == ""


def test_a_branch_computes_in_float64_throughout(ask):
    third = helper.make_node("Constant", [], ["third"], value=helper.make_tensor("t", TensorProto.FLOAT, [], [1 / 3]))
    branch = helper.make_graph(
        [third, node("Mul", "x third", "out")],
        "branch",
        [],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
    )
    inputs = {"x": random(3), "c": np.array(True)}
    found = ask(node("If", "c", "y", then_branch=branch, else_branch=branch), inputs)
    assert close(found.values["y"], random(3).astype(np.float64) * np.float64(np.float32(1 / 3)))


def test_a_long_sum_shows_float32_wrong_and_within_its_noise(ask):
    x = np.random.RandomState(0).uniform(0, 1e6, 200000).astype(np.float32)
    found = ask(node("ReduceSum", "x", "y", keepdims=0), {"x": x})
    exact = float(np.sum(x.astype(np.float64)))
    assert float(found.values["y"]) == pytest.approx(exact, rel=1e-14)
    assert 0 < float(found.noise["y"]) < 1e-5 * exact


def test_noise_is_large_where_the_node_is_ill_conditioned(ask):
    inputs = {"a": np.float32([1e8, 3]), "b": np.float32([1e8, 1])}
    found = ask(node("Sub", "a b", "y"), inputs, draws=8)
    cancelled, plain = found.noise["y"]
    assert found.values["y"].tolist() == [0, 2]
    assert cancelled > 0.5 and plain < 1e-6


def test_integers_stay_integers(ask):
    inputs = {"a": np.array([2**60 + 1]), "b": np.array([1])}
    found = ask(node("Add", "a b", "y"), inputs)
    assert found.values["y"].dtype == np.int64 and found.values["y"].tolist() == [2**60 + 2]
    assert found.noise == {}


def test_doubt_where_nothing_agrees(ask):
    """A node that draws random numbers gives others each time."""
    found = ask(node("Bernoulli", "x", "y"), {"x": np.full(1000, 0.5, np.float32)}, opset=15)
    assert "onnxruntime in float64 differs" in found.doubt


def test_a_node_that_nothing_computes_is_refused(ask):
    with pytest.raises(ReferenceFailed, match="no float64 value for Strange"):
        ask(node("Strange", "x", "y", domain="my.domain"), {"x": random(2)})


def test_opset_6_is_understood(ask):
    inputs = {"x": random(2, 3, 4), "b": random(3)}
    found = ask(node("Add", "x b", "y", broadcast=1, axis=1), inputs, opset=6)
    assert close(found.values["y"], inputs["x"].astype(np.float64) + inputs["b"][:, None])


def test_initializers_and_constants_need_not_be_given(monkeypatch, tmp_path):
    monkeypatch.setattr("c2step.references.truth.Engine", InThisProcess)
    two = helper.make_tensor("t", TensorProto.FLOAT, [], [2.0])
    nodes = [node("Constant", "", "two", value=two), node("Mul", "x w", "a"), node("Mul", "a two", "y", name="last")]
    path = write_model(tmp_path / "m.onnx", nodes, {"x": random(3)}, ["y"], {"w": random(3)})
    with Truth(path, PYTHON) as truth:
        assert close(truth.node("a", {"x": random(3)}).values["a"], random(3).astype(np.float64) ** 2)
        assert close(truth.node(2, {"a": random(3)}).values["y"], 2 * random(3).astype(np.float64))
        with pytest.raises(ReferenceFailed, match="no value for a, which Mul reads"):
            truth.node(2, {})
        with pytest.raises(ReferenceFailed, match="has no node 7"):
            truth.node(7, {})
