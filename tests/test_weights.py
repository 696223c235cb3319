"""Large weights that stay in their file: the same model, the same values, and never another file's bytes."""

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from c2step.errors import ModelError
from c2step.importer import onnxfile, weights
from c2step.importer.files import sniff
from c2step.launch import open_session

LARGE = 40000  # elements; in float16 still above what stays in the model
TYPES = (np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8)


def value(dtype, *shape):
    return (np.random.RandomState(0).standard_normal(shape) * 50).astype(dtype)


def model_of(arrays, **more):
    """Identity of x beside initializers that nothing reads."""
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", info[:1], info[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], **more)


def saved(model, folder, **how):
    path = os.path.join(str(folder), "model.onnx")
    onnx.save(model, path, **how)
    return path


def without_bytes(model):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        for field in ("raw_data", "external_data", "data_location"):
            tensor.ClearField(field)
    return copy


def test_the_model_is_the_same_but_for_the_bytes(tmp_path):
    arrays = {np.dtype(t).name: value(t, LARGE * 2 if np.dtype(t).itemsize == 1 else LARGE) for t in TYPES}
    arrays.update(small=value(np.float32, 3), empty=value(np.float32, 0, 4), flags=np.ones(LARGE * 2, bool))
    path = saved(model_of(arrays, producer_name="someone"), tmp_path)
    found, true = onnxfile.load(path, everything=False), onnx.load(path)
    assert without_bytes(found) == without_bytes(true)
    stored = {tensor.name for tensor in found.graph.initializer if weights.is_stored(tensor)}
    assert stored == {np.dtype(t).name for t in TYPES}
    for tensor, whole in zip(found.graph.initializer, true.graph.initializer):
        for mapped in (False, True):
            array = weights.array_of(tensor, mapped)
            assert array.dtype == numpy_helper.to_array(whole).dtype and array.shape == tuple(whole.dims)
            assert array.tobytes() == numpy_helper.to_array(whole).tobytes()
    assert weights.whole(found.graph.initializer) == list(true.graph.initializer)
    assert onnxfile.load(path) == true


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) - 4])
def test_only_large_ones_stay(tmp_path, size):
    path = saved(model_of({"w": value(np.float32, size // 4)}), tmp_path)
    [tensor] = onnxfile.load(path, everything=False).graph.initializer
    assert weights.is_stored(tensor) == (size == 1 << 16)


def test_a_graph_in_pieces_and_fields_in_odd_order(tmp_path):
    """Protobuf merges fields that come twice, and takes them in any order."""
    one, two = model_of({"w": value(np.float32, LARGE)}), onnx.ModelProto()
    two.graph.initializer.add().CopyFrom(numpy_helper.from_array(value(np.int64, 2, LARGE), "v"))
    path = str(tmp_path / "model.onnx")
    with open(path, "wb") as file:
        file.write(two.SerializeToString() + one.SerializeToString())
    found, true = onnxfile.load(path, everything=False), onnx.load(path)
    assert without_bytes(found) == without_bytes(true) and [t.name for t in found.graph.initializer] == ["v", "w"]
    assert weights.whole(found.graph.initializer) == list(true.graph.initializer)


def test_weights_in_another_file_stay_there(tmp_path):
    arrays = {"w": value(np.float32, LARGE), "v": value(np.float64, 3, LARGE), "small": value(np.float32, 300)}
    path = saved(model_of(arrays), tmp_path, save_as_external_data=True, location="all.bin", size_threshold=0)
    found = onnxfile.load(path, everything=False)
    assert {t.name: weights.is_stored(t) for t in found.graph.initializer} == {"w": True, "v": True, "small": False}
    assert {t.name: weights.array_of(t).tobytes() for t in found.graph.initializer} == {
        name: array.tobytes() for name, array in arrays.items()
    }


@pytest.mark.parametrize("damage", ["dims", "data_type", "short"])
def test_what_does_not_fit_is_said_as_ever(tmp_path, damage):
    model = model_of({"w": value(np.float32, 2, LARGE)})
    [tensor] = model.graph.initializer
    if damage == "dims":
        tensor.dims[0] = 3
    elif damage == "data_type":
        tensor.data_type = TensorProto.DOUBLE
    else:
        tensor.raw_data = tensor.raw_data[:-1]
    path = saved(model, tmp_path)
    with pytest.raises(ModelError, match="tensor w .* is damaged"):
        onnxfile.load(path, everything=False)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_a_file_that_is_cut_short(tmp_path, kept):
    path = saved(model_of({"w": value(np.float32, LARGE)}), tmp_path)
    with open(path, "r+b") as file:
        file.truncate(int(os.path.getsize(path) * kept))
    with pytest.raises(ModelError, match="not a whole ONNX model"):
        onnxfile.load(path, everything=False)
    with pytest.raises(ModelError, match="cut short"):
        sniff(path)


@pytest.mark.parametrize("change", ["other bytes", "shorter", "gone"])
def test_a_file_that_changes_is_noticed(tmp_path, change):
    path = saved(model_of({"w": value(np.float32, LARGE)}), tmp_path)
    [tensor] = onnxfile.load(path, everything=False).graph.initializer
    if change == "gone":
        os.remove(path)
    elif change == "shorter":
        with open(path, "r+b") as file:
            file.truncate(100)
    else:
        os.utime(path, (1, 1))
    with pytest.raises(ModelError, match="no longer what it was"):
        weights.array_of(tensor)


def test_a_model_cannot_name_a_file_of_its_own_choice(tmp_path):
    """External data must lie beside the model, whatever else its entry says."""
    path, secret = saved(model_of({}), tmp_path), str(tmp_path.parent / "secret.bin")
    with open(secret, "wb") as file:
        file.write(bytes(4 * LARGE))
    model, state = onnx.load(path), os.stat(secret)
    tensor = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.dims.append(LARGE)
    said = "%d %d %d" % (state.st_size, state.st_mtime_ns, state.st_ino)
    for key, text in (("location", secret), ("offset", "0"), ("length", str(4 * LARGE)), ("state", said)):
        tensor.external_data.add(key=key, value=text)
    onnx.save(model, path)
    with pytest.raises(ModelError, match="not beside the model"):
        onnxfile.load(path, everything=False)


@pytest.mark.parametrize("importing", ["faithful", "repaired"])
def test_a_session_with_large_weights(tmp_path, importing):
    """Opened, restarted, converted and cut out: everywhere the weights of the file."""
    w, x = value(np.float32, 300, 300), value(np.float32, 2, 300)
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 300]) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(w[0], "b")]
    graph = helper.make_graph([node], "g", info[:1], info[1:], tensors)
    path = saved(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)]), tmp_path)
    with open_session(path, {"x": x}, importing=importing) as session:
        session.cont()
        session.restart()
        session.cont()
        assert session.fetch("w").array.tobytes() == w.tobytes()
        np.testing.assert_allclose(session.fetch("y").array, x @ w.T + w[0], rtol=1e-3, atol=1e-1)
        session.workspace.convert(str(tmp_path / "nets"))
        row = {"name": "x", "kind": "tensor", "file": str(tmp_path / "x.npy"), "scale": None, "zero_point": None}
        np.save(row["file"], x)
        session.workspace.cut(0, 1, str(tmp_path / "cut"), [row], [])
    with open_session(str(tmp_path / "nets"), {"x": x}) as session:
        assert session.fetch("w").array.tobytes() == w.tobytes()
    [model] = [str(p) for p in (tmp_path / "cut").rglob("model.onnx")]
    assert {t.name: numpy_helper.to_array(t).tobytes() for t in onnx.load(model).graph.initializer}["w"] == w.tobytes()


def test_a_model_that_is_replaced_while_it_is_open(tmp_path):
    code = "import numpy as np, sys; sys.path.insert(0, %r)\n" % os.path.dirname(os.path.dirname(__file__))
    path = saved(model_of({"w": value(np.float32, LARGE)}), tmp_path)
    code += "import c2step; from c2step.errors import ModelError\n"
    code += "with c2step.open(%r, {'x': np.ones(2, np.float32)}) as session:\n" % path
    code += "    open(%r, 'wb').write(b'another'); session.cont()\n    try: session.restart()\n" % path
    code += "    except ModelError as error: print(error)"
    said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, universal_newlines=True, timeout=60)
    assert "is no longer what it was when the model was opened" in said.stdout
