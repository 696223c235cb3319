"""Patches, edits and trials on real Caffe2; the truth is Caffe2 run anew with the net as it should be, and numpy."""

import os
import signal

import numpy as np
import pytest

import c2step
from c2step.blob import TENSOR, Blob
from c2step.compare.against import Against
from c2step.compare.trying import before_and_after, try_values
from c2step.errors import CaptureError, UsageError
from c2step.references import Reference
from c2step.render import stop_text
from oracle import same_bytes
from small_nets import make_net, run_prefix, tensors, written

X = np.random.RandomState(0).randn(2, 3, 6, 6).astype(np.float32)
W = np.random.RandomState(1).randn(4, 3, 3, 3).astype(np.float32)
B = np.zeros(4, np.float32)
ONES = np.ones(4, np.float32)
FEEDS = {"x": X, "w": W, "b": B, "one": ONES, "var": np.full(4, 1e-4, np.float32)}
BN = {"is_test": 1, "epsilon": 1e-5, "order": "NCHW"}
NET = [
    ("Conv", ["x", "w", "b"], ["conv"], {"kernels": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}),
    ("SpatialBN", ["conv", "one", "b", "b", "var"], ["bn"], BN),
    ("Relu", ["bn"], ["bn"], {}),
    ("Softmax", ["bn"], ["prob"], {"axis": 1}),
]


def changed(index, **arguments):
    """The net with other arguments at one operator."""
    kind, reads, writes, known = NET[index]
    return NET[:index] + [(kind, reads, writes, dict(known, **arguments))] + NET[index + 1 :]


def golden(operators=NET, count=None):
    return run_prefix(operators, FEEDS, len(operators) if count is None else count)


def reference(operators=NET):
    """Golden values of every output; bn is overwritten, so its first value goes by bn@1."""
    made = Reference("golden")
    values = golden(operators)
    for name in ("conv", "bn", "prob"):
        made.add(name, 1, lambda name=name: Blob(name, TENSOR, values[name]))
    first = golden(operators, 2)["bn"]
    made.add("bn@1", 1, lambda: Blob("bn", TENSOR, first))
    return made


@pytest.fixture
def opened(tmp_path):
    sessions = []

    def make(operators=NET, **options):
        path = written(operators, list(FEEDS), tmp_path)
        options = dict({"in_process": True, "inputs": FEEDS}, **options)
        sessions.append(c2step.open(predict_net=path, **options))
        return sessions[-1]

    yield make
    for session in sessions:
        session.close()


def as_in(session, operators):
    expected = run_prefix(operators, FEEDS, session.position)
    found = tensors(session)
    return set(found) == set(expected) and all(same_bytes(found[name], expected[name]) for name in expected)


# -- edits ------------------------------------------------------------------------------------------


def test_an_input_without_a_value_is_named_before_what_caffe2_says(tmp_path):
    net = [("Relu", ["x"], ["a"], {}), ("Relu", ["a"], ["b"], {}), ("Copy", ["img"], ["c"], {})]
    with c2step.open(predict_net=written(net, ["x", "img"], tmp_path), inputs={"x": X}, in_process=True) as session:
        session.skip()
        stop = session.step()
        said = "a has no value: operator 0 was skipped; %s" % stop.steps[-1].error
        assert stop.reason == "failed" and stop.detail == said
        lines = stop_text(stop, session.model.predict_net).splitlines()
        assert [line.split(None, 3)[-1] for line in lines[:1]] == [said] and len(lines) == 3
        session.skip()
        assert session.step().detail.startswith("img has no value: it was never fed; ")
        session.restart()
        session.cont()
        assert session.fetch("b").array.tolist() == np.maximum(X, 0).tolist()


def test_an_edited_operator_runs_as_if_it_had_been_written_so(opened):
    session = opened()
    session.cont()
    made = session.edit("conv", ("arg", "pads", [0, 0, 0, 0]))
    assert made.argument("pads") == (0, 0, 0, 0) and session.operator("conv") == made
    assert session.dirty_operators() == {0, 1, 2, 3} and session.status(0) == "*"
    stop = session.rerun("conv")
    assert (stop.reason, session.position) == ("step", 1) and not session.dirty_operators()
    edited = changed(0, pads=[0, 0, 0, 0])
    assert as_in(session, edited)
    session.cont()
    assert as_in(session, edited) and session.fetch("prob").array.shape == (2, 4, 4, 4)
    session.unedit("conv")
    assert session.dirty_operators() == {0, 1, 2, 3}
    session.goto("0")
    session.cont()
    assert as_in(session, NET)


def test_going_back_to_the_operator_as_it_was_cleans_it(opened):
    session = opened()
    session.cont()
    session.edit("Softmax", ("arg", "axis", 2))
    assert session.dirty_blobs() == {"prob"}
    session.unedit("Softmax")
    assert session.dirty_blobs() == set()


@pytest.mark.parametrize(
    "change, operators",
    [
        (("arg", "strides", 2), changed(0, strides=[2, 2])),
        (("arg", "pads", 2), changed(0, pads=[2, 2, 2, 2])),
        (("arg", "dilations", 2), changed(0, dilations=[2, 2])),
        (("arg", "group", 1), changed(0, group=1)),
        (("input", "2", "one"), [("Conv", ["x", "w", "one"], *NET[0][2:])] + NET[1:]),
    ],
)
def test_each_form_of_change(opened, change, operators):
    session = opened()
    session.edit("0", change)
    session.cont()
    assert as_in(session, operators)


def test_types_arguments_and_what_does_not_fit(opened):
    session = opened()
    session.edit("Relu", ("type", "", "Sigmoid"))
    session.cont()
    assert as_in(session, NET[:2] + [("Sigmoid", ["bn"], ["bn"], {})] + NET[3:])
    with pytest.raises(UsageError, match="Softmax has no argument axs"):
        session.edit("Softmax", ("arg", "axs", None))
    with pytest.raises(UsageError, match="is a number, not many"):
        session.edit("Softmax", ("arg", "axis", "many"))
    with pytest.raises(UsageError, match="there is no input 9"):
        session.edit("Softmax", ("input", "9", "bn"))
    with pytest.raises(UsageError, match="was not edited"):
        session.unedit("Softmax")
    session.edit("Softmax", ("type", "", "NoSuchOperator"))
    stop = session.rerun("prob")
    assert stop.reason == "failed" and "NoSuchOperator" in stop.detail


def test_an_edit_outlives_the_worker(opened):
    session = opened(in_process=False)
    session.edit("conv", ("arg", "pads", 0))
    session.step()
    os.kill(session.workspace.pid, signal.SIGKILL)
    assert session.cont().reason == "end"
    assert as_in(session, changed(0, pads=[0, 0, 0, 0]))
    session.restart()
    session.cont()
    assert as_in(session, changed(0, pads=[0, 0, 0, 0]))


@pytest.mark.parametrize("name", ["edited.pb", "edited.pbtxt"])
def test_the_edited_net_is_written(opened, tmp_path, name):
    from caffe2.proto import caffe2_pb2
    from google.protobuf import text_format

    session = opened()
    session.edit("conv", ("arg", "pads", 0))
    path = tmp_path / name
    session.write_net(str(path))
    net = caffe2_pb2.NetDef()
    if name.endswith(".pb"):
        net.ParseFromString(path.read_bytes())
    else:
        text_format.Parse(path.read_text(), net)
    expected = make_net(changed(0, pads=[0, 0, 0, 0]), list(FEEDS))
    assert [op.SerializeToString() for op in net.op] == [op.SerializeToString() for op in expected.op]
    with c2step.open(predict_net=str(path), inputs=FEEDS, in_process=True) as again:
        again.cont()
        assert as_in(again, changed(0, pads=[0, 0, 0, 0]))


def test_before_and_after_an_edit(opened):
    session = opened(changed(1, epsilon=1e-3))
    against = Against(session, reference())
    session.cont()
    session.edit("1", ("arg", "epsilon", 1e-5))
    was, new, (difference,) = before_and_after(session, against, 1)
    assert same_bytes(was.outputs["bn"].array, golden(changed(1, epsilon=1e-3), 2)["bn"])
    assert same_bytes(new.outputs["bn"].array, golden(count=2)["bn"])
    assert (was.worst.passed, new.worst.passed) == (False, True)
    assert difference.max_abs == np.abs(was.outputs["bn"].array - new.outputs["bn"].array).max()
    assert session.position == session.net_size  # the session did not move


# -- try --------------------------------------------------------------------------------------------


def values(name, candidates):
    return [("%s=%s" % (name, value), [("arg", name, value)]) for value in candidates]


@pytest.mark.parametrize(
    "wrong, index, name, candidates, right",
    [
        ({"pads": [0, 0, 0, 0]}, 0, "pads", [0, 1, 2], "pads=1"),
        ({"axis": 2}, 3, "axis", [0, 1, 2, 3], "axis=1"),
        ({"epsilon": 1e-3}, 1, "epsilon", [1e-3, 1e-4, 1e-5, 1e-6], "epsilon=1e-05"),
    ],
)
@pytest.mark.parametrize("position", [0, 4])
def test_the_right_value_is_found(opened, wrong, index, name, candidates, right, position):
    session = opened(changed(index, **wrong))
    session.goto(str(position)) if position < session.net_size else session.cont()
    before = tensors(session)
    trials, notes, _ = try_values(session, Against(session, reference()), index, values(name, candidates))
    assert trials[0].label == right and trials[0].worst.passed and trials[0].error == ""
    assert not any(trial.worst.passed for trial in trials[1:]) and len(trials) == len(candidates)
    assert notes == []
    after = tensors(session)
    assert session.position == position and all(same_bytes(before[key], after[key]) for key in before)


def test_the_right_order_is_found_among_what_fails(opened):
    nhwc = np.ascontiguousarray(X.transpose(0, 2, 3, 1))
    pool = {"kernel": 2, "stride": 2}
    feeds = {"x": nhwc}
    session = opened([("MaxPool", ["x"], ["pool"], dict(pool, order="NCHW"))], inputs=feeds)
    right = run_prefix([("MaxPool", ["x"], ["pool"], dict(pool, order="NHWC"))], feeds, 1)["pool"]
    made = Reference("golden")
    made.add("pool", 1, lambda: Blob("pool", TENSOR, right))
    trials, _, _ = try_values(session, Against(session, made), 0, values("order", ["NCHW", "NHWC", "NOPE"]))
    assert [trial.label for trial in trials] == ["order=NHWC", "order=NCHW", "order=NOPE"]
    assert trials[0].worst.passed and trials[2].error


def test_what_cannot_be_tried(opened):
    session = opened()
    _, notes, idle = try_values(session, Against(session, reference()), 0, values("kernell", [2, 3]))
    assert notes[0].startswith("nothing says that Conv has an argument kernell; did you mean kernel")
    assert notes[1:] == ["kernell makes no difference"] and idle == [("arg", "kernell")]
    empty = Against(session, Reference("nothing"))
    with pytest.raises(UsageError, match="the reference has no value for an output of operator 0"):
        try_values(session, empty, 0, values("pads", [0, 1]))


def test_a_value_that_ends_the_process_is_one_of_the_results(opened):
    session = opened(in_process=False)
    session.step(2)
    trials, _, _ = try_values(session, Against(session, reference()), 0, values("strides", [1, 0]))
    assert [trial.label for trial in trials] == ["strides=1", "strides=0"]
    assert trials[0].worst.passed and trials[1].error
    assert as_in(session, NET)


# -- patches ----------------------------------------------------------------------------------------


def test_the_end_gets_well_with_a_golden_value(opened):
    session = opened(changed(1, epsilon=1e-2))
    against = Against(session, reference())
    session.until("Relu")
    session.patch("bn", against.value("bn").array, "reference")
    session.cont()
    expected = golden()
    assert same_bytes(session.fetch("prob").array, expected["prob"])
    assert [p.index for p in session.changes.patches] == [1]
    session.restart()
    session.cont()  # it is put in again when the operator has run again
    assert same_bytes(session.fetch("prob").array, expected["prob"])
    session.unpatch("bn")
    session.restart()
    session.cont()
    assert as_in(session, changed(1, epsilon=1e-2))
    with pytest.raises(UsageError, match="bn is not patched"):
        session.unpatch("bn")


def test_a_patched_input_stays_over_a_restart(opened):
    session = opened()
    session.patch("x", X * 2)
    session.cont()
    double = run_prefix(NET, dict(FEEDS, x=X * 2), len(NET))
    assert same_bytes(session.fetch("prob").array, double["prob"])
    session.restart()
    session.cont()
    assert same_bytes(session.fetch("prob").array, double["prob"])
    assert same_bytes(session.inputs["x"], X)


def test_a_failed_operator_is_stepped_over_with_a_value(opened):
    operators = [("Relu", ["x"], ["r"], {}), ("MatMul", ["r", "one"], ["m"], {}), ("Relu", ["m"], ["n"], {})]
    session = opened(operators, inputs={"x": X, "one": ONES})
    assert session.cont().reason == "failed"
    session.patch("m", np.array([[-1, 2]], np.float32))
    session.skip()
    assert session.cont().reason == "end" and session.fetch("n").array.tolist() == [[0, 2]]


def test_golden_values_of_a_blob_that_is_written_twice(opened):
    session = opened()
    against = Against(session, reference())
    session.step(2)
    assert same_bytes(against.value("bn").array, golden(count=2)["bn"])
    session.step()
    assert same_bytes(against.value("bn").array, golden()["bn"])
    assert same_bytes(against.value("bn", 1).array, golden(count=2)["bn"])
    with pytest.raises(CaptureError, match="the reference has no w"):
        against.value("w")


def test_the_limit_on_bytes_takes_an_operator_back_whole(opened):
    from c2step.recording import Keep

    room = golden()["conv"].nbytes + golden(count=2)["bn"].nbytes + 400
    session = opened(keep=Keep(max_bytes=room, on_full="stop"))
    stop = session.cont()
    assert (stop.reason, stop.position) == ("full", 2)  # the Relu in place
    assert as_in(session, NET)
    session.keep_up_to(None)
    assert session.cont().reason == "end" and as_in(session, NET)


def test_an_operator_that_wants_more_memory_than_is_allowed_fails(tmp_path):
    fill = ("ConstantFill", [], ["large"], {"shape": [400 << 18], "value": 1.0})
    path = written([("Relu", ["x"], ["r"], {}), fill, ("Relu", ["r"], ["s"], {})], ["x"], tmp_path)
    with c2step.open(predict_net=path, inputs={"x": X}, max_memory=500 << 20) as session:
        stop = session.cont()
        assert (stop.reason, stop.position) == ("failed", 1) and "allocate memory" in stop.detail
        assert same_bytes(session.fetch("r").array, np.maximum(X, 0))
        session.limit_memory(None)
        assert session.cont().reason == "end"
    with pytest.raises(UsageError, match="the worker holds"):
        c2step.open(predict_net=path, inputs={"x": X}, max_memory=1 << 20)


PARTS = [
    [(5, None)],
    [(np.float64(-2.5), None)],
    [(np.float64(7), (0, slice(None, 2)))],
    [(np.arange(36).reshape(6, 6), (1, -1))],
    [(3, (Ellipsis, None, 0)), (4, (1,)), (5, (1, 2))],
    [(3, None), (4, (1,))],
]


@pytest.mark.parametrize("patches", PARTS)
def test_a_patch_before_its_operator_is_the_same_as_after(opened, patches):
    """The truth is numpy's assignment to what Caffe2 gives, and Caffe2's operators after it."""
    wanted = golden(count=1)["conv"].copy()
    for value, part in patches:
        wanted[() if part is None else part] = value
    ends = run_prefix(NET, FEEDS, 4, [(0, "conv", wanted)])
    for ahead in (True, False):
        session = opened()
        if not ahead:
            session.step()
        for value, part in patches:
            session.patch("conv", value, "it", part)
        if ahead:
            session.step()
        assert same_bytes(session.fetch("conv").array, wanted)
        session.cont()
        assert same_bytes(session.fetch("prob").array, ends["prob"])
        session.restart()
        session.step()
        assert same_bytes(session.fetch("conv").array, wanted)


def test_a_part_that_does_not_fit_what_comes_is_said(opened):
    session = opened()
    session.patch("conv", 1, "1", (9,))
    with pytest.raises(UsageError, match=r"conv\[9\] = 1, after operator 0 does not fit: .*out of bounds"):
        session.step()
    session.unpatch("conv")
    assert session.cont().reason == "end"
    assert same_bytes(session.fetch("prob").array, golden()["prob"])
