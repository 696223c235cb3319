"""Stepping equals RunNet bit for bit, and going back and forth changes nothing: real Caffe2 throughout."""

import json
import os

import numpy as np
import pytest

import c2step
from c2step.recording import Keep
from oracle import run_net, same_bytes

ONNX = [
    "digits_cnn_bn-op9", "digits_lstm-op9", "digits_attn-op11", "digits_autoenc-op9-kii", "ultraface-slim-320",
    "mnist-cntk",
]  # fmt: skip
NATIVE = ["style-crayon", "c2_trained_digits"]


def opened(folder, **options):
    if os.path.exists(os.path.join(folder, "model.onnx")):
        return c2step.open(os.path.join(folder, "model.onnx"), [os.path.join(folder, "input.npz")], **options)
    nets = {role: os.path.join(folder, role + ".pb") for role in ("init_net", "predict_net")}
    return c2step.open(None, [os.path.join(folder, "input.npz")], **dict(nets, **options))


def live(session):
    """Every tensor that the session's workspace holds, by name."""
    names = set(session.model.predict_net.blobs()) | session.history.initial
    blobs = {name: session.fetch(name).array for name in sorted(names)}
    return {name: array for name, array in blobs.items() if array is not None}


@pytest.mark.parametrize("name", ONNX + NATIVE)
def test_shared_models_step_as_runnet(shared, tmp_path, name):
    folder = os.path.join(shared, "models", name)
    with open(os.path.join(folder, "expected.json")) as file:
        expected = json.load(file)
    with opened(folder) as session:
        stop = session.cont()
        if expected["outcome"].startswith("diverges"):
            assert (stop.reason, stop.position) == ("failed", 9) and "64 vs 256" in stop.detail
            return
        assert stop.reason == "end" and len(stop.steps) == session.net_size
        stepped = live(session)
        nets = session.workspace.convert(str(tmp_path / "nets"))
    truth = run_net(nets[0], nets[1], os.path.join(folder, "input.npz"), tmp_path)
    written = {name for op in session.model.predict_net.operators for name in op.outputs} & set(truth)
    assert written and all(same_bytes(stepped[blob], truth[blob]) for blob in written)
    golden = [file for file in os.listdir(folder) if file.startswith("expected_")][0]
    for blob, value in np.load(os.path.join(folder, golden)).items():
        limit = 1e-4 + 1e-3 * np.abs(value.astype(np.float64)).max()
        assert np.abs(stepped[blob].astype(np.float64) - value).max() <= limit


def training(shared, **options):
    folder = os.path.join(shared, "models", "c2_trained_digits")
    files = {"init_net": "train_init_net.pb", "predict_net": "train_net.pb"}
    nets = {role: os.path.join(folder, file) for role, file in files.items()}
    return nets, os.path.join(folder, "train_batch.npz"), options


@pytest.mark.parametrize("in_process", [False, True])
def test_three_iterations_of_training(shared, tmp_path, in_process):
    nets, batch, _ = training(shared)
    truth = run_net(nets["init_net"], nets["predict_net"], batch, tmp_path, times=3)
    with c2step.open(None, [batch], in_process=in_process, **nets) as session:
        stop = session.run(3)
        assert (stop.reason, session.iteration, len(stop.steps)) == ("end", 3, 3 * session.net_size)
        found = live(session)
    assert len(truth) == 64 and all(same_bytes(found[name], value) for name, value in truth.items())


def test_back_and_forth_over_random_and_in_place_operators(shared):
    nets, batch, _ = training(shared)
    with c2step.open(None, [batch], **nets) as session:
        session.run(2)
        before = live(session)
        for count in (1, 5, 45, 60):
            session.back(count)
            while len(session.steps) < 2 * session.net_size:
                session.run() if session.position == session.net_size else session.step(7)
            after = live(session)
            assert all(same_bytes(before[name], after[name]) for name in before)


def test_back_puts_every_version_back(models):
    folder = os.path.join(models, "digits_native")
    with opened(folder) as session:
        states = [live(session)]
        while session.position < session.net_size:
            session.step()
            states.append(live(session))
        assert any(op.in_place for op in session.model.predict_net.operators)
        for position in range(session.net_size - 1, -1, -1):
            session.back()
            assert session.position == position
            found = live(session)
            assert set(found) == set(states[position])
            assert all(same_bytes(found[name], value) for name, value in states[position].items())


def test_versions_are_those_of_get_ssa(models):
    from caffe2.proto import caffe2_pb2
    from caffe2.python import core

    folder = os.path.join(models, "digits_native")
    with open(os.path.join(folder, "predict_net.pb"), "rb") as file:
        net = caffe2_pb2.NetDef.FromString(file.read())
    with opened(folder) as session:
        session.cont()
        ours = [([tuple(v) for v in s.inputs], [(o.name, o.version) for o in s.outputs]) for s in session.steps]
        static = [([tuple(v) for v in r], [tuple(v) for v in w]) for r, w in session.model.predict_net.ssa()]
    theirs = [(list(reads), list(writes)) for reads, writes in core.get_ssa(net)[0]]
    assert ours == theirs == static


def test_in_place_versions_of_one_blob(shared, tmp_path):
    from caffe2.proto import caffe2_pb2

    folder = os.path.join(shared, "cases", "45_inplace_chain")
    inputs = os.path.join(folder, "inputs.npz")
    with open(os.path.join(folder, "predict_net.pb"), "rb") as file:
        net = caffe2_pb2.NetDef.FromString(file.read())
    with c2step.open(folder, [inputs]) as session:
        session.cont()
        assert session.versions("y") == [1, 2, 3]
        for version in (3, 2, 1):
            (tmp_path / "prefix.pb").write_bytes(net.SerializeToString())
            truth = run_net(os.path.join(folder, "init_net.pb"), str(tmp_path / "prefix.pb"), inputs, tmp_path)
            assert same_bytes(session.fetch("y", version).array, truth["y"])
            del net.op[-1]


def test_stepping_again_changes_no_state(shared):
    folder = os.path.join(shared, "cases", "55_rerun_changes_state")
    with c2step.open(folder, [os.path.join(folder, "inputs.npz")]) as session:
        session.cont()
        first = {name: session.fetch(name).array for name in ("it", "rm", "rv")}
        session.back(3)
        session.cont()
        assert first["it"].tolist() == [1]
        assert all(same_bytes(session.fetch(name).array, value) for name, value in first.items())


def test_feeding_a_blob_is_a_version_that_back_undoes(models):
    with opened(os.path.join(models, "digits_cnn")) as session:
        session.until("pool1")
        value = session.fetch("relu1").array
        session.feed("relu1", np.zeros_like(value))
        assert session.version("relu1") == 2
        session.step()
        assert not session.fetch("pool1").array.any()
        session.back()
        session.step()
        assert not session.fetch("pool1").array.any()
        session.back(2)
        session.step(2)
        assert session.fetch("pool1").array.any()
        assert same_bytes(session.fetch("relu1").array, value)


def test_restart_runs_the_same_again(models):
    with opened(os.path.join(models, "digits_lstm")) as session:
        session.cont()
        first = live(session)
        stop = session.restart()
        assert (stop.reason, session.position, session.steps) == ("start", 0, [])
        session.cont()
        again = live(session)
        assert all(same_bytes(first[name], again[name]) for name in first)


def test_what_is_not_kept_is_made_again(models):
    with opened(os.path.join(models, "digits_native"), keep=Keep(max_bytes=0)) as session:
        session.cont()
        before = live(session)
        session.back(4)
        session.step(4)
        after = live(session)
        assert all(same_bytes(before[name], after[name]) for name in before)


def test_in_process_and_worker_agree(models):
    found = []
    for in_process in (True, False):
        with opened(os.path.join(models, "digits_lstm"), in_process=in_process) as session:
            session.cont()
            found.append(live(session))
    assert set(found[0]) == set(found[1])
    assert all(same_bytes(found[0][name], found[1][name]) for name in found[0])


def test_in_process_leaves_the_callers_workspace_alone(models):
    from caffe2.python import workspace

    workspace.FeedBlob("mine", np.ones(3, np.float32))
    before = workspace.CurrentWorkspace()
    with opened(os.path.join(models, "digits_cnn"), in_process=True) as session:
        session.cont()
    assert workspace.CurrentWorkspace() == before
    assert workspace.FetchBlob("mine").tolist() == [1, 1, 1] and not workspace.HasBlob("prob")
