"""What users get wrong: damaged files, odd options, closed streams; each is one error line, nothing stays behind."""

import gc
import os
import zipfile

import numpy as np
import onnx
import pytest

from c2step.cli import main
from c2step.errors import InputError, ModelError
from c2step.importer.files import find_model
from c2step.importer.inputs import random_inputs, read_inputs
from c2step.launch import open_session
from c2step.model import Declared
from small_nets import written


def graph_of(tensors, inputs=(), nodes=None):
    """A model that gives back what it is fed, with these initializers."""
    value = onnx.helper.make_tensor_value_info("x", 1, [2])
    out = onnx.helper.make_tensor_value_info("y", 1, [2])
    nodes = nodes or [onnx.helper.make_node("Relu", ["x"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", list(inputs) or [value], [out], list(tensors))
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 9)], ir_version=4)


def stored(model, folder, name="model.onnx"):
    path = os.path.join(str(folder), name)
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    return path


def zipped(path, entries):
    with zipfile.ZipFile(str(path), "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return str(path)


# -- zips -------------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files that a test can look into."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


@pytest.mark.parametrize("in_process", [True, False])
def test_what_a_zip_held_goes_away_with_the_session(in_process, temporary, tmp_path):
    net = written([("Relu", ["x"], ["y"], {})], ["x"], tmp_path)
    with open(net, "rb") as file:
        path = zipped(tmp_path / "net.zip", {"inner/predict_net.pb": file.read()})
    session = open_session(path, {"x": np.zeros(2, np.float32)}, in_process=in_process)
    unpacked = session.model.path
    assert os.path.realpath(unpacked).startswith(os.path.realpath(str(temporary))) and os.path.exists(unpacked)
    session.restart()
    assert session.cont().reason == "end" and session.model.path == unpacked
    session.close()
    del session
    gc.collect()
    assert os.listdir(str(temporary)) == []


@pytest.mark.parametrize(
    "entries, words",
    [
        ({"../out.txt": b"x"}, "holds a path outside itself: ../out.txt"),
        ({"a/../../out.txt": b"x"}, "holds a path outside itself"),
        ({"/etc/c2step": b"x"}, "holds a path outside itself: /etc/c2step"),
        ({"readme.txt": b"x"}, "holds no ONNX model and no predict_net"),
        ({}, "holds no ONNX model and no predict_net"),
    ],
)
def test_a_zip_without_a_model_is_named(entries, words, tmp_path):
    path = zipped(tmp_path / "odd.zip", entries)
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    with pytest.raises(ModelError, match="^" + path) as caught:
        find_model(path, None, None, str(unpacked))
    assert words in caught.value.message
    assert words.startswith("holds no") or os.listdir(str(unpacked)) == []


def test_a_damaged_zip_is_named(tmp_path):
    path = zipped(tmp_path / "odd.zip", {"model.onnx": b"0123456789" * 10})
    with open(path, "rb+") as file:
        file.seek(60)
        file.write(b"changed")
    with pytest.raises(ModelError, match="cannot unpack .*odd.zip"):
        find_model(path, None, None, str(tmp_path))
    assert os.listdir(str(tmp_path)) == ["odd.zip"]


# -- damaged tensors --------------------------------------------------------------------------


def tensor(**fields):
    return onnx.TensorProto(name="w", **dict({"dims": [2], "data_type": 1}, **fields))


def external(**entries):
    made = tensor(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in entries.items():
        made.external_data.add(key=key, value=value)
    return made


EXTERNAL = [
    ({"location": "/etc/passwd"}, "not beside the model"),
    ({"location": "../secret.bin"}, "not beside the model"),
    ({"location": "inner/../../secret.bin"}, "not beside the model"),
    ({}, "not beside the model"),
    ({"location": "absent.bin"}, "is not there"),
    ({"location": "folder"}, "is not there"),
    ({"location": "short.bin", "offset": "abc"}, "is damaged"),
    ({"location": "short.bin", "offset": "-4"}, "is damaged"),
    ({"location": "short.bin", "length": "8"}, "too short"),
    ({"location": "short.bin"}, "needs 8 bytes, it has 6"),
]
DAMAGED = [
    ({"raw_data": b"123"}, "needs 8 bytes, it has 3"),
    ({"float_data": [1.0]}, "needs 2 numbers, it has 1"),
    ({}, "needs 2 numbers, it has 0"),
    ({"dims": [1 << 40]}, "needs 1099511627776 numbers, it has 0"),
    ({"dims": [-2], "float_data": [1.0, 2.0]}, "its shape is [-2]"),
    ({"data_type": 99}, "data_type is 99"),
    ({"data_type": 0}, "data_type is 0"),
    ({"data_type": 8, "string_data": [b"a"]}, "needs 2 strings, it has 1"),
    ({"data_type": 7, "raw_data": b"12345678"}, "needs 16 bytes, it has 8"),
]


@pytest.mark.parametrize(
    "made, words",
    [(external(**entries), words) for entries, words in EXTERNAL]
    + [(tensor(**fields), words) for fields, words in DAMAGED],
)
def test_a_damaged_weight_is_named(made, words, tmp_path):
    from c2step.importer.onnxfile import load

    (tmp_path / "model" / "folder").mkdir(parents=True)
    (tmp_path / "model" / "short.bin").write_bytes(b"123456")
    (tmp_path / "secret.bin").write_bytes(b"12345678")
    for model in (graph_of([made]), graph_of([], nodes=[onnx.helper.make_node("Constant", [], ["y"], value=made)])):
        path = stored(model, tmp_path / "model")
        with pytest.raises(ModelError) as caught:
            load(path)
        message = caught.value.message
        assert "tensor w" in message and path in message and words in message


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16", "?"])
@pytest.mark.parametrize("raw", [True, False])
def test_whole_weights_of_every_type_are_taken(dtype, raw, tmp_path):
    from c2step.importer.onnxfile import load

    values = np.ones((2, 3), dtype)
    code = onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
    made = onnx.helper.make_tensor("w", code, [2, 3], values.tobytes() if raw else values.reshape(-1), raw)
    load(stored(graph_of([made]), tmp_path))


# -- inputs and options -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype, shape, words",
    [
        ("bfloat16", (2,), "declared bfloat16"),
        ("float8e4m3fn", (2,), "declared float8e4m3fn"),
        ("int4", (2,), "declared int4"),
        ("complex64", (2,), "declared complex64"),
        ("float32", (1 << 40, 2), "too large"),
        ("string", (1 << 70,), "too large"),
    ],
)
def test_inputs_that_cannot_be_drawn(dtype, shape, words):
    with pytest.raises(InputError, match="input x .*" + words):
        random_inputs(0, [Declared("x", dtype, shape)], {}, [])


def test_every_type_that_caffe2_takes_can_be_drawn():
    for dtype in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool"):
        drawn = random_inputs(0, [Declared("x", dtype, (3, 0)), Declared("y", dtype, ())], {}, [])
        assert (drawn["x"].dtype, drawn["x"].shape, np.asarray(drawn["y"]).shape) == (np.dtype(dtype), (3, 0), ())


def test_a_zip_of_other_files_is_no_npz(tmp_path):
    path = zipped(tmp_path / "two.zip", {"a.onnx": b"x", "b.onnx": b"y"})
    npz = zipped(tmp_path / "two.npz", {"a.onnx": b"x", "b.onnx": b"y"})
    declared = [Declared("x", "float32", (2,))]
    mistakes = {path: "zip archive, no .npy", "x=" + path: "zip archive", npz: "is no .npz", "x=" + npz: "is no .npz"}
    for word, words in mistakes.items():
        with pytest.raises(InputError, match=words):
            read_inputs([word], declared, lambda path: pytest.fail("no TensorProto"))


@pytest.mark.parametrize(
    "option, value",
    [("--max-bytes", value) for value in ("inf", "1e400", "-5", "nan", "-1k", "", "k", "1e400k", "many")]
    + [("--timeout", value) for value in ("nan", "-1", "0", "inf", "soon", "")],
)
def test_numbers_that_are_none(option, value, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["dump", "model.onnx", "-o", "out", "%s=%s" % (option, value)])
    assert caught.value.code == 2
    assert "error: argument %s: %s is no " % (option, value) in capsys.readouterr().err
