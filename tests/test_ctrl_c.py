"""Ctrl-C while a model is loaded or an operator is entered: that ends, and nothing else is done instead."""

import io
import os
import signal
import threading
import time

import numpy as np
import pytest

import c2step
from c2step import cli
from c2step.cli import main
from c2step.errors import ExitStatus
from c2step.repl.environment import Environment
from c2step.repl.loop import run_commands
from c2step.workspace.local import LocalWorkspace
from c2step.workspace.process import ProcessWorkspace
from small_nets import make_net, written


def endless(output="yes"):
    """A While that Caffe2 never leaves, and nobody can enter."""
    turn = make_net([("MatMul", ["big", "big"], ["product"], {})], [])
    return [
        ("ConstantFill", [], ["big"], {"shape": [700, 700], "value": 0.0}),
        ("GivenTensorBoolFill", [], [output], {"shape": [1], "values": [True]}),
        ("While", [output], [output], {"loop_net": turn}),
    ]


@pytest.fixture
def ctrl_c(monkeypatch):
    """Press it as soon as the worker is at work on such a request, in its operator `position`."""

    def on(do, position):
        def press(workspace):
            while workspace.doing().position != position:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        whole = ProcessWorkspace._until_reply

        def until_reply(self, name, take):
            if name == do:
                threading.Thread(target=press, args=(self,)).start()
            return whole(self, name, take)

        monkeypatch.setattr(ProcessWorkspace, "_until_reply", until_reply)

    return on


def test_while_loading_it_ends_the_command_with_130(tmp_path, capfd, ctrl_c):
    folder = tmp_path / "init"
    folder.mkdir()
    init = written(endless(), [], folder)
    predict = written([("Copy", ["x"], ["y"], {})], ["x"], tmp_path)
    np.savez(str(tmp_path / "x.npz"), x=np.ones(3, np.float32))
    ctrl_c("init", 2)
    words = ["--init-net", init, "--predict-net", predict, "--input", str(tmp_path / "x.npz"), "-c", "run"]
    assert main(words) == ExitStatus.INTERRUPTED == 130
    said = capfd.readouterr()
    assert said.err.splitlines()[-1] == "interrupted" and "worker" not in said.err and not said.out


def test_while_importing_it_waits_and_ends_the_command_with_130(monkeypatch, capfd):
    imported = []

    def importing(name, package):
        os.kill(os.getpid(), signal.SIGINT)
        imported.append(name)

    monkeypatch.setattr(cli.importlib, "import_module", importing)
    assert main(["show", "model.onnx"]) == ExitStatus.INTERRUPTED
    assert imported == [".show"] and capfd.readouterr().err == "interrupted\n"


def test_while_entering_it_runs_nothing_instead(tmp_path, ctrl_c):
    environment = Environment(stdin=io.StringIO(), stdout=io.StringIO(), stderr=io.StringIO())
    with c2step.open(predict_net=written(endless(), [], tmp_path), inputs={}) as session:
        session.step(2)
        ctrl_c("enter", 2)
        status = run_commands(session, "step; step; step", environment)
        said = environment.stdout.getvalue() + environment.stderr.getvalue()
        assert status is ExitStatus.INTERRUPTED and said.count("(c2step) step") == 1
        assert "stopped by Ctrl-C" in said and "runs as one" not in said
        assert (session.position, session.status(2), session.version("yes")) == (2, ".", 1)
        assert session.fetch("yes").array.tolist() == [True]


COUNTING = [("Copy", ["x"], ["a"], {})] + 40 * [("Add", ["a", "one"], ["a"], {})]


@pytest.fixture
def counting(tmp_path):
    """A session in this process over a net in place: after `position` operators the value is position - 1."""
    feeds = {"x": np.zeros(3, np.float32), "one": np.ones(1, np.float32)}
    with c2step.open(predict_net=written(COUNTING, list(feeds), tmp_path), inputs=feeds, in_process=True) as session:
        yield session


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_in_this_process_an_operator_whose_event_is_lost_has_not_run(counting, monkeypatch, error):
    counting.step(3)
    plain, calls = LocalWorkspace._plain, []

    def lost(self, *given):
        calls.append(given)
        if len(calls) == 5:
            raise error("no room")
        return plain(self, *given)

    monkeypatch.setattr(LocalWorkspace, "_plain", lost)
    with pytest.raises(error):
        counting.cont()
    assert counting.position == 7 and counting.fetch("a").array[0] == 6
    assert counting.cont().reason == "end" and counting.fetch("a").array[0] == 40


def test_in_this_process_ctrl_c_stops_between_operators(counting, monkeypatch):
    plain, calls = LocalWorkspace._plain, []

    def pressed(self, *given):
        calls.append(given)
        if len(calls) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return plain(self, *given)

    monkeypatch.setattr(LocalWorkspace, "_plain", pressed)
    stop = counting.cont()
    assert (stop.reason, stop.position, counting.fetch("a").array[0]) == ("interrupted", 5, 4)
    assert counting.cont().reason == "end" and counting.fetch("a").array[0] == 40


def test_ctrl_c_in_the_front_is_raised_when_all_is_taken_in(counting, monkeypatch):
    settle = counting._timeline.settle

    def pressed():
        monkeypatch.undo()
        os.kill(os.getpid(), signal.SIGINT)
        settle()

    monkeypatch.setattr(counting._timeline, "settle", pressed)
    with pytest.raises(KeyboardInterrupt):
        counting.step(4)
    assert counting.position == 4 and counting.journalled == 4
    assert counting.cont().reason == "end" and counting.fetch("a").array[0] == 40
