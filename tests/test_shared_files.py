"""No value takes the place of another one in a capture: under Alias, where steps run again, on a full disk."""

import errno

import numpy as np
import pytest

import c2step
import c2step.stepper
from c2step.capture import CaptureWriter
from c2step.errors import CaptureError
from small_nets import run_prefix, written

X, Y = np.array([[1, -2, 3]], np.float32), np.array([[4, 5, -6]], np.float32)


def opened(folder, operators, feeds, **options):
    return c2step.open(None, feeds, predict_net=written(operators, list(feeds), folder), **options)


def test_an_initial_value_that_an_alias_changed_first_is_the_one_that_was_fed(tmp_path):
    operators = [("Alias", ["y"], ["c"], {}), ("Sigmoid", ["c"], ["c"], {}), ("Sigmoid", ["x"], ["y"], {})]
    feeds = {"x": X, "y": Y}
    with opened(tmp_path, operators, feeds) as session:
        session.cont()
        session.goto("0")
        assert np.array_equal(session.fetch("y").array, Y)
        session.cont()
        truth = run_prefix(operators, feeds, 3)
        assert all(session.fetch(name).array.tobytes() == truth[name].tobytes() for name in "xyc")


def test_a_step_that_runs_again_overwrites_no_value_that_still_counts(tmp_path):
    with opened(tmp_path, [("Alias", ["y"], ["x2"], {}), ("Relu", ["x2"], ["z"], {})], {"y": Y}) as session:
        session.step()
        session.back()
        session.patch("y", np.full_like(Y, 7))
        session.step()
        session.unpatch("y")
        assert np.array_equal(session.fetch("y").array, Y)


@pytest.mark.parametrize("keep", [False, True])
def test_where_the_journal_cannot_be_written_the_session_stands_where_it_ran(tmp_path, monkeypatch, keep):
    operators = [("Relu", ["x"], ["a"], {}), ("Scale", ["x"], ["x"], {"scale": 2.0}), ("Add", ["a", "x"], ["b"], {})]
    options = {"keep": c2step.stepper.Keep(str(tmp_path / "kept"))} if keep else {}
    with opened(tmp_path, operators, {"x": X}, **options) as session:
        session.step()
        with monkeypatch.context() as patched:

            def full(self, lines):
                raise CaptureError("cannot write: %s" % errno.errorcode[errno.ENOSPC])

            patched.setattr(CaptureWriter, "add_lines", full)
            with pytest.raises(CaptureError):
                session.cont()
        assert session.position == len(session.steps)
        truth = run_prefix(operators, {"x": X}, session.position)
        assert all(np.array_equal(session.fetch(name).array, truth[name]) for name in truth)
        session.cont()
        truth = run_prefix(operators, {"x": X}, 3)
        assert all(np.array_equal(session.fetch(name).array, truth[name]) for name in truth)
