"""What is said where a value or a word alone would mislead."""

import io

import numpy as np
import pytest

import c2step
from c2step.render import blame_lines
from c2step.repl.environment import Environment
from c2step.repl.loop import run_commands
from small_nets import make_net, run_prefix, written

NET = [("Mul", ["x", "126"], ["25"], {}), ("Relu", ["25"], ["y"], {})]
FEEDS = {"x": np.array([1, np.nan, 3], np.float32), "126": np.array([2, 2, 2], np.float32)}


@pytest.fixture
def say(tmp_path):
    """Types commands over the net; returns what is said."""
    with c2step.open(predict_net=written(NET, list(FEEDS), tmp_path), inputs=FEEDS, in_process=True) as session:

        def typed(commands):
            out = io.StringIO()
            run_commands(session, commands, Environment(stdin=io.StringIO(), stdout=out, stderr=out))
            return out.getvalue()

        typed.session = session
        yield typed


@pytest.mark.parametrize("text, said", [("126*2", True), ("np.maximum(126, 0)", True), ("126", False), ("x*3", False)])
def test_a_number_that_is_a_blobs_name_too_is_said_to_be_the_number(say, text, said):
    assert ('note: 126 is the number; blob("126") is' in say("step; patch 25 = " + text)) is said


def test_a_part_of_what_was_not_written_yet(say):
    assert "25 has no value yet, so it has no part [0]" in say("inspect 25[0]")


def test_a_patch_of_a_part_is_of_that_part_also_when_its_operator_runs_again(say):
    said = say("step; patch 25[0] = 100; info patches; restart")
    assert "25[0] = 100, after operator 0" in said
    say.session.feed("x", np.array([5, 6, 7], np.float32))
    say("run")
    assert say.session.fetch("25").array.tolist() == say.session.fetch("y").array.tolist() == [100, 12, 14]


def test_nan_on_both_sides_is_equal_and_said(say, tmp_path):
    path = str(tmp_path / "golden.npz")
    np.savez(path, **run_prefix(NET, FEEDS, 2))
    assert "25@1  PASS  equal  NaN 1/1" in say("reference %s; run" % path)
    say("patch y = 0; break y")
    lines = blame_lines(c2step.blame(say.session, path).to_json())
    assert (
        lines[-2].endswith("counts as equal: 2 operators, first operator 0 Mul, 1 of 3 values")
        and say.session.position == 0
    )


def test_breakpoints_inside_an_operator_have_numbers_of_their_own(tmp_path):
    turn = make_net([("Copy", ["x"], ["y"], {})], ["x"])
    net = [
        ("GivenTensorBoolFill", [], ["go"], {"shape": [1], "values": [True]}),
        ("If", ["go"], ["y"], {"then_net": turn}),
    ]
    with c2step.open(predict_net=written(net, ["x"], tmp_path), inputs={"x": FEEDS["126"]}, in_process=True) as session:
        assert session.set_break("go").number == 1
        session.step()
        with c2step.enter(session) as inside:
            assert inside.session.set_break("y").number == 2
        assert session.watch("y").number == 3
