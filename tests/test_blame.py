"""Blame names exactly the guilty operators, and no operator in models that match."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from caffe2.proto import caffe2_pb2
from caffe2.python import core

import c2step
from c2step.cli.against import reference_for
from c2step.compare.blame import blame
from c2step.compare.verdict import Verdict
from c2step.render import blame_lines
from small_nets import written

SILENT = [
    "01_upsample_linear_to_nearest", "03_pool_ceil_mode_dropped", "04_auto_pad_same_dropped",
    "05_slice10_inputs_ignored",
    "07_softmax13_axis", "08_logsoftmax_minus_inf", "10_topk11_smallest_ignored", "11_max_broadcast_heap_read",
    "14_birnn_output_layout", "16_scatter_default_axis", "19_if_output_never_written", "21_nan_in_pooling",
    "22_constant_dtype_widened",
]  # fmt: skip
FAILING = ["20_loop_outer_value", "39_schema_rejects_new_inputs", "40_conv_without_kernel_shape"]
MATCHING = ["33_init_net_not_split", "34_ir4_initializers_not_inputs", "35_lstm_ir4_shape_inference",
            "42_opset6_no_ort_kernel", "44_names_break_files", "61_zero_size_tensors",
            "65_external_data_weights"]  # fmt: skip


def guilty(folder):
    with open(os.path.join(folder, "expected.json")) as file:
        return [op["index"] for op in json.load(file)["guilty_ops_with_reference_inputs"]]


def blamed(model, inputs, against, tmp_path, **options):
    with c2step.open(model, inputs) as session:
        reference = reference_for(session, against, str(tmp_path / "reference"))
        return blame(session, reference, **options)


@pytest.mark.parametrize("against", ["onnxruntime", "file"])
@pytest.mark.parametrize("case", SILENT + FAILING)
def test_the_guilty_of_the_cases(shared, tmp_path, case, against):
    folder = os.path.join(shared, "cases", case)
    source = against if against == "onnxruntime" else os.path.join(folder, "ref.npz")
    found = blamed(os.path.join(folder, "model.onnx"), [os.path.join(folder, "inputs.npz")], source, tmp_path)
    assert [judged.operator.index for judged in found.origins] == guilty(folder)
    assert found.verdict is Verdict.FAIL


@pytest.mark.parametrize("case", MATCHING)
def test_cases_that_match(shared, tmp_path, case):
    folder = os.path.join(shared, "cases", case)
    found = blamed(os.path.join(folder, "model.onnx"), [os.path.join(folder, "inputs.npz")], "onnxruntime", tmp_path)
    assert (found.verdict, found.origins) == (Verdict.PASS, [])


def test_a_private_domain_has_no_reference(shared, tmp_path):
    folder = os.path.join(shared, "cases", "18_custom_domain_taken_as_onnx")
    found = blamed(os.path.join(folder, "model.onnx"), [os.path.join(folder, "inputs.npz")], "onnxruntime", tmp_path)
    assert found.verdict is Verdict.INCONCLUSIVE and found.operators[1].label == "UNCOMPARED"
    assert "my.domain" in found.operators[1].reason and found.operators[0].label == "OK"


def test_values_up_to_the_first_refused_node(shared, tmp_path):
    folder = os.path.join(shared, "cases", "64_int64_into_float_op")
    found = blamed(os.path.join(folder, "model.onnx"), [os.path.join(folder, "inputs.npz")], "onnxruntime", tmp_path)
    assert [judged.label for judged in found.operators[:3]] == ["OK"] * 3
    assert found.operators[3].run.status == "failed"


@pytest.mark.parametrize("go_on", [False, True])
def test_a_node_that_was_left_out_is_named_and_what_reads_it_is_not_to_blame(shared, tmp_path, go_on):
    folder = os.path.join(shared, "cases", "37_resize_in_the_middle")
    with c2step.open(os.path.join(folder, "model.onnx"), [os.path.join(folder, "inputs.npz")], partial=True) as session:
        reference = reference_for(session, "onnxruntime", str(tmp_path))
        found = blame(session, reference, continue_from_reference=go_on)
    assert [judged.label for judged in found.operators] == ["OK", "OK", "OK" if go_on else "PROPAGATED"]
    assert found.operators[2].alone.status == "ok" and found.origins == []
    assert found.verdict is (Verdict.INCONCLUSIVE if go_on else Verdict.FAIL)
    lines = blame_lines(found.to_json())
    assert (
        "LEFT OUT: ONNX node Resize resize1, before operator 2: ValueError: Don't know how to translate op Resize"
        in lines
    )
    assert "  lint no-operator: Caffe2 has no Resize; --import repaired: ResizeNearest by [2.0, 2.0]" in lines
    assert any(line.startswith("LEFT OUT: ONNX node Hardmax hm, before operator 3") for line in lines)
    if not go_on:
        assert found.operators[2].run.error == "its input up has no value: node Resize resize1 was left out"


@pytest.mark.parametrize("name", ["digits_cnn_bn-op9", "digits_lstm-op9", "digits_attn-op11", "digits_autoenc-op9-kii",
                                  "ultraface-slim-320"])  # fmt: skip
def test_shared_models_that_match(shared, tmp_path, name):
    folder = os.path.join(shared, "models", name)
    found = blamed(os.path.join(folder, "model.onnx"), [os.path.join(folder, "input.npz")], "onnxruntime", tmp_path)
    assert (found.verdict, found.origins) == (Verdict.PASS, [])
    assert all(judged.label == "OK" or judged.reason and judged.accepted for judged in found.operators)


@pytest.mark.parametrize("name", ["style-crayon", "c2_trained_digits"])
def test_native_models_against_a_capture_of_themselves(shared, tmp_path, name):
    folder = os.path.join(shared, "models", name)
    inputs = [os.path.join(folder, "input.npz")]
    nets = {role: os.path.join(folder, role + ".pb") for role in ("init_net", "predict_net")}
    assert c2step.dump(None, inputs, str(tmp_path / "golden"), **nets).reason == "end"
    with c2step.open(None, inputs, **nets) as session:
        found = blame(session, reference_for(session, str(tmp_path / "golden"), ""))
    assert (found.verdict, found.origins) == (Verdict.PASS, [])
    assert all(judged.label == "OK" or judged.reason and judged.accepted for judged in found.operators)


def test_mnist_from_cntk(shared, tmp_path):
    folder = os.path.join(shared, "models", "mnist-cntk")
    arguments = os.path.join(folder, "model.onnx"), [os.path.join(folder, "input.npz")], "onnxruntime", tmp_path
    found = blamed(*arguments)
    first = found.origins[0]
    assert (first.operator.index, first.operator.type) == (1, "Conv")
    assert "24" in first.reason and "28" in first.reason
    assert found.operators[9].run.status == "failed" and found.operators[9].label == "PROPAGATED"
    found = blamed(*arguments, continue_from_reference=True)
    assert [judged.operator.type for judged in found.origins] == ["Conv", "Conv"]
    assert all(judged.run.status != "not run" for judged in found.operators)


def command(*words, **options):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "universal_newlines": True}
    done = subprocess.run([sys.executable, "-m", "c2step"] + list(words), **dict(pipes, **options))
    return done.returncode, done.stdout, done.stderr


def test_command_line_json_csv_and_status(models, tmp_path, checkout):
    folder = os.path.join(models, "digits_ceil")
    words = ["blame", folder + "/model.onnx", "--input", folder + "/input.npz", "--against", "onnxruntime"]
    status, out, _ = command(*words, "--json", "--csv", str(tmp_path / "blame.csv"), cwd=checkout)
    found = json.loads(out)
    assert status == 1 and found["verdict"] == "FAIL"
    assert {"compared", "skipped", "missing", "origins", "operators"} <= set(found)
    (origin,) = found["origins"]
    assert origin["type"] == "MaxPool" and {"index", "type", "outputs", "node", "reason"} <= set(origin)
    assert [row["index"] for row in found["operators"]] == list(range(len(found["operators"])))
    assert all({"index", "type", "outputs", "label", "run", "alone"} <= set(row) for row in found["operators"])
    assert "MaxPool" in (tmp_path / "blame.csv").read_text()
    status, out, _ = command(*words, cwd=checkout)
    assert status == 1 and out.splitlines()[-1].startswith("FAIL") and "ORIGIN: operator" in out
    folder = os.path.join(models, "digits_cnn")
    words[1:4] = [folder + "/model.onnx", "--input", folder + "/input.npz"]
    assert command(*words, cwd=checkout)[0] == 0


def healed_model(path):
    """A difference that ends before the output: the pooled values are cut off by a Clip-like pair."""
    from onnx import TensorProto, checker, helper, save

    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        helper.make_node("GlobalMaxPool", ["p"], ["g"]),
        helper.make_node("Relu", ["g"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "healed", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1, 1])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)])
    model.ir_version = 4
    checker.check_model(model)
    save(model, str(path))
    x = np.zeros((1, 1, 5, 5), np.float32)
    x[0, 0, 1, 1] = 3
    return {"x": x}


def test_a_difference_that_heals_is_still_named(tmp_path):
    inputs = healed_model(tmp_path / "healed.onnx")
    found = blamed(str(tmp_path / "healed.onnx"), inputs, "onnxruntime", tmp_path)
    assert [judged.label for judged in found.operators] == ["ORIGIN", "RECOVERED", "OK"]
    assert found.verdict is Verdict.FAIL


def test_two_faults_are_both_named(tmp_path):
    from onnx import TensorProto, helper, save

    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("Softmax", ["r"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes, "two", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 3, 3])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    save(model, str(tmp_path / "two.onnx"))
    x = np.random.RandomState(0).randn(1, 3, 5, 5).astype(np.float32)
    found = blamed(str(tmp_path / "two.onnx"), {"x": x}, "onnxruntime", tmp_path)
    assert [judged.label for judged in found.operators] == ["ORIGIN", "PROPAGATED", "ORIGIN"]


def test_another_caffe2_in_lockstep(shared, older_caffe2, tmp_path):
    folder = os.path.join(shared, "models", "digits_cnn_bn-op9")
    arguments = os.path.join(folder, "model.onnx"), [os.path.join(folder, "input.npz")]
    found = blamed(*arguments, "python:" + older_caffe2, tmp_path)
    assert (found.verdict, found.origins) == (Verdict.PASS, [])
    assert found.tally.compared == len(found.operators)


TORCH_MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2, ceil_mode=True))
        self.fc = nn.Linear(4 * 9, 5)

    def forward(self, x):
        return torch.softmax(self.fc(torch.flatten(self.features(x), 1)), 1)


def make():
    return Net()
"""


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_a_pytorch_module_against_its_own_hooks(tmp_path, ceil_mode):
    import torch

    source = TORCH_MODEL if ceil_mode else TORCH_MODEL.replace(", ceil_mode=True", "")
    (tmp_path / "net.py").write_text(source)
    space = {}
    exec(source, space)
    x = np.random.RandomState(1).randn(2, 1, 8 if ceil_mode else 8, 8).astype(np.float32)
    module = space["make"]().eval()
    exported = torch.from_numpy(x)
    torch.onnx.export(
        module, exported, str(tmp_path / "net.onnx"), opset_version=10, input_names=["x"], output_names=["y"]
    )
    against = "torch:%s:make" % (tmp_path / "net.py")
    found = blamed(str(tmp_path / "net.onnx"), {"x": x}, against, tmp_path)
    assert found.verdict is not Verdict.FAIL and not found.origins
    assert found.tally.compared >= 3


def test_truth_says_which_side_is_off(shared, tmp_path):
    from c2step.compare.truth import weigh

    folder = os.path.join(shared, "cases", "01_upsample_linear_to_nearest")
    with c2step.open(os.path.join(folder, "model.onnx"), [os.path.join(folder, "inputs.npz")]) as session:
        reference = reference_for(session, "onnxruntime", str(tmp_path / "reference"))
        found = blame(session, reference)
        weigh(session, reference, found)
    (origin,) = found.origins
    assert any(hint.startswith("float64") and "Caffe2 is off by" in hint for hint in origin.hints)


def test_proof_by_replacing(models, tmp_path):
    from c2step.compare.proof import prove
    from c2step.compare.tolerance import Tolerances

    folder = os.path.join(models, "digits_ceil")
    with c2step.open(folder + "/model.onnx", [folder + "/input.npz"]) as session:
        reference = reference_for(session, "onnxruntime", str(tmp_path / "reference"))
        found = blame(session, reference)
        prove(session, reference, found, Tolerances())
    (origin,) = found.origins
    later = sum(judged.run.bad for judged in found.operators[origin.operator.index + 1 :])
    assert later and any("%d of %d wrong operators behind it become right" % (later, later) in h for h in origin.hints)


def test_weights_drawn_at_random_are_the_same_on_both_sides(tmp_path):
    from test_survival import random_nets

    with c2step.open(random_nets(tmp_path)) as session:
        found = blame(session, reference_for(session, "python:" + sys.executable, str(tmp_path / "reference")))
    assert [judged.label for judged in found.operators] == ["OK", "ORIGIN", "UNCOMPARED"]
    assert not found.operators[2].alone.bad and "SIGFPE" in found.origins[0].reason


def test_golden_outputs_alone_name_the_stretch_and_what_lint_knows(models, tmp_path):
    folder = os.path.join(models, "digits_ceil")
    found = blamed(folder + "/model.onnx", [folder + "/input.npz"], folder + "/expected.npz", tmp_path)
    (origin,) = found.origins
    assert origin.since == 0 and origin.reason.startswith("somewhere in operators 0 to %d" % origin.operator.index)
    assert any("pool-ceil-mode" in hint and "pool1" in hint for hint in origin.hints)
    assert found.outputs == {"prob": "FAIL"}


def test_what_lacks_an_input_is_not_blamed_for_it(shared, tmp_path):
    folder = os.path.join(shared, "models", "mnist-cntk")
    found = blamed(folder + "/model.onnx", [folder + "/input.npz"], folder + "/expected_ort.npz", tmp_path)
    assert [judged.operator.index for judged in found.origins] == [9]
    assert "operator 9 failed" in found.operators[10].reason


def test_close_outputs_are_said_where_not_all_can_be_compared(models, tmp_path):
    folder = os.path.join(models, "digits_cnn")
    found = blamed(folder + "/model.onnx", [folder + "/input.npz"], folder + "/expected.npz", tmp_path)
    assert found.verdict is Verdict.INCONCLUSIVE and found.outputs == {"prob": "PASS"}


@pytest.mark.parametrize("dtype", ["int64", "U"])
def test_golden_values_of_another_type_accuse_nobody_of_taking_them(models, tmp_path, dtype):
    folder = os.path.join(models, "digits_cnn")
    values = {name: array.astype(dtype) for name, array in np.load(folder + "/reference.npz").items()}
    np.savez(str(tmp_path / "odd.npz"), **values)
    found = blamed(folder + "/model.onnx", [folder + "/input.npz"], str(tmp_path / "odd.npz"), tmp_path)
    assert not any("mismatch" in judged.reason for judged in found.operators)
    assert all(judged.alone.status != "failed" for judged in found.operators)
    if dtype == "U":
        assert not found.origins and found.verdict is Verdict.INCONCLUSIVE
    else:
        assert all("int64" in judged.reason for judged in found.origins)


# -- PASS means that every ONNX value was compared -------------------------------------------------


def onnx_values(path):
    """The names that an ONNX graph gives to what its nodes make."""
    import onnx

    return [name for node in onnx.load(path).graph.node for name in node.output if name]


def test_values_inside_a_node_stand_aside_and_are_counted(models, tmp_path):
    folder = os.path.join(models, "digits_lstm")
    found = blamed(folder + "/model.onnx", [folder + "/input.npz"], "onnxruntime", tmp_path)
    values = onnx_values(folder + "/model.onnx")
    written = [name for judged in found.operators for name in judged.operator.outputs]
    tally = found.tally
    assert found.verdict is Verdict.PASS and (tally.missing, tally.skipped, tally.failed) == (0, 0, 0)
    assert tally.compared == len(values) and tally.aside == len(written) - len(values) > 0
    told = found.to_json()
    assert told["aside"] == tally.aside and not told["missing"]
    assert blame_lines(told)[-1].endswith("0 missing, %d without a golden value by nature" % tally.aside)
    assert "%d without a golden value by nature" % tally.aside in tally.line()


@pytest.mark.parametrize("without", ["a", "b", "ya", "yb", None])
def test_a_missing_onnx_value_is_never_a_pass(tmp_path, without):
    """Also where its operator has another output that was compared."""
    import onnx
    from onnx import TensorProto, helper

    from test_analyses import runtime_values

    nodes = [helper.make_node("Split", ["x"], ["a", "b"], axis=1, split=[1, 2]),
             helper.make_node("Relu", ["a"], ["ya"]), helper.make_node("Neg", ["b"], ["yb"])]  # fmt: skip
    float_ = TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(n, float_, [2, k]) for n, k in (("x", 3), ("ya", 1), ("yb", 2))]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), ir_version=6,
                              opset_imports=[helper.make_opsetid("", 9)])  # fmt: skip
    path = str(tmp_path / "m.onnx")
    onnx.save(model, path)
    x = np.random.RandomState(0).randn(2, 3).astype(np.float32)
    right = runtime_values(path, ["a", "b"], {"x": x})
    right.update(ya=np.maximum(right["a"], 0), yb=-right["b"])
    np.savez(str(tmp_path / "right.npz"), **{name: value for name, value in right.items() if name != without})
    found = blamed(path, {"x": x}, str(tmp_path / "right.npz"), tmp_path)
    assert found.verdict is (Verdict.INCONCLUSIVE if without else Verdict.PASS) and not found.origins
    assert (found.tally.compared, found.tally.missing) == ((3, 1) if without else (4, 0))


def test_a_mask_that_the_model_gives_out_is_no_pass(shared, tmp_path):
    folder = os.path.join(shared, "cases", "48_fetch_returns_text")
    found = blamed(os.path.join(folder, "model.onnx"), [os.path.join(folder, "inputs.npz")], "onnxruntime", tmp_path)
    assert [judged.operator.index for judged in found.origins] == guilty(folder) == [0]
    assert found.verdict is Verdict.FAIL and found.outputs["mask"] == "FAIL" and found.outputs["y"] == "PASS"


def test_a_native_net_left_in_training_mode_is_told_so(tmp_path):
    net = caffe2_pb2.NetDef(name="net", external_input=["x", "s", "b", "m", "v"], external_output=["y"])
    names = ["x", "s", "b", "m", "v"]
    net.op.extend([core.CreateOperator("SpatialBN", names, ["y", "m", "v", "sm", "sv"], is_test=0, epsilon=1e-5)])
    (tmp_path / "predict_net.pb").write_bytes(net.SerializeToString())
    values = np.random.RandomState(1).rand(4, 2).astype(np.float32) + 0.5
    inputs = {"x": np.random.RandomState(2).rand(2, 2, 3, 3).astype(np.float32), **dict(zip(names[1:], values))}
    s, b, m, v = values[:, :, None, None]
    np.savez(str(tmp_path / "golden.npz"), y=(inputs["x"] - m) / np.sqrt(v + 1e-5) * s + b)
    with c2step.open(None, inputs, predict_net=str(tmp_path / "predict_net.pb")) as session:
        found = blame(session, reference_for(session, str(tmp_path / "golden.npz"), ""))
    assert [judged.operator.type for judged in found.origins] == ["SpatialBN"]
    assert any(
        "lint training-mode at SpatialBN predict_net operator 0: is_test is 0" in h for h in found.origins[0].hints
    )


def test_an_operator_of_which_nothing_could_be_told_is_not_ok(tmp_path):
    net = written([("Scale", ["x"], ["y"], {"scale": 1e-9})], ["x"], tmp_path)
    np.savez(str(tmp_path / "golden.npz"), y=np.full(4, 3e-9, np.float32))  # below atol, and off by itself
    with c2step.open(None, {"x": np.ones(4, np.float32)}, predict_net=net) as session:
        found = c2step.blame(session, str(tmp_path / "golden.npz"))
    assert (found.verdict, found.operators[0].label) == (Verdict.INCONCLUSIVE, "UNCOMPARED")
    assert "below the absolute tolerance" in found.operators[0].reason
