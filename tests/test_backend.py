"""The faithful import: the same nets as Caffe2's own backend, node by node, and what stands around it."""

import glob
import os
import subprocess
import sys
import warnings

import numpy as np
import onnx
import pytest
from caffe2.python import workspace
from caffe2.python.onnx.backend import Caffe2Backend
from onnx import TensorProto, helper

from c2step.errors import ConversionError, ModelError
from c2step.importer import backend
from c2step.importer.light import light_copy
from conformance.cases import backend_cases
from repair_support import model_of, node, rand


class Stock(Caffe2Backend):
    """The stock backend with the split that onnx.optimizer made: an init model without nodes."""

    @staticmethod
    def optimize_onnx(model, init=False, predict=False):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        if init:
            del copy.graph.node[:]
        return copy


def stock_nets(model):
    """init_net and predict_net as the stock backend makes them, with shapes inferred and weights listed as inputs."""
    listed = onnx.ModelProto()
    listed.CopyFrom(model)
    names = {value.name for value in listed.graph.input}
    for tensor in listed.graph.initializer:
        if tensor.name not in names:
            listed.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        listed = onnx.shape_inference.infer_shapes(listed)
        return Stock._onnx_model_to_caffe2_net(listed, "CPU", backend.model_opset(model), False)


def nameless(operators):
    """Serialized operators without their names, and without the numbers that Caffe2 puts into names of step nets."""
    copies = [type(op).FromString(op.SerializeToString()) for op in operators]
    for op in copies:
        op.name = ""
        for arg in op.arg:
            if arg.HasField("n"):
                arg.n.name = ""
    return [op.SerializeToString(deterministic=True) for op in copies]


def constants_have_values(graph):
    return all(a.name == "value" for n in graph.node if n.op_type == "Constant" for a in n.attribute)


def assert_faithful(model):
    init, predict = stock_nets(model)
    made = backend.convert(model)
    assert nameless(made.predict.op) == nameless(predict.op)
    assert nameless(made.init_ops) == nameless(init.op)
    assert list(made.predict.external_output) == list(predict.external_output)
    assert list(made.predict.external_input) == list(predict.external_input)
    assert made.predict.device_option == predict.device_option
    assert len(made.node_of) == len(made.predict.op) and len(made.init_node_of) == len(made.init_ops)


def test_faithful_is_operator_for_operator_what_stock_converts(capsys):
    """On every third of onnx's own models that stock converts; those that end its process are left out."""
    same = refused = 0
    for case in backend_cases()[::3]:
        model = onnx.load(case.path)
        if not constants_have_values(model.graph) or not any(i.domain == "" for i in model.opset_import):
            continue
        try:
            stock_nets(model)
        except Exception:
            refused += 1
            assert backend.convert(model, strict=False).refused, case.name
            continue
        assert_faithful(model)
        same += 1
    capsys.readouterr()
    assert same > 200 and refused > 100


def test_faithful_on_whole_models(shared):
    for path in sorted(glob.glob(os.path.join(shared, "models", "*", "model.onnx"))):
        assert_faithful(onnx.load(path))


def test_every_operator_knows_its_node(shared):
    model = backend.load(os.path.join(shared, "models", "digits_lstm-op9", "model.onnx"))
    made = backend.convert(model)
    lstm = next(n.index for n in made.nodes if n.op_type == "LSTM")
    assert set(made.init_node_of) == {lstm}
    assert made.node_of == sorted(made.node_of) and set(made.node_of) == set(range(len(made.nodes)))
    for op, index in zip(made.predict.op, made.node_of):
        assert made.nodes[index].outputs[0] in op.output or index == lstm or len(set(op.output)) > 0


def test_pool_in_a_name_does_not_bite():
    nodes = [node("GlobalAveragePool", ["x"], ["y"], name="GlobalAveragePool_63"), node("Neg", ["y"], ["z"], name="n")]
    made = backend.convert(model_of(nodes, {"x": rand(1, 2, 3, 3)}, ["z"], 9))
    assert [op.name for op in made.predict.op] == ["", "n"]
    assert made.nodes[made.node_of[0]].name == "GlobalAveragePool_63"
    assert any("kernel size" in note for note in made.notes)


def test_notes_name_each_remedy():
    weights = {"w": rand(3, 2), "b": rand(3)}
    nodes = [node("Gemm", ["x", "w", "b"], ["y"], transB=1)]
    made = backend.convert(model_of(nodes, {"x": rand(4, 2)}, ["y"], 11, weights))
    assert [op.type for op in made.predict.op] == ["FC"]  # shapes were inferred, else it is MatMul and Add
    text = "\n".join(made.notes)
    for word in ("2 initializers", "onnx.optimizer", "opset 11"):
        assert word in text


def test_constant_forms_that_end_stock():
    nodes = [
        node("Constant", [], ["a"], value_float=2.5, name="c0"),
        node("Constant", [], ["b"], value_ints=[3, 1]),
        node("Mul", ["x", "a"], ["m"]),
        node("Reshape", ["m", "b"], ["y"]),
    ]
    made = backend.convert(model_of(nodes, {"x": rand(3)}, ["y"], 12))
    assert [op.type for op in made.predict.op][:2] == ["GivenTensorFill", "GivenTensorInt64Fill"]
    assert any("c0" in note and "SIGSEGV" in note for note in made.notes)


def test_private_domain_is_noted():
    model = model_of([node("Softplus", ["x"], ["y"], domain="my.domain")], {"x": rand(3)}, ["y"], 9)
    model.opset_import.append(helper.make_opsetid("my.domain", 1))
    assert any("node domain my.domain was ignored" in note for note in backend.convert(model).notes)


def test_every_refused_node_is_listed_with_its_place():
    nodes = [
        node("Relu", ["x"], ["a"]), node("Hardmax", ["a"], ["b"], name="first"), node("Neg", ["b"], ["c"]),
        node("Det", ["c"], ["y"], name="second"),
    ]  # fmt: skip
    model = model_of(nodes, {"x": rand(2, 2)}, ["y"], 11)
    with pytest.raises(ConversionError) as raised:
        backend.convert(model)
    assert [n.split(":")[0] for n in raised.value.nodes] == ["Hardmax first", "Det second"]
    made = backend.convert(model, strict=False)
    assert [(r.index, r.op_type, r.position) for r in made.refused] == [(1, "Hardmax", 1), (3, "Det", 2)]
    assert [op.type for op in made.predict.op] == ["Relu", "Negative"]


def test_a_death_can_be_named():
    seen = []
    nodes = [node("Relu", ["x"], ["a"], name="r"), node("Neg", ["a"], ["y"])]
    backend.convert(model_of(nodes, {"x": rand(2)}, ["y"], 9), on_node=lambda index, n: seen.append((index, n.label)))
    assert seen == [(0, "r"), (1, "Neg_1")]


def test_nothing_that_the_backend_prints_is_lost_or_shown(capfd):
    inner = helper.make_graph([node("Hardmax", ["x"], ["a"])], "t", [], [helper.make_tensor_value_info("a", 1, None)])
    other = helper.make_graph([node("Neg", ["x"], ["b"])], "e", [], [helper.make_tensor_value_info("b", 1, None)])
    nodes = [node("If", ["c"], ["y"], then_branch=inner, else_branch=other, name="choice")]
    made = backend.convert(model_of(nodes, {"x": rand(2, 2), "c": np.array(True)}, ["y"], 11))
    assert [note for note in made.notes if "choice" in note and "Hardmax" in note]
    assert "ONNX FATAL" not in "".join(capfd.readouterr())


def test_weights_are_not_moved_about():
    weights = {"w": rand(256, 256, 3, 3)}
    nodes = [node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3])]
    model = model_of(nodes, {"x": rand(1, 256, 4, 4)}, ["y"], 9, weights)
    assert light_copy(model, {}, []).ByteSize() < 1000
    made = backend.import_model(model, True)
    assert [name for name, _ in made.blobs()] == ["w"]


def test_input_shapes_fix_symbolic_dimensions():
    model = model_of(
        [node("Shape", ["x"], ["s"]), node("Resize", ["x", "", "", "s"], ["y"])], {"x": rand(1, 1, 2, 2)}, ["y"], 13
    )
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"
    assert backend.declared(model)[0] == [("x", "float32", (1, 1, "height", 2))]
    with pytest.raises(ConversionError):
        backend.import_model(model, True)
    backend.import_model(model, True, input_shapes={"x": (1, 1, 5, 2)})


class TestLoad:
    def external(self, folder):
        model = model_of([node("Add", ["x", "w"], ["y"])], {"x": rand(300)}, ["y"], 9, {"w": rand(300, seed=1)})
        onnx.save(model, str(folder / "m.onnx"), save_as_external_data=True, location="weights.bin", size_threshold=0)
        return str(folder / "m.onnx")

    def test_external_data_beside_the_model(self, tmp_path, monkeypatch):
        path = self.external(tmp_path)
        monkeypatch.chdir("/")
        [(name, array)] = list(backend.initializers(backend.load(path)))
        assert name == "w" and array.tobytes() == rand(300, seed=1).tobytes()

    def test_missing_and_cut_weights(self, tmp_path):
        path = self.external(tmp_path)
        weights = tmp_path / "weights.bin"
        data = weights.read_bytes()
        weights.write_bytes(data[:-4])
        with pytest.raises(ModelError, match="too short for tensor w"):
            backend.load(path)
        weights.unlink()
        with pytest.raises(ModelError, match="weights.bin, which tensor w of"):
            backend.load(path)

    @pytest.mark.parametrize("data", [b"", b"not a model at all, by any means", b"\x08\x07"])
    def test_what_is_no_model(self, tmp_path, data):
        path = tmp_path / "m.onnx"
        path.write_bytes(data)
        with pytest.raises(ModelError):
            backend.load(str(path))

    def test_cut_off(self, tmp_path):
        path = tmp_path / "m.onnx"
        model = model_of([node("Add", ["x", "w"], ["y"])], {"x": rand(30)}, ["y"], 9, {"w": rand(30)})
        path.write_bytes(model.SerializeToString()[:-40])
        with pytest.raises(ModelError, match="cut off"):
            backend.load(str(path))

    def test_initializers_that_caffe2_cannot_hold(self):
        graph = helper.make_graph([node("Neg", ["x"], ["y"])], "g", [], [], [
            helper.make_tensor("b", TensorProto.BFLOAT16, [2], [1.0, 2.5]),
            helper.make_tensor("u", TensorProto.UINT32, [2], [1, 4000000000]),
            helper.make_tensor("c", TensorProto.COMPLEX64, [1], [1 + 2j]),
        ])  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        fed = dict(backend.initializers(model))
        assert fed["b"].dtype == np.float32 and fed["b"].tolist() == [1.0, 2.5]
        assert fed["u"].dtype == np.int64 and fed["u"].tolist() == [1, 4000000000] and "c" not in fed
        notes = backend.convert(model, strict=False).notes
        assert [any("initializer %s:" % n in note for note in notes) for n in "buc"] == [True] * 3


def special(dtype):
    info = np.finfo(dtype)
    return np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, info.tiny, -info.tiny / 8, info.max, info.min, info.eps], dtype
    )


FILLED = [rand(3, 4, dtype=d) for d in ("float32", "float64", "float16", "bool")]
FILLED += [(rand(2, 3) * 60).astype(d) for d in ("int8", "uint8", "int16", "uint16", "int32", "int64")]
FILLED += [special(d) for d in ("float32", "float64", "float16")]
FILLED += [np.array(2.5), np.array(7), np.zeros((0, 3)), np.zeros((0,), np.int64), np.array([1e300, -3e-310, np.pi])]


@pytest.mark.parametrize("array", FILLED, ids=lambda a: "%s-%s" % (a.dtype, a.shape))
def test_fills_give_the_same_bytes(array):
    for op in backend.fill_ops("blob", array):
        workspace.RunOperatorOnce(op)
    got = workspace.FetchBlob("blob")
    assert got.dtype == array.dtype and got.shape == array.shape and got.tobytes() == array.tobytes()


def test_fills_of_texts_and_what_cannot_be_filled():
    [op] = backend.fill_ops("t", np.array(["ab", "\u00fc"], dtype=object))
    workspace.RunOperatorOnce(op)
    assert [t.decode() for t in workspace.FetchBlob("t")] == ["ab", "\u00fc"]
    with pytest.raises(ConversionError, match="complex64"):
        backend.fill_ops("c", np.zeros(2, np.complex64))


OLDER = """
import sys
from c2step.importer import backend
import numpy as np, onnx
from caffe2.python import workspace
assert "onnx.optimizer" not in sys.modules and not hasattr(onnx, "optimizer")
model = backend.load(sys.argv[1])
inputs = dict(np.load(sys.argv[2]))
made = backend.import_model(model, sys.argv[3] == "repaired", input_shapes={k: v.shape for k, v in inputs.items()})
for name, array in list(made.blobs()) + list(inputs.items()):
    workspace.FeedBlob(name, array)
for op in made.init_ops:
    workspace.RunOperatorOnce(op)
workspace.CreateNet(made.predict)
workspace.RunNet(made.predict.name)
np.save(sys.argv[4], workspace.FetchBlob(made.predict.external_output[0]))
print(" ".join(op.type for op in made.predict.op))
"""


@pytest.mark.parametrize("name, mode", [("digits_lstm-op9", "faithful"), ("digits_attn-op11", "repaired")])
def test_an_older_caffe2_converts_alike(older_caffe2, shared, checkout, tmp_path, name, mode):
    """The same operators and the same answer with torch 1.2.0's Caffe2, which imports onnx.optimizer."""
    said, answers = [], []
    for number, python in enumerate((sys.executable, older_caffe2)):
        folder = os.path.join(shared, "models", name)
        out = str(tmp_path / ("%d.npy" % number))
        command = [
            python,
            "-W",
            "ignore",
            "-c",
            OLDER,
            os.path.join(folder, "model.onnx"),
            os.path.join(folder, "input.npz"),
            mode,
            out,
        ]
        done = subprocess.run(
            command, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True
        )
        assert done.returncode == 0, done.stderr[-2000:]
        said.append(done.stdout)
        answers.append(np.load(out))
    assert said[0] == said[1]
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-4, atol=1e-5)
