"""An engine, and a session, that stay open for one input after another give what fresh ones give."""

import os
import signal

import numpy as np
import pytest

import c2step
from c2step.errors import ReferenceFailed
from c2step.recording import Keep
from c2step.references import make_onnxruntime, make_torch
from c2step.references.making import OnnxRuntime, torch_model
from reference_support import PYTHON, node, write_model


def values(reference):
    return {name: reference.blob(name).array for name in reference.names()}


def same(one, other):
    ours, theirs = values(one), values(other)
    return list(ours) == list(theirs) and all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)


@pytest.fixture
def model(tmp_path):
    """A model with a Constant node, whose Div ends onnxruntime where `b` has a zero."""
    nodes = [
        node("Constant", "", "c", value_ints=[3, 4]),
        node("Add", "a c", "s"),
        node("Div", "s b", "q"),
        node("Mul", "q w", "y"),
    ]
    example = {"a": np.array([4, 9]), "b": np.array([2, 5])}
    return write_model(tmp_path / "m.onnx", nodes, example, ["y"], {"w": np.array([2, 3])}, opset=12)


def inputs(*divisors):
    return [{"a": np.array([i, 7 * i]), "b": np.array([3, divisor])} for i, divisor in enumerate(divisors)]


@pytest.mark.parametrize("room", [0, 1 << 20, 256 << 20])
def test_onnxruntime_for_one_input_after_another(model, tmp_path, room):
    with OnnxRuntime(model, PYTHON, room=room) as runtime:
        for number, given in enumerate(inputs(1, 5, 2)):
            found = runtime.make(given, str(tmp_path / "kept"))
            assert same(found, make_onnxruntime(model, given, str(tmp_path / ("alone%d" % number)), PYTHON))
        assert runtime.deaths == 0


def test_an_engine_that_ended_is_started_again_for_the_next_input(model, tmp_path):
    with OnnxRuntime(model, PYTHON) as runtime:
        first, second, third = (runtime.make(given, str(tmp_path / str(i))) for i, given in enumerate(inputs(1, 0, 2)))
        assert runtime.deaths == 1
    assert "y" in first and "y" in third
    assert "y" not in second and "SIGFPE" in second.missing["y"] and second.notes == [
        "onnxruntime ended by SIGFPE at node 2 Div \"q\""]  # fmt: skip


def test_an_input_that_does_not_fit_leaves_the_engine_usable(model, tmp_path):
    good = inputs(1)[0]
    with OnnxRuntime(model, PYTHON) as runtime:
        before = runtime.make(good, str(tmp_path / "before"))
        with pytest.raises(ReferenceFailed, match="convert it first|is float"):
            runtime.make(dict(good, a=good["a"].astype(np.float32)), str(tmp_path / "bad"))
        assert same(runtime.make(good, str(tmp_path / "after")), before)


def test_a_module_for_one_input_after_another(tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\ndef make():\n    torch.manual_seed(0)\n"
        "    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True))\n"
    )
    spec = "%s:make" % (tmp_path / "net.py")
    with torch_model(spec, PYTHON) as kept:
        for number in range(3):
            given = {"x": np.random.RandomState(number).randn(2, 3).astype(np.float32)}
            found = kept.make(given, str(tmp_path / "kept"))
            assert same(found, make_torch(spec, given, str(tmp_path / ("alone%d" % number)), PYTHON))


@pytest.mark.parametrize("in_process", [False, True])
def test_a_session_started_again_with_other_inputs(models, tmp_path, in_process):
    path = os.path.join(models, "digits_cnn", "model.onnx")
    given = [{"digits": np.random.RandomState(i).rand(1 + i, 1, 8, 8).astype(np.float32)} for i in range(3)]
    names = None
    with c2step.open(path, given[0], in_process=in_process) as session:
        names = [name for name, _, _ in session.blobs()]
        for number, arrays in enumerate(given[1:] + given[:1]):
            folder = tmp_path / str(number)
            folder.mkdir()
            session.restart(Keep(str(folder), journal=False), arrays)
            assert session.cont().reason == "end"
            with c2step.open(path, arrays, in_process=True) as fresh:
                assert fresh.cont().reason == "end"
                assert {name: fresh.fetch(name).array.tobytes() for name in names + ["prob"]} == {
                    name: session.fetch(name).array.tobytes() for name in names + ["prob"]
                }
            assert list(folder.iterdir()) and {file.suffix for file in folder.iterdir()} <= {".npy", ".pack"}
            session.back(3)
            assert session.step(3).reason == "end"
            assert session.inputs.keys() == arrays.keys() and session.inputs["digits"].shape == arrays["digits"].shape


def test_a_worker_that_ended_between_two_inputs_is_not_brought_back_to_the_former(models, tmp_path):
    path = os.path.join(models, "digits_cnn", "model.onnx")
    given = [{"digits": np.random.RandomState(i).rand(1, 1, 8, 8).astype(np.float32)} for i in range(2)]
    found = []
    with c2step.open(path, given[0], keep=Keep(str(tmp_path), journal=False)) as session:
        for number in (0, 1, 1):
            session.cont()
            found.append(session.fetch("prob").array.tobytes())
            for file in tmp_path.iterdir():
                file.unlink()
            if number == 1:
                os.kill(session.workspace.pid, signal.SIGKILL)
            session.restart(Keep(str(tmp_path), journal=False), given[1])
    assert found[0] != found[1] == found[2]
