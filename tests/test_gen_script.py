"""The script that a session leaves does the same again."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest

import c2step
import c2step.stepper
from c2step.cli import main
from c2step.errors import ExitStatus
from c2step.observing import observed
from c2step.repl.environment import Environment
from c2step.repl.loop import run_commands
from c2step.scripting import ScriptWriter, opening
from oracle import same_bytes
from shared_material import CHECKOUT


def run(path, tail="", folder="/"):
    """Run a script in a process of its own; what it prints."""
    with open(path) as file:
        code = compile_with(file.read(), path, tail)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          cwd=folder, env=dict(os.environ, PYTHONPATH=CHECKOUT), universal_newlines=True,
                          timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def compile_with(text, path, tail):
    return "__file__ = %r\n%s" % (path, text.replace("session.close()", tail + "\nsession.close()"))


def test_the_script_of_a_prompt_does_the_same(models, tmp_path):
    folder = os.path.join(models, "digits_cnn")
    given = {
        "model": os.path.join(folder, "model.onnx"),
        "inputs": [os.path.join(folder, "input.npz")],
        "timeout": 60.0,
    }
    (tmp_path / "mine.py").write_text("def halve(call):\n    return {n: v / 2 for n, v in call.outputs.items()}\n")
    path = str(tmp_path / "script.py")
    commands = """step 3
inspect conv1
break Conv
continue
patch relu1 = relu1 * 2
back 2
edit bn2 epsilon=0.1
wrap Relu --call %s:halve
tbreak Softmax
delete 1
continue
catch error
skip
run""" % (tmp_path / "mine.py")
    with c2step.open(in_process=True, **given) as plain:
        writer = ScriptWriter(path, opening(dict(given, in_process=True)))
        session = observed(plain, [writer])
        environment = Environment(io.StringIO(), io.StringIO(), io.StringIO())
        status = run_commands(session, commands, environment)
        writer.close()
        assert status is ExitStatus.OK, environment.stdout.getvalue() + environment.stderr.getvalue()
        names = plain.model.predict_net.blobs()
        truth = {name: plain.fetch(name).array for name in names if plain.version(name)}
        place = (plain.position, plain.iteration, len(plain.steps))
        summary = plain.summary("conv1", 1)
    with open(path) as file:
        text = file.read()
    assert "session.step(3)" in text and "session.edit(" in text and "load_hook(" in text
    tail = "print(session.position, session.iteration, len(session.steps))\n" + (
        "np.savez(%r, **{n: session.fetch(n).array for n in %r})" % (str(tmp_path / "out.npz"), list(truth))
    )
    said = run(path, tail).splitlines()
    assert said[0] == "conv1 %r" % (summary,)
    assert said[-1] == "%d %d %d" % place
    with np.load(str(tmp_path / "out.npz")) as found:
        assert all(same_bytes(found[name], value) for name, value in truth.items())


def test_the_command_line_writes_it(models, tmp_path, monkeypatch):
    monkeypatch.chdir(models)
    path = str(tmp_path / "script.py")
    words = ["digits_native", "--input", "digits_native/input.npz", "--gen-script", path]
    assert main(words + ["-c", "continue; back 3; where; !session.step(2)"]) == ExitStatus.OK
    assert run(path, "print(session.position, session.net_size)").split()[0] == str(int(run_length(models)) - 1)


def run_length(models):
    with c2step.open(os.path.join(models, "digits_native"), in_process=True) as session:
        return session.net_size


def test_what_is_compared_on_the_way_is_not_the_users_doing(models, tmp_path):
    folder = os.path.join(models, "digits_cnn")
    path = str(tmp_path / "script.py")
    golden = os.path.join(folder, "reference.npz")
    words = [os.path.join(folder, "model.onnx"), "--input", os.path.join(folder, "input.npz"), "--gen-script", path]
    main(words + ["-c", "step 2; reference %s; blame; step" % golden])
    with open(path) as file:
        lines = [line for line in file.read().splitlines() if line.startswith("session.")]
    assert [line for line in lines if "step" in line] == ["session.step(2)", "session.step(1)"]
    assert len(lines) < 8


def test_a_place_that_cannot_be_written_is_said(models, tmp_path, capsys):
    assert main(
        [os.path.join(models, "digits_native"), "--gen-script", str(tmp_path / "no" / "s.py"), "-c", "step"]
    ) == (ExitStatus.CAPTURE)
    assert "cannot write" in capsys.readouterr().err


def session_of(words, commands, path, monkeypatch, folder):
    """Run commands in a folder with a script of them; what the session came to."""
    seen = {}
    close = c2step.stepper.Session.close

    def closing(session):
        seen["place"] = (session.position, session.iteration, len(session.steps))  # the outermost closes last
        seen["points"] = [str(point) + repr((point.ignore, point.commands)) for point in session.breakpoints]
        close(session)

    os.makedirs(str(folder))
    monkeypatch.chdir(folder)
    with monkeypatch.context() as patched:
        patched.setattr(c2step.stepper.Session, "close", closing)
        status = main(words + ["--gen-script", path, "-c", commands])
    return seen, status


SHOWN = """
print((session.position, session.iteration, len(session.steps)))
print([str(point) + repr((point.ignore, point.commands)) for point in session.breakpoints])
"""


@pytest.mark.parametrize("commands", [
    "break Relu; disable 1; break MaxPool; ignore 2 1; tbreak prob; continue; save conv1 X",
    "break Relu; disable; enable 1; continue; save conv1[0, :2, ...] part.npy; save conv1@1; save conv1; save all out",
    "break 'conv*'; commands 1\ninspect conv1\ncontinue\nend\ncontinue",
    "until 2; reference GOLDEN; break if fail or max_abs > 0; ignore $ 1; run; try conv2 pads=0,1; display fc",
    "wrap Relu --check range:-1:1; continue; delete; run; info wraps; write-net net.pb; history conv1",
    "watch relu1; break if max > 1; continue; continue; rcontinue; uncatch crash; goto 5; skip; alias x = step; x",
])  # fmt: skip
def test_the_script_comes_to_the_same_place_breakpoints_and_files(models, tmp_path, monkeypatch, commands):
    folder = os.path.join(models, "digits_cnn")
    words = [os.path.join(folder, "model.onnx"), "--input", os.path.join(folder, "input.npz")]
    path = str(tmp_path / "script.py")
    commands = commands.replace("GOLDEN", os.path.join(folder, "reference.npz"))
    seen, status = session_of(words, commands, path, monkeypatch, tmp_path / "prompt")
    assert status in (ExitStatus.OK, ExitStatus.DIFFERS, ExitStatus.OPERATOR)
    os.makedirs(str(tmp_path / "script"))
    said = run(path, SHOWN, str(tmp_path / "script")).splitlines()
    assert said[-2] == str(seen["place"])
    assert said[-1] == str(seen["points"])
    files = sorted(found(tmp_path / "prompt"))
    assert files == sorted(found(tmp_path / "script"))
    for name in files:
        if name.endswith((".npy", "X", ".pb")):
            with open(str(tmp_path / "prompt" / name), "rb") as one, open(str(tmp_path / "script" / name), "rb") as two:
                assert one.read() == two.read(), name


def found(folder):
    for parent, _, names in os.walk(str(folder)):
        for name in names:
            yield os.path.relpath(os.path.join(parent, name), str(folder))


def test_what_no_verb_stands_for_is_a_comment(models, tmp_path, monkeypatch):
    folder = os.path.join(models, "digits_cnn")
    words = [os.path.join(folder, "model.onnx"), "--input", os.path.join(folder, "input.npz")]
    path = str(tmp_path / "script.py")
    golden = os.path.join(folder, "reference.npz")
    typed = ["try conv2 pads=0,1", "compare conv1 %s" % golden, "display conv1", "alias x = step", "history conv1",
             "repro conv1 -o cut", "stats > figures"]  # fmt: skip
    session_of(words, "step 3; reference %s; %s" % (golden, "; ".join(typed)), path, monkeypatch, tmp_path / "prompt")
    with open(path) as file:
        lines = file.read().splitlines()
    for command in typed:
        assert "# at the prompt alone: " + command in lines or command.split()[0] in ("compare", "display"), command


def test_a_run_that_was_cut_short_is_so_many_steps(models, tmp_path, monkeypatch):
    folder = os.path.join(models, "digits_cnn")
    words = [os.path.join(folder, "model.onnx"), "--input", os.path.join(folder, "input.npz")]
    path = str(tmp_path / "script.py")
    with c2step.open(os.path.join(folder, "model.onnx"), words[2:], in_process=True) as plain:
        writer = ScriptWriter(path, opening({"model": words[0], "inputs": words[2:]}))
        session, run_range = observed(plain, [writer]), plain.workspace.run

        def interrupted(request, on_events):
            run_range(dict(request, last=5), on_events)
            return "stopped"

        session.run()
        plain.workspace.run = interrupted
        assert session.run().reason == "interrupted"
        writer.close()
        assert (plain.position, plain.iteration, len(plain.steps)) == (5, 2, 16)
        assert run(path, SHOWN).splitlines()[-2] == str((5, 2, 16))
    full, status = session_of(words + ["--max-bytes", "12k"], "run", path, monkeypatch, tmp_path / "full")
    assert status == ExitStatus.CAPTURE
    assert run(path, SHOWN).splitlines()[-2] == str(full["place"])


def test_an_operator_that_was_entered_is_one_step(models, tmp_path, monkeypatch):
    folder = os.path.join(models, "digits_lstm")
    words = [os.path.join(folder, "model.onnx"), "--input", os.path.join(folder, "input.npz")]
    path = str(tmp_path / "script.py")
    seen, status = session_of(words, "step 3; step 4; finish; step", path, monkeypatch, tmp_path / "prompt")
    assert status == ExitStatus.OK
    with open(path) as file:
        lines = [line for line in file.read().splitlines() if line.startswith(("session.", "#", "print"))]
    assert lines == ["session.step(3)", "# at the prompt alone: step 4", "session.step()", "session.step(1)",
                     "session.close()"]  # fmt: skip
    assert run(path, SHOWN).splitlines()[-2] == str(seen["place"])
