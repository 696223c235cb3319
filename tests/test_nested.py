"""Entering operators with nets inside: what is stepped there is what the operator itself does."""

import io
import os

import numpy as np
import pytest

import c2step
from c2step.errors import ExitStatus, UsageError
from c2step.nested import enter, nets_inside
from c2step.repl.environment import Environment
from c2step.repl.loop import run_commands
from oracle import same_bytes

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Caffe2 itself


def lstm(shared, **options):
    folder = os.path.join(shared, "models", "digits_lstm-op9")
    return c2step.open(os.path.join(folder, "model.onnx"), [os.path.join(folder, "input.npz")], **options)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_the_lstm_of_a_shared_model_time_step_by_time_step(shared):
    with lstm(shared) as session:
        session.until("RecurrentNetwork")
        op = session.next_operator()
        prefix = op.outputs[0].rpartition("/")[0] + "/"
        w, b, h, c = (session.fetch(name).array.astype(np.float64) for name in op.inputs[3:5] + op.inputs[1:3])
        (x,) = (session.fetch(name).array.astype(np.float64) for name in op.inputs[:1])
        h, c = h.reshape(x.shape[1], -1), c.reshape(x.shape[1], -1)
        with enter(session) as inside:
            for t in range(len(x)):
                assert inside.label() == "time step %d" % t
                while inside.label() == "time step %d" % t:
                    assert inside.session.step().reason in ("step", "end")
                gates = x[t] + h @ w.T + b
                i, f, o, g = np.split(gates, 4, axis=1)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
                found = inside.session
                for name, value in (("hidden_state", h), ("cell_state", c)):
                    np.testing.assert_allclose(found.fetch(prefix + name, t + 1).array[0], value, rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(found.fetch(prefix + "gates_t").array[0], gates, rtol=1e-4, atol=1e-5)
                assert found.fetch("timestep").array.tolist() == [t]
            assert session.position == op.index and not any(session.status(op.index) == "o" for _ in [0])
            inside.finish()
            leaving = inside.leave()
        assert (leaving.same, leaving.lines, leaving.stop.position) == (True, (), op.index + 1)
        assert session.cont().reason == "end"


# -- nets made here ----------------------------------------------------------------------------


def write(folder, net, init=None):
    """Net files in a folder."""
    for name, found in (("predict_net.pb", net), ("init_net.pb", init)):
        if found is not None:
            with open(os.path.join(str(folder), name), "wb") as file:
                file.write(found.SerializeToString())
    return str(folder)


def finished(session):
    """Enter the next operator, run all inside, leave."""
    inside = enter(session)
    assert inside.finish().reason == "end"
    return inside, inside.leave()


@pytest.mark.parametrize("cell", ["LSTM", "GRU", "MILSTM"])
@pytest.mark.parametrize("forward_only", [True, False])
def test_cells_of_caffe2_agree_with_the_operator_bit_for_bit(tmp_path, cell, forward_only):
    from caffe2.python import model_helper, workspace
    from caffe2.python.gru_cell import GRU
    from caffe2.python.rnn_cell import LSTM, MILSTM

    workspace.SwitchWorkspace("test-nested", True)
    model = model_helper.ModelHelper(name="m")
    states = ("h", "c")[: 1 if cell == "GRU" else 2]
    make = {"LSTM": LSTM, "GRU": GRU, "MILSTM": MILSTM}[cell]
    output = make(
        model, "x", "lengths", states if len(states) > 1 else states, 5, 4, "cell", forward_only=forward_only
    )[0]
    if not forward_only:
        loss = model.net.AveragedLoss(model.net.SquaredL2Distance([output, "target"], "distance"), "loss")
        model.AddGradientOperators([loss])
    random = np.random.RandomState(1)
    inputs = {"x": random.randn(6, 3, 5).astype(np.float32), "lengths": np.array([6, 2, 4], np.int32)}
    inputs.update((name, random.randn(1, 3, 4).astype(np.float32)) for name in states)
    inputs["target"] = np.zeros((6, 3, 4), np.float32)
    if forward_only:
        del inputs["target"]
    with c2step.open(
        write(tmp_path, model.net.Proto(), model.param_init_net.Proto()), inputs, in_process=True
    ) as session:
        session.until("RecurrentNetwork")
        inside, leaving = finished(session)
        assert [label for label, _, _ in inside.spans] == ["time step %d" % t for t in range(6)] + ["outputs"]
        assert leaving.same and len(inside.results) >= 2, leaving.lines
        if not forward_only:
            session.until("RecurrentNetworkGradient")
            with pytest.raises(UsageError, match="runs its step nets backwards"):
                enter(session)
            assert [name for name, _ in nets_inside(session, str(session.position))] == [
                "step_net",
                "backward_step_net",
            ]
            assert session.step().reason == "step"


def nets():
    from caffe2.proto import caffe2_pb2

    return caffe2_pb2


def operator(into, kind, inputs, outputs, **arguments):
    """Add an operator; nets, lists and numbers as arguments."""
    op = into.op.add(type=kind, input=inputs, output=outputs)
    for name, value in arguments.items():
        arg = op.arg.add(name=name)
        if hasattr(value, "op"):
            arg.n.CopyFrom(value)
        elif isinstance(value, list) and value and isinstance(value[0], str):
            arg.strings.extend(word.encode() for word in value)
        elif isinstance(value, list):
            arg.ints.extend(value)
        elif isinstance(value, float):
            arg.f = value
        else:
            arg.i = value
    return op


def net_of(name, *operators):
    """A net of (type, inputs, outputs, arguments)."""
    net = nets().NetDef(name=name)
    for kind, inputs, outputs, arguments in operators:
        operator(net, kind, inputs, outputs, **arguments)
    return net


@pytest.mark.parametrize("value", [True, False])
def test_the_branch_that_is_taken(tmp_path, value):
    double = net_of("double", ("Add", ["x", "x"], ["y"], {}), ("Negative", ["y"], ["y"], {}))
    square = net_of("square", ("Mul", ["x", "x"], ["y"], {}))
    net = nets().NetDef(name="n", external_input=["x", "c"], external_output=["z"])
    operator(net, "If", ["c", "x"], ["y"], then_net=double, else_net=square)
    operator(net, "Relu", ["y"], ["z"])
    x = np.array([1, -2, 3], np.float32)
    with c2step.open(write(tmp_path, net), {"x": x, "c": np.array([value])}, in_process=True) as session:
        inside = enter(session)
        assert inside.label() == ("then_net" if value else "else_net")
        inside.session.step()
        np.testing.assert_array_equal(inside.session.fetch("y").array, x + x if value else x * x)
        assert session.unfed() == [] and session.version("y") == 0
        inside.finish()
        assert inside.leave().same
        np.testing.assert_array_equal(session.fetch("y").array, -2 * x if value else x * x)


def test_a_branch_that_is_not_there(tmp_path):
    net = nets().NetDef(name="n", external_input=["x", "c"], external_output=["y"])
    operator(net, "If", ["c", "x"], ["y"], then_net=net_of("then", ("Relu", ["x"], ["y"], {})))
    inputs = {"x": np.ones(2, np.float32), "c": np.array([False])}
    opened = c2step.open(write(tmp_path, net), inputs, in_process=True)
    with opened as session, pytest.raises(UsageError, match="no else_net"):
        enter(session)


def loop(tmp_path, limit):
    """x is doubled while a counter is below a limit."""
    test = net_of("test", ("LT", ["i", "limit"], ["c"], {"broadcast": 1}))
    body = net_of("body", ("Add", ["x", "x"], ["x"], {}), ("Add", ["i", "one"], ["i"], {}))
    net = nets().NetDef(name="n", external_input=["x", "i", "c", "one", "limit"], external_output=["x"])
    operator(net, "While", ["c", "x", "i", "one", "limit"], ["x", "i"], cond_net=test, loop_net=body)
    inputs = {"x": np.array([1, 3], np.float32), "i": np.array([0]), "one": np.array([1]), "limit": np.array([limit])}
    return write(tmp_path, net), dict(inputs, c=np.array([True]))


def test_each_turn_of_a_loop(tmp_path):
    folder, inputs = loop(tmp_path, 3)
    with c2step.open(folder, inputs, in_process=True) as session:
        inside = enter(session)
        labels = ["iteration 0", "iteration 1", "iteration 2", "condition after 3 times"]
        assert [label for label, _, _ in inside.spans] == labels
        inside.finish()
        for turn in range(3):
            np.testing.assert_array_equal(inside.session.fetch("x", turn + 1).array, inputs["x"] * 2 ** (turn + 1))
        assert [inside.session.fetch("c", n).array.tolist() for n in (1, 2, 3, 4)] == [[True]] * 3 + [[False]]
        assert session.fetch("x").array.tolist() == [1, 3]
        assert inside.leave().same
        assert session.fetch("x").array.tolist() == [8, 24]


def test_write_net_writes_the_outermost_net(tmp_path):
    folder, inputs = loop(tmp_path, 3)
    path = str(tmp_path / "written.pb")
    with c2step.open(folder, inputs, in_process=True) as session:
        commands = ["edit 0 tag=7", "patch one = 1", "step", "who-wrote x", "who-wrote one", "write-net %s" % path]
        environment = Environment(io.StringIO(), io.StringIO(), io.StringIO())
        run_commands(session, "\n".join(commands), environment)
        said = environment.stdout.getvalue() + environment.stderr.getvalue()
    assert "\nx@0: from outside, fed as an input\n" in said and "\none@0: from outside, patch one = 1" in said
    assert "entered operator 0 While" in said and "edited:\n0  While  tag=7" in said
    assert "no part of it: the patches one = 1, from the start" in said
    written = nets().NetDef()
    with open(path, "rb") as file:
        written.ParseFromString(file.read())
    assert [(op.type, [arg.i for arg in op.arg if arg.name == "tag"]) for op in written.op] == [("While", [7])]


def test_a_loop_that_goes_on_and_on_is_opaque(tmp_path):
    folder, inputs = loop(tmp_path, 1 << 40)
    with c2step.open(folder, inputs, in_process=True) as session:
        with pytest.raises(UsageError, match="more than 1000 times"):
            enter(session)
        assert session.fetch("x").array.tolist() == [1, 3]
        assert {name: [op.type for op in net.operators] for name, net in nets_inside(session, "While")} == {
            "cond_net": ["LT"], "loop_net": ["Add", "Add"],
        }  # fmt: skip


def test_the_scope_of_do_and_what_is_nested_deeper(tmp_path):
    inner = net_of("inner", ("Add", ["a", "a"], ["b"], {}), ("Add", ["b", "b"], ["b"], {}))
    then = nets().NetDef(name="then")
    operator(then, "Do", ["x", "scope"], ["y", "scope"], net=inner, inner_blobs=["a", "b"], outer_blobs_idx=[0, 1])
    net = nets().NetDef(name="n", external_input=["x", "c"], external_output=["y"])
    operator(net, "CreateScope", [], ["scope"])
    operator(net, "If", ["c", "x", "scope"], ["y", "scope"], then_net=then)
    x = np.array([1, -2], np.float32)
    with c2step.open(write(tmp_path, net), {"x": x, "c": np.array([True])}, in_process=True) as session:
        session.step()
        with enter(session) as branch:
            branch.session.until("Do")
            with enter(branch.session) as scope:
                scope.session.step()
                np.testing.assert_array_equal(scope.session.fetch("b").array, 2 * x)
                scope.finish()
                assert scope.leave().same
            np.testing.assert_array_equal(branch.session.fetch("y").array, 4 * x)
            assert branch.leave().same
        np.testing.assert_array_equal(session.fetch("y").array, 4 * x)


@pytest.mark.parametrize("scopes", [0, 1])
def test_the_turns_of_an_onnx_loop(tmp_path, scopes):
    body = net_of(
        "body", ("GivenTensorInt64Fill", [], ["limit"], {"values": [2]}), ("Add", ["v", "v"], ["v2"], {}),
        ("LT", ["turn", "limit"], ["go2"], {}), ("Negative", ["v2"], ["s"], {}),
    )  # fmt: skip
    body.external_input.extend(["turn", "go", "v"])
    body.external_output.extend(["go2", "v2", "s"])
    net = nets().NetDef(name="n", external_input=["m", "c", "v0"], external_output=["out", "scan"])
    operator(net, "ONNXWhile", ["m", "c", "v0"], ["out", "scan"], body=body, has_trip_count=1, has_cond=1,
             num_loop_carried_deps=1, save_scopes=scopes)  # fmt: skip
    inputs = {"m": np.array([5]), "c": np.array([True]), "v0": np.array([1, 3], np.float32)}
    with c2step.open(write(tmp_path, net), inputs, in_process=True) as session:
        inside, leaving = finished(session)
        assert [label for label, _, _ in inside.spans] == ["iteration %d" % n for n in range(3)]
        assert leaving.same and session.fetch("out").array.tolist() == [8, 24]


def test_a_loop_that_reads_the_outer_net_fails_inside_as_the_operator_does(tmp_path):
    body = net_of("body", ("Add", ["v", "outer"], ["v2"], {}), ("Copy", ["go"], ["go2"], {}))
    body.external_input.extend(["turn", "go", "v", "outer"])
    body.external_output.extend(["go2", "v2"])
    net = nets().NetDef(name="n", external_input=["m", "c", "v0", "outer"], external_output=["out"])
    operator(net, "ONNXWhile", ["m", "c", "v0", "outer"], ["out"], body=body, has_trip_count=1, num_loop_carried_deps=1)
    inputs = {"m": np.array([2]), "c": np.array([True]), "v0": np.ones(2, np.float32), "outer": np.ones(2, np.float32)}
    with c2step.open(write(tmp_path, net), inputs, in_process=True) as session:
        with pytest.raises(UsageError, match="its nets do not run .*outer"):
            enter(session)
        stop = session.step()
        assert stop.reason == "failed" and "outer" in stop.detail


def test_cases_of_control_flow(shared):
    def case(name):
        folder = os.path.join(shared, "cases", name)
        return c2step.open(folder, [os.path.join(folder, "inputs.npz")], in_process=True)

    with case("19_if_output_never_written") as session:
        text, _ = said(session, "step; step; inspect t; finish")
    assert "o  0  Add  t@1" in text and "the nets inside write none of its outputs (o)" in text
    with case("20_loop_outer_value") as session:
        text, _ = said(session, "step; step; where")
    assert "which the net does not list as external_input; it runs as one" in text and "F  1  ONNXWhile" in text
    assert "#1" not in text


def test_what_cannot_be_copied_and_what_is_no_net(tmp_path):
    net = nets().NetDef(name="n", external_input=["x", "one", "c"], external_output=["y"])
    operator(net, "CreateMutex", [], ["lock"])
    then = net_of("then", ("AtomicFetchAdd", ["lock", "x", "one"], ["x", "y"], {}))
    operator(net, "If", ["c", "x", "one", "lock"], ["y"], then_net=then)
    inputs = {"x": np.array([1], np.int32), "one": np.array([1], np.int32), "c": np.array([True])}
    with c2step.open(write(tmp_path, net), inputs, in_process=True) as session:
        with pytest.raises(UsageError, match="no net inside"):
            enter(session)
        session.step()
        assert session.status(0) == "o"  # a mutex is no tensor, and written all the same
        with pytest.raises(UsageError, match="lock cannot be copied"):
            enter(session)
        assert session.step().reason == "end" and session.fetch("x").array == 2


def test_a_process_that_dies_inside(tmp_path):
    then = net_of("then", ("Add", ["a", "b"], ["s"], {}), ("Div", ["a", "b"], ["q"], {}))
    net = nets().NetDef(name="n", external_input=["a", "b", "c"], external_output=["q"])
    operator(net, "If", ["c", "a", "b"], ["q"], then_net=then)
    inputs = {"a": np.array([4, 6]), "b": np.array([2, 0]), "c": np.array([True])}
    with c2step.open(write(tmp_path, net), inputs) as session:
        with enter(session) as inside:
            stop = inside.finish()
            assert (stop.reason, stop.position) == ("died", 1) and "SIGFPE" in stop.detail
            assert inside.session.fetch("s").array.tolist() == [6, 6]
            leaving = inside.leave()
        assert (leaving.stop.reason, leaving.same) == ("died", False)
        assert session.position == 0 and session.fetch("a").array.tolist() == [4, 6]


# -- the prompt --------------------------------------------------------------------------------


def said(session, commands):
    """What commands say, and how they end."""
    environment = Environment(io.StringIO(), io.StringIO(), io.StringIO())
    status = run_commands(session, commands, environment)
    return environment.stdout.getvalue() + environment.stderr.getvalue(), status


def test_the_prompt_steps_in_over_and_out(shared):
    with lstm(shared, in_process=True) as session:
        text, status = said(session, "until RecurrentNetwork; step; where; step 9; up; where; down; finish; where")
        assert status is ExitStatus.OK
        assert "entered operator 19 RecurrentNetwork" in text and "* #1 inside operator 19" in text
        assert "time step 1, at operator 9" in text and "* #0 predict_net" in text
        assert "it gives the same bytes (4 outputs)" in text and text.rstrip().endswith("(49)")
        truth = {op.outputs[0]: session.fetch(op.outputs[0]).array for op in session.model.predict_net.operators[:20]}
        text, _ = said(session, "restart; until RecurrentNetwork; next; where")
        assert "entered" not in text and session.position == 20
        assert all(same_bytes(session.fetch(name).array, value) for name, value in truth.items())


def test_the_prompt_runs_out_of_what_was_entered(shared):
    with lstm(shared, in_process=True) as session:
        text, status = said(session, "until RecurrentNetwork; step; break LSTMUnit; continue; delete; continue; where")
        assert status is ExitStatus.OK and "time step" in text and session.position == session.net_size
        text, status = said(session, "restart; until RecurrentNetwork; step; up; until 20; where; finish")
        assert "#" not in text.partition("(c2step) where")[2]
        assert status is ExitStatus.USAGE and "outermost net" in text and session.position == 20


def test_the_prompt_lists_what_is_inside_and_says_what_is_opaque(tmp_path):
    folder, inputs = loop(tmp_path, 1 << 40)
    with c2step.open(folder, inputs, in_process=True) as session:
        text, _ = said(session, "list 0 --inside; up")
    assert "cond_net: test" in text and "loop_net: body" in text and "(i, one) -> (i)" in text
    assert "outermost net" in text
    net = nets().NetDef(name="n", external_input=["x", "c"], external_output=["y"])
    operator(net, "If", ["c", "x"], ["y"], then_net=net_of("then", ("Relu", ["x"], ["y"], {})))
    operator(net, "Copy", ["x"], ["z"])
    inputs = {"x": np.ones(2, np.float32), "c": np.array([False])}
    with c2step.open(write(tmp_path, net), inputs, in_process=True) as session:
        text, status = said(session, "step 2")
    assert "there is nothing to enter" in text and "it runs as one" in text and status is ExitStatus.OK
    assert text.rstrip().endswith("end of the net")


def test_breakpoints_inside_stay_and_what_is_lost_is_said(shared):
    with lstm(shared) as session:
        where = session.operator("RecurrentNetwork").index
        again = "goto %d; step; info breakpoints; continue" % where
        text, _ = said(session, "break LSTMUnit")
        assert "operator %d RecurrentNetwork" % where in text and "step enters that" in text
        lines = "until %d; step; list 0-12; break LSTMUnit; continue; edit LSTMUnit forget_bias=1.0; up; goto 0; %s"
        text, _ = said(session, lines % (where, again.replace("goto", "until")))
        assert text.index("time step 0:") < text.index("  0  GivenTensorIntFill") < text.index("time step 1:")
        assert "this is time step 0 alone" in text
        assert text.count("no longer inside operator %d RecurrentNetwork" % where) == 1
        assert text.count("--> 6 LSTMUnit") == 2 and "1       LSTMUnit  always  yes      1" in text
