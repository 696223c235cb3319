"""onnx_caffe2, the importer of the first deployments, on the Caffe2 of torch 1.0.1: where it is right, and where not.

The truth is onnxruntime for whole models, and numpy for single operators.
"""

import glob
import json
import os
import subprocess
from typing import Any, Dict, NamedTuple, Optional

import numpy as np
import onnx
import pytest
from onnx import helper

import c2step
from c2step import cli
from c2step.compare.blame import ORIGIN, PROPAGATED, blame
from c2step.compare.loading import make_reference
from c2step.compare.verdict import Verdict
from c2step.errors import ConversionError, RuntimeMissing, UsageError
from c2step.launch import open_session
from c2step.references import open_npz
from c2step.reproducing import make_repro
from c2step.sweeping import sweep
from oracle import run_net
from repair_support import model_of, node, rand, run_onnxruntime

FIRST = {"runtime": "1.0.1", "backend": "onnx_caffe2"}
X = rand(2, 3, 8, 8)
WEIGHTS = {
    "w1": rand(4, 3, 3, 3, seed=1), "b1": rand(4, seed=2), "scale": rand(4, seed=3), "shift": rand(4, seed=4),
    "mean": rand(4, seed=5), "var": np.abs(rand(4, seed=6)) + 0.5, "w2": rand(5, 64, seed=7), "b2": rand(5, seed=8),
    "flat": np.array([2, -1], np.int64),
}  # fmt: skip


def cnn(opset):
    """A CNN as exporters wrote it for this opset; the output of each node has a name of its own."""
    old, test = opset < 6, opset < 7
    batch = {"is_test": 1} if test else {}
    batch.update({"consumed_inputs": [0, 0, 0, 1, 1]} if old else {})
    relu = {"consumed_inputs": [1]} if old else {}
    reshape = {"inputs": ["pool", "flat"]} if opset >= 5 else {"inputs": ["pool"], "shape": [2, -1]}
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["conv"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["conv", "scale", "shift", "mean", "var"], ["norm"], "norm", **batch),
        node("Relu", ["norm"], ["relu"], "relu", **relu),
        node("MaxPool", ["relu"], ["pool"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", reshape.pop("inputs"), ["rows"], "rows", **reshape),
        node("Gemm", ["rows", "w2", "b2"], ["fc"], "fc", transB=1, **({"broadcast": 1} if test else {})),
        node("Softmax", ["fc"], ["prob"], "prob", axis=1),
    ]
    weights = {name: value for name, value in WEIGHTS.items() if name != "flat" or opset >= 5}
    model = model_of(nodes, {"x": X}, ["prob"], opset, weights)
    model.ir_version = 3
    model.graph.input.extend(  # as every initializer had to be then
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in weights.items()
    )
    return model


def values_of_cnn():
    """Every value of the CNN, by onnxruntime, which has kernels from opset 7 on."""
    model = cnn(9)
    names = [name for n in model.graph.node for name in n.output]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return dict(zip(names, run_onnxruntime(model, {"x": X})))


IMAGE, ROWS = rand(1, 2, 5, 6), rand(2, 6)
KERNEL = {"w": rand(3, 2, 3, 3)}


class Trap(NamedTuple):
    """A node that lint must name, what it ought to give, and what it gives instead; an error where that is None."""

    code: str
    effect: str
    node: Any
    opset: int
    x: np.ndarray
    weights: Dict[str, np.ndarray]
    right: Optional[np.ndarray] = None
    made: Optional[np.ndarray] = None


def selu(x, gamma):
    return gamma * np.where(x > 0, x, 1.67326319217681884765625 * (np.exp(x) - 1))


def trap(code, effect, op, opset, attributes, x, weights=None, right=None, made=None):
    weights = weights or {}
    return Trap(code, effect, node(op, ["x", *weights], ["y"], "n", **attributes), opset, x, weights, right, made)


def shaped(*shape):
    """A value of which the shape alone matters."""
    return np.full(shape, np.nan, "float32")


KERNEL_3X3 = {"kernel_shape": [3, 3]}
TRAPS = {
    "selu": trap("attribute-unknown", "wrong", "Selu", 6, {"gamma": 1.5}, ROWS, None,
                 selu(ROWS, 1.5), selu(ROWS, 1.05070102214813232421875)),
    "argmax": trap("axis-default", "wrong", "ArgMax", 1, {}, ROWS, None,
                   ROWS.argmax(0)[None], ROWS.argmax(-1)[:, None]),
    "argmin": trap("axis-default", "wrong", "ArgMin", 1, {}, ROWS, None,
                   ROWS.argmin(0)[None], ROWS.argmin(-1)[:, None]),
    "same": trap("auto-pad", "wrong", "Conv", 1, dict(KERNEL_3X3, auto_pad="SAME_UPPER"), IMAGE, KERNEL,
                 shaped(1, 3, 5, 6), shaped(1, 3, 3, 4)),
    "pool": trap("auto-pad", "wrong", "MaxPool", 1, dict(KERNEL_3X3, auto_pad="SAME_LOWER"), IMAGE, None,
                 shaped(1, 2, 5, 6), shaped(1, 2, 3, 4)),
    "pad": trap("pad-name", "wrong", "Pad", 1, {"paddings": [0, 0, 1, 1, 0, 0, 1, 1]}, IMAGE, None,
                shaped(1, 2, 7, 8), IMAGE),
    "cast": trap("cast-number", "wrong", "Cast", 6, {"to": onnx.TensorProto.INT16}, 3 * ROWS, None,
                 (3 * ROWS).astype(np.int16), ROWS != 0),
    "slice": trap("slice-start", "wrong", "Slice", 1, {"starts": [-2], "ends": [1000], "axes": [1]}, ROWS, None,
                  ROWS[:, -2:], ROWS[:, -1:]),
    "split": trap("axis-default", "wrong", "Split", 2, {}, ROWS, None, shaped(2, 6), ROWS),
    "deconv": trap("attribute-unknown", "wrong", "ConvTranspose", 1,
                   dict(KERNEL_3X3, strides=[2, 2], output_padding=[1, 1]), IMAGE, {"w": rand(2, 3, 3, 3)},
                   shaped(1, 3, 12, 14), shaped(1, 3, 11, 13)),
    "bilinear": trap("upsample-mode", "wrong", "Upsample", 1,
                     {"height_scale": 2.0, "width_scale": 2.0, "mode": "bilinear"}, IMAGE, None,
                     shaped(1, 2, 10, 12), IMAGE.repeat(2, 2).repeat(2, 3)),
    "kernel": trap("no-kernel", "fail", "Conv", 1, {}, IMAGE, KERNEL),
    "train": trap("training", "fail", "BatchNormalization", 6, {}, IMAGE, {n: rand(2) + 3 for n in "abcd"}),
    "spatial": trap("attribute-unknown", "fail", "BatchNormalization", 6, {"is_test": 1, "spatial": 0}, IMAGE,
                    {n: rand(2, 5, 6) + 3 for n in "abcd"}),
    "lp": trap("lp-integer", "fail", "LpPool", 2, {"kernel_shape": [2, 2], "p": 2}, IMAGE),
    "squeeze": trap("squeeze-axes", "fail", "Squeeze", 1, {}, IMAGE),
    "slices": trap("slice-axes", "fail", "Slice", 1, {"starts": [0, 1], "ends": [1, 3]}, ROWS),
    "sizes": trap("split-input", "fail", "Split", 1, {"axis": 1}, ROWS, {"w": np.float32([2, 4])}),
    "tile": trap("tile-inputs", "fail", "Tile", 6, {}, ROWS, {"w": np.array([2, 1], np.int64)}),
    "groups": trap("deconv-group", "fail", "ConvTranspose", 1, dict(KERNEL_3X3, group=2), IMAGE,
                   {"w": rand(2, 3, 3, 3), "z": rand(6)}),
}  # fmt: skip

# What is read as opset 6 has it although the opset is a later one, and what the operator gives.
STILL_RIGHT = {
    "gemm": (node("Gemm", ["x", "w"], ["y"]), 7, ROWS, {"w": rand(6, 3), "z": rand(3)}, lambda x, w, z: x @ w + z),
    "add": (node("Add", ["x", "w"], ["y"]), 7, IMAGE, {"w": rand(2, 1, 1)}, lambda x, w: x + w),
    "clip": (node("Clip", ["x"], ["y"]), 12, ROWS, {}, lambda x: x),
    "sin": (node("Sin", ["x"], ["y"]), 7, ROWS, {}, np.sin),
    "softmax": (node("Softmax", ["x"], ["y"], axis=-1), 13, IMAGE, {},
                lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "pool": (node("MaxPool", ["x"], ["y"], kernel_shape=[5, 6], ceil_mode=0), 12, IMAGE, {},
             lambda x: x.max((2, 3), keepdims=True)),
}  # fmt: skip
BEYOND = {
    "norm": (node("BatchNormalization", list("xabcd"), ["y"]), 7, "has no is_test"),
    "drop": (node("Dropout", ["x"], ["y"]), 12, "has no is_test"),
    "ceil": (node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], ceil_mode=1), 11, "ceil_mode=1 came with opset 10"),
    "scales": (node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 2.0]), 7, "scales=[1.0, 1.0, 2.0, 2.0] came with"),
    "inputs": (node("Slice", list("xabc"), ["y"]), 10, "has 4 inputs, and opset 6 allows 1"),
    "bias": (node("Gemm", ["x", "a"], ["y"]), 11, "has 2 inputs, and opset 6 wants 3"),
    "indices": (node("MaxPool", ["x"], ["y", "z"], kernel_shape=[2, 2]), 8, "has 2 outputs, and opset 6 allows 1"),
    "softmax": (node("Softmax", ["x"], ["y"]), 13, "takes one axis"),
    "new": (node("NonZero", ["x"], ["y"]), 9, "came with opset 9"),
    "unknown": (node("Unsqueeze", ["x"], ["y"], axes=[0]), 1, "Don't know how to translate op Unsqueeze"),
}


@pytest.fixture(scope="module")
def made(first_caffe2, checkout, tmp_path_factory):
    """What became of all the small models, in one process of torch 1.0.1: entries and outputs by name."""
    folder = tmp_path_factory.mktemp("onnx_caffe2")

    def put(name, model, x):
        model.ir_version = 3
        onnx.save(model, str(folder / (name + ".onnx")))
        np.savez(str(folder / (name + ".npz")), x=x)

    for opset in range(1, 7):
        put("cnn-%d" % opset, cnn(opset), X)
    for name, it in TRAPS.items():
        put("trap-" + name, model_of([it.node], {"x": it.x}, ["y"], it.opset, it.weights), it.x)
    for name, (proto, opset, x, weights, _) in STILL_RIGHT.items():
        proto.input[1:] = weights
        put("right-" + name, model_of([proto], {"x": x}, ["y"], opset, weights), x)
    for name, (proto, opset, _) in BEYOND.items():
        put("beyond-" + name, model_of([proto], {"x": X}, ["y"], opset), X)
    script = os.path.join(checkout, "tests", "onnx_caffe2_script.py")
    environment = dict(os.environ, PYTHONPATH=checkout)
    subprocess.run([first_caffe2, "-W", "ignore", script, str(folder)], check=True, env=environment,
                   stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    entries = json.loads((folder / "made.json").read_text())
    for name, entry in entries.items():
        path = str(folder / (name + ".out.npz"))
        entry["value"] = np.load(path)["arr_0"] if os.path.exists(path) else None
    return entries


@pytest.mark.parametrize("opset", range(1, 7))
def test_a_cnn_of_each_opset_is_right(opset, made):
    entry = made["cnn-%d" % opset]
    np.testing.assert_allclose(entry["value"], values_of_cnn()["prob"], rtol=1e-5, atol=1e-6)
    assert entry["findings"] == []
    notes = "\n".join(entry["notes"])
    assert notes.startswith("converted by onnx-caffe2 1.0.0") and "initializers are fed" in notes
    assert ("outputs are written over inputs as consumed_inputs says" in notes) == (opset < 6)
    assert ("does not have: relu over norm" in notes) == (opset < 6)


@pytest.mark.parametrize("name", sorted(TRAPS))
def test_lint_names_what_becomes_wrong(name, made):
    it, entry = TRAPS[name], made["trap-" + name]
    assert [tuple(found[:2]) for found in entry["findings"]] == [(it.code, "n")]
    assert entry["findings"][0][3] == it.effect
    if it.effect == "fail":
        assert entry["error"]
        return
    assert entry["value"].shape == it.made.shape
    assert np.isnan(it.made).all() or np.allclose(entry["value"], it.made, rtol=1e-5)
    assert it.right.shape != it.made.shape or not np.array_equal(it.right, it.made)


@pytest.mark.parametrize("name", sorted(STILL_RIGHT))
def test_later_opsets_where_nothing_has_changed(name, made):
    _, _, x, weights, right = STILL_RIGHT[name]
    entry = made["right-" + name]
    np.testing.assert_allclose(entry["value"], right(x, *weights.values()), rtol=1e-5, atol=1e-6)
    assert entry["findings"] == []


@pytest.mark.parametrize("name", sorted(BEYOND))
def test_what_is_beyond_it_is_refused_by_name(name, made):
    proto, _, words = BEYOND[name]
    code, label, op_type, effect, message = made["beyond-" + name]["findings"][0]
    assert (code, op_type, effect) == ("onnx-caffe2", proto.op_type, "refuse") and words in message


@pytest.fixture
def saved(tmp_path):
    """Writes a model into a file and returns its path."""

    def save(model, name="model.onnx"):
        onnx.save(model, str(tmp_path / name))
        return str(tmp_path / name)

    return save


def differing():
    """A net in which the two importers differ at one node, and the values behind it are wrong too: (model, inputs)."""
    nodes = [
        node("Relu", ["x"], ["a"], "first"),
        node("Selu", ["a"], ["b"], "second", gamma=1.5),
        node("Neg", ["b"], ["c"], "third"),
        node("Relu", ["x"], ["d"], "other"),
    ]
    model = model_of(nodes, {"x": ROWS}, ["c", "d"], 6)
    model.ir_version = 3
    return model, {"x": ROWS}


@pytest.fixture(scope="module")
def session(first_caffe2, tmp_path_factory):
    """The CNN of opset 1, opened by onnx_caffe2 in a worker."""
    path = str(tmp_path_factory.mktemp("session") / "model.onnx")
    onnx.save(cnn(1), path)
    with open_session(path, {"x": X}, **FIRST) as opened:
        yield opened


def test_each_operator_knows_its_node_and_blobs_are_in_place(session):
    session.restart()
    net = session.model.predict_net
    assert [op.node.label for op in net.operators] == ["conv", "norm", "relu", "pool", "rows", "fc", "prob"]
    relu = net.operators[2]
    assert relu.in_place == ("norm",) and (relu.node.outputs, relu.node.blobs) == (("relu",), ("norm",))
    session.until("pool")
    before, after = (session.fetch("norm", version).array for version in (1, 2))
    assert np.array_equal(after, np.maximum(before, 0)) and (before < 0).any()
    session.back()
    assert np.array_equal(session.fetch("norm").array, before)
    assert "node 2 relu" in session.describe(2)


def test_values_in_place_are_compared_by_their_onnx_names(session, tmp_path):
    session.restart()
    golden = values_of_cnn()
    found = blame(session, _npz(tmp_path, golden))
    assert found.verdict is Verdict.PASS and found.tally.compared == 7
    session.restart()
    changed = dict(golden, relu=golden["relu"] + 1)  # as if Relu were wrong, and what comes before it right
    found = blame(session, _npz(tmp_path, changed))
    assert [(j.operator.index, j.operator.outputs) for j in found.origins][0] == (2, ("norm",))
    assert found.operators[1].label == "OK"


def _npz(folder, values):
    path = str(folder / "golden.npz")
    np.savez(path, **values)
    return open_npz(path)


def test_a_cut_has_both_values_of_a_blob_in_place(session, tmp_path):
    session.restart()
    session.cont()
    make_repro(session, "relu", str(tmp_path / "cut"))
    (folder,) = (
        os.path.dirname(path) for path in glob.glob(str(tmp_path / "cut" / "**" / "model.onnx"), recursive=True)
    )
    values = [
        onnx.numpy_helper.to_array(onnx.load_tensor(os.path.join(folder, "test_data_set_0", "%s_0.pb" % side)))
        for side in ("input", "output")
    ]
    assert np.array_equal(values[1], np.maximum(values[0], 0)) and (values[0] < 0).any()
    assert onnx.load(os.path.join(folder, "model.onnx")).graph.output[0].name == "relu"


def test_the_first_difference_between_the_importers(saved, first_caffe2, tmp_path):
    model, inputs = differing()
    path = saved(model)
    with open_session(path, inputs, **FIRST) as opened:
        reference = make_reference(opened, "backend:caffe2", str(tmp_path / "by caffe2"))
        found = blame(opened, reference)
        assert [(j.operator.index, j.operator.type) for j in found.origins] == [(1, "Selu")]
        assert [j.label for j in found.operators] == ["OK", ORIGIN, PROPAGATED, "OK"]
        assert any("lint attribute-unknown at Selu second" in hint for hint in found.origins[0].hints)
        assert np.allclose(reference.get("b"), selu(np.maximum(ROWS, 0), 1.5), rtol=1e-5)
        assert reference.source == "backend:caffe2" and any("converted as opset 6" in note for note in reference.notes)


def test_a_run_by_the_other_importer_is_compared_by_onnx_names(saved, first_caffe2, tmp_path):
    path = saved(cnn(1))
    kept = str(tmp_path / "kept")
    c2step.dump(path, {"x": X}, kept, **FIRST)
    header = json.loads((tmp_path / "kept" / "capture.json").read_text())
    assert header["backend"] == "onnx_caffe2"
    with open_session(path, {"x": X}, runtime="1.0.1") as opened:
        for spec in (kept, "backend:onnx_caffe2"):
            found = blame(opened, make_reference(opened, spec, str(tmp_path / "made")))
            assert found.verdict is Verdict.PASS and found.tally.compared == 7


def test_a_sweep_of_the_importers_differences(saved, first_caffe2):
    model, inputs = differing()
    found = sweep(
        saved(model), [inputs, {"x": ROWS + 1}], "backend:caffe2", jobs=1, runtime="1.0.1", backend="onnx_caffe2"
    ).to_json()
    assert [
        (row["index"], row["type"], row["labels"][ORIGIN]) for row in found["operators"] if row["labels"].get(ORIGIN)
    ] == [(1, "Selu", 2)]


def test_what_the_other_importer_fails_at_is_said(saved, first_caffe2, tmp_path):
    proto = TRAPS["kernel"].node
    model = model_of([node("Relu", ["x"], ["a"]), *[proto]], {"x": IMAGE}, ["y"], 1, KERNEL)
    model.graph.node[1].input[0] = "a"
    model.ir_version = 3
    with open_session(saved(model), {"x": IMAGE}, runtime="1.0.1", in_process=False) as opened:
        reference = make_reference(opened, "backend:onnx_caffe2", str(tmp_path / "made"))
        assert reference.names() == ["a"] and "operator 1 Conv" in reference.missing["y"]
        with pytest.raises(UsageError, match="no backend caffe"):
            make_reference(opened, "backend:caffe", str(tmp_path / "made"))


def test_where_it_is_not_and_what_it_does_not_go_with(saved, models):
    path, here = saved(cnn(6)), {"in_process": True, "backend": "onnx_caffe2"}
    with pytest.raises(RuntimeMissing, match="no onnx_caffe2") as raised:
        open_session(path, {"x": X}, **here)
    assert "scripts/make-runtime 1.0.1" in raised.value.hint
    with pytest.raises(UsageError, match="--import repaired does not go with"):
        open_session(path, {"x": X}, importing="repaired", **here)
    with pytest.raises(UsageError, match="these are Caffe2 nets"):
        open_session(os.path.join(models, "digits_native"), **here)


def test_a_later_opset_is_refused_and_partial_leaves_out(saved, first_caffe2):
    path = saved(cnn(9))
    with pytest.raises(ConversionError, match="refuses 1 of 7 nodes; the model is of opset 9") as raised:
        open_session(path, {"x": X}, **FIRST)
    assert raised.value.nodes[0].startswith("BatchNormalization norm: as of opset 9 it has no is_test")
    with open_session(path, {"x": X}, partial=True, **FIRST) as opened:
        nodes = [op.node.label for op in opened.model.predict_net.operators]
        assert nodes == ["conv", "relu", "pool", "rows", "fc", "fc", "prob"]  # Gemm of opset 7 becomes MatMul and Add
        assert opened.model.refused[0]["label"] == "norm"


def test_convert_writes_nets_that_stock_caffe2_runs(saved, first_caffe2, tmp_path, capsys):
    np.savez(str(tmp_path / "input.npz"), x=X)
    words = ["convert", saved(cnn(5)), "--runtime", "1.0.1", "--backend", "onnx_caffe2", "-o", str(tmp_path / "nets")]
    assert cli.main(words) == 0
    init, predict = capsys.readouterr().out.split()
    values = run_net(init, predict, str(tmp_path / "input.npz"), str(tmp_path))
    np.testing.assert_allclose(values["prob"], values_of_cnn()["prob"], rtol=1e-5, atol=1e-6)


def test_the_command_line_on_a_model_of_opset_6(shared, first_caffe2, tmp_path, capsys):
    """Old arguments broadcast and axis: right on both importers, and by the values that numpy gave."""
    case = os.path.join(shared, "cases", "42_opset6_no_ort_kernel")
    model = [os.path.join(case, "model.onnx"), "--runtime", "1.0.1", "--backend", "onnx_caffe2"]
    inputs = ["--input", os.path.join(case, "inputs.npz")]
    assert cli.main(["lint", *model]) == 0 and capsys.readouterr().out == "nothing found\n"
    assert cli.main(["dump", *model, *inputs, "-o", str(tmp_path / "out")]) == 0
    assert "note: converted by onnx-caffe2 1.0.0" in capsys.readouterr().err
    exactly, numpy_s = ["--rtol", "0", "--atol", "0"], os.path.join(case, "ref_numpy.npz")
    for against in (["backend:caffe2"], [numpy_s, "--names", numpy_s[:-3] + "json"]):
        assert cli.main(["blame", *model, *inputs, *exactly, "--against", *against]) == 0
    assert "reference: converted as opset 6, the model's own" in capsys.readouterr().err
