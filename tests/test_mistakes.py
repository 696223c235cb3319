"""What users get wrong: damaged files, odd options, closed streams; each is one error line, nothing stays behind."""

import gc
import os
import zipfile

import numpy as np
import onnx
import pytest

from c2step.errors import ModelError
from c2step.importer.files import find_model
from c2step.launch import open_session
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
