"""What `edit`, `try` and `patch` take for an argument or a value: Caffe2's headers and schemas are the truth."""

import io
import os
import re

import numpy as np
import pytest
import torch
from caffe2.python import workspace

import c2step
from c2step.errors import UsageError
from c2step.repl.environment import Environment
from c2step.repl.loop import make_interpreter
from oracle import same_bytes
from small_nets import run_prefix, written

X = np.random.RandomState(0).standard_normal((1, 2, 6, 6)).astype(np.float32)
W = np.random.RandomState(1).standard_normal((3, 2, 3, 3)).astype(np.float32)
FEEDS = {"x": X, "w": W}
NET = [
    ("Conv", ["x", "w"], ["c1"], {"kernel": 3, "pads": [1, 1, 1, 1]}),
    ("Relu", ["c1"], ["r"], {}),
    ("Softmax", ["r"], ["p"], {"axis": 1}),
]
HEADERS = os.path.join(os.path.dirname(torch.__file__), "include", "caffe2", "operators")


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with c2step.open(predict_net=written(NET, list(FEEDS), tmp_path), inputs=FEEDS, in_process=True) as opened:
        yield opened


@pytest.fixture
def say(session, tmp_path):
    environment = Environment(io.StringIO(), io.StringIO(), io.StringIO(), False, False, str(tmp_path), str(tmp_path))
    interpreter = make_interpreter(session, environment)
    yield lambda line: "\n".join(result.text for result in interpreter.run(line))
    interpreter.context.close()


@pytest.mark.parametrize("header, op_type", [
    ("conv_pool_op_base.h", "Conv"), ("conv_pool_op_base.h", "MaxPool"), ("pad_op.h", "PadImage"),
    ("conv_transpose_unpool_op_base.h", "ConvTranspose"), ("pool_op.h", "AveragePool"),
    ("deform_conv_op.h", "DeformConv"),
])  # fmt: skip
def test_windows_have_the_arguments_that_caffe2s_headers_read(session, header, op_type):
    with open(os.path.join(HEADERS, header)) as file:
        read = re.findall(r'Argument(?:<[^>]*>)?\(\s*"(\w+)"', file.read())
    assert read and set(read) <= set(session.arguments(op_type))


@pytest.mark.parametrize("op_type", ["Softmax", "SpatialBN", "Clip", "LRN"])
def test_others_have_those_of_their_schema(session, op_type):
    assert set(session.arguments(op_type)) >= {arg.name for arg in workspace.C.OpSchema.get(op_type).args}
    assert "kernel" not in session.arguments(op_type)


def test_an_argument_that_nothing_knows_is_said(say, session):
    assert "nothing says that Conv has an argument kernel_shape; did you mean kernel" in say("edit c1 kernel_shape=3")
    assert "note: nothing says that Softmax has an argument axes; did you mean axis?" in say("edit p axes=1")
    assert "has an argument" not in say("edit c1 kernel=3 pads=1 order=NCHW")
    assert "has an argument kernel_shape" in say("edit c1 kernel_shape=4")  # an edit does not make it known
    assert "has an argument" not in say("edit c1 kernel_shape=")


def test_an_engine_is_shown(say):
    assert "  engine=EIGEN" in say("edit c1 engine=EIGEN").splitlines()


@pytest.mark.parametrize("word", ["output:0=zz", "in:0=x", "device:type=1"])
def test_what_is_no_argument_is_refused(say, word):
    with pytest.raises(UsageError, match="cannot be changed"):
        say("edit c1 " + word)


@pytest.mark.parametrize("command", ["edit c1", "try c1"])
@pytest.mark.parametrize("value, error", [
    ("pads=[0,0,1", "the bracket .* is not closed"), ("pads=(", "the bracket .* is not closed"),
    ("pads=[", "the bracket .* is not closed"), ("pads=]", "nothing is open"), ("pads=[0,1)", "nothing is open"),
    ("pads=[[0],[1]]", "holds no other list"), ("pads=%s" % ("[" * 5000), "holds no other list"),
])  # fmt: skip
def test_brackets_that_do_not_fit(say, command, value, error):
    with pytest.raises(UsageError, match=error):
        say("%s %s" % (command, value))


def golden(**others):
    np.savez("golden.npz", **dict(run_prefix(NET, FEEDS, len(NET)), **others))
    return "golden.npz"


def test_no_value_is_right_where_none_makes_a_difference(say):
    say("reference " + golden())
    said = say("try c1 kernl=3,5").splitlines()
    assert said[-1] == "no value makes a difference; it is right all the same"
    assert "note: kernl makes no difference" in said
    assert said[-3].startswith("note: nothing says that Conv has an argument kernl; did you mean kernel")
    say("reference " + golden(c1=np.zeros((1, 3, 6, 6), np.float32)))
    assert say("try c1 kernl=3,5").endswith("no value makes a difference; it is wrong all the same")


def test_what_makes_no_difference_is_left_out_of_what_is_right(say):
    say("reference " + golden())
    assert say("try c1 pads=0,1 group=1").endswith("right: pads=1")
    assert say("try c1 kernl=1,2 pads=0,1,2").endswith("right: pads=1")
    assert say("try c1 pads=1").endswith("no value makes a difference; it is right all the same")
    assert say("try c1 pads=0").endswith("no value is right")
    assert say("try p axis=1,2").endswith("right: axis=1")


def test_the_only_array_of_a_file_is_taken_and_said(say, session):
    np.savez("edit.npz", x=np.full((1, 3, 6, 6), 2, np.float32))
    say("step")
    assert "note: edit.npz holds no c1; its only array, x, is taken" in say("patch c1 = edit.npz")
    assert same_bytes(session.fetch("c1").array, np.full((1, 3, 6, 6), 2, np.float32))
    assert say("compare c1 edit.npz").startswith("c1 against edit.npz, its only array x: PASS")
    assert "note: edit.npz holds no r; its only array, x, is taken" in say("feed r edit.npz")
    np.savez("named.npz", c1=np.zeros((1, 3, 6, 6), np.float32))
    assert "note" not in say("patch c1 = named.npz")


def test_a_part_is_set_without_loss_or_not_at_all(tmp_path):
    path = written([("Copy", ["i"], ["j"], {})], ["i"], tmp_path)
    with c2step.open(predict_net=path, inputs={"i": np.arange(4)}, in_process=True) as session:
        environment = Environment(io.StringIO(), io.StringIO(), io.StringIO(), False, False, str(tmp_path), "")
        interpreter = make_interpreter(session, environment)
        list(interpreter.run("step; patch j[0] = 7"))
        assert session.fetch("j").array.tolist() == [7, 1, 2, 3]
        with pytest.raises(UsageError, match="0.5 gives float64 that int64 does not hold"):
            list(interpreter.run("patch j[0] = 0.5"))
        interpreter.context.close()
