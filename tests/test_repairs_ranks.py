"""Repairs that ask for a rank which shape inference has lost: against onnxruntime."""

import numpy as np
import onnx
import pytest
from onnx import helper

from c2step.importer import backend
from repair_support import findings_of, model_of, node, rand, run_caffe2, run_onnxruntime

X = rand(2, 3, 4, 4)


def agree(model, inputs, atol=1e-5):
    """The repaired model gives what onnxruntime gives, and lint has nothing left that is not mended."""
    left = [f.message for f in findings_of(model, inputs) if f.effect != "note" and not f.repair]
    assert not left
    made = backend.import_model(model, True, input_shapes={n: v.shape for n, v in inputs.items()})
    for got, wanted in zip(run_caffe2(made, inputs), run_onnxruntime(model, inputs)):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=atol)


def ints(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("inputs", [["x", "", "scales"], ["x", "", "", "sizes"]], ids=["scales", "sizes"])
def test_after_a_resize_that_leaves_inputs_out(op, inputs):
    nodes = [node("Resize", inputs, ["r"], mode="nearest"), node(op, ["r"], ["y"], axis=1)]
    weights = {"scales": np.array([1, 1, 2, 2], np.float32), "sizes": ints(2, 3, 8, 8)}
    agree(model_of(nodes, {"x": X}, ["y"], 13, {n: weights[n] for n in inputs if n in weights}), {"x": X})


def test_after_a_resize_to_the_size_of_another_value():
    nodes = [
        node("Shape", ["big"], ["s"]),
        node("Slice", ["s", "two", "four", "zero"], ["hw"]),
        node("Shape", ["x"], ["t"]),
        node("Slice", ["t", "zero", "two", "zero"], ["nc"]),
        node("Concat", ["nc", "hw"], ["sizes"], axis=0),
        node("Resize", ["x", "", "", "sizes"], ["r"], mode="nearest"),
        node("Softmax", ["r"], ["y"], axis=1),
    ]
    inputs = {"x": X, "big": rand(1, 1, 8, 8)}
    agree(model_of(nodes, inputs, ["y"], 13, {"two": ints(2), "four": ints(4), "zero": ints(0)}), inputs)


def lost(nodes, inputs, dims, weights=None):
    """A model whose first node, a Reshape by an input, leaves the rank open; its output is declared with `dims`."""
    model = model_of([node("Reshape", ["x", "to"], ["r"]), *nodes], inputs, ["y"], 13, weights)
    del model.graph.input[1].type.tensor_type.shape.dim[:]
    model.graph.input[1].type.tensor_type.shape.dim.add().dim_param = "rank"
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, dims))
    return model


def agree_where_lost(model, inputs):
    left = [f.message for f in findings_of(model, {"x": X}) if f.effect == "wrong" and not f.repair]
    assert not left
    made = backend.import_model(model, True, input_shapes={"x": X.shape})
    np.testing.assert_allclose(run_caffe2(made, inputs)[0], run_onnxruntime(model, inputs)[0], rtol=1e-4, atol=1e-5)


INPUTS = {"x": X, "to": ints(2, 3, 4, 4)}
NAMES = ["a", "b", "c", "d"]
CHAINS = {
    "alone": [node("Softmax", ["r"], ["y"], axis=1)],
    "log": [node("LogSoftmax", ["r"], ["y"], axis=1)],
    "kept after it": [node("Softmax", ["r"], ["s"], axis=1), node("Relu", ["s"], ["y"])],
    "kept before it": [node("Tanh", ["r"], ["s"]), node("Softmax", ["s"], ["y"], axis=-2)],
    "scaled": [node("Mul", ["r", "half"], ["s"]), node("Softmax", ["s"], ["y"], axis=2)],
}


@pytest.mark.parametrize("chain", sorted(CHAINS))
def test_the_rank_of_a_declared_output(chain):
    weights = {"half": np.array(0.5, np.float32)} if chain == "scaled" else None
    agree_where_lost(lost(CHAINS[chain], INPUTS, NAMES, weights), INPUTS)


def test_the_rank_of_a_permutation():
    nodes = [node("Transpose", ["r"], ["s"], perm=[0, 2, 1, 3]), node("Softmax", ["s"], ["y"], axis=1)]
    model = lost(nodes, INPUTS, None)
    agree_where_lost(model, INPUTS)


def test_what_a_node_reads_tells_what_it_writes():
    """The number of sizes is the rank, whatever they are."""
    nodes = [node("Reshape", ["x", "to"], ["r"]), node("Softmax", ["r"], ["y"], axis=1)]
    agree_where_lost(model_of(nodes, INPUTS, ["y"], 13), INPUTS)
