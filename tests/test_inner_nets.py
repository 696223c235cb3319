"""Operators that run nets of their own: going back and running again equals a fresh run of Caffe2, bit for bit."""

import os
import random
import signal

import numpy as np
import pytest
from caffe2.python import core, model_helper, workspace
from caffe2.python.rnn_cell import LSTM

import c2step
from oracle import run_net, same_bytes
from small_nets import make_net, run_prefix, written

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Caffe2 itself
F = np.float32


def lstm(folder, training, executor=True, drop=False, alias=False):
    """An LSTM of Caffe2, with gradients if it trains, and the values of everything that it reads."""
    workspace.SwitchWorkspace("test-inner-nets", True)
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper(name="m")
    output = LSTM(model, "x", "lengths", ("h", "c"), 5, 4, "cell", forward_only=not training)[0]
    if training:
        loss = model.net.AveragedLoss(model.net.SquaredL2Distance([output, "target"], "distance"), "loss")
        model.AddGradientOperators([loss])
    if alias:
        model.net.Alias(["cell/hidden_state_all"], ["other"])
        model.net.Negative(["other"], ["other"])
        model.net.Relu(["cell/hidden_state_last"], ["end"])
    net = model.net.Proto()
    for op in net.op:
        for arg in op.arg:
            if arg.name == "enable_rnn_executor":
                arg.i = int(executor)
            if arg.name == "step_net" and drop:
                made = core.CreateOperator(
                    "Dropout", ["cell/gates_t"], ["cell/gates_t", "cell/mask"], ratio=0.5, is_test=0
                )
                made.device_option.random_seed = 7
                place = [inner.type for inner in arg.n.op].index("LSTMUnit")
                operators = list(arg.n.op)
                del arg.n.op[:]
                arg.n.op.extend(operators[:place] + [made] + operators[place:])
    draw = np.random.RandomState(3)
    workspace.RunNetOnce(model.param_init_net)
    values = {name: draw.randn(*workspace.FetchBlob(name).shape).astype(F) for name in workspace.Blobs()}
    values.update(x=draw.randn(6, 3, 5).astype(F), lengths=np.array([6, 2, 4], np.int32))
    values.update((name, draw.randn(1, 3, 4).astype(F)) for name in "hc")
    if training:
        values["target"] = np.zeros((6, 3, 4), F)
    workspace.ResetWorkspace()
    path, inputs = os.path.join(str(folder), "predict_net.pb"), os.path.join(str(folder), "inputs.npz")
    with open(path, "wb") as file:
        file.write(net.SerializeToString())
    np.savez(inputs, **values)
    return path, inputs


def agrees(session, oracle):
    """Every tensor that Caffe2's own RunNet left is here, bit for bit."""
    for name, value in oracle.items():
        assert same_bytes(session.fetch(name).array, value), name


@pytest.mark.parametrize("training, executor", [(False, True), (True, True), (False, False)])
def test_a_recurrent_network_survives_every_way_back(tmp_path, training, executor):
    path, inputs = lstm(tmp_path, training, executor)
    oracle = {times: run_net("", path, inputs, str(tmp_path), times) for times in (1, 2)}
    draw = random.Random(5)
    with c2step.open(predict_net=path, inputs=[inputs]) as session:
        pid = session.workspace.pid
        size, which = session.net_size, str(session.operator("RecurrentNetwork").index)
        for _ in range(12):
            verb = draw.choice(["back", "goto", "rerun", "restart", "failing", "again"])
            if verb == "back" and session.steps:
                session.back(draw.randint(1, len(session.steps)))
            elif verb == "goto":
                session.goto(str(draw.randrange(size)))
            elif verb == "rerun" and session.position > int(which):
                session.rerun("RecurrentNetwork")
            elif verb == "restart":
                session.restart()
            elif verb == "failing":  # it fails with its workspaces made, and is then as it was
                session.goto(which)
                session.edit(which, ("arg", "alias_offset", [1, 100, 1, -1]))
                assert session.step().reason == "failed"
                session.unedit(which)
            elif verb == "again" and session.iteration == 1:
                session.run()
                session.run()
            if session.position < size:
                assert session.run().reason == "end"
            if session.iteration <= 2:
                agrees(session, oracle[session.iteration])
        assert session.workspace.pid == pid  # no worker has ended meanwhile


def test_the_storage_of_its_states_is_never_lost_under_others(tmp_path):
    path, inputs = lstm(tmp_path, False, alias=True)
    oracle = run_net("", path, inputs, str(tmp_path))
    states = "cell/cell/hidden_t_prev_states"
    with c2step.open(predict_net=path, inputs=[inputs]) as session:
        session.run()
        agrees(session, oracle)
        for _ in range(2):
            session.back(2)
            session.run()
            agrees(session, oracle)
        session.goto("Negative")
        was = {name: session.fetch(name).array for name in oracle if session.history.exists(name)}
        session.patch(states, np.zeros_like(oracle[states]))
        for _ in range(3):  # other memory is asked for in between
            for name in set(was) - {states}:
                assert same_bytes(session.fetch(name).array, was[name]), name
            session.feed("x", np.load(inputs)["x"])
        session.unpatch(states)
        session.goto("0")
        session.run()
        agrees(session, oracle)


def test_random_operators_inside_begin_anew_with_their_operator(tmp_path):
    path, inputs = lstm(tmp_path, False, executor=False, drop=True)
    oracle = {times: run_net("", path, inputs, str(tmp_path), times) for times in (1, 2)}
    with c2step.open(predict_net=path, inputs=[inputs]) as session:
        session.run()
        agrees(session, oracle[1])
        session.run()
        agrees(session, oracle[2])
        session.goto("RecurrentNetwork")
        session.run()
        agrees(session, oracle[2])
        session.back(len(session.steps) - 1)
        session.run()
        agrees(session, oracle[1])


def test_a_step_net_that_fails_says_why(tmp_path):
    path, inputs = lstm(tmp_path, False)
    with c2step.open(predict_net=path, inputs=[inputs]) as session:
        session.until("RecurrentNetwork")
        session.feed("cell/gates_t_w", np.zeros((7, 7), F))
        stop = session.step()
        assert stop.reason == "failed"
        assert "K == W.numel() / N" in stop.detail and 'in FC "cell/gates_t" inside it' in stop.detail
        session.feed("cell/gates_t_w", np.load(inputs)["cell/gates_t_w"])
        session.run()
        agrees(session, run_net("", path, inputs, str(tmp_path)))


# -- what nets inside write without the operator's naming it ------------------------------------


def branches(deep=False):
    """acc is tripled or negated in a branch, which names nothing of it; h and g are made there only."""
    then = make_net([("Mul", ["acc", "three"], ["acc"], {}), ("Relu", ["acc"], ["h"], {})], [])
    other = make_net([("Negative", ["acc"], ["acc"], {}), ("Relu", ["acc"], ["g"], {})], [])
    if deep:
        inner = ("If", ["cond"], ["y"], {"then_net": then, "else_net": other})
        then = other = make_net([inner, ("Add", ["acc", "three"], ["acc"], {})], [])
    return [
        ("Copy", ["x"], ["acc"], {}),
        ("If", ["cond"], ["y"], {"then_net": then, "else_net": other}),
        ("Add", ["acc", "x"], ["z"], {}),
        ("Mul", ["acc", "z"], ["acc"], {}),
    ]


def loops():
    """acc grows until it is no longer less than the limit; the loop names neither acc nor its condition."""
    turn = make_net([("Mul", ["acc", "three"], ["acc"], {}), ("ReduceBackMean", ["acc"], ["mean"], {})], [])
    test = make_net([("LT", ["mean", "limit"], ["go"], {})], [])
    return [
        ("Copy", ["x"], ["acc"], {}),
        ("ReduceBackMean", ["acc"], ["mean"], {}),
        ("LT", ["mean", "limit"], ["go"], {}),
        ("While", ["go"], [], {"loop_net": turn, "cond_net": test}),
        ("Add", ["acc", "x"], ["z"], {}),
    ]


FEEDS = {
    "x": np.array([[-1, 2, 3], [4, 5, 6]], F),
    "three": np.full((2, 3), 3, F),
    "limit": np.array([200, 300], F),
    "cond": np.array([True]),
}
NETS = [(branches(), True), (branches(), False), (branches(True), True), (branches(True), False), (loops(), True)]


@pytest.mark.parametrize("operators, condition", NETS)
def test_what_is_written_inside_has_versions_and_goes_away_again(tmp_path, operators, condition):
    known = ("x", "three", "cond") if any(op[0] == "If" for op in operators) else ("x", "three", "limit")
    feeds = {name: np.array([condition]) if name == "cond" else FEEDS[name] for name in known}
    draw = random.Random(1)
    with c2step.open(predict_net=written(operators, list(feeds), tmp_path), inputs=feeds) as session:
        for _ in range(25):
            target = draw.randint(0, len(operators))
            if target < len(operators):
                session.goto(str(target))
            elif session.position < target:
                session.run()
            expected = run_prefix(operators, feeds, session.position)
            expected = {name: value for name, value in expected.items() if isinstance(value, np.ndarray)}
            for name, value in expected.items():
                assert same_bytes(session.fetch(name).array, value), (session.position, name)
                assert session.summary(name).max == value.max()
            there = {name for name, _, summary in session.blobs() if summary.kind == "tensor"}
            assert there == set(expected)


def test_conditions_watches_and_origins_see_what_is_written_inside(tmp_path):
    operators = branches()
    feeds = {name: FEEDS[name] for name in ("x", "three", "cond")}
    with c2step.open(predict_net=written(operators, list(feeds), tmp_path), inputs=feeds) as session:
        limit = run_prefix(operators, feeds, 2)["acc"].max()
        assert run_prefix(operators, feeds, 1)["acc"].max() < limit
        session.set_break("If", condition="max == %r" % float(limit))
        session.watch("acc")
        assert [session.cont().position for _ in range(3)] == [1, 2, 4]
        (step,) = [step for step in session.steps if step.operator.type == "If"]
        assert {(out.name, out.version) for out in step.touched} == {("acc", 2), ("h", 1)}
        assert session.operator("h").type == "If" and session.breakpoint(1).hits == 1
        session.restart()
        assert session.until("h").position == 1


def test_a_failing_branch_leaves_nothing_behind(tmp_path):
    then = make_net([("Mul", ["acc", "three"], ["acc"], {}), ("MatMul", ["acc", "x"], ["h"], {})], [])
    operators = [("Copy", ["x"], ["acc"], {}), ("If", ["cond"], ["y"], {"then_net": then})]
    feeds = {name: FEEDS[name] for name in ("x", "three", "cond")}
    with c2step.open(predict_net=written(operators, list(feeds), tmp_path), inputs=feeds) as session:
        stop = session.run()
        assert (stop.reason, stop.position) == ("failed", 1) and 'MatMul "h" inside it' in stop.detail
        assert same_bytes(session.fetch("acc").array, FEEDS["x"])


def test_what_is_made_again_is_named_and_chance_only_where_there_is_some(tmp_path):
    path, inputs = lstm(tmp_path, True)
    with c2step.open(predict_net=path, inputs=[inputs]) as session:
        session.run()
        session.run()
        assert session.back(3).detail == "cell/step_workspaces was made again by running %d operators" % (
            2 * session.net_size - 3)  # fmt: skip


def test_what_is_read_inside_is_dirty_when_it_changes(tmp_path):
    operators = [("Negative", ["x"], ["n"], {}), ("Copy", ["three"], ["t"], {})]
    operators += [("If", ["cond"], ["y"], {"then_net": make_net([("Mul", ["n", "t"], ["m"], {})], [])})]
    operators += [("Relu", ["m"], ["end"], {})]
    feeds = {name: FEEDS[name] for name in ("x", "three", "cond")}
    with c2step.open(predict_net=written(operators, list(feeds), tmp_path), inputs=feeds) as session:
        session.run()
        assert [op.type for op in session.model.predict_net.consumers("t")] == ["If"]
        session.patch("t", np.full((2, 3), -5, F))
        assert session.dirty_operators() == {2, 3}
        session.goto("2")
        session.run()
        truth = run_prefix(operators, feeds, 4, [(1, "t", np.full((2, 3), -5, F))])
        assert session.dirty_operators() == set()
        for name in ("m", "end"):
            assert same_bytes(session.fetch(name).array, truth[name])


def test_a_capture_has_what_was_written_inside(tmp_path):
    feeds = {name: FEEDS[name] for name in ("x", "three", "cond")}
    path = written(branches(), list(feeds), tmp_path)
    c2step.dump(None, predict_net=path, inputs=feeds, directory=str(tmp_path / "out"))
    capture = c2step.open_capture(str(tmp_path / "out"))
    truth = run_prefix(branches(), feeds, 2)
    for name, version in (("acc", 2), ("h", 1)):
        assert same_bytes(capture.load(name, version).array, truth[name])


@pytest.mark.parametrize("kind", ["lstm", "branches"])
def test_a_killed_session_comes_back_with_what_is_inside(tmp_path, kind):
    from c2step.recording import Keep
    from c2step.resuming import Checkpoints

    if kind == "lstm":
        path, inputs = lstm(tmp_path, True)
        feeds = dict(np.load(inputs))
    else:
        feeds = {name: FEEDS[name] for name in ("x", "three", "cond")}
        path = written(branches(), list(feeds), tmp_path)
        inputs = str(tmp_path / "inputs.npz")
        np.savez(inputs, **feeds)
    oracle = run_net("", path, inputs, str(tmp_path))
    kept = str(tmp_path / "kept")
    with c2step.open(predict_net=path, inputs=feeds, keep=Keep(kept)) as session:
        session.step(3)
        Checkpoints(session, {}).write()
        session.step(session.net_size - 4)
        os.kill(session.workspace.pid, signal.SIGKILL)  # a look brings the worker back
        assert session.fetch(session.model.predict_net.operators[0].outputs[0]).array is not None
        session.run()
        agrees(session, oracle)
        session.back(1)
    with c2step.resume(kept) as session:
        session.run()
        agrees(session, oracle)
        session.goto("1")
        session.run()
        agrees(session, oracle)
