"""The loops: command files, the prompt in process, completion, interruption, history."""

import io
import os
import signal
import stat
import subprocess
import sys

import numpy as np
import pytest
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from c2step.errors import ExitStatus, WorkerDied
from c2step.repl.completion import complete, prompt_completer
from c2step.repl.environment import Environment
from c2step.repl.loop import interact, make_interpreter, prompt_reader, run_commands, run_file
from fake_session import FakeSession

NET = [
    ("Relu", ("x",), ("conv1",)),
    ("Copy", ("conv1",), ("a b",)),
    ("Copy", ("a b",), ("line\nbreak",)),
    ("Fail", ("conv1",), ("bad",)),
    ("Relu", ("conv1",), ("17",)),
]
FEEDS = {"x": np.array([-1, 2], np.float32)}


@pytest.fixture
def session():
    return FakeSession(NET, FEEDS)


def environment(text="", tmp_path=None, tty=False):
    folder = str(tmp_path / "state" / "c2step") if tmp_path else ""
    return Environment(io.StringIO(text), io.StringIO(), io.StringIO(), tty, False, folder, folder)


def test_commands_are_echoed_and_answered(session):
    env = environment()
    assert run_commands(session, "step; # a comment\n\n  where", env) is ExitStatus.OK
    assert (
        env.stdout.getvalue()
        == """\
(c2step) step
o  0  Relu  conv1@1  float32 (2,)  min 0 max 2 mean 1 std 1
--> 1 Copy Copy_1  (conv1) -> ("a b")
(c2step) where
iteration 1, 1 of 5 operators done
last: 0 Relu ok
--> 1 Copy Copy_1  (conv1) -> ("a b")
"""
    )
    assert env.stderr.getvalue() == ""


def test_the_first_user_error_ends_a_command_file(session, tmp_path):
    path = tmp_path / "commands"
    path.write_text("step\ninspect cnv1\nstep\n", encoding="utf-8")
    env = environment()
    assert run_file(session, str(path), env) is ExitStatus.USAGE
    assert env.stderr.getvalue() == "error: %s line 2: inspect: no blob cnv1\n  did you mean conv1?\n" % path
    assert session.position == 1


@pytest.mark.parametrize(
    "commands, status",
    [
        ("step 2", ExitStatus.OK),
        ("continue", ExitStatus.OPERATOR),
        ("continue; blobs; inspect conv1", ExitStatus.OPERATOR),
        ("continue; skip; continue", ExitStatus.OK),
        ("continue; skip; compare conv1 x", ExitStatus.DIFFERS),
        ("compare conv1 x; continue", ExitStatus.OPERATOR),
        ("step; quit; nonsense", ExitStatus.OK),
        ("nonsense", ExitStatus.USAGE),
        ("save conv1 /nowhere/x.npy", ExitStatus.CAPTURE),
        ("", ExitStatus.OK),
    ],
)
def test_exit_status_of_a_script(session, commands, status):
    assert run_commands(session, "step; restart; step\n" + commands, environment()) is status


def test_files_that_cannot_be_read(session, tmp_path):
    (tmp_path / "latin").write_bytes(b"step \xff")
    for name in ("nowhere", "latin"):
        env = environment()
        assert run_file(session, str(tmp_path / name), env) is ExitStatus.USAGE
        assert env.stderr.getvalue().startswith("error: cannot read %s" % (tmp_path / name))


def test_without_a_terminal_standard_input_is_the_command_file(session):
    env = environment("step\nwhat\n")
    assert interact(session, env) is ExitStatus.USAGE
    assert "standard input line 2: no command what" in env.stderr.getvalue()


def test_source_runs_a_file_and_never_itself(session, tmp_path):
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.write_text("step; where # here\n", encoding="utf-8")
    outer.write_text("source '%s'\nstep\nsource '%s'\n" % (inner, outer), encoding="utf-8")
    env = environment()
    assert run_commands(session, "source '%s'" % outer, env) is ExitStatus.USAGE
    assert "would run itself" in env.stderr.getvalue()
    echoes = [line for line in env.stdout.getvalue().splitlines() if line.startswith("(c2step)")]
    assert echoes == [
        "(c2step) source '%s'" % outer,
        "(c2step) source '%s'" % inner,
        "(c2step) step",
        "(c2step) where",
        "(c2step) step",
        "(c2step) source '%s'" % outer,
    ]


def test_quit_in_a_sourced_file_ends_the_session(session, tmp_path):
    (tmp_path / "q").write_text("quit\nstep\n", encoding="utf-8")
    assert run_commands(session, "source '%s'; step" % (tmp_path / "q"), environment()) is ExitStatus.OK
    assert session.calls == []


def test_a_worker_that_dies_under_a_command_does_not_end_the_script(session):
    def fetch(name, version=None):
        raise WorkerDied("fetching the outputs of operator 0 ended its process with SIGSEGV")

    session.fetch = fetch
    env = environment()
    assert run_commands(session, "inspect x; where", env) is ExitStatus.DIED
    assert "operator 0 ended its process with SIGSEGV\n(c2step) where" in env.stdout.getvalue()


# -- the prompt ---------------------------------------------------------------------------------


def typed(session, text, tmp_path):
    """Type at the prompt of prompt_toolkit itself; returns what was printed."""
    env = environment(tmp_path=tmp_path, tty=True)
    with create_pipe_input() as keys:
        keys.send_text(text)
        interpreter = make_interpreter(session, env)
        read = prompt_reader(interpreter, input=keys, output=DummyOutput())
        assert interact(session, env, read) is ExitStatus.OK
    return env.stdout.getvalue(), env.stderr.getvalue()


CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"


def test_typing(session, tmp_path):
    said, complained = typed(session, "step\n\nnonsense\nstep 1x" + CTRL_C + "where\n" + CTRL_D, tmp_path)
    assert said.splitlines()[-3:] == [
        "iteration 1, 2 of 5 operators done",
        "last: 1 Copy ok",
        '--> 2 Copy Copy_2  ("a b") -> ("line\\nbreak")',
    ]
    assert complained == "error: no command nonsense\n  did you mean notes?\n"
    assert session.calls == ["step 1", "step 1"]


def test_tab_completes_and_quotes(session, tmp_path):
    said, _ = typed(session, "step 3\ninsp\tco\t\ninspect a\t\ni li\t\nquit\n", tmp_path)
    assert [line for line in said.splitlines() if "@1" in line and not line.startswith("o")] == [
        "conv1@1",
        '"a b"@1',
        '"line\\nbreak"@1',
    ]


def test_history_is_kept_across_sessions_in_a_private_file(session, tmp_path):
    typed(session, "step\nwhere\nquit\n", tmp_path)
    typed(session, UP + UP + UP + "\nquit\n", tmp_path)
    assert session.calls == ["step 1", "step 1"]
    path = tmp_path / "state" / "c2step" / "history"
    assert stat.S_IMODE(os.stat(str(path)).st_mode) == 0o600
    assert "where" in path.read_text(encoding="utf-8")


def test_a_bug_of_ours_does_not_end_the_session(session, tmp_path):
    session.blobs = lambda pattern="": 1 // 0
    said, complained = typed(session, "blobs\nwhere\nquit\n", tmp_path)
    assert "this is a bug in c2step\nTraceback" in complained
    assert "iteration 1" in said


def test_a_place_for_history_that_cannot_be_written(session, tmp_path):
    (tmp_path / "state").write_text("a file, not a folder", encoding="utf-8")
    said, _ = typed(session, "where\nquit\n", tmp_path)
    assert "iteration 1" in said


# -- interruption -------------------------------------------------------------------------------


def interrupting(session, times):
    """Make `continue` get Ctrl-C while it runs."""

    def cont():
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
        return session._stop("interrupted", [])

    session.cont = cont


@pytest.mark.parametrize("times, calls", [(1, ["interrupt"]), (2, ["interrupt", "kill"])])
def test_ctrl_c_stops_between_operators_and_then_the_operator(session, times, calls):
    before = signal.getsignal(signal.SIGINT)
    interrupting(session, times)
    env = environment()
    assert run_commands(session, "continue; step", env) is ExitStatus.INTERRUPTED
    assert session.calls == calls
    assert env.stdout.getvalue() == "(c2step) continue\ninterrupted\n--> 0 Relu Relu_0  (x) -> (conv1)\n"
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_at_the_prompt_ends_the_command_only(session, tmp_path):
    interrupting(session, 1)
    said, _ = typed(session, "continue; step\nstep\nquit\n", tmp_path)
    assert "interrupted" in said
    assert session.calls == ["interrupt", "step 1"]


def test_ctrl_c_during_a_look_is_said(session):
    session.blobs = lambda pattern="": os.kill(os.getpid(), signal.SIGINT) or []
    env = environment()
    assert run_commands(session, "blobs; step", env) is ExitStatus.INTERRUPTED
    assert env.stdout.getvalue() == "(c2step) blobs\nno blob is there yet\ninterrupted\n"


def test_ctrl_c_reaches_the_users_own_python(session):
    env = environment()
    code = "!import os, signal; os.kill(os.getpid(), signal.SIGINT); print('not reached')"
    assert run_commands(session, code + "\nstep", env) is ExitStatus.INTERRUPTED
    assert env.stdout.getvalue().splitlines()[1:] == ["interrupted"]
    assert session.calls == []
    assert run_commands(session, "!session.cont().reason", env) is ExitStatus.OK


def test_ctrl_c_in_our_code_under_the_users_python_does_not_break_it_off(session):
    class Inner:
        __name__ = "c2step.stepper"

    namespace = {"__name__": "c2step.stepper", "os": os, "signal": signal}
    exec("def look():\n    os.kill(os.getpid(), signal.SIGINT)\n    return 'whole'", namespace)
    session.look = namespace["look"]
    env = environment()
    assert run_commands(session, "!session.look()", env) is ExitStatus.INTERRUPTED
    assert session.calls == ["interrupt"]
    assert "'whole'\ninterrupted" in env.stdout.getvalue()


# -- completion ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, completions",
    [
        ("ins", ["inspect "]),
        ("step; whe", ["where "]),
        ("inspect co", ["conv1"]),
        ("inspect conv1 co", ["conv1"]),
        ("inspect 'a", ['"a b"']),
        ("inspect l", ['"line\\nbreak"']),
        ("inspect NE", ['"line\\nbreak"']),
        ("inspect conv1@", ["conv1@1"]),
        ("inspect 'a b'@", ['"a b"@1']),
        ("until Re", ["Relu", "Relu_0", "Relu_4"]),
        ("until blob", ["blob:17"]),
        ("until 'a", ['"a b"']),
        ("break Co", ["Copy", "Copy_1", "Copy_2"]),
        ("wrap Co", ["Copy"]),
        ("compare conv1 conv1 --", ["--rtol", "--atol"]),
        ("compare conv1 --rtol 1 co", ["conv1"]),
        ("wrap Copy --save ", None),
        ("help whe", ["where"]),
        ("info w", ["wraps"]),
        ("list al", ["all"]),
        ("delete ", ["1"]),
        ("step ", []),
        ("where x", []),
        ("nonsense x", []),
        ("compare --nonsense x", []),
        ("!impo", []),
        ("save a", ["all", '"a b"']),
    ],
)
def test_completion(session, line, completions):
    session.set_break("Copy")
    session.step(3)
    found = complete(line, make_interpreter(session, environment()))
    if completions is not None:
        assert [c.text for c in found] == completions


def test_completion_replaces_what_was_typed_quotes_and_all(session):
    interpreter = make_interpreter(session, environment())
    assert complete("step; inspect 'a", interpreter)[0] == ('"a b"', 2)
    document = Document("inspect 'a")
    (found,) = prompt_completer(interpreter).get_completions(document, None)
    assert (found.text, found.start_position) == ('"a b"', -2)


def test_completion_of_files(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "golden dir").mkdir()
    (tmp_path / "golden.npy").write_bytes(b"")
    interpreter = make_interpreter(session, environment())
    assert [c.text for c in complete("feed x gol", interpreter)] == ['"golden dir/"', "golden.npy"]
    assert [c.text for c in complete("compare x gol", interpreter)] == ['"golden dir/"', "golden.npy"]
    assert [c.text for c in complete("save conv1 ./golden.", interpreter)] == ["./golden.npy"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [c.text for c in complete("source ~/golden.", interpreter)] == ["~/golden.npy"]


# -- the environment ----------------------------------------------------------------------------


def test_folders_follow_xdg(monkeypatch):
    env = Environment.from_process({"XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "relative", "TERM": "xterm"})
    assert (env.state_dir, env.history_file) == ("/s/c2step", "/s/c2step/history")
    assert env.config_dir == os.path.join(os.path.expanduser("~"), ".config", "c2step")
    assert not env.colour


def test_colour_only_where_wanted():
    env = Environment(io.StringIO(), io.StringIO(), io.StringIO(), True, True)
    env.show("--> end of the net")
    env.show("")
    env.complain("no blob x")
    assert env.stdout.getvalue() == "\033[1m--> end of the net\033[0m\n"
    assert env.stderr.getvalue() == "\033[31merror: no blob x\033[0m\n"


def test_prompt_toolkit_is_loaded_for_a_person_only():
    code = (
        "import sys, io; import c2step.repl.loop as loop; from c2step.repl.environment import Environment;"
        "sys.path.insert(0, %r); from fake_session import FakeSession; import numpy;"
        "env = Environment(io.StringIO('step'), io.StringIO(), io.StringIO());"
        "s = FakeSession([('Relu', ('x',), ('y',))], {'x': numpy.ones(1)}); loop.interact(s, env);"
        "assert 'Relu' in env.stdout.getvalue();"
        "print(sorted(m for m in ('prompt_toolkit', 'caffe2', 'torch', 'onnx') if m in sys.modules))"
    ) % os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    assert subprocess.check_output([sys.executable, "-c", code], cwd=root).decode().strip() == "[]"
