"""Values and arguments from outside that Caffe2 has no room for, Int8 among them, and Ctrl-C in the user's own code.

The truth is Caffe2 run anew, and numpy.
"""

import io
import os
import signal
import threading
import time

import numpy as np
import pytest

import c2step
from c2step.errors import ExitStatus, InputError, UsageError
from c2step.hooks import before
from c2step.repl.environment import Environment
from c2step.repl.loop import file_history, run_commands
from oracle import same_bytes
from small_nets import written

X = np.array([[-1, 0.5, 0.86]], np.float32)
NET = [("Relu", ["x"], ["a"], {}), ("Scale", ["a"], ["b"], {"scale": 2.0}), ("Copy", ["b"], ["c"], {})]
INT8 = [("Int8Quantize", ["x"], ["q"], {"Y_scale": 0.02, "Y_zero_point": 3}), ("Int8Dequantize", ["q"], ["y"], {})]


@pytest.fixture
def opened(tmp_path):
    sessions = []

    def make(operators=NET):
        path = written(operators, ["x"], tmp_path)
        sessions.append(c2step.open(predict_net=path, inputs={"x": X}, in_process=True))
        return sessions[-1]

    yield make
    for session in sessions:
        session.close()


BAD = [
    np.zeros(3, "c8"),
    np.zeros(3, "u4"),
    np.zeros(3, "datetime64[s]"),
    np.zeros(3, [("p", "f4")]),
    None,
    {"p": 1},
    len,
]


@pytest.mark.parametrize("value", BAD, ids=lambda value: str(getattr(value, "dtype", value)))
def test_a_value_that_no_blob_can_have_is_refused_and_changes_nothing(opened, value):
    session = opened()
    with pytest.raises(InputError):
        session.patch("b", value)
    session.hook(before("Scale")(lambda call: {"a": value}))
    with pytest.raises(InputError):
        session.cont()
    session.restart()
    assert session.changes.patches == []
    assert same_bytes(session.fetch("x").array, X)


def test_numbers_of_any_width_are_converted_for_a_blob_that_is_there(opened):
    session = opened()
    session.step()
    session.patch("a", np.full((1, 3), 7, np.uint32))
    session.cont()
    assert same_bytes(session.fetch("c").array, np.full((1, 3), 14, np.float32))


@pytest.mark.parametrize("value", [10**23, [1, 10**23]])
def test_an_argument_that_does_not_fit_is_said(opened, value):
    with pytest.raises(UsageError, match="argument broadcast cannot be"):
        opened().edit("1", ("arg", "broadcast", 1), ("arg", "broadcast", value))


def test_a_part_of_an_int8_blob_stays_int8(opened):
    session = opened(INT8)
    session.step()
    stored = session.fetch("q")
    changed = np.array(stored.array)
    changed[0, 0] = 7
    session.patch("q", changed)
    blob = session.fetch("q")
    assert (blob.kind, blob.scale, blob.zero_point) == (stored.kind, stored.scale, 3)
    assert session.cont().reason == "end"
    assert same_bytes(session.fetch("y").array, (changed.astype(np.float32) - 3) * np.float32(0.02))


def test_a_watch_sees_that_the_scale_alone_changes(opened):
    fill = {"shape": [2], "values": b"ab", "Y_zero_point": 1}
    net = [("Int8GivenTensorFill", [], ["q"], dict(fill, Y_scale=scale)) for scale in (0.5, 0.25, 0.25)]
    session = opened([("Copy", ["x"], ["y"], {}), *net])
    session.step(2)
    session.watch("q")
    stop = session.cont()
    assert (stop.reason, stop.position) == ("breakpoint", 3) and "scale 0.25" in stop.detail
    assert session.cont().reason == "end"


HOOK = "import time\ndef slow(call):\n    while True:\n        time.sleep(0.01)\n"


@pytest.mark.parametrize(
    "command", ["break if any(False for _ in iter(int, 1)); continue", "wrap Scale --call HOOK:slow; continue"]
)
def test_ctrl_c_ends_a_condition_and_a_hook_that_loop(opened, tmp_path, command):
    hook = tmp_path / "hook.py"
    hook.write_text(HOOK)
    session, out = opened(), io.StringIO()
    main = threading.get_ident()

    def press():
        while session.position == 0:
            time.sleep(0.02)
        while ended.is_set() is False:
            time.sleep(0.3)
            if not ended.is_set():
                signal.pthread_kill(main, signal.SIGINT)

    ended = threading.Event()
    thread = threading.Thread(target=press)
    thread.start()
    environment = Environment(stdin=io.StringIO(), stdout=out, stderr=out)
    try:
        status = run_commands(session, command.replace("HOOK", str(hook)), environment)
    finally:
        ended.set()
        thread.join()
    assert status == ExitStatus.INTERRUPTED
    session.breakpoints[:] = []


def test_ctrl_c_while_nothing_runs_does_not_stop_the_next_run(opened):
    session, out = opened(), io.StringIO()
    session.step(2)
    goto = session.goto

    def pressed(where):
        os.kill(os.getpid(), signal.SIGINT)
        return goto(where)

    session.goto = pressed
    environment = Environment(stdin=io.StringIO(), stdout=out, stderr=out)
    run_commands(session, "goto 0", environment)
    assert session.cont().reason == "end"


def test_a_history_that_can_no_longer_be_written_ends_nothing(tmp_path):
    path = tmp_path / "history"
    path.write_text("")
    history = file_history(str(path))
    path.unlink()
    path.mkdir()
    history.append_string("step 3")
    assert history.get_strings() == ["step 3"]
