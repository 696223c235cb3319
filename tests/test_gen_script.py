"""The script that a session leaves does the same again."""

import io
import os
import subprocess
import sys

import numpy as np

import c2step
from c2step.cli import main
from c2step.errors import ExitStatus
from c2step.observing import observed
from c2step.repl.environment import Environment
from c2step.repl.loop import run_commands
from c2step.scripting import ScriptWriter, opening
from oracle import same_bytes
from shared_material import CHECKOUT


def run(path, tail=""):
    """Run a script in a process of its own; what it prints."""
    with open(path) as file:
        code = compile_with(file.read(), path, tail)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          cwd="/", env=dict(os.environ, PYTHONPATH=CHECKOUT), universal_newlines=True,
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
