"""A session whose front was killed stands again where it stood: same position, same blobs, same way on."""

import glob
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pexpect
import pytest

import c2step
from c2step.cli import main
from c2step.errors import CaptureError, ExitStatus
from c2step.recording import Keep
from c2step.resuming import Checkpoints, last_left, read_saved
from oracle import same_bytes
from shared_material import CHECKOUT


def training(shared):
    folder = os.path.join(shared, "models", "c2_trained_digits")
    nets = {"init_net": "train_init_net.pb", "predict_net": "train_net.pb"}
    files = {role: os.path.join(folder, name) for role, name in nets.items()}
    return dict(files, model=None, inputs=[os.path.join(folder, "train_batch.npz")], in_process=True)


def state(session):
    """Where a session stands, and every blob version that is live."""
    names = sorted(set(session.model.predict_net.blobs()) | session.history.initial)
    blobs = {name: (session.version(name), session.fetch(name).array) for name in names}
    letters = [session.status(index) for index in range(session.net_size)]
    return (session.position, session.iteration, len(session.steps), letters), blobs


def same(left, right):
    """Whether two states are the same, bit for bit."""
    assert left[0] == right[0]
    assert set(left[1]) == set(right[1])
    for name, (version, array) in left[1].items():
        other = right[1][name]
        assert version == other[0], name
        assert (array is None and other[1] is None) or same_bytes(array, other[1]), name
    return True


def killed(directory):
    """As if the process that left a session were gone."""
    path = os.path.join(directory, "session.json")
    with open(path) as file:
        left = json.load(file)
    left["pid"] = 1 << 22  # beyond what Linux gives
    with open(path, "w") as file:
        json.dump(left, file)


def left_at(shared, tmp_path, use, checkpoint=True):
    """A session that `use` has used, its checkpoint, and its state."""
    directory = str(tmp_path / "kept")
    session = c2step.open(keep=Keep(directory), **training(shared))
    checkpoints = Checkpoints(session, {"runtime": None, "timeout": None, "max_bytes": None})
    checkpoints.write()
    use(session)
    if checkpoint:
        checkpoints.write()
    return directory, session


@pytest.mark.parametrize("checkpoint", [True, False])
def test_everything_is_taken_over_and_goes_on_the_same(shared, tmp_path, checkpoint):
    names = {op.type: op.outputs[0] for op in reversed(c2step_net(shared))}

    def use(session):
        session.run(2)
        session.back(60)
        session.step(3)
        if checkpoint:
            session.skip(1)
            session.feed("data", session.fetch("data").array * np.float32(0.5))
            session.patch(names["Conv"], session.fetch(names["Conv"]).array + np.float32(1), "more")
            session.patch(names["FC"], 2, "two", (0, slice(1, None, 2)))
            session.edit("Dropout", ("arg", "ratio", 0.25))
            session.set_break("Relu", condition="max > 1")
            session.watch(names["FC"])
            session.breakpoints[0].ignore = 3
            session.breakpoints[0].commands = ["where"]
        session.step(5)

    directory, session = left_at(shared, tmp_path, use, checkpoint)
    killed(directory)
    with session, c2step.resume(directory, in_process=True) as again:
        assert same(state(session), state(again))
        assert [vars(p).keys() for p in session.breakpoints] == [vars(p).keys() for p in again.breakpoints]
        assert [str(p) for p in session.breakpoints] == [str(p) for p in again.breakpoints]
        assert [(p.ignore, p.commands) for p in session.breakpoints] == [
            (p.ignore, p.commands) for p in again.breakpoints
        ]
        assert [str(p) for p in session.changes.patches] == [str(p) for p in again.changes.patches]
        assert session.changes.edits == again.changes.edits and session.dirty_operators() == again.dirty_operators()
        for verb in (lambda s: s.back(9), lambda s: s.goto("20")):
            assert verb(session).reason == verb(again).reason
            assert same(state(session), state(again))


def c2step_net(shared):
    with c2step.open(**training(shared)) as session:
        return session.model.predict_net.operators


def test_a_session_that_was_resumed_is_left_again(shared, tmp_path):
    directory, session = left_at(shared, tmp_path, lambda s: s.step(10))
    session.close()
    killed(directory)
    first = c2step.resume(directory, in_process=True)
    Checkpoints(first, {}).write()
    first.step(10)
    truth = state(first)
    first.close()
    with open(os.path.join(directory, "journal.jsonl"), "a") as file:
        file.write('{"index": 20, "type": "Con')  # cut short in the middle of a line
    killed(directory)
    with c2step.resume(directory, in_process=True) as second:
        assert same(state(second), truth)
        second.step(3)
    assert [row["index"] for row in c2step.open_capture(directory).rows] == list(range(23))


SCRIPT = """
import os, signal, sys
import c2step
from c2step.recording import Keep
from c2step.resuming import Checkpoints
session = c2step.open(sys.argv[1], [sys.argv[2]], keep=Keep(sys.argv[3]))
Checkpoints(session, {"runtime": None, "timeout": None, "max_bytes": None}).write()
session.on_step = lambda step: step.index == 3 and os.kill(os.getpid(), signal.SIGKILL)
session.cont()
"""


def test_sigkill_in_the_middle_of_a_run(models, tmp_path):
    folder = os.path.join(models, "digits_cnn")
    words = [os.path.join(folder, "model.onnx"), os.path.join(folder, "input.npz"), str(tmp_path / "kept")]
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT, *words], cwd=CHECKOUT, timeout=60)
    assert done.returncode == -signal.SIGKILL
    with c2step.open(words[0], [words[1]], in_process=True) as truth, c2step.resume(words[2]) as session:
        assert session.position >= 4  # what had been journalled by then
        truth.step(session.position)
        assert same(state(session), state(truth))
        session.goto("4"), truth.goto("4")
        assert same(state(session), state(truth))
        assert session.cont().reason == truth.cont().reason == "end"
        assert same(state(session), state(truth))


def test_a_killed_prompt_and_the_command_line(models, tmp_path, capsys, monkeypatch):
    folder = os.path.join(models, "digits_native")
    command = [sys.executable, "-W", "ignore", "-m", "c2step", folder, "--input", os.path.join(folder, "input.npz")]
    environment = dict(os.environ, PYTHONPATH=CHECKOUT, TMPDIR=str(tmp_path))
    prompt = subprocess.Popen(command + ["-x", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=CHECKOUT,
                              stderr=subprocess.DEVNULL, env=environment, universal_newlines=True)  # fmt: skip
    words = ["step 4", "break 6", "break Softmax", "disable 2", "break MaxPool", "ignore 3 2", "commands 1", "notes"]
    words += ["end", "back", "display flat", "display conv1[0, 0]", "inspect data", "where"]
    prompt.stdin.write("\n".join(words) + "\n")
    prompt.stdin.flush()
    for line in prompt.stdout:
        if line.startswith("iteration"):
            break
    prompt.send_signal(signal.SIGKILL)
    prompt.wait()
    prompt.stdin.close()
    prompt.stdout.close()
    assert line == "iteration 1, 3 of %d operators done\n" % length(folder)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    (kept,) = glob.glob(str(tmp_path / "c2step-capture-*"))
    assert last_left() == kept
    assert main(["--resume", "-c", "where; info breakpoints; info display; step; where"]) == ExitStatus.OK
    said = capsys.readouterr()
    assert "iteration 1, 3 of" in said.out and "iteration 1, 4 of" in said.out
    assert re.search("resumed from %s: %s.*, left at 2" % (kept, folder), said.err)
    assert "in iteration 1 before operator 3 " in said.err and "--resume %s" % kept in said.err
    assert re.search(r"^1 +6 +", said.out, re.MULTILINE) and re.search(r"2: conv1\[0, 0\]|2  conv1\[0, 0\]", said.out)
    for _ in range(2):  # looking at it from a script ends nothing
        with c2step.resume(kept) as session:
            assert session.position == 4
            assert [(p.enabled, p.ignore, p.commands) for p in session.breakpoints] == [
                (True, 0, ["notes"]), (False, 0, []), (True, 2, [])]  # fmt: skip
        assert main(["--resume", kept, "-c", "info display"]) == ExitStatus.OK
        assert "conv1[0, 0]" in capsys.readouterr().out
    killed(kept)
    screen = pexpect.spawn(sys.executable, ["-W", "ignore", "-m", "c2step", "--resume"], cwd=CHECKOUT, env=environment,
                           timeout=60, dimensions=(40, 200))  # fmt: skip
    screen.expect("c2step\\)")
    screen.sendline("quit")
    screen.expect(pexpect.EOF)
    screen.wait()
    assert not os.path.exists(kept)  # it was a temporary one, and a person has ended it
    assert main(["--resume"]) == ExitStatus.CAPTURE
    assert "no session was left" in capsys.readouterr().err


def test_a_session_of_somebody_else_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "c2step-capture-theirs"
    folder.mkdir()
    (folder / "session.json").write_text('{"pid": %d}' % (1 << 22))
    assert last_left() == str(folder)
    monkeypatch.setattr("os.getuid", lambda: os.stat(str(folder)).st_uid + 1)
    with pytest.raises(CaptureError, match="no session was left"):
        last_left()


def test_what_is_not_taken_over_is_said_once(models, tmp_path, capsys):
    folder, kept = os.path.join(models, "digits_lstm"), str(tmp_path / "kept")
    words = [os.path.join(folder, "model.onnx"), "--input", os.path.join(folder, "input.npz"), "--keep", kept]
    words += ["--against", os.path.join(folder, "reference.npz")]
    assert main([*words, "-c", "until RecurrentNetwork; step 3"]) == ExitStatus.OK
    killed(kept)
    capsys.readouterr()
    assert main(["--resume", kept, "-c", "where"]) == ExitStatus.OK
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "not taken over" in line]
    assert "the place inside operator 3 RecurrentNetwork" in line and "the reference %s" % words[-1] in line
    assert "--resume" not in line


def length(folder):
    with c2step.open(folder, in_process=True) as session:
        return session.net_size


def test_what_cannot_be_resumed_is_said(models, tmp_path, capsys):
    with pytest.raises(CaptureError, match=r"session\.json cannot be read"):
        read_saved(str(tmp_path))
    folder = os.path.join(models, "digits_cnn")
    with open(os.path.join(folder, "model.onnx"), "rb") as file:
        data = file.read()
    (tmp_path / "model.onnx").write_bytes(data)
    kept = str(tmp_path / "kept")
    with c2step.open(
        str(tmp_path / "model.onnx"), [os.path.join(folder, "input.npz")], keep=Keep(kept), in_process=True
    ) as s:
        Checkpoints(s, {}).write()
        path = os.path.join(kept, "session.json")
        with open(path) as file:
            left = json.load(file)
        with open(path, "w") as file:
            json.dump(dict(left, pid=os.getppid()), file)
        with pytest.raises(CaptureError, match="still runs"):
            read_saved(kept)
    killed(kept)
    (tmp_path / "model.onnx").write_bytes(data + b"\x1a\x00")  # one more empty field: another file, the same model
    with pytest.raises(CaptureError, match="not the file that it was"):
        c2step.resume(kept, in_process=True)
    assert main(["some.onnx", "--resume", kept]) == ExitStatus.USAGE
    assert "leave out the model" in capsys.readouterr().err
