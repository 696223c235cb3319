"""References from OpenVINO and Keras against onnxruntime and against Keras' own outputs.

They run in an environment of their own, which scripts/test-references makes; without it they are skipped.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from c2step.cli import main
from c2step.errors import ReferenceFailed, UsageError
from c2step.references import load, make_onnxruntime
from c2step.references.frameworks import make_keras, make_openvino
from shared_material import CHECKOUT

PYTHON = os.environ.get("C2STEP_FRAMEWORKS") or os.path.join(CHECKOUT, ".envs", "frameworks", "bin", "python")

pytestmark = pytest.mark.skipif(not os.path.exists(PYTHON), reason="./scripts/test-references makes .envs/frameworks")

KERAS = """
import keras
from keras import layers


def make():
    keras.utils.set_random_seed(0)
    x = keras.Input((8, 6, 3), name="x")
    conv = layers.Conv2D(4, 3, padding="same", name="conv")
    y = layers.ReLU(name="relu")(conv(x))
    inner = keras.Sequential([keras.Input((8, 6, 4)), layers.Conv2D(4, 1, name="point")], name="inner")
    y = layers.Add(name="add")([inner(y), inner(y)])
    y = layers.Permute((2, 1, 3), name="turn")(y)
    y = layers.Dense(5, name="fc")(layers.Flatten(name="flat")(y))
    return keras.Model(x, y)
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(KERAS)
    return str(path)


def kerases_own(source, x, names):
    """What Keras itself gives for layers of the model, through a model with these outputs."""
    code = (
        "import sys, numpy as np, keras\nscope = {}\nexec(open(sys.argv[1]).read(), scope)\nmodel = scope['make']()\n"
        "names = sys.argv[4:]\nouts = keras.Model(model.inputs, [model.get_layer(n).output for n in names])\n"
        "np.savez(sys.argv[3], *[np.asarray(v) for v in outs(np.load(sys.argv[2]), training=False)])\n"
    )
    np.save(source + ".npy", x)
    subprocess.run([PYTHON, "-c", code, source, source + ".npy", source + ".npz", *names], check=True, timeout=300)
    found = np.load(source + ".npz")
    return dict(zip(names, (found[key] for key in found.files)))


def test_openvino_agrees_with_onnxruntime(models, tmp_path):
    folder = os.path.join(models, "digits_cnn")
    given = dict(np.load(folder + "/input.npz"))
    ours = make_openvino(folder + "/model.onnx", given, str(tmp_path / "ov"), PYTHON)
    theirs = make_onnxruntime(folder + "/model.onnx", given, str(tmp_path / "ort"), sys.executable)
    both = [name for name in theirs.names() if name in ours and name not in given]
    assert {"conv1", "pool1", "prob"} <= set(both)
    for name in both:
        assert np.allclose(ours.get(name), theirs.get(name), rtol=1e-4, atol=1e-5), name
    assert ours.meta["engine"] == "openvino" and ours.meta["versions"]["openvino"]


def test_blame_against_openvino(models, tmp_path, capsys):
    folder = os.path.join(models, "digits_cnn")
    words = ["blame", folder + "/model.onnx", "--input", folder + "/input.npz", "--against", "openvino"]
    assert main([*words, "--engine-runtime", "python:" + PYTHON]) in (0, 8)
    assert " 0 failed" in capsys.readouterr().out


def test_every_layer_of_keras(source, tmp_path):
    x = np.random.RandomState(0).rand(2, 8, 6, 3).astype(np.float32)
    found = make_keras(source + ":make", {"x": x}, str(tmp_path / "out"), PYTHON)
    for name, value in kerases_own(source, x, ["conv", "relu", "add", "turn", "flat", "fc"]).items():
        assert np.allclose(found.get(name), value, rtol=1e-5, atol=1e-6), name
    assert {"inner", "inner#2", "inner/point", "inner/point#2"} <= set(found.names())
    notes = "\n".join(found.notes)
    assert "conv Conv2D: layout NHWC" in notes and "turn Permute: layout unknown" in notes


def test_nhwc_is_said_and_turned(source, tmp_path):
    x = np.random.RandomState(0).rand(2, 8, 6, 3).astype(np.float32)
    own = kerases_own(source, x, ["conv", "add", "turn", "fc"])
    nchw = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    found = load("keras-nchw:%s:make" % source, None, {"x": nchw}, str(tmp_path / "out"), PYTHON)
    for name in ("conv", "add"):
        assert np.allclose(found.get(name), own[name].transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-6)
    assert np.allclose(found.get("turn"), own["turn"], rtol=1e-5, atol=1e-6)  # nobody says how it lies: as it is
    assert np.allclose(found.get("fc"), own["fc"], rtol=1e-5, atol=1e-6)
    assert any("turned into NHWC" in note for note in found.notes)


def test_keras_agrees_with_onnxruntime_on_the_same_weights(tmp_path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    r = np.random.RandomState(0)
    w, b = r.randn(4, 3, 3, 3).astype(np.float32), r.randn(4).astype(np.float32)
    np.savez(str(tmp_path / "w.npz"), w=w, b=b)
    source = tmp_path / "conv.py"
    source.write_text(
        "import keras, numpy as np\ndef make():\n    f = np.load(%r)\n    x = keras.Input((8, 6, 3), name='x')\n"
        "    conv = keras.layers.Conv2D(4, 3, name='conv')\n    y = keras.layers.ReLU(name='relu')(conv(x))\n"
        "    conv.set_weights([f['w'].transpose(2, 3, 1, 0), f['b']])\n    return keras.Model(x, y)\n"
        % str(tmp_path / "w.npz")
    )
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["conv"]), helper.make_node("Relu", ["conv"], ["relu"])]
    info = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (1, 3, 8, 6)), ("relu", (1, 4, 6, 4)))
    ]
    weights = [numpy_helper.from_array(a, n) for n, a in (("w", w), ("b", b))]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6), str(tmp_path / "m.onnx")
    )
    x = {"x": r.rand(1, 3, 8, 6).astype(np.float32)}
    theirs = make_onnxruntime(str(tmp_path / "m.onnx"), x, str(tmp_path / "ort"), sys.executable)
    ours = make_keras("%s:make" % source, x, str(tmp_path / "keras"), PYTHON, nchw=True)
    for name in ("conv", "relu"):
        assert np.allclose(ours.get(name), theirs.get(name), rtol=1e-4, atol=1e-5)
    assert any("NHWC, given as NCHW" in note for note in ours.notes)


def test_mistakes(source, tmp_path):
    x = np.zeros((2, 3, 8, 6), np.float32)
    with pytest.raises(ReferenceFailed, match="declares") as caught:
        make_keras(source + ":make", {"x": x}, str(tmp_path / "a"), PYTHON)
    assert "keras-nchw" in caught.value.hint
    with pytest.raises(ReferenceFailed, match="no value for input x"):
        make_keras(source + ":make", {}, str(tmp_path / "b"), PYTHON)
    with pytest.raises(ReferenceFailed, match="no file"):
        make_openvino(str(tmp_path / "none.onnx"), {}, str(tmp_path / "c"), PYTHON)
    with pytest.raises(UsageError, match="needs a file"):
        load("openvino", None, {}, str(tmp_path / "d"), PYTHON)
