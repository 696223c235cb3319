"""Command files over real Caffe2; the values come from onnxruntime and numpy."""

import io
import json
import os

import numpy as np
import pytest

import c2step
from c2step.errors import ExitStatus
from c2step.render import quote
from c2step.repl.environment import Environment
from c2step.repl.loop import run_commands


def case(shared, name):
    """A case's folder and its inputs."""
    folder = os.path.join(shared, "cases", name)
    with np.load(os.path.join(folder, "inputs.npz")) as archive:
        inputs = dict(archive)
    return folder, inputs


def values(folder):
    """The reference values of a case by blob."""
    with open(os.path.join(folder, "ref_names.json")) as file:
        names = json.load(file)
    with np.load(os.path.join(folder, "ref.npz")) as archive:
        return {name: archive["r%d" % i] for i, name in enumerate(names)}


def run(session, commands):
    """What commands say, and how they end."""
    environment = Environment(io.StringIO(), io.StringIO(), io.StringIO())
    status = run_commands(session, commands, environment)
    assert environment.stderr.getvalue() == ""
    return environment.stdout.getvalue(), status


def test_every_odd_name_is_reached_and_right(shared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, inputs = case(shared, "44_names_break_files")
    reference = values(folder)
    assert len(reference) > 14
    lines = ["continue"]
    for number, (name, value) in enumerate(reference.items()):
        np.save("r%d.npy" % number, value)
        lines += ["compare %s ./r%d.npy" % (quote(name), number), "save %s" % quote(name)]
    with c2step.open(os.path.join(folder, "model.onnx"), inputs, in_process=True) as session:
        said, status = run(session, "\n".join(lines))
    assert status is ExitStatus.OK
    assert said.count("PASS") == len(reference)
    saved = [line for line in said.splitlines() if line.startswith("saved ")]
    assert len(saved) == len(reference)
    assert all(os.path.isfile(line.rpartition(" to ")[2]) for line in saved)


def test_a_mask_that_is_never_written(shared):
    folder, inputs = case(shared, "48_fetch_returns_text")
    with c2step.open(os.path.join(folder, "model.onnx"), inputs, in_process=True) as session:
        said, status = run(session, "continue; list; inspect mask")
    assert status is ExitStatus.OK
    assert "?  0  Dropout  mask@1  not a tensor: never written\n" in said
    assert "\n     ?  0  Dropout  Dropout_0  (x) -> (d, mask)\n" in said
    assert said.endswith("(c2step) inspect mask\nmask@1\nnot a tensor: never written\n")


def test_a_model_against_onnxruntime(shared):
    folder = os.path.join(shared, "models", "digits_cnn_bn-op9")
    words = [os.path.join(folder, "input.npz")]
    golden = os.path.join(folder, "expected_ort.npz")
    with c2step.open(os.path.join(folder, "model.onnx"), words, in_process=True) as session:
        said, status = run(session, "until Softmax; compare y '%s'" % golden)
        assert status is ExitStatus.INCONCLUSIVE
        assert "y against" in said
        said, status = run(session, "continue; compare y '%s'; compare y '%s' --rtol 0 --atol 0" % (golden, golden))
        assert "PASS" in said
        assert status in (ExitStatus.OK, ExitStatus.DIFFERS)
        again, _ = run(session, "back 5; step 5")
    ends = [[line.split() for line in text.splitlines() if " y@1 " in line] for text in (said, again)]
    assert len(ends[0]) == 1
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    "commands, status",
    [("continue; blobs", ExitStatus.DIED), ("continue; skip; inspect s", ExitStatus.OK), ("until Div", ExitStatus.OK)],
)
def test_a_process_that_dies(died, commands, status):
    said, ended = run(died, "restart; " + commands)
    assert ended is status
    assert "s@1  int64 (2,)  min 5 max 10" in said
    if "continue" in commands:
        assert 'operator 1 Div "q" ended the process; the session stands before it\n--> 1 Div Div_1' in said
        assert "SIGFPE" in said


@pytest.fixture(scope="module")
def died(shared):
    folder, inputs = case(shared, "25_int_div_by_zero_sigfpe")
    with c2step.open(os.path.join(folder, "model.onnx"), inputs) as session:
        yield session


def test_int8_values_with_scale_and_zero_point(shared):
    folder, inputs = case(shared, "49_int8_blob")
    with c2step.open(predict_net=os.path.join(folder, "predict_net.pb"), inputs=inputs, in_process=True) as session:
        said, status = run(session, "continue; inspect q; compare y x --atol 1")
        real = session.fetch("q").real()
    assert status is ExitStatus.OK
    assert "dtype  int8 blob of uint8\nshape  (1, 8)  8 values\nscale  0.02  zero point 128\n" in said
    assert np.abs(real - inputs["x"]).max() <= 0.01 + 1e-6
    assert "stored integers\n[[ 78  92 107 121 135 149 164 178]]" in said
