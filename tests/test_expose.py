"""An exposed file gives the same outputs first, then the chosen values, each once, and stays a valid model."""

import glob
import os

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from c2step.errors import UsageError
from c2step.references import expose
from reference_support import PYTHON, InThisProcess, every_value, fed, node, same, write_model
from shared_material import shared_dir

SHARED = shared_dir() or ""
MODELS = sorted(glob.glob(os.path.join(SHARED, "models", "*", "model.onnx")))
X = np.arange(-3, 9, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.setattr("c2step.references.exposing.Engine", InThisProcess)
    return str(tmp_path / "out.onnx")


def run(path, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: os.path.basename(os.path.dirname(path)))
def test_all_values_of_the_shared_models(path, out):
    made = expose(path, out, PYTHON, every=True)
    inputs = fed(os.path.dirname(path))
    old = [value.name for value in onnx.load(path).graph.output]
    names = [value.name for value in onnx.load(out).graph.output]
    assert names == old + made.names and len(set(names)) == len(names)
    values, wanted = run(out, inputs), every_value(path, inputs)
    assert [name for name in wanted if not same(values[name], wanted[name], 0.0)] == []
    assert made.untyped == []
    onnx.checker.check_model(out, full_check=True)


@pytest.fixture
def model(tmp_path):
    nodes = [
        node("MatMul", "x w", "fc/out:0"),
        node("Relu", "fc/out:0", "a"),
        node("Dropout", "a", "d mask"),
        node("RNN", "t w2 r", "- last", hidden_size=4),
        node("Unsqueeze", "d", "t", axes=[0]),
        node("Neg", "d", "y"),
    ]
    weights = {
        "w": np.eye(4, dtype=np.float32),
        "w2": np.ones((1, 4, 4), np.float32),
        "r": np.ones((1, 4, 4), np.float32),
    }
    return write_model(tmp_path / "m.onnx", nodes, {"x": X}, ["y", "a"], weights)


def test_by_type_in_the_order_of_the_run(model, out):
    made = expose(model, out, PYTHON, types=["Dropout", "MatMul", "Relu"])
    assert made.names == ["fc/out:0", "d", "mask"] and made.outputs == ["y", "a"]
    assert list(run(out, {"x": X})) == ["y", "a", "fc/out:0", "d", "mask"]


def test_by_name(model, out):
    assert expose(model, out, PYTHON, match="^d$|out").names == ["fc/out:0", "d"]
    assert expose(model, out, PYTHON, types=["RNN"], match="last").names == ["last"]


def test_the_types_are_inferred(model, out):
    expose(model, out, PYTHON, every=True)
    kinds = {value.name: value.type.tensor_type for value in onnx.load(out).graph.output}
    assert kinds["fc/out:0"].elem_type == TensorProto.FLOAT
    assert [dim.dim_value for dim in kinds["last"].shape.dim] == [1, 3, 4]
    assert kinds["mask"].elem_type == TensorProto.BOOL


def test_what_nothing_states_is_told(tmp_path, out):
    nodes = [node("Strange", "x", "s", domain="my.domain"), node("Neg", "x", "y")]
    made = expose(write_model(tmp_path / "m.onnx", nodes, {"x": X}, ["y"]), out, PYTHON, every=True)
    assert made.names == ["s"] and made.untyped == ["s"]
    assert "no type is known for s" in made.text()


def test_values_inside_a_branch_are_not_values_of_the_graph(tmp_path, out):
    branch = helper.make_graph(
        [node("Neg", "x", "inner")], "b", [], [helper.make_tensor_value_info("inner", TensorProto.FLOAT, [3, 4])]
    )
    nodes = [node("If", "c", "y", then_branch=branch, else_branch=branch), node("Relu", "y", "z")]
    path = write_model(tmp_path / "m.onnx", nodes, {"x": X, "c": np.array(True)}, ["z"])
    assert expose(path, out, PYTHON, every=True).names == ["y"]


def test_weights_in_another_file_are_written_beside_the_copy(tmp_path, out):
    weights = {"w": np.arange(2048, dtype=np.float32).reshape(4, 512)}
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "y")]
    path = write_model(tmp_path / "m.onnx", nodes, {"x": X}, ["y"], weights)
    (tmp_path / "there").mkdir()
    there = str(tmp_path / "there" / "m.onnx")
    onnx.save_model(onnx.load(path), there, save_as_external_data=True, location="m.bin", size_threshold=0)
    expose(there, out, PYTHON, every=True)
    os.remove(str(tmp_path / "there" / "m.bin"))
    assert os.path.getsize(out + ".data") >= 8192 and os.path.getsize(out) < 2048
    assert np.allclose(run(out, {"x": X})["a"], X @ weights["w"])


def test_beside_the_model_both_use_the_same_weights(tmp_path, out):
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "y")]
    path = write_model(tmp_path / "m.onnx", nodes, {"x": X}, ["y"], {"w": np.eye(4, dtype=np.float32)})
    onnx.save_model(onnx.load(path), path, save_as_external_data=True, location="m.bin", size_threshold=0)
    expose(path, out, PYTHON, every=True)
    assert sorted(os.listdir(str(tmp_path))) == ["m.bin", "m.onnx", "out.onnx"]
    assert np.array_equal(run(out, {"x": X})["a"], X)


def test_the_shared_case_with_weights_in_another_file(out):
    folder = os.path.join(SHARED, "cases", "65_external_data_weights")
    if not os.path.isdir(folder):
        pytest.skip("no shared material")
    expose(os.path.join(folder, "model.onnx"), out, PYTHON, every=True)
    values = run(out, fed(folder))
    assert list(values) == ["y", "m"]
    assert np.array_equal(values["y"], np.maximum(values["m"], 0))


@pytest.mark.parametrize(
    "chosen, message",
    [
        ({}, "nothing was chosen"),
        ({"types": ["Conb"]}, "no value of"),
        ({"match": "("}, "is no regular expression"),
        ({"types": ["Matmul"]}, "did you mean MatMul"),
    ],
)
def test_choices_that_fit_nothing(chosen, message, model, out):
    with pytest.raises(UsageError) as caught:
        expose(model, out, PYTHON, **chosen)
    assert message in str(caught.value)


def test_the_model_itself_is_not_overwritten(model):
    with pytest.raises(Exception, match="is the model itself"):
        expose(model, model, PYTHON, every=True)
