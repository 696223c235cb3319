"""Where a run stops: conditions of every kind, watches, counts; and what shares storage."""

import os
import signal

import numpy as np
import pytest

import c2step
from c2step.blob import TENSOR, Blob
from c2step.compare.against import Against
from c2step.errors import UsageError
from c2step.references import Reference
from oracle import same_bytes
from small_nets import make_net, run_prefix, tensors, written

X = np.array([[-1, 0.5, 4], [9, 16, 25]], np.float32)
LOG = [  # operator 3 makes the NaN, out of numbers; 4 and 5 pass it on
    ("Relu", ["x"], ["r"], {}),
    ("Scale", ["r"], ["s"], {"scale": 10.0}),
    ("Negative", ["s"], ["n"], {}),
    ("Log", ["n"], ["l"], {}),
    ("Add", ["l", "r"], ["a"], {}),
    ("Relu", ["r"], ["r"], {}),
    ("Scale", ["r"], ["r"], {"scale": 2.0}),
    ("Copy", ["r"], ["c"], {}),
]


@pytest.fixture
def opened(tmp_path):
    sessions = []

    def make(operators=LOG, x=X, **options):
        path = written(operators, ["x"], tmp_path)
        sessions.append(c2step.open(predict_net=path, inputs={"x": x}, **dict({"in_process": True}, **options)))
        return sessions[-1]

    yield make
    for session in sessions:
        session.close()


def counted(session):
    """The ranges that the workspace was asked to run."""
    ranges, run = [], session.workspace.run

    def counting(request, on_step):
        ranges.append((request["first"], request["last"]))
        return run(request, on_step)

    session.workspace.run = counting
    return ranges


def truth(count):
    with np.errstate(all="ignore"):
        return run_prefix(LOG, {"x": X}, count)


def test_a_nan_is_stopped_at_where_it_is_made(opened):
    session = opened()
    ranges = counted(session)
    session.set_break("*", condition="nan")
    stop = session.cont()
    assert [np.isnan(truth(index + 1)[LOG[index][2][0]]).any() for index in range(4)] == [False, False, False, True]
    assert (stop.reason, stop.position, stop.steps[-1].operator.type) == ("breakpoint", 4, "Log")
    nans = int(np.isnan(truth(4)["l"]).sum())
    assert stop.detail == "breakpoint 1: l: nan is %d" % nans and stop.hits == (1,)
    assert ranges == [(0, len(LOG))]  # one request, although it stopped in its midst
    assert session.cont().position == 5  # the sum has it too
    assert session.cont().reason == "end"


def test_the_worker_stops_by_itself_too(opened):
    session = opened(in_process=False)
    session.set_break("*", condition="nan and input.max <= 0")
    stop = session.cont()
    assert (stop.reason, stop.position) == ("breakpoint", 4) and "max of n is" in stop.detail


@pytest.mark.parametrize(
    "condition, position",
    [
        ("inf", 4),
        ("max > 200", 2),
        ("min < -200 and zeros == 0", None),
        ("min < -200", 3),
        ("shape != (2, 3)", None),
        ("std == 0", None),
        ("dtype == int64", None),
        ("input.max > 200", 3),
        ("r.zeros and n.min < -1", 3),
        ("np.isnan(l).any() and (r > 20).sum() == 1", 4),
        ("(out == 50).any()", 2 + 5),
        ("len(inputs) == 2 and inputs[1].max() == 25", 5),
        ("fail", 3),
        ("cos < 0.999", 3),
        ("max_abs > 1000 and max_abs < 2000", 3),
    ],
)
def test_each_kind_of_condition(opened, condition, position):
    session = opened()
    golden = truth(len(LOG))
    golden["n"] = golden["n"] + np.float32(1500)  # of operator 2
    golden["l"] = -np.abs(np.nan_to_num(golden["l"], nan=3.0)) - np.float32(1)
    reference = Reference("golden")
    for name in ("s", "n", "l"):
        reference.add(name, 1, lambda name=name: Blob(name, TENSOR, golden[name]))
    Against(session, reference)
    session.set_break("*", condition=condition)
    stop = session.cont()
    assert (stop.reason, stop.position) == (("breakpoint", position) if position else ("end", len(LOG)))


def test_where_limits_a_condition(opened):
    session = opened()
    session.set_break("Scale", condition="max > 45")
    assert [session.cont().position for _ in range(3)] == [2, 7, len(LOG)]


def test_conditions_that_make_no_sense_are_refused(opened):
    session = opened()
    with pytest.raises(UsageError, match="no reference is loaded"):
        session.set_break("*", condition="fail")
    with pytest.raises(UsageError, match="no blob relu"):
        session.set_break("*", condition="relu.max > 3")
    with pytest.raises(UsageError, match="no blob q"):
        session.set_break("*", condition="np.max(q) > 3")
    with pytest.raises(UsageError, match="no operator is, writes or came from Conv"):
        session.set_break("Conv", condition="nan")
    assert session.breakpoints == []


def test_watch_stops_where_the_value_changes(opened):
    session = opened()
    session.watch("r")
    details = [session.cont() for _ in range(3)]
    assert [stop.position for stop in details] == [1, 7, len(LOG)]  # Relu of what is positive changes nothing
    changed = int((truth(6)["r"] != truth(7)["r"]).sum())
    assert details[1].detail == "watch 1: r@3: %d of 6 values changed" % changed
    session.restart()
    session.delete_break(1)
    session.watch("r", "max > 40")
    assert session.cont().position == 7


def test_ignore_disable_temporary_and_counts(opened):
    session = opened()
    point = session.set_break("Scale")
    point.ignore = 1
    stop = session.cont()
    assert (stop.position, stop.hits, point.hits, point.ignore) == (6, (point.number,), 2, 0)
    session.restart()
    point.enabled = False
    once = session.set_break("Relu", temporary=True, condition="max >= 25")
    assert session.cont().position == 1 and once not in session.breakpoints
    assert session.cont().reason == "end" and point.hits == 2


def test_rcontinue_goes_to_where_a_run_would_have_stopped(opened):
    session = opened()
    session.set_break("Log")
    session.set_break("*", condition="max > 200")
    session.watch("r")
    forward = []
    while session.position < session.net_size:
        forward.append(session.cont().position)
    hits = [point.hits for point in session.breakpoints]
    backward = []
    while session.position:
        stop = session.rcontinue()
        backward.append((stop.reason, stop.position))
        assert all(same_bytes(v, run_prefix(LOG, {"x": X}, stop.position)[n]) for n, v in tensors(session).items())
    assert backward == [("breakpoint", at) for at in forward[-2::-1]] + [("start", 0)]
    assert [point.hits for point in session.breakpoints] == hits
    with pytest.raises(UsageError, match="nothing has run"):
        session.rcontinue()


def test_goto_both_ways(opened):
    session = opened()
    for where, position in (("Log", 3), ("7", 7), ("n", 2), ("0", 0), ("a", 4)):
        assert session.goto(where).position == position
        found, expected = tensors(session), run_prefix(LOG, {"x": X}, position)
        assert set(found) == set(expected) and all(same_bytes(found[name], expected[name]) for name in expected)


def test_a_run_may_go_on_past_what_fails(opened):
    operators = [("Relu", ["x"], ["r"], {}), ("MatMul", ["r", "r"], ["m"], {}), ("Negative", ["r"], ["n"], {})]
    session = opened(operators)
    assert session.cont().reason == "failed"
    session.catching.discard("error")
    stop = session.cont()
    assert (stop.reason, stop.position) == ("end", 3)
    assert [step.status for step in stop.steps] == ["failed", "ok"]
    assert session.status(1) == "S" and session.fetch("n").array is not None


# -- storage that is shared -----------------------------------------------------------------------

SHARED = [
    ("Negative", ["x"], ["n"], {}),
    ("Alias", ["n"], ["view"], {}),
    ("Relu", ["view"], ["view"], {}),
    ("Add", ["n", "view"], ["sum"], {}),
]


@pytest.mark.parametrize("in_process", [True, False])
def test_a_blob_that_is_changed_without_being_named(opened, in_process):
    session = opened(SHARED, in_process=in_process)
    assert session.step(2).steps[1].shares == (("view", "n"),)
    assert session.step().steps[0].touched[0].name == "n"
    assert session.versions("n") == [1, 2] and session.versions("view") == [1, 2]
    plain = run_prefix(SHARED, {"x": X}, 3)
    assert same_bytes(session.fetch("n").array, plain["n"]) and same_bytes(session.fetch("n", 1).array, -X)
    assert session.cont().steps[0].inputs[0].version == 2
    session.back(2)
    assert same_bytes(session.fetch("n").array, -X)
    session.step()
    assert same_bytes(session.fetch("n").array, plain["n"])  # it is still the storage of both
    if not in_process:
        os.kill(session.workspace.pid, signal.SIGKILL)
    session.cont()
    assert same_bytes(session.fetch("sum").array, run_prefix(SHARED, {"x": X}, 4)["sum"])


def test_watch_sees_a_change_that_is_not_named(opened):
    session = opened(SHARED)
    session.watch("n")
    assert session.cont().position == 1
    stop = session.cont()
    assert stop.position == 3 and "not named" in stop.detail


def test_nothing_shares_where_nothing_is_aliased(opened):
    session = opened()
    assert all(step.shares == () and step.touched == () for step in session.cont().steps)


def test_counters_go_back_exactly(tmp_path):
    init = str(tmp_path / "init_net.pb")
    with open(init, "wb") as file:
        file.write(make_net([("CreateCounter", [], ["counter"], {"init_count": 0})], []).SerializeToString())
    count = ("CountUp", ["counter"], ["before"], {})
    path = written([count, count, ("Copy", ["before"], ["kept"], {})], ["counter"], tmp_path)
    with c2step.open(init_net=init, predict_net=path, in_process=True) as session:
        session.cont()
        assert int(session.fetch("kept").array) == 1
        for back in (1, 2, 3):
            session.back(back)
            session.cont()
            assert int(session.fetch("kept").array) == 1
