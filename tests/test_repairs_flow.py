"""Repairs of recurrent nets, control flow, sequences and functions, against onnxruntime."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import c2step
from c2step.errors import InputError
from repair_support import check, node, rand

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(op, directions, steps=4, batch=2, width=3, hidden=3):
    """Inputs and weights of a recurrent node."""
    g = GATES[op]
    weights = {
        "w": rand(directions, g * hidden, width, seed=1, low=-1, high=1),
        "r": rand(directions, g * hidden, hidden, seed=2, low=-1, high=1),
        "b": rand(directions, 2 * g * hidden, seed=3, low=-1, high=1),
        "h": rand(directions, batch, hidden, seed=4),
        "c": rand(directions, batch, hidden, seed=5),
    }
    if op != "LSTM":
        del weights["c"]
    return {"x": rand(steps, batch, width)}, weights


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("steps, batch", [(4, 2), (3, 1)])
class TestRecurrent:
    def outputs(self, op):
        return ["y", "yh"] + (["yc"] if op == "LSTM" else [])

    def run(self, op, steps, batch, code, names, directions=1, drop=(), **attrs):
        inputs, weights = recurrent(op, directions, steps, batch)
        for name in drop:
            weights.pop(name, None)
        outputs = self.outputs(op)
        nodes = [node(op, names, outputs, hidden_size=3, **attrs)]
        check(nodes, inputs, outputs, 11, code, weights)

    def test_without_bias_and_states(self, op, steps, batch):
        self.run(op, steps, batch, "rnn-inputs", ["x", "w", "r"], drop=("b", "h", "c"))

    def test_bidirectional(self, op, steps, batch):
        names = ["x", "w", "r", "b", "", "h"] + (["c"] if op == "LSTM" else [])
        self.run(op, steps, batch, "rnn-layout", names, 2, direction="bidirectional")

    def test_reverse(self, op, steps, batch):
        names = ["x", "w", "r", "b", "", "h"] + (["c"] if op == "LSTM" else [])
        self.run(op, steps, batch, "rnn-reverse", names, direction="reverse")

    def test_other_activations(self, op, steps, batch):
        names = ["x", "w", "r", "b", "", "h"] + (["c"] if op == "LSTM" else [])
        chosen = {"RNN": ["Sigmoid"], "GRU": ["HardSigmoid", "Tanh"], "LSTM": ["Sigmoid", "Relu", "Tanh"]}[op]
        self.run(op, steps, batch, "rnn-activation" if op == "RNN" else "rnn-attribute", names, activations=chosen)


def branch(name, op, output):
    return helper.make_graph([node(op, ["x"], [output])], name, [], [helper.make_tensor_value_info(output, 1, None)])


@pytest.mark.parametrize("shape", [(2, 3), (4,)])
@pytest.mark.parametrize("condition", [True, False])
class TestIf:
    def make(self):
        return [node("If", ["c"], ["y"], then_branch=branch("t", "Neg", "a"), else_branch=branch("e", "Exp", "b"))]

    def test_fixed_condition(self, shape, condition):
        check(self.make(), {"x": rand(*shape)}, ["y"], 11, "if-outputs", {"c": np.array(condition)})

    def test_condition_at_run_time(self, shape, condition):
        check(self.make(), {"x": rand(*shape), "c": np.array(condition)}, ["y"], 11, "if-outputs")


@pytest.mark.parametrize("rounds", [1, 3])
def test_loop_with_an_outer_value(rounds):
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Add", ["v", "x"], ["w"]), node("Identity", ["w"], ["s"]), node("Identity", ["go"], ["on"])],
        "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("v", 1, [2])],
        [info("on", TensorProto.BOOL, []), info("w", 1, [2]), info("s", 1, [2])],
    )
    weights = {"m": np.array(rounds), "t": np.array(True)}
    check(
        [node("Loop", ["m", "t", "z"], ["last", "all"], body=body)],
        {"x": rand(2), "z": rand(2, seed=1)},
        ["last", "all"],
        11,
        "loop",
        weights,
    )


@pytest.mark.parametrize("shape", [[2, 3], []])
@pytest.mark.parametrize("limit", [0.0, 3.0, 50.0, 1e9])
def test_a_loop_that_the_data_may_end_before_its_last_round(limit, shape):
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            node("Mul", ["v", "two"], ["w"]),
            node("Add", ["n", "one"], ["k"]),
            node("ReduceMax", ["w"], ["most"], keepdims=0),
            node("Less", ["most", "limit"], ["on"]),
        ],
        "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("v", 1, shape), info("n", 1, [])],
        [info("on", TensorProto.BOOL, []), info("w", 1, shape), info("k", 1, [])],
    )
    numbers = {"two": 2.0, "one": 1.0, "limit": limit}
    weights = {name: np.array(value, np.float32) for name, value in numbers.items()}
    inputs = {"x": rand(*shape, low=0.5), "z": np.array(0, np.float32)}
    nodes = [node("Loop", ["m", "t", "x", "z"], ["y", "rounds"], body=body)]
    check(nodes, inputs, ["y", "rounds"], 11, "loop", {**weights, "m": np.array(8), "t": np.array(True)})


@pytest.mark.parametrize("steps", [2, 5])
def test_scan(steps):
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Add", ["sum", "row"], ["next"]), node("Neg", ["next"], ["out"])],
        "body",
        [info("sum", 1, [3]), info("row", 1, [3])],
        [info("next", 1, [3]), info("out", 1, [3])],
    )
    nodes = [node("Scan", ["s", "x"], ["last", "all"], body=body, num_scan_inputs=1)]
    check(nodes, {"s": rand(3), "x": rand(steps, 3, seed=1)}, ["last", "all"], 11, "no-operator")


@pytest.mark.parametrize("length", [4, 6])
def test_sequences_are_followed_at_import(length):
    nodes = [
        node("SplitToSequence", ["x", "two"], ["s"], axis=0),
        node("SequenceAt", ["s", "last"], ["a"]),
        node("SequenceInsert", ["s", "a", "first"], ["t"]),
        node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    weights = {"two": np.array(2), "last": np.array(-1), "first": np.array(0)}
    check(nodes, {"x": rand(length, 3)}, ["y"], 11, "no-sequences", weights)


def test_optionals_are_followed_at_import():
    nodes = [
        node("Optional", ["x"], ["o"]),
        node("OptionalHasElement", ["o"], ["h"]),
        node("OptionalGetElement", ["o"], ["g"]),
        node("Neg", ["g"], ["y"]),
    ]
    check(nodes, {"x": rand(2, 3)}, ["y", "h"], 16, "no-sequences")


@pytest.mark.parametrize("shape", [(2, 3), (5,)])
def test_operators_that_onnx_defines_as_functions(shape):
    from c2step.importer import backend
    from repair_support import model_of, run_caffe2, run_onnxruntime

    for op, opset in (("ThresholdedRelu", 10), ("HardSwish", 14), ("Celu", 12)):
        model = model_of([node(op, ["x"], ["y"])], {"x": rand(*shape)}, ["y"], opset)
        made = backend.import_model(model, True, input_shapes={"x": shape})
        got, wanted = run_caffe2(made, {"x": rand(*shape)})[0], run_onnxruntime(model, {"x": rand(*shape)})[0]
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 3), (5,)])
def test_functions_of_the_model_are_inlined(shape):
    function = helper.make_function(
        "my.domain",
        "Softplus",
        ["a"],
        ["b"],
        [node("Neg", ["a"], ["n"]), node("Exp", ["n"], ["b"])],
        [helper.make_opsetid("", 11)],
    )
    from c2step.importer import backend
    from repair_support import findings_of, model_of, run_caffe2

    model = model_of([node("Softplus", ["x"], ["y"], domain="my.domain")], {"x": rand(*shape)}, ["y"], 11)
    model.opset_import.append(helper.make_opsetid("my.domain", 1))
    model.functions.append(function)
    found = findings_of(model, {"x": rand(*shape)})
    assert [(f.code, f.effect, bool(f.repair)) for f in found] == [("private-domain", "wrong", True)]
    made = backend.import_model(model, True, input_shapes={"x": shape})
    np.testing.assert_allclose(run_caffe2(made, {"x": rand(*shape)})[0], np.exp(-rand(*shape)), rtol=1e-6)


def test_axes_fed_as_an_input_are_taken_for_good_and_listed():
    from c2step.importer import backend
    from repair_support import model_of, run_caffe2

    x, axes = rand(2, 3), np.array([1])
    model = model_of([node("ReduceSum", ["x", "axes"], ["y"])], {"x": x, "axes": axes}, ["y"], 13)
    made = backend.import_model(
        model, True, input_shapes={"x": x.shape, "axes": axes.shape}, input_values={"x": x, "axes": axes}
    )
    assert list(made.fixed) == ["axes"] and any("axes is taken as [1]" in note for note in made.notes)
    np.testing.assert_allclose(run_caffe2(made, {"x": x, "axes": axes})[0], x.sum(1, keepdims=True), rtol=1e-6)


def test_an_input_that_was_taken_for_good_takes_no_other_value(tmp_path):
    from repair_support import model_of

    x, axes = rand(2, 3), np.array([1])
    model = model_of([node("ReduceSum", ["x", "axes"], ["y"])], {"x": x, "axes": axes}, ["y"], 13)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with c2step.open(str(path), inputs={"x": x, "axes": axes}, importing="repaired") as session:
        session.feed("axes", axes)
        with pytest.raises(InputError, match=r"axes was taken as \[1\]"):
            session.feed("axes", np.array([0]))
        with pytest.raises(InputError, match=r"axes was taken as \[1\]"):
            session.restart(inputs={"x": x, "axes": np.array([0])})
        session.cont()
        np.testing.assert_allclose(session.fetch("y").array, x.sum(1, keepdims=True), rtol=1e-6)


def test_values_keep_their_names():
    from c2step.importer import backend
    from repair_support import model_of

    nodes = [node("HardSwish", ["x"], ["h"]), node("Softmax", ["h"], ["s"], axis=1), node("Relu", ["s"], ["y"])]
    model = model_of(nodes, {"x": rand(2, 3, 4)}, ["y"], 14)
    made = backend.import_model(model, True, input_shapes={"x": (2, 3, 4)})
    written = {name for op in made.predict.op for name in op.output}
    assert {"h", "s", "y"} <= written
    assert sorted(set(made.node_of)) == [0, 1, 2] and made.nodes[0].op_type == "HardSwish"
    assert isinstance(model, onnx.ModelProto) and [n.op_type for n in model.graph.node] == [
        "HardSwish",
        "Softmax",
        "Relu",
    ]
