"""Golden values from onnxruntime equal the shared ones and those of the whole graph, whatever the model is like."""

import glob
import json
import os
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from c2step.errors import ReferenceFailed
from c2step.references import make_onnxruntime, open_capture
from reference_support import PYTHON, differing, every_value, fed, golden, node, quick, write_model
from shared_material import CHECKOUT, shared_dir

SHARED = shared_dir() or ""
CASES = sorted(os.path.dirname(path) for path in glob.glob(os.path.join(SHARED, "cases", "*", "model.onnx")))
WITH_VALUES = [case for case in CASES if os.path.exists(os.path.join(case, "ref.npz"))]
MODELS = sorted(os.path.dirname(path) for path in glob.glob(os.path.join(SHARED, "models", "*", "model.onnx")))

X = np.arange(-3, 9, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def make(monkeypatch, tmp_path):
    quick(monkeypatch)

    def made(model, inputs, **options):
        return make_onnxruntime(str(model), inputs, str(tmp_path / "values"), PYTHON, **options)

    return made


def case(name):
    """The folder of a shared case by the start of its name."""
    found = [folder for folder in CASES if os.path.basename(folder).startswith(name)]
    if not found:
        pytest.skip("no shared material")
    return found[0]


def test_the_shared_material_is_there(shared):
    assert len(WITH_VALUES) >= 22 and len(MODELS) >= 6


@pytest.mark.parametrize("folder", WITH_VALUES, ids=os.path.basename)
def test_cases_have_the_values_of_an_older_onnxruntime(folder, make):
    reference = make(os.path.join(folder, "model.onnx"), fed(folder))
    assert differing(reference, golden(folder), rtol=1e-5) == []
    assert reference.missing == {}


@pytest.mark.parametrize("folder", MODELS, ids=os.path.basename)
def test_models_have_the_values_of_the_whole_graph_bit_for_bit(folder, make):
    path = os.path.join(folder, "model.onnx")
    reference = make(path, fed(folder))
    assert differing(reference, every_value(path, fed(folder))) == []
    assert reference.missing == {}


def test_a_refused_node_takes_only_its_dependents_with_it(make):
    folder = case("64")
    reference = make(os.path.join(folder, "model.onnx"), fed(folder))
    assert [name for name in ("s", "g", "m") if name not in reference] == []
    assert "refuses node 3 Floor" in reference.missing["fl"]
    assert "tensor(int64)" in reference.missing["fl"]
    assert reference.missing["y"] == reference.missing["fl"]


def test_a_node_of_a_private_domain_has_no_value(make):
    folder = case("18")
    reference = make(os.path.join(folder, "model.onnx"), fed(folder))
    assert np.array_equal(reference.get("a"), np.maximum(fed(folder)["x"], 0))
    assert "my.domain" in reference.missing["y"]


def test_the_good_branch_beside_a_refused_node_has_values(make, tmp_path):
    nodes = [node("Floor", "i", "bad"), node("Relu", "x", "good"), node("Neg", "good", "y"), node("Neg", "bad", "z")]
    path = write_model(tmp_path / "m.onnx", nodes, {"x": X, "i": np.arange(3)}, ["y", "z"])
    reference = make(path, {"x": X, "i": np.arange(3)})
    assert np.array_equal(reference.get("y"), -np.maximum(X, 0))
    assert sorted(reference.missing) == ["bad", "z"]


def test_equal_node_names_do_not_matter(make):
    folder = case("43")
    x = fed(folder)["x"]
    reference = make(os.path.join(folder, "model.onnx"), {"x": x})
    assert differing(reference, {"a": np.maximum(x, 0), "b": -np.maximum(x, 0), "y": 0 * x}) == []


def test_weights_beside_the_model_are_found_from_any_folder(make, tmp_path, monkeypatch):
    folder = case("65")
    monkeypatch.chdir(tmp_path)
    reference = make(os.path.join(folder, "model.onnx"), fed(folder))
    assert differing(reference, golden(folder), rtol=1e-5) == []


def test_weights_that_are_not_there_are_named(make, tmp_path):
    folder = case("65")
    model = onnx.load(os.path.join(folder, "model.onnx"), load_external_data=False)
    onnx.save_model(model, str(tmp_path / "alone.onnx"))
    with pytest.raises(ReferenceFailed, match=r"weights\.bin, which tensor w needs"):
        make(tmp_path / "alone.onnx", fed(folder))


def test_symbolic_dimensions_and_unsorted_nodes(make, tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", None])
    path = write_model(tmp_path / "m.onnx", [node("Neg", "a", "y"), node("Relu", "x", "a")], {"x": x}, ["y"])
    reference = make(path, {"x": X})
    assert differing(reference, {"a": np.maximum(X, 0), "y": -np.maximum(X, 0)}) == []
    assert reference.notes == []


def test_outputs_left_out_unused_or_stated_twice(make, tmp_path):
    nodes = [
        node("Unsqueeze", "x", "batch", axes=[0]),
        node("RNN", "batch w r", "- last", hidden_size=2),
        node("Dropout", "x", "d mask"),
        node("Split", "d", "p q", axis=1),
    ]
    weights = {"w": np.ones((1, 2, 4), np.float32), "r": np.zeros((1, 2, 2), np.float32)}
    path = write_model(tmp_path / "m.onnx", nodes, {"x": X}, ["last", "d", "d"], weights)
    reference = make(path, {"x": X})
    assert reference.names() == ["x", "batch", "last", "d", "mask", "p", "q"]
    assert np.array_equal(reference.get("q"), X[:, 2:])
    assert np.allclose(reference.get("last"), np.tanh(X.sum(axis=1))[None, :, None], rtol=1e-5)


def test_a_subgraph_reads_from_outside(make, tmp_path):
    inner = [
        helper.make_graph([node("Add", "a w", out)], out, [], [onnx.ValueInfoProto(name=out)]) for out in ("t", "e")
    ]
    for graph in inner:
        graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    nodes = [node("Relu", "x", "a"), node("If", "c", "y", then_branch=inner[0], else_branch=inner[1])]
    inputs = {"x": X, "c": np.array(True)}
    path = write_model(tmp_path / "m.onnx", nodes, inputs, ["y"], {"w": np.float32([1, 2, 3, 4])})
    reference = make(path, inputs)
    assert differing(reference, every_value(path, inputs)) == []
    assert "t" not in reference


def test_a_sequence_is_told_and_what_is_made_from_it_has_a_value(make, tmp_path):
    nodes = [
        node("SplitToSequence", "x", "parts", axis=1),
        node("SequenceAt", "parts one", "y"),
        node("ConcatFromSequence", "parts", "z", axis=1),
    ]
    path = write_model(tmp_path / "m.onnx", nodes, {"x": X}, ["y", "z"], {"one": np.array(1)})
    reference = make(path, {"x": X})
    assert differing(reference, {"y": X[:, 1:2], "z": X}) == []
    assert reference.missing == {"parts": "no tensor but seq(tensor(float)) of 4 values"}


def test_strings_keep_their_letters(make, tmp_path):
    words = np.array([["Ünïcode", "卷积"]], dtype=object)
    path = write_model(
        tmp_path / "m.onnx",
        [node("Identity", "s", "t"), node("Concat", "t s", "y", axis=0)],
        {"s": words},
        ["y"],
        opset=13,
    )
    reference = make(path, {"s": words})
    assert [word.decode() for word in reference.get("y").ravel()] == ["Ünïcode", "卷积"] * 2


def test_types_that_numpy_has_not_are_widened(make, tmp_path):
    weight = helper.make_tensor("w", TensorProto.BFLOAT16, [2], [1.5, 3.140625])
    nodes = [node("Identity", "w", "same"), node("Cast", "same", "y", to=TensorProto.FLOAT)]
    path = write_model(tmp_path / "m.onnx", nodes, {}, ["y"], opset=13)
    model = onnx.load(path)
    model.graph.initializer.append(weight)
    onnx.save_model(model, path)
    reference = make(path, {})
    assert differing(reference, {"same": np.float32([1.5, 3.140625]), "y": np.float32([1.5, 3.140625])}) == []


def test_half_floats(make, tmp_path):
    half = X.astype(np.float16)
    path = write_model(tmp_path / "m.onnx", [node("Mul", "x x", "a"), node("Sqrt", "a", "y")], {"x": half}, ["y"])
    assert np.array_equal(make(path, {"x": half}).get("y"), np.abs(half))


def test_a_node_without_a_kernel_is_computed_and_noted(make, tmp_path):
    x, w = np.random.RandomState(0).randn(1, 2, 4, 4), np.ones((1, 2, 2, 2))
    path = write_model(tmp_path / "m.onnx", [node("Conv", "x w", "y")], {"x": x}, ["y"], {"w": w})
    reference = make(path, {"x": x})
    assert np.allclose(reference.get("y")[0, 0, 0, 0], x[0, :, :2, :2].sum())
    assert reference.notes == ['node 0 Conv "y": onnxruntime has no kernel, computed by numpy']


def test_forms_that_onnxruntime_refuses_or_misreads_have_values(make, tmp_path):
    x, weights = np.random.RandomState(0).randn(3, 2, 4).astype(np.float32), {"s": np.float32([1, 1, 2])}
    lstm = {"w": np.full((1, 12, 4), 0.5, np.float32), "r": np.full((1, 12, 3), 0.25, np.float32)}
    few = helper.make_sparse_tensor(
        numpy_helper.from_array(np.float32([2, 3]), "v"), numpy_helper.from_array(np.array([1, 3]), "i"), [4]
    )
    nodes = [
        node("LSTM", "x w r", "y", hidden_size=3, layout=1),
        node("Constant", "", "c", sparse_value=few),
        node("Mul", "x c", "z"),
    ]
    reference = make(write_model(tmp_path / "a.onnx", nodes, {"x": x}, ["y", "z"], lstm, 14), {"x": x})
    turned = [node("LSTM", "x w r", "y", hidden_size=3)]
    path = write_model(tmp_path / "b.onnx", turned, {"x": x.swapaxes(0, 1)}, ["y"], lstm, 14)
    wanted = every_value(path, {"x": x.swapaxes(0, 1)})["y"].transpose(2, 0, 1, 3)
    dense = np.float32([0, 2, 0, 3])
    assert differing(reference, {"y": wanted, "c": dense, "z": x * dense}, rtol=1e-5) == []

    resize = [helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")]
    whole = every_value(write_model(tmp_path / "c.onnx", resize, {"x": x}, ["y"], weights, 13), {"x": x})
    assert (
        differing(make(write_model(tmp_path / "d.onnx", resize, {"x": x}, ["y"], weights, 11), {"x": x}), whole) == []
    )


OLD = {
    "Add": ({"broadcast": 1, "axis": 1}, (2, 3, 4), (3,), lambda x, b: x + b[:, None]),
    "Sub": ({"broadcast": 1}, (2, 3, 4), (4,), lambda x, b: x - b),
    "Mul": ({"broadcast": 1, "axis": 0}, (2, 3, 4), (2, 3), lambda x, b: x * b[..., None]),
    "Div": ({"broadcast": 1, "axis": -1}, (2, 3, 4), (4,), lambda x, b: x / b),
    "Pow": ({"broadcast": 1, "axis": 1}, (2, 3, 4), (3,), lambda x, b: x ** b[:, None]),
    "Greater": ({"broadcast": 1, "axis": 1}, (2, 3, 4), (3,), lambda x, b: x > b[:, None]),
    "PRelu": ({}, (2, 3, 4), (3,), lambda x, b: np.where(x < 0, x * b[:, None], x)),
    "Concat": ({"axis": 0}, (2, 3), (1, 3), lambda x, b: np.concatenate([x, b])),
}


@pytest.mark.parametrize("kind", list(OLD))
@pytest.mark.parametrize("constant", [False, True], ids=["fed", "initializer"])
def test_opset_6_means_what_it_meant(kind, constant, make, tmp_path):
    attributes, shape, other, expected = OLD[kind]
    random = np.random.RandomState(3)
    x, b = (np.abs(random.randn(*s)).astype(np.float32) + 0.5 for s in (shape, other))
    inputs = {"x": x} if constant else {"x": x, "b": b}
    opset = 1 if kind == "Concat" else 6
    path = write_model(
        tmp_path / "m.onnx",
        [node(kind, "x b", "y", **attributes)],
        inputs,
        ["y"],
        {"b": b} if constant else {},
        opset=opset,
    )
    reference = make(path, inputs)
    assert np.allclose(reference.get("y"), expected(x, b), rtol=1e-6)
    assert "opset %d" % opset in reference.notes[0]


def test_opset_6_in_training_mode_is_refused(make, tmp_path):
    path = write_model(tmp_path / "m.onnx", [node("Dropout", "x", "y")], {"x": X}, ["y"], opset=6)
    assert "training mode" in make(path, {"x": X}).missing["y"]


def test_a_fed_initializer_takes_the_fed_value(make, tmp_path):
    path = write_model(tmp_path / "m.onnx", [node("Add", "x w", "y")], {"x": X, "w": X}, ["y"], {"w": X})
    assert np.array_equal(make(path, {"x": X}).get("y"), X + X)
    assert np.array_equal(make(path, {"x": X, "w": 0 * X}).get("y"), X)


def test_an_output_that_is_an_initializer_or_an_input_has_its_value(make, tmp_path):
    path = write_model(tmp_path / "m.onnx", [node("Add", "x w", "y")], {"x": X}, ["y", "w", "x"], {"w": X + 1})
    assert differing(make(path, {"x": X}), {"y": X + X + 1, "w": X + 1, "x": X}) == []


def test_inputs_must_be_those_of_the_model(make, tmp_path):
    path = write_model(tmp_path / "m.onnx", [node("Relu", "x", "y")], {"x": X}, ["y"])
    with pytest.raises(ReferenceFailed, match="no value for input x"):
        make(path, {})
    with pytest.raises(ReferenceFailed, match=r"input x is tensor\(double\), the model takes tensor\(float\)"):
        make(path, {"x": X.astype(np.float64)})
    reference = make(path, {"x": X[:1], "extra": X})
    assert reference.notes == [
        "input x has shape (1, 4), the model declares (3, 4)",
        "input extra is not one of the model's and was not used",
    ]


def test_big_endian_inputs_are_the_same_values(make, tmp_path):
    path = write_model(tmp_path / "m.onnx", [node("Relu", "x", "y")], {"x": X}, ["y"])
    assert np.array_equal(make(path, {"x": X.astype(">f4")}).get("y"), np.maximum(X, 0))


def test_what_is_no_model_is_named(make, tmp_path):
    (tmp_path / "text").write_text("no model at all, but a line of text")
    for name in ("text", "absent"):
        with pytest.raises(ReferenceFailed, match=name):
            make(tmp_path / name, {"x": X})


def test_the_capture_says_how_it_was_made(make, tmp_path):
    weights = {"w": np.eye(4, dtype=np.float32)}
    path = write_model(tmp_path / "m.onnx", [node("MatMul", "x w", "y", name="fc")], {"x": X}, ["y"], weights)
    make(path, {"x": X})
    reference = open_capture(str(tmp_path / "values"))
    assert reference.meta["kind"] == "reference" and reference.meta["engine"] == "onnxruntime"
    assert reference.meta["inputs"][0]["shape"] == [3, 4] and len(reference.meta["sha256"]) == 64
    assert set(reference.meta["versions"]) == {"onnx", "onnxruntime", "numpy", "python"}
    assert reference.versions("x") == [0] and reference.versions("y") == [1]


def test_progress_names_every_node(make, tmp_path):
    told = []
    path = write_model(
        tmp_path / "m.onnx", [node("Relu", "x", "a"), node("Neg", "a", "y", name="minus")], {"x": X}, ["y"]
    )
    make(path, {"x": X}, progress=lambda at, of, what: told.append((at, of, what)))
    assert told == [(0, 2, 'node 0 Relu "a"'), (1, 2, 'node 1 Neg "minus"')]


def test_memory_holds_one_node_at_a_time(tmp_path):
    """Thirty values of 4 MB each, one after the other, in an engine that may not take 60 MB more."""
    x = np.zeros((1 << 20,), np.float32)
    names = ["v%d" % number for number in range(31)]
    nodes = [node("Add", "%s one" % a, b) for a, b in zip(names, names[1:])]
    path = write_model(tmp_path / "m.onnx", nodes, {"v0": x}, [names[-1]], {"one": np.ones(1, np.float32)})
    peaks = peaks_of(path, x, tmp_path)
    assert len(peaks) == 30 and peaks[-1] - peaks[0] < 60 << 10


def peaks_of(path, x, folder):
    """The peak memory of an engine, in KiB, after each node."""
    script = folder / "measured.py"
    script.write_text("""
import resource
from c2step.references.engines import onnx_engine, serve
def measured(request, send):
    peaks = []
    engine.run(request, lambda event: peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
    return {"peaks": peaks[1::2]}
engine = onnx_engine._Engine()
serve.serve({"open": engine.open, "run": measured})
""")
    np.save(str(folder / "v0.npy"), x)
    value = {"file": "v0.npy", "version": 0, "type": "tensor(float)", "kind": "tensor"}
    asked = [
        {"do": "open", "model": path},
        {"do": "run", "out": str(folder), "start": 0, "tick": 1, "values": {"v0": value}, "lost": {}},
    ]
    done = subprocess.run(
        [PYTHON, str(script)],
        input="".join(json.dumps(a) + "\n" for a in asked),
        env=dict(os.environ, PYTHONPATH=CHECKOUT),
        stdout=subprocess.PIPE,
        universal_newlines=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])["done"]["peaks"]


def test_large_weights_give_the_bits_of_the_whole_graph(make, tmp_path):
    random = np.random.RandomState(0)
    weights = {"w": random.randn(256, 256, 3, 3), "f": random.randn(256 * 36, 64), "b": random.randn(64)}
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    nodes = [
        node("Conv", "x w", "c"),
        node("Flatten", "c", "flat"),
        node("Gemm", "flat f b", "g"),
        node("MatMul", "flat f", "m"),
        node("Add", "g m", "y"),
    ]
    x = random.randn(2, 256, 8, 8).astype(np.float32)
    path = write_model(tmp_path / "m.onnx", nodes, {"x": x}, ["y"], weights)
    assert differing(make(path, {"x": x}), every_value(path, {"x": x})) == []


def test_numpy_arrays_of_a_constant_node_stay_constant(make, tmp_path):
    """Upsample needs its scales as a constant; here a Constant node gives them."""
    scales = numpy_helper.from_array(np.float32([1, 1, 2, 2]), "s")
    nodes = [node("Constant", "", "scales", value=scales), node("Upsample", "x scales", "y", mode="nearest")]
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    path = write_model(tmp_path / "m.onnx", nodes, {"x": x}, ["y"], opset=9)
    assert np.array_equal(make(path, {"x": x}).get("y"), x.repeat(2, axis=2).repeat(2, axis=3))
