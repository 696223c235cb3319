"""Captures that are in use, damaged, moved or on a full disk, and what a condition sees in the past.

The truth is Caffe2 run anew, and numpy.
"""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import c2step
from c2step.errors import C2StepError, CaptureError
from c2step.leftovers import runs, scratch_folder
from c2step.recording import Keep
from c2step.resuming import Checkpoints
from oracle import same_bytes
from small_nets import run_prefix, written
from test_resume import killed

X = np.array([-1, 0.5, 0.86], np.float32)
CHAIN = [
    ("Relu", ["x"], ["a"], {}),
    ("Scale", ["a"], ["b"], {"scale": 2.0}),
    ("Scale", ["x"], ["x"], {"scale": 3.0}),
    ("Add", ["b", "x"], ["c"], {}),
    ("Scale", ["c"], ["c"], {"scale": 0.5}),
    ("Sigmoid", ["c"], ["d"], {}),
]


@pytest.fixture
def kept(tmp_path):
    """A session that keeps its capture, and its checkpoints."""
    net, directory = written(CHAIN, ["x"], tmp_path), str(tmp_path / "kept")
    session = c2step.open(predict_net=net, inputs={"x": X}, in_process=True, keep=Keep(directory))
    checkpoints = Checkpoints(session, {"runtime": None, "timeout": None})
    checkpoints.write()
    yield session, checkpoints, directory
    session.close()


def left(kept):
    """The capture of that session, as if its process were gone."""
    session, checkpoints, directory = kept
    checkpoints.write()
    session.close()
    killed(directory)
    return directory


def test_a_capture_that_another_process_writes_is_not_taken(kept, tmp_path):
    session, _, directory = kept
    session.step(4)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    state = os.path.join(directory, "session.json")
    with open(state) as file:
        left = dict(json.load(file), pid=other.pid)
    with open(state, "w") as file:
        json.dump(left, file)
    again = c2step.open(predict_net=session.model.path, inputs={"x": X + 1}, in_process=True, keep=Keep(directory))
    with again, pytest.raises(CaptureError, match="still runs, as process %d" % other.pid):
        again.step()
    session.back(3)
    assert same_bytes(session.fetch("x").array, X)
    other.communicate(b"\n")
    session.close()
    with c2step.open(predict_net=session.model.path, inputs={"x": X + 1}, in_process=True, keep=Keep(directory)) as new:
        new.step()
        assert sorted(name for name in os.listdir(directory) if "before" in name or "kept" in name) == []
        assert not os.path.exists(state)


def test_an_input_that_was_patched_is_as_it_was_after_coming_back(kept):
    session, _, _ = kept
    session.patch("x", np.ones(3, np.float32))
    session.step(2)
    with c2step.resume(left(kept), in_process=True) as again:
        again.unpatch("x")
        again.goto("0")
        assert same_bytes(again.fetch("x").array, X)
        again.cont()
        assert same_bytes(again.fetch("d").array, run_prefix(CHAIN, {"x": X}, 6)["d"])


def test_an_input_is_fed_again_where_no_copy_was_kept(kept):
    session, checkpoints, directory = kept
    session.patch("x", np.ones(3, np.float32))
    checkpoints.write()
    path = os.path.join(directory, "session.json")
    left(kept)
    with open(path) as file:
        state = json.load(file)
    state["fed"] = [row for row in state["fed"] if row[1]]
    with open(path, "w") as file:
        json.dump(state, file)
    with c2step.resume(directory, in_process=True) as again:
        again.unpatch("x")
        assert same_bytes(again.fetch("x").array, X)


def test_going_back_a_condition_sees_the_values_of_then(kept):
    session, _, _ = kept
    session.step(6)
    session.set_break("*", condition="x.max > 2")
    places = []
    while session.position:
        stop = session.rcontinue()
        places.append((stop.reason, stop.position))
        if stop.reason == "start":
            break
    after = [i + 1 for i in range(5) if run_prefix(CHAIN, {"x": X}, i + 1)["x"].max() > 2]
    assert places == [("breakpoint", place) for place in reversed(after)] + [("start", 0)]


def test_a_patch_that_cannot_be_written_is_none(kept, monkeypatch):
    session, _, _ = kept
    session.step(1)
    session.patch("a", np.float32([4, 5, 6]))

    def full(path, blob):
        raise CaptureError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("c2step.recording.write_blob", full)
        with pytest.raises(CaptureError):
            session.patch("a", np.full(3, 9, np.float32))
        session.step(1)
    session.goto("0")
    session.cont()
    truth = run_prefix(CHAIN, {"x": X}, 6, [(0, "a", np.float32([4, 5, 6]))])
    assert all(same_bytes(session.fetch(name).array, truth[name]) for name in "abcd")


def test_a_state_that_cannot_be_written_is_said_once_and_ends_no_verb(kept, monkeypatch):
    session, checkpoints, directory = kept
    os.mkdir(os.path.join(directory, "session.json.new"))
    session.step(1)
    checkpoints.did("back", (), {}, None)
    with pytest.raises(CaptureError, match=r"cannot write .*session\.json"):
        checkpoints.remember({})
    checkpoints.remember({})
    os.rmdir(os.path.join(directory, "session.json.new"))
    checkpoints.remember({})
    with c2step.resume(left(kept), in_process=True) as again:
        assert again.position == 1


def cut(path):
    open(path, "w").close()


def garbage(path):
    with open(path, "rb") as file:
        lines = file.readlines()
    lines[1] = b"x" * (len(lines[1]) - 1) + b"\n"
    with open(path, "wb") as file:
        file.writelines(lines)


def rewritten(**fields):
    def change(path):
        with open(path) as file:
            rows = [json.loads(line) for line in file]
        for name, value in fields.items():
            rows[1]["padding"] = " " * 900
            rows[1].pop(name) if value is None else rows[1].update({name: value})
        with open(path, "w") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))

    return change


@pytest.mark.parametrize(
    "damage, said",
    [
        (cut, "cut short"),
        (os.remove, "journal.jsonl cannot be read"),
        (garbage, "line 2 is damaged"),
        (rewritten(outputs=None), "line 2 is damaged"),
        (rewritten(index=99), "line 2 is damaged.*no operator 99"),
    ],
)
def test_a_damaged_journal_is_said(kept, damage, said):
    kept[0].step(4)
    directory = left(kept)
    damage(os.path.join(directory, "journal.jsonl"))
    with pytest.raises(CaptureError, match=said):
        c2step.resume(directory, in_process=True).close()


def test_a_state_without_a_key_is_said(kept):
    path = os.path.join(left(kept), "session.json")
    with open(path) as file:
        whole = json.load(file)
    for key in whole:
        with open(path, "w") as file:
            json.dump({name: value for name, value in whole.items() if name not in (key, "prompt")}, file)
        if key != "prompt":
            with pytest.raises(CaptureError, match="is damaged"):
                c2step.resume(os.path.dirname(path), in_process=True).close()


def test_a_capture_may_be_moved(kept, tmp_path):
    session, _, directory = kept
    session.step(2)
    session.patch("a", np.ones(3, np.float32))
    session.step(2)
    left(kept)
    moved = str(tmp_path / "moved")
    shutil.move(directory, moved)
    with c2step.resume(moved, in_process=True) as again:
        again.goto("1")
        again.cont()
        truth = run_prefix(CHAIN, {"x": X}, 6, [(0, "a", np.ones(3, np.float32))])
        assert same_bytes(again.fetch("d").array, truth["d"])


def test_limits_and_failed_operators_are_taken_over(tmp_path):
    net = written([("Relu", ["x"], ["a"], {}), ("MatMul", ["a", "a"], ["b"], {})], ["x"], tmp_path)
    directory = str(tmp_path / "kept")
    keep = Keep(directory, max_bytes=1 << 20, on_full="stop")
    session = c2step.open(predict_net=net, inputs={"x": X}, keep=keep, max_memory=4 << 30)
    Checkpoints(session, {"runtime": None, "timeout": None}).write()
    assert session.cont().reason == "failed"
    session.close()
    killed(directory)
    with c2step.resume(directory) as again:
        assert [again.status(0), again.status(1)] == ["o", "F"]
        assert (again.max_memory, again.max_bytes, again.on_full) == (4 << 30, 1 << 20, "stop")


def test_folders_of_killed_processes_go_away(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = scratch_folder("inside")
    gone = os.path.join(str(tmp_path), "c2step-inside-%d-left" % (1 << 22))
    os.mkdir(gone)
    scratch_folder("reference")
    assert os.path.isdir(gone)
    scratch_folder("inside")
    assert os.path.isdir(mine) and not os.path.exists(gone)
    assert runs(os.getpid()) and not runs(1 << 22) and issubclass(CaptureError, C2StepError)


def test_a_damaged_session_does_not_hide_the_others(kept, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name, text in (("bad", "{"), ("odd", "[]"), ("no", '{"pid": "x"}')):
        os.mkdir(str(tmp_path / ("c2step-capture-" + name)))
        (tmp_path / ("c2step-capture-" + name) / "session.json").write_text(text)
    shutil.copytree(left(kept), str(tmp_path / "c2step-capture-good"))
    assert c2step.resuming.last_left() == str(tmp_path / "c2step-capture-good")
