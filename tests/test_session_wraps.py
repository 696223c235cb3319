"""Wraps of a session: checks that stop, functions that are called with arrays and change them."""

import io
import os

import numpy as np
import pytest

import c2step
from c2step.errors import ExitStatus, UsageError
from c2step.hooks import load_hook
from c2step.repl.environment import Environment
from c2step.repl.loop import run_commands
from oracle import same_bytes


def chain(tmp_path, *kinds, **options):
    """x -> y0 -> y1 ..., one operator of each type."""
    from caffe2.proto import caffe2_pb2

    net = caffe2_pb2.NetDef(name="n", external_input=["x"])
    name = "x"
    for number, kind in enumerate(kinds):
        net.op.add(type=kind, input=[name], output=["y%d" % number])
        name = "y%d" % number
    net.external_output.append(name)
    with open(str(tmp_path / "predict_net.pb"), "wb") as file:
        file.write(net.SerializeToString())
    return c2step.open(str(tmp_path), {"x": np.array([-1, 2], np.float32)}, in_process=True, **options)


def test_functions_before_and_after_change_what_comes_next(tmp_path):
    seen = []

    @c2step.before("Negative")
    def double(call):
        seen.append((str(call), {n: v.tolist() for n, v in call.inputs.items()}, dict(call.outputs)))
        return {name: value * 2 for name, value in call.inputs.items()}

    @c2step.after("Negative")
    def add(call):
        seen.append((str(call), call.inputs["y0"].tolist(), call.outputs["y1"].tolist()))
        return {"y1": call.outputs["y1"] + np.float32(1)}

    with chain(tmp_path, "Relu", "Negative", "Copy") as session:
        session.hook(double)
        session.hook(add)
        assert session.cont().reason == "end"
        assert session.fetch("y2").array.tolist() == [1, -3]
        assert seen == [("operator 1 Negative", {"y0": [0, 2]}, {}), ("operator 1 Negative", [0, 4], [0, -4])]
        assert (session.version("y0"), session.version("y1")) == (2, 2)
        session.back(2)
        assert session.fetch("y0").array.tolist() == [0, 2] and session.version("y0") == 1
        session.cont()
        assert session.fetch("y2").array.tolist() == [1, -3] and len(seen) == 4
        session.unhook(double)
        session.unhook(add)
        session.restart()
        session.cont()
        assert session.fetch("y2").array.tolist() == [0, -2] and session.inputs["x"].tolist() == [-1, 2]


def test_a_function_before_the_first_operator_changes_no_input(tmp_path):
    with chain(tmp_path, "Relu", "Copy") as session:
        session.hook(c2step.before("Relu")(lambda call: {"x": -call.inputs["x"]}))
        for _ in range(2):
            session.cont()
            assert session.fetch("y1").array.tolist() == [1, 0]
            session.restart()
        assert session.inputs["x"].tolist() == [-1, 2]


def test_what_a_function_raises_and_returns_wrongly_is_said(tmp_path):
    def broken(call):
        raise KeyError("mine")

    with chain(tmp_path, "Relu", "Copy") as session:
        hook = session.hook(c2step.after("Relu")(broken))
        with pytest.raises(UsageError, match="after broken at operator 0 Relu: KeyError: 'mine'"):
            session.cont()
        assert session.position == 1
        session.unhook(hook)
        session.hook(c2step.after("Copy")(lambda call: {"y": 1}))
        with pytest.raises(UsageError, match="no blob of operator 1 Copy"):
            session.cont()


def test_checks_stop_right_after_the_operator(shared):
    folder = os.path.join(shared, "cases", "21_nan_in_pooling")
    with c2step.open(folder, [os.path.join(folder, "inputs.npz")], in_process=True) as session:
        session.wrap("*", check="nan")
        stop = session.cont()
        maker = next(
            op for op in session.model.predict_net.operators if np.isnan(session.fetch(op.outputs[0]).array).any()
        )
        assert (stop.reason, stop.position) == ("breakpoint", maker.index + 1) and "nan" in stop.detail
        assert stop.steps[-1].index == maker.index
        session.unwrap("*")
        assert session.breakpoints == [] and session.restart() and session.cont().reason == "end"


def test_ranges_of_types_and_of_ones_own(tmp_path):
    with chain(tmp_path, "Negative", "Sqr", "Copy") as session:
        session.wrap("Sqr,Copy", check="range:0:3")
        stop = session.cont()
        assert (stop.reason, stop.position) == ("breakpoint", 2) and "max is 4" in stop.detail
        session.unwrap("Sqr,Copy")
        session.restart()
        session.wrap("*", check="range")
        assert session.cont().reason == "end"
        for wrong in ("rnage", "range:3:1", "range:a:b", "nan:1"):
            with pytest.raises(UsageError, match="no check"):
                session.wrap("*", check=wrong)
        with pytest.raises(UsageError, match="no reference is loaded"):
            session.wrap("Sqr", check="reference")
        assert list(session.wraps) == ["*"] and session.wrap_effects == {"*": "checks range"}


def test_saving_and_checking_in_one(tmp_path):
    with chain(tmp_path, "Negative", "Sqr", "Copy") as session:
        folder = session.wrap("S*", str(tmp_path / "out"), check="range:0:3")
        assert session.cont().position == 2
    capture = c2step.open_capture(folder)
    assert [row["type"] for row in capture.rows] == ["Sqr"]
    assert same_bytes(capture.load("y1").array, np.array([1, 4], np.float32))


def said(session, commands):
    environment = Environment(io.StringIO(), io.StringIO(), io.StringIO())
    status = run_commands(session, commands, environment)
    return environment.stdout.getvalue() + environment.stderr.getvalue(), status


def test_the_prompt_wraps(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import c2step\n\n\ndef plain(call):\n    print('saw', call)\n    return {'y1': call.outputs['y1'] * 0}\n\n\n"
        "@c2step.before('Nothing')\ndef first(call):\n    return {'y0': call.inputs['y0'] + 10}\n"
    )
    mine = str(tmp_path / "mine.py")
    with chain(tmp_path, "Relu", "Negative", "Copy") as session:
        text, status = said(session, "wrap Negative --call %s:plain; continue; info wraps" % mine)
        assert status is ExitStatus.OK and session.fetch("y2").array.tolist() == [0, 0]
        assert "calls after plain" in text
        text, status = said(session, "unwrap Negative; restart; wrap Negative --call %s:first; continue" % mine)
        assert status is ExitStatus.OK and session.fetch("y2").array.tolist() == [-10, -12]
        text, status = said(session, "unwrap Negative; restart; wrap Copy --check range:0:1; continue; where")
        assert "min is -2" in text and session.position == 3
        for wrong, why in (
            ("%s:none" % mine, "no function none"),
            ("none.py:f", "cannot read none.py"),
            ("f", "no function"),
        ):
            text, status = said(session, "wrap Copy --call %s" % wrong)
            assert status is ExitStatus.USAGE and why in text
        text, status = said(session, "wrap Copy --check fast")
        assert status is ExitStatus.USAGE and "no check fast" in text


def test_a_file_that_does_not_load_is_said(tmp_path):
    (tmp_path / "bad.py").write_text("1 / 0\n")
    with pytest.raises(UsageError, match="ZeroDivisionError"):
        load_hook("%s:f" % (tmp_path / "bad.py"), "Conv")


def test_a_check_belongs_to_its_wrap(tmp_path):
    with chain(tmp_path, "Relu", "Sqr", "Copy") as session:
        text, _ = said(session, "wrap Sqr --check range:0:3; break 2; delete; info wraps; continue; where")
        assert "wrap Sqr --check range:0:3 stays" in said(session, "delete")[0]
        assert session.position == 2 and "wrap Sqr --check range:0:3, breakpoint 1: y1" in text
        assert list(session.wraps) == ["Sqr"] and [point.number for point in session.breakpoints] == [1]
        text, _ = said(session, "delete 1; info wraps; restart; continue")
        assert "nothing is wrapped" in text and session.position == 3
        folder = session.wrap("Sqr", str(tmp_path / "out"), check="nan")
        session.delete_break(session.breakpoints[0].number)
        assert session.wraps == {"Sqr": folder} and session.wrap_effects == {"Sqr": ""}


def test_a_function_that_raised_before_an_operator_is_called_when_it_is_stepped_again(tmp_path):
    calls = []

    def once(call):
        calls.append(call.index)
        if len(calls) == 1:
            raise ValueError("not yet")
        return {"x": -call.inputs["x"]}

    with chain(tmp_path, "Relu") as session:
        session.hook(c2step.before("Relu")(once))
        with pytest.raises(UsageError, match="not yet"):
            session.step()
        session.step()
        assert calls == [0, 0] and session.fetch("y0").array.tolist() == [1, 0]
