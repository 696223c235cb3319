"""Blobs that share storage come back as a run from the start leaves them, in either Caffe2."""

import os
import signal

import numpy as np
import pytest

import c2step
from oracle import same_bytes
from small_nets import make_net, run_prefix, tensors, written

Y = np.array([[1, 2, 3], [4, -5, 6]], np.float32)
FEEDS = {"y": Y, "e": np.zeros((0, 3), np.float32), "s": np.array([7], np.float32)}
NETS = {
    "changed through the other": (
        ("Copy", ["y"], ["b"], {}),
        ("Sigmoid", ["y"], ["d"], {}),
        ("Alias", ["b"], ["d"], {}),
        ("Scale", ["d"], ["d"], {"scale": 3.0}),
        ("Copy", ["b"], ["z"], {}),
    ),
    "empty": (
        ("StopGradient", ["e"], ["y"], {}),
        ("Alias", ["y"], ["d"], {}),
        ("ConstantFill", [], ["d"], {"shape": [2, 3], "value": 2.0}),
    ),
    "empty, then written": (
        ("Alias", ["y"], ["ab"], {}),
        ("Copy", ["e"], ["y"], {}),
        ("Mul", ["s", "s"], ["y"], {}),
        ("Copy", ["ab"], ["z"], {}),
    ),
    "smaller": (
        ("Alias", ["y"], ["b"], {}),
        ("SumElements", ["s"], ["y"], {}),
        ("Scale", ["b"], ["b"], {"scale": 2.0}),
    ),
}


@pytest.mark.parametrize("name", sorted(NETS))
def test_every_way_back_is_a_fresh_run(name, tmp_path):
    operators = NETS[name]
    feeds = {blob: FEEDS[blob] for blob in dict.fromkeys(read for op in operators for read in op[1]) if blob in FEEDS}
    with c2step.open(predict_net=written(operators, list(feeds), tmp_path), inputs=feeds, in_process=True) as session:
        for count in range(1, len(operators) + 1):
            session.cont()
            session.back(count)
            check(session, operators, feeds)
            while session.position < len(operators):
                session.step()
                check(session, operators, feeds)


def check(session, operators, feeds):
    found, expected = tensors(session), run_prefix(operators, feeds, session.position)
    for blob, array in expected.items():
        assert same_bytes(found[blob], array), (session.position, blob)


def test_an_older_caffe2_too(older_caffe2, tmp_path):
    operators = NETS["changed through the other"]
    net, runtime = written(operators, ["y"], tmp_path), "python:" + older_caffe2
    with c2step.open(predict_net=net, inputs={"y": Y}, runtime=runtime) as session:
        session.cont()
        session.back(2)
        assert same_bytes(session.fetch("b").array, Y)
        assert same_bytes(session.fetch("d").array, Y)
        session.back()
        np.testing.assert_allclose(session.fetch("d").array, 1 / (1 + np.exp(-Y)), rtol=1e-5)
        session.cont()
        assert same_bytes(session.fetch("z").array, 3 * Y)
        session.patch("d", np.full_like(Y, 9))
        assert same_bytes(session.fetch("b").array, 3 * Y)


@pytest.mark.parametrize("in_process", [True, False])
def test_a_value_put_in_place_has_storage_of_its_own(in_process, tmp_path):
    operators = (("Alias", ["y"], ["c"], {}), ("Copy", ["c"], ["z"], {}))
    net = written(operators, ["y"], tmp_path)
    with c2step.open(predict_net=net, inputs={"y": Y}, in_process=in_process) as session:
        session.step()
        session.patch("y", 2 * Y)

        def holds(**values):
            for name, value in values.items():
                assert same_bytes(session.fetch(name).array, value), name
                assert session.summary(name).max == value.max() and session.summary(name).min == value.min()

        holds(y=2 * Y, c=Y)
        assert session.dirty_blobs() == {"c"}
        session.step()
        holds(y=2 * Y, c=Y, z=Y)
        assert session.dirty_blobs() == {"c", "z"}
        if not in_process:
            os.kill(session.workspace.pid, signal.SIGKILL)
            holds(y=2 * Y, c=Y, z=Y)
        session.back()
        holds(y=2 * Y, c=Y)
        session.back()
        session.cont()
        holds(y=2 * Y, c=2 * Y, z=2 * Y)
        session.unpatch("y")
        holds(y=Y)
        session.back(2)
        session.step()
        session.patch("y", 3 * Y)
        session.unpatch("y")
        holds(y=Y, c=Y)
        session.patch("c", 4 * Y)
        holds(y=Y, c=4 * Y)


def test_int8_blobs_do_not_share(tmp_path):
    scale = {"Y_scale": 0.02, "Y_zero_point": 3}
    operators = (
        ("Int8Quantize", ["x"], ["q"], scale),
        ("Int8Quantize", ["y"], ["r"], scale),
        ("Int8Relu", ["q"], ["q"], scale),
        ("Int8Dequantize", ["q"], ["z"], {}),
    )
    feeds = {"x": Y / 4, "y": -Y / 4}
    with c2step.open(predict_net=written(operators, list(feeds), tmp_path), inputs=feeds, in_process=True) as session:
        session.run(2)
        assert not any(step.shares for step in session.steps)
        session.back(3)
        session.cont()
        quantised = np.clip(np.rint(feeds["x"] / np.float32(0.02)) + 3, 3, 255)
        np.testing.assert_allclose(session.fetch("z").array, (quantised - 3) * 0.02, rtol=1e-6)


def test_a_seed_gives_the_same_after_going_back_over_inputs_of_other_shapes(tmp_path):
    from caffe2.python import core, workspace

    seeded = {"ratio": 0.5, "is_test": 0, "device_option": core.DeviceOption(0, random_seed=7)}
    operators = (
        ("Copy", ["x"], ["a"], {}),
        ("Dropout", ["a"], ["b", "m"], seeded),
        ("ConstantFill", [], ["a"], {"shape": [2], "value": 1.0}),
        ("Copy", ["a"], ["z"], {}),
    )
    before, x = workspace.CurrentWorkspace(), np.arange(1, 31, dtype=np.float32)
    workspace.SwitchWorkspace("twice", True)
    workspace.FeedBlob("x", x)
    workspace.CreateNet(make_net(operators, ["x"]))
    workspace.RunNet("small", 2)
    expected = workspace.FetchBlob("b")
    workspace.ResetWorkspace()
    workspace.SwitchWorkspace(before)
    net = written(operators, ["x"], tmp_path)
    with c2step.open(predict_net=net, inputs={"x": x}, in_process=True) as session:
        session.run(2)
        for back in (3, 1, 2):
            session.goto("3")
            session.back(back)
            session.cont()
            assert same_bytes(session.fetch("b").array, expected)
