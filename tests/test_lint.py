"""What lint says of operator forms, of the shared cases, and of models that are fine."""

import glob
import json
import os

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core
from onnx import helper

from c2step.importer import backend
from c2step.importer.lint import lint
from c2step.importer.operators import lint_pair
from repair_support import findings_of, model_of, node, rand

IMAGE = {"x": rand(1, 2, 6, 6)}
SEVEN = {"x": rand(1, 1, 7, 7)}
ROWS = {"x": rand(2, 3)}
TWICE = {"s": np.array([1, 1, 2, 2], np.float32)}
CONV = {"w": rand(3, 2, 3, 3)}

# nodes, inputs, opset, weights -> code, effect
FORMS = [
    ([node("Upsample", ["x", "s"], ["y"], mode="linear")], IMAGE, 9, TWICE, "upsample-linear", "wrong"),
    (
        [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1)],
        SEVEN,
        10,
        {},
        "pool-ceil-mode",
        "wrong",
    ),
    (
        [node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], auto_pad="SAME_UPPER")],
        IMAGE,
        9,
        CONV,
        "auto-pad",
        "wrong",
    ),
    ([node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], strides=[0, 0])], IMAGE, 9, CONV, "conv-stride-0", "die"),
    ([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[0, 0])], IMAGE, 9, {}, "pool-stride-0", "die"),
    (
        [node("Slice", ["x", "s", "e"], ["y"])],
        ROWS,
        10,
        {"s": np.array([0]), "e": np.array([1])},
        "slice-inputs",
        "wrong",
    ),
    ([node("Slice", ["x"], ["y"], starts=[1, 0], ends=[3, -1])], ROWS, 9, {}, "slice-form", "fail"),
    ([node("Softmax", ["x"], ["y"])], {"x": rand(2, 3, 4)}, 13, {}, "softmax-axis", "wrong"),
    ([node("LogSoftmax", ["x"], ["y"], axis=1)], ROWS, 9, {}, "logsoftmax-underflow", "wrong"),
    ([node("Softplus", ["x"], ["y"])], ROWS, 9, {}, "softplus-overflow", "wrong"),
    ([node("TopK", ["x", "k"], ["y", "i"], largest=0)], ROWS, 11, {"k": np.array([1])}, "topk-smallest", "wrong"),
    ([node("Max", ["x", "z"], ["y"])], dict(ROWS, z=rand(3)), 9, {}, "extreme-broadcast", "wrong"),
    ([node("MatMul", ["x", "z"], ["y"])], {"x": rand(3), "z": rand(3)}, 9, {}, "matmul-vectors", "wrong"),
    ([node("Shape", ["x"], ["y"], start=1)], ROWS, 15, {}, "shape-range", "wrong"),
    ([node("IsNaN", ["x"], ["y"])], ROWS, 9, {}, "isnan-uint8", "wrong"),
    ([node("Div", ["x", "z"], ["y"])], {"x": np.array([1])}, 9, {"z": np.array([0])}, "int-div", "die"),
    ([node("Div", ["x", "z"], ["y"])], {"x": np.array([1]), "z": np.array([2])}, 9, {}, "int-div", "note"),
    ([node("Abs", ["x"], ["y"])], {"x": np.array([1])}, 9, {}, "dtype", "fail"),
    ([node("Pow", ["x", "e"], ["y"])], ROWS, 9, {"e": np.array(2, np.float32)}, "pow-broadcast", "fail"),
    ([node("Resize", ["x", "", "s"], ["y"])], IMAGE, 11, TWICE, "no-operator", "refuse"),
    ([node("Pad", ["x", "p"], ["y"])], ROWS, 11, {"p": np.array([0, 1, 0, 1])}, "pad-inputs", "refuse"),
    ([node("Gather", ["x", "i"], ["y"], axis=-1)], ROWS, 11, {"i": np.array([0])}, "gather-axis", "refuse"),
    ([node("Cast", ["x"], ["y"], to=8)], ROWS, 9, {}, "cast-type", "wrong"),
    (
        [node("NonMaxSuppression", ["b", "s"], ["y"])],
        {"b": rand(1, 4, 4), "s": rand(1, 1, 4)},
        11,
        {},
        "no-operator",
        "refuse",
    ),
    ([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])], IMAGE, 9, {}, "maxpool-nan", "note"),
    ([node("Dropout", ["x"], ["y", "m"])], ROWS, 10, {}, "dropout-mask", "fail"),
]


@pytest.mark.parametrize(
    "nodes, inputs, opset, weights, code, effect", FORMS, ids=[f[0][0].op_type + "-" + f[4] for f in FORMS]
)
def test_form(nodes, inputs, opset, weights, code, effect):
    found = findings_of(model_of(nodes, inputs, ["y"], opset, weights), inputs)
    assert (code, effect) in [(f.code, f.effect) for f in found]
    for finding in found:
        assert finding.op_type == nodes[0].op_type and finding.node and finding.message


CASES = {
    "01": "upsample-linear",
    "03": "pool-ceil-mode",
    "04": "auto-pad",
    "05": "slice-inputs",
    "07": "softmax-axis",
    "08": "logsoftmax-underflow",
    "10": "topk-smallest",
    "11": "extreme-broadcast",
    "14": "rnn-layout",
    "16": "scatter-axis",
    "18": "private-domain",
    "19": "if-outputs",
    "20": "loop",
    "21": "maxpool-nan",
    "22": "constant-widened",
    "37": "no-operator",
    "39": "clip-inputs",
    "40": "conv-kernel",
}


@pytest.mark.parametrize("number", sorted(CASES))
def test_shared_case(shared, number):
    [path] = glob.glob(os.path.join(shared, "cases", number + "_*", "model.onnx"))
    model = backend.load(path)
    assert CASES[number] in [f.code for f in lint(model)]


@pytest.mark.parametrize("name", ["digits_autoenc-op9-kii", "digits_cnn_bn-op9", "ultraface-slim-320"])
def test_models_that_stock_gets_right_have_nothing_but_notes(shared, name):
    model = backend.load(os.path.join(shared, "models", name, "model.onnx"))
    assert [f for f in lint(model) if f.effect != "note"] == []


def test_a_repair_is_named_and_what_cannot_be_repaired_says_why():
    nodes = [
        node("HardSwish", ["x"], ["h"], name="h"),
        node("Det", ["m"], ["d"], name="d"),
        node("ImageDecoder", ["u"], ["y"], name="i"),
    ]
    inputs = {"x": rand(2), "m": rand(5, 5), "u": np.zeros(3, np.uint8)}
    found = {f.node: f for f in findings_of(model_of(nodes, inputs, ["h", "d", "y"], 20), inputs)}
    assert "HardSigmoid" in found["h"].repair
    assert found["d"].repair == "" and "4 x 4" in found["d"].message
    assert found["i"].repair == "" and found["i"].effect == "refuse"


def test_a_model_without_opset_and_inputs_that_caffe2_cannot_hold():
    model = model_of([node("Neg", ["x"], ["y"])], {"x": np.zeros(2, np.uint64)}, ["y"], 13)
    assert [(f.code, f.node) for f in lint(model)] == [("input-type", "x"), ("dtype", "Neg_0")]
    del model.opset_import[:]
    assert [(f.code, f.effect) for f in lint(model)] == [("input-type", "fail"), ("no-opset", "refuse")]


def test_findings_are_plain_data():
    found = findings_of(model_of([node("Det", ["x"], ["y"])], {"x": rand(2, 2)}, ["y"], 11), {"x": rand(2, 2)})
    [row] = json.loads(json.dumps([f._asdict() for f in found]))
    assert list(row) == ["code", "node", "op_type", "effect", "repair", "message", "index"]
    assert row["code"] == "no-operator" and row["index"] == 0


def test_linting_changes_nothing():
    model = model_of([node("Resize", ["x", "", "s"], ["y"])], IMAGE, ["y"], 11, TWICE)
    before = model.SerializeToString(deterministic=True)
    lint(model, {"x": (1, 2, 6, 6)})
    assert model.SerializeToString(deterministic=True) == before
    assert isinstance(model, type(helper.make_model(model.graph)))


def test_a_repair_stands_at_what_it_mends(models):
    """MaxPool passes over NaN repaired or not; only ceil_mode is mended."""
    import onnx

    model = onnx.load(os.path.join(models, "digits_ceil", "model.onnx"))
    repairs = {finding.code: finding.repair for finding in lint(model)}
    assert repairs["pool-ceil-mode"] and not repairs["maxpool-nan"]


@pytest.mark.parametrize("trains", [False, True])
def test_a_net_that_serves_is_told_what_still_trains(tmp_path, trains):
    net = caffe2_pb2.NetDef(name="net", external_input=["x", "s", "b", "m", "v"], external_output=["y"])
    net.op.extend([
        core.CreateOperator("SpatialBN", ["x", "s", "b", "m", "v"], ["n", "m", "v", "sm", "sv"], is_test=0),
        core.CreateOperator("SpatialBN", ["n", "s", "b", "m", "v"], ["n2"], is_test=1),
        core.CreateOperator("Dropout", ["n2"], ["y", "mask"]),
    ])  # fmt: skip
    if trains:
        net.op.extend([core.CreateOperator("ReluGradient", ["y", "y"], ["g"])])
    found = [(f["code"], f["effect"], f["index"], f["op_type"]) for f in lint_pair(caffe2_pb2.NetDef(), net)]
    told = [("training-mode", "wrong", 0, "SpatialBN"), ("training-mode", "wrong", 2, "Dropout")]
    assert [row for row in found if row[0] == "training-mode"] == ([] if trains else told)


def test_a_convolution_of_another_rank_than_its_weights_ends_no_process():
    model = model_of([node("Conv", ["x", "w"], ["y"])], {"x": rand(1, 3, 8)}, ["y"], 13, {"w": rand(2, 3, 3, 3)})
    assert [f.code for f in lint(model)] == ["conv-kernel"]
