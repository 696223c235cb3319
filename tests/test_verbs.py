"""The debugger's verbs at the prompt and in command files, on real Caffe2; the truth is Caffe2 run anew, and numpy."""

import io
import os
import stat

import numpy as np
import pytest

import c2step
from c2step.cli import main
from c2step.errors import ExitStatus, UsageError
from c2step.recording import Keep
from c2step.repl.environment import Environment
from c2step.repl.loop import interact, make_interpreter, run_commands
from oracle import same_bytes
from small_nets import run_prefix, written

X = np.array([[-1, 0.5, 4], [9, 16, 25]], np.float32)
NET = [
    ("Relu", ["x"], ["r"], {}),
    ("Scale", ["r"], ["s"], {"scale": 10.0}),
    ("Relu", ["s"], ["s"], {}),
    ("Negative", ["s"], ["n"], {}),
    ("Softmax", ["n"], ["p"], {"axis": 1}),
]


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written(NET, ["x"], tmp_path)
    with c2step.open(predict_net=path, inputs={"x": X}, in_process=True) as opened:
        yield opened


def environment(tmp_path, text="", tty=False):
    return Environment(io.StringIO(text), io.StringIO(), io.StringIO(), tty, False, str(tmp_path), str(tmp_path))


@pytest.fixture
def say(session, tmp_path):
    interpreter = make_interpreter(session, environment(tmp_path))

    def say(*lines):
        return "\n".join(result.text for line in lines for result in interpreter.run(line) if result.text)

    yield say
    interpreter.context.close()


def script(session, tmp_path, text):
    env = environment(tmp_path)
    status = run_commands(session, text, env)
    return env.stdout.getvalue(), env.stderr.getvalue(), status


def truth(count=5, operators=NET):
    return run_prefix(operators, {"x": X}, count)


def golden(path="golden.npz", **others):
    """A file with the last write of each blob, some of them otherwise."""
    np.savez(path, **dict({name: value for name, value in truth().items() if name != "x"}, **others))
    return path


# -- stopping ---------------------------------------------------------------------------------------


def test_a_condition_and_what_is_said_of_it(say):
    assert say("break if max > 200") == "breakpoint 1 at * if max > 200"
    assert "stopped at a breakpoint\nbreakpoint 1: s: max is 250\n--> 2 Relu" in say("continue")
    assert say("info breakpoints").splitlines()[1].split() == ["1", "*", "always", "if", "max", ">", "200", "yes", "1"]
    assert "b" not in say("list").splitlines()[0].split()


def test_breakpoints_are_saved_and_loaded(say, session):
    say(
        "break Scale",
        "tbreak s if max > 3 and shape == (2, 3)",
        "watch n",
        "disable $",
        "ignore 1 2",
        "display r[0, :2]",
    )
    say("commands 2", "where", "inspect r", "end", "break 'R*'", "disable 1")
    before = say("info breakpoints")
    assert say("save-breakpoints points") == "saved 4 breakpoints to points"
    say("delete", "undisplay")
    say("source points")
    after = say("info breakpoints")
    assert [line.split()[1:] for line in after.splitlines()] == [line.split()[1:] for line in before.splitlines()]
    assert "    where" in before and "2 to ignore" in before
    assert "r[0, :2]" in say("info display")


def test_commands_run_at_each_stop(say):
    say("break Relu if max > 0", "commands 1", "print r[0, 0]", "continue", "end")
    said = say("continue")
    assert said.count("stopped at a breakpoint") == 2
    assert said.count("r@1[0, 0]  of (2, 3)") == 2
    assert said.endswith("--> end of the net")
    say("commands 1", "end", "restart")
    assert say("continue").count("stopped at a breakpoint") == 1


def test_commands_of_a_temporary_breakpoint(say):
    say("tbreak s", "commands $; where; end")
    assert "iteration 1, 1 of 5 operators done" in say("continue")


def test_commands_without_an_end(session, tmp_path):
    said, error, status = script(session, tmp_path, "break s\ncommands 1\nwhere\ncontinue")
    assert status is ExitStatus.USAGE and "-c ends among the commands of a breakpoint" in error


def test_the_prompt_asks_for_commands_until_end(session, tmp_path):
    env = environment(tmp_path, tty=True)
    prompts, lines = [], iter(["break s", "commands 1", "where", "end", "continue", "quit"])
    interpreters = []

    def read():
        prompts.append(interpreters[0].prompt if interpreters else "")
        return next(lines)

    original = make_interpreter(session, env)
    interpreters.append(original)
    for line in ("break s", "commands 1", "where", "end"):
        prompts.append(original.prompt)
        list(original.run(line))
    assert prompts == ["(c2step) ", "(c2step) ", "> ", "> "]
    assert interact(session, env, read) is ExitStatus.OK


def test_displays_follow_each_stop(say):
    assert say("display r[0, :2]") == "1: r[0, :2]  no value yet"
    said = say("step")
    assert "1: r@1[0, :2]  float32 (2,)  min 0 max 0.5" in said and "[  0 0.5]" in said
    say("display s", "undisplay 1")
    said = say("step 2")
    assert "1: r" not in said and "2: s@2  float32 (2, 3)" in said
    assert say("undisplay") == "nothing is displayed"


def test_uncatch_goes_on_past_a_failure(tmp_path):
    operators = [NET[0], ("MatMul", ["r", "r"], ["m"], {}), ("Negative", ["r"], ["n"], {})]
    path = written(operators, ["x"], tmp_path)
    with c2step.open(predict_net=path, inputs={"x": X}, in_process=True) as session:
        said, _, status = script(session, tmp_path, "info catch; continue; where")
        assert "caught: crash, error\n" in said and status is ExitStatus.OPERATOR
        said, _, status = script(session, tmp_path, "uncatch error; continue")
        assert "F  1  MatMul" in said and "o  2  Negative" in said and status is ExitStatus.OK


# -- time -------------------------------------------------------------------------------------------


def test_where_values_come_from(say):
    say("continue")
    assert say("who-wrote s") == 's@2: operator 2 Relu "s"\n2 Relu  (s) -> (s)'
    assert say("who-wrote s@1").startswith('s@1: operator 1 Scale "s"')
    assert say("who-wrote x") == "x@0: fed as an input"
    rows = [line.split() for line in say("who-reads s").splitlines()]
    assert [row[:3] + row[-1:] for row in rows] == [["o", "2", "Relu", "s@1"], ["o", "3", "Negative", "s@2"]]
    lines = say("history s").splitlines()
    assert lines[0].split()[0] == "s@1" and lines[1].split()[:2] == [">", "s@2"] and "max 250" in lines[1]
    assert say("goto Scale") == "--> 1 Scale  (r) -> (s)"
    assert say("who-wrote s").startswith("nothing yet; it will be written by\n1 Scale")
    assert "iteration 1, 1 of 5" in say("where")
    say("break Negative", "continue", "continue")
    assert say("rcontinue").endswith("--> 3 Negative  (s) -> (n)")


def test_a_change_without_a_name_is_said(tmp_path):
    operators = [("Negative", ["x"], ["n"], {}), ("Alias", ["n"], ["v"], {}), ("Relu", ["v"], ["v"], {})]
    path = written(operators, ["x"], tmp_path)
    with c2step.open(predict_net=path, inputs={"x": X}, in_process=True) as session:
        said, _, _ = script(session, tmp_path, "step 2; step; history n")
    assert "v shares its storage with n: who changes one changes both" in said
    assert "~  2  Relu  n@2" in said and "(changed without being named)" in said
    assert "(not named: it shares storage with an output)" in said


def test_random_operators_are_marked(tmp_path):
    path = written([("GaussianFill", [], ["g"], {"shape": [2, 3]}), ("Add", ["x", "g"], ["a"], {})], ["x"], tmp_path)
    with c2step.open(predict_net=path, inputs={"x": X}, in_process=True) as session:
        said, _, _ = script(session, tmp_path, "continue; history g; back 2")
    assert ">~  g@1" in said and "operator 0 GaussianFill" in said.split("back 2")[1]
    assert "has no seed: it draws other numbers when it runs again" in said


# -- changing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "assignment, value",
    [
        ("s = 0", np.zeros((2, 3), np.float32)),
        ("s= r * 2 + 1", truth(1)["r"] * 2 + 1),
        ("s =np.minimum(s, 20)", np.minimum(truth(3)["s"], 20)),
        ("s=blob('s', 1)[::-1]", truth(2)["s"][::-1]),
        ("s = x.T.copy()", truth(3)["s"].T),  # x is the value that the blob has
        ("s = reference", np.full((2, 3), 7, np.float32)),
        ("s = golden('s') - 1", np.full((2, 3), 6, np.float32)),
        ("s = value.npy", np.arange(6, dtype=np.float32).reshape(2, 3)),
        ("s = 'values.npz'", np.arange(6, dtype=np.float32).reshape(3, 2)),
        ("s[0, :2] = [7, 8]", np.concatenate([[[7, 8]], truth(3)["s"][:1, 2:]], 1)),
    ],
)
def test_what_a_patch_may_be(say, session, assignment, value):
    np.save("value.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    np.savez("values.npz", s=np.arange(6, dtype=np.float32).reshape(3, 2))
    say("reference " + golden(s=np.full((2, 3), 7, np.float32)))
    say("until Negative")
    said = say("patch " + assignment)
    assert said.startswith("s@3  float32 ")
    found = session.fetch("s").array
    assert same_bytes(found if "[0, :2]" not in assignment else found[:1], np.ascontiguousarray(value, np.float32))
    say("step")
    assert same_bytes(session.fetch("n").array, -found)


@pytest.mark.parametrize(
    "assignment, error",
    [
        ("s", "no ="),
        ("q = 1", "no blob q"),
        ("s =", "has no value"),
        ("s@1 = 0", "takes no version"),
        ("s = nosuch + 1", "NameError"),
        ("s = 1j", "gives complex128 that float32 does not hold"),
        ("s = 1e300", "gives float64 that float32 does not hold"),
        ("s = nosuch.npy", "there is no file nosuch.npy"),
        ("s = 'sub/nosuch.npz'", "there is no file sub/nosuch.npz"),
        ("s = 'a'", "gives text, and the blob is float32"),
        ("s[0, 0] = 'a'", "gives text, and the blob is float32"),
        ("s[9] = 1", "index 9 is out of bounds"),
        ("s = reference", "no reference is loaded"),
    ],
)
def test_what_a_patch_may_not_be(session, tmp_path, assignment, error):
    _, said, status = script(session, tmp_path, "until Negative\npatch " + assignment)
    assert status is ExitStatus.USAGE and error in said and session.version("s") == 2


def test_dirty_operators_and_what_runs_them_again(say, session):
    say("continue")
    said = say("patch r = 1")
    assert said.endswith('4 operators (the first is operator 1 Scale "s") ran on other values: dirty (*)')
    marked = [line.split()[0] for line in say("blobs").splitlines() if line.endswith("  *dirty")]
    assert marked == ["s@2", "n@1", "p@1"] and say("inspect s").startswith("s@2  *dirty\n")
    listed = say("list all")
    assert [line.split()[0] for line in listed.splitlines()[:5]] == ["o", "*", "*", "*", "*"]
    assert listed.endswith("* dirty: it ran on a value, or as an operator, that was changed since")
    say("goto 1", "continue")
    assert "*" not in say("list all")
    assert same_bytes(session.fetch("n").array, np.full((2, 3), -10, np.float32))
    assert say("unpatch r").startswith("taken away: r = 1, after operator 0\n4 operators (the first")


def test_edit_rerun_diff_and_write(say, session):
    say("continue")
    said = say("edit Scale scale=-2.5")
    assert '  scale=-2.5\noperator 1 Scale "s" ran before the edit: dirty (*)\n3 operators' in said
    assert say("edit") == "1  Scale  scale=-2.5"
    assert "s@1  float32 (2, 3)  min -62.5" in say("rerun")
    lines = say("diff-edit").splitlines()
    assert lines[1].split()[:2] == ["before", "s"] and "max 250" in lines[1] and "min -62.5" in lines[2]
    assert lines[3].startswith("after against before: FAIL")
    assert say("write-net edited.pbtxt").startswith("wrote edited.pbtxt, edited:")
    with open("edited.pbtxt") as file:
        assert "f: -2.5" in file.read()
    say("edit 0 type=Negative engine=", "unedit Scale")
    assert say("edit") == "0  Negative  type=Negative engine="
    say("goto 0", "continue")
    assert same_bytes(session.fetch("r").array, -X)


def test_try_ranks_values_by_error(say):
    wrong = golden(p=truth(operators=NET[:4] + [("Softmax", ["n"], ["p"], {"axis": 0})])["p"])
    say("reference " + wrong, "continue")
    lines = say("try axis=2,1,0").splitlines()
    assert lines[0].startswith("4 Softmax") and lines[1].split()[:2] == ["axis=0", "equal"]
    assert lines[-1] == "right: axis=0" and any("axis=1" in line and "FAIL" in line for line in lines[2:4])
    say("reference " + golden(n=truth()["n"] + 1))
    lines = say("try n type=Negative,Relu engine=NONE").splitlines()
    assert len(lines) == 5 and lines[3:] == ["note: engine makes no difference", "no value is right"]
    assert lines[1].split()[:3] == ["type=Negative", "engine=NONE", "FAIL"]


# -- golden values ----------------------------------------------------------------------------------


def test_every_stop_is_compared_with_the_reference(session, tmp_path):
    path = golden(n=truth()["n"] + 1)
    text = "reference %s; step 3; continue; compare n; compare p; reference off; restart; step" % path
    said, _, status = script(session, tmp_path, text)
    assert status is ExitStatus.DIFFERS
    assert "against golden.npz\n   0  r@1  PASS  equal\n   2  s@2  PASS  equal\n--> 3" in said
    assert "!  3  n@1  FAIL  6 of 6 elements differ" in said and "   4  p@1  PASS  equal" in said
    assert "n against golden.npz: FAIL" in said and "p against golden.npz: PASS  equal" in said
    assert "against" not in said.split("restart")[1]


def test_a_condition_against_the_reference(say, session):
    say("reference " + golden(n=truth()["n"] * -1))
    say("break if fail and cos < 0")
    assert "breakpoint 1: n: cos is -1" in say("continue") and session.position == 4


def test_blame_at_the_prompt(session, tmp_path):
    path = golden(n=truth()["n"] + 1)
    text = "break s; reference %s; step 4; patch r = r; blame; info breakpoints; where" % path
    said, _, status = script(session, tmp_path, text.replace("step 4", "continue; continue"))
    assert status is ExitStatus.DIFFERS
    assert "left out: the patch r = r, after operator 0" in said
    assert "ORIGIN: operator 3 Negative -> n" in said and "\nFAIL: " in said
    assert "iteration 1, 0 of 5 operators done" in said
    assert session.changes.patches and [point.hits for point in session.breakpoints] == [2]


def test_against_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = written(NET, ["x"], tmp_path)
    np.savez("x.npz", x=X)
    words = ["debug", "--predict-net", path, "--input", "x.npz", "--against"]
    assert main(words + [golden(), "-c", "continue", "--max-bytes", "1M"]) == ExitStatus.OK
    assert "disk: one run writes about 760 B (5 of 5 blobs have inferred shapes)" in capsys.readouterr().err
    assert main(words + [golden(n=X), "-c", "continue"]) == ExitStatus.DIFFERS
    assert main(words + [golden(n=truth()["n"] + 1), "-c", "continue", "--atol", "2"]) == ExitStatus.OK


def test_a_block_of_commands_is_given_up_or_ended(session, tmp_path):
    env = environment(tmp_path, tty=True)
    lines = iter(["break s", "commands 1", "where", "end", "commands 1", "nonsense", KeyboardInterrupt,
                  "info breakpoints", "commands 1", "inspect r", EOFError, "continue", EOFError, "never"])  # fmt: skip

    def read():
        line = next(lines)
        if isinstance(line, str):
            return line
        raise line

    assert interact(session, env, read) == ExitStatus.OK
    said = env.stdout.getvalue()
    assert said.count("up to end; Ctrl-C leaves them as they were") == 3
    assert "    where\n" in said.split("given up")[1] and "nonsense" not in said.split("given up")[1]
    assert session.breakpoint(1).commands == ["inspect r"] and "r@1\ndtype" in said
    assert next(lines) == "never"


def test_plain_breakpoints_are_named_beside_conditional_ones(say, session):
    say("break Scale", "tbreak 1", "break if max > 20")
    said = say("continue")
    assert "breakpoint 3: r: max is 25; breakpoint 1 at Scale; temporary breakpoint 2 at 1\n--> 1 Scale" in said
    say("step", "delete 3")
    assert "stopped at a breakpoint\nbreakpoint 1 at Scale\n--> 1 Scale" in say("rcontinue")


def test_numbers_of_several_breakpoints_and_displays(say, session):
    say("break 1", "break 2", "watch n", "display r", "display s[0]", "display s")
    assert say("disable 1 3") == "disabled 1\ndisabled 3"
    assert say("delete 1 $ 1") == "deleted breakpoint 1\ndeleted watch 3"
    for line, error in (("delete 2 9", "there is no breakpoint 9"), ("ignore x 1", "x is no breakpoint's number"),
                        ("undisplay n", "n is not displayed"), ("undisplay 7", "7 is not displayed")):  # fmt: skip
        with pytest.raises(UsageError, match=error):
            say(line)
    assert [point.number for point in session.breakpoints] == [2]
    assert say("undisplay s") == "1  r"
    assert say("undisplay 1") == "nothing is displayed"


def test_topics_patches_and_edits_are_listed(say):
    assert [line.split()[1] for line in say("info").splitlines()] == [
        "breakpoints", "wraps", "display", "patches", "edits", "catch"]  # fmt: skip
    say("run", "patch r = 1", "patch x = x * 2", "edit Scale scale=2")
    assert [line.split()[-1] for line in say("info").splitlines()[3:5]] == ["2", "1"]
    assert say("info patches") == "r = 1, after operator 0\nx = x * 2, from the start"
    assert say("info edits") == "1  Scale  scale=2"
    assert "patch r = 1, after operator 0" in say("history r") and "patch r = 1" in say("who-wrote r")
    assert 'operator 0 Relu "r"  ' in say("history r")
    assert say("unpatch").startswith("taken away: r = 1, after operator 0\ntaken away: x = x * 2, from the start")
    assert say("unpatch") == say("info patches") == "nothing is patched"


def test_versions_of_several_iterations_say_which(say):
    say("run 2")
    assert 'r@2  operator 0 Relu "r", iteration 2' in say("history r")
    assert say("who-wrote r@1").startswith('r@1: operator 0 Relu "r", iteration 1')


def test_what_was_skipped_is_said(say):
    say("step", "skip 2")
    assert "skipped: 1 Scale, 2 Relu" in say("where").splitlines()


def test_one_is_no_plural(say):
    say("step 4", "patch n = 1")
    assert "0 operators" not in say("where") and "1 operators" not in say("edit p axis=0")
    assert say("save-breakpoints points") == "saved 0 breakpoints to points"
    say("break 1")
    assert say("save-breakpoints points") == "saved 1 breakpoint to points"
    assert say("ignore 1 1") == "breakpoint 1 lets 1 hit go by"


def test_usage_lines_say_what_is_wanted(say):
    assert say("help ignore").splitlines()[0] == "ignore NUMBER COUNT"
    assert say("help try").splitlines()[0] == "try [WHERE] [NAME=V1,V2...]"
    assert say("help repro").splitlines()[0] == "repro [WHERE] --output DIR"
    with pytest.raises(UsageError, match="--output is missing"):
        say("repro")


# -- the prompt itself ------------------------------------------------------------------------------


def test_output_goes_to_files_and_commands(session, tmp_path):
    text = (
        "step 2\nstats > out; stats s >> out; stats r | grep -c float32\nbreak if max > 10\nblobs >'a b'; where | cat"
    )
    said, _, status = script(session, tmp_path, text)
    assert status is ExitStatus.OK
    with open("out") as file:
        lines = file.read().splitlines()
    assert [line.split()[0] for line in lines] == ["blob", "x@0", "r@1", "s@1", "blob", "s@1"]
    assert "(c2step) stats r | grep -c float32\n1\n" in said and os.path.exists("a b")
    assert "breakpoint 1 at * if max > 10" in said and "(c2step) where | cat\niteration 1" in said


def test_output_that_cannot_be_written(session, tmp_path):
    for text, error in (("stats >", "nothing stands behind >"), ("stats > /no/where", "cannot write /no/where")):
        assert error in script(session, tmp_path, text)[1]


def test_a_log_of_what_is_typed_and_said(session, tmp_path):
    env = environment(tmp_path, tty=True)
    lines = iter(["log session.log", "step", "nonsense", "stats | grep r@", "log off", "where"])

    def read():
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    interact(session, env, read)
    with open("session.log") as file:
        text = file.read()
    assert "(c2step) step\no  0  Relu  r@1" in text and "error: no command nonsense" in text
    assert "(c2step) stats | grep r@\nr@1 " in text and text.endswith("(c2step) log off\n")
    assert "r@1  " in env.stdout.getvalue()


def test_aliases_from_the_configuration(session, tmp_path):
    (tmp_path / "aliases").write_text("# mine\nll = list all\nshow = inspect\ntwice = step; step\n")
    said, _, status = script(
        session, tmp_path, "twice 2; ll; show r; alias; alias go = continue; go; alias go =; alias"
    )
    assert status is ExitStatus.OK and session.position == 5
    assert "r@1\ndtype" in said and "twice  = step; step" in said and "go     = continue" in said
    assert "go " not in said.rpartition("(c2step) alias\n")[2]
    assert "step is a command" in script(session, tmp_path, "alias step = where")[1]
    assert "go would stand for itself" in script(session, tmp_path, "alias go = go 2")[1]
    (tmp_path / "aliases").write_text("nothing here\nll = list all\nqa = qb\nqb = qa\nx = where\n")
    _, error, status = script(session, tmp_path, "where")
    assert status is ExitStatus.USAGE and "aliases line 1: " in error and "; line 4: qb would stand for itself" in error


def test_good_aliases_beside_a_bad_one(session, tmp_path):
    (tmp_path / "aliases").write_text("bad line here\nx = inspect r\nsw = 'step; where'\n")
    env, lines = environment(tmp_path, tty=True), iter(["step", "x", "sw", "alias st = 'step; step'", "st", "quit"])
    interact(session, env, lambda: next(lines))
    assert "aliases line 1: " in env.stderr.getvalue()
    assert "r@1\ndtype" in env.stdout.getvalue() and "2 of 5 operators done" in env.stdout.getvalue()
    assert session.position == 4


def test_a_person_is_asked_where_a_limit_is_reached(tmp_path):
    path = written(NET, ["x"], tmp_path)
    keep = Keep(max_bytes=400, on_full="stop")
    with c2step.open(predict_net=path, inputs={"x": X}, in_process=True, keep=keep) as session:
        env = environment(tmp_path, "y\n", tty=True)
        interpreter = make_interpreter(session, env)
        (full,) = interpreter.run("continue")
        assert full.status is ExitStatus.CAPTURE and session.position == 2
        assert (
            "304 B of blobs are kept, and the next would pass the limit of 400 B; keep up to" in env.stdout.getvalue()
        )
        assert "continue goes on" in full.text
        (done,) = interpreter.run("continue")
        assert done.text.endswith("--> end of the net")
        assert same_bytes(session.fetch("s").array, truth()["s"])


def test_files_of_the_prompt_are_the_users_alone(tmp_path):
    env = environment(tmp_path)
    assert not os.path.exists(env.history_file) or stat.S_IMODE(os.stat(env.history_file).st_mode) == 0o600


def test_what_was_taken_back_takes_no_room(tmp_path):
    path = written(NET, ["x"], tmp_path)
    for directory in (None, str(tmp_path / "kept")):
        with c2step.open(
            predict_net=path, inputs={"x": X}, keep=Keep(directory, max_bytes=800, on_full="stop")
        ) as session:
            once = None
            for verb in ("goto", "restart", "goto", "back", "restart"):
                assert session.run().reason == "end"
                assert same_bytes(session.fetch("s", 1).array, truth(2)["s"])
                there = sum(entry.stat().st_size for entry in os.scandir(session.capture_directory)
                            if entry.name.endswith((".npy", ".pack")))  # fmt: skip
                once = once or there
                assert there == once <= 1100
                {"goto": lambda: session.goto("0"), "restart": session.restart, "back": lambda: session.back(5)}[verb]()
            session.step(2)
            if directory:
                capture = c2step.open_capture(directory)
                assert [row["index"] for row in capture.rows] == [0, 1]
                assert same_bytes(capture.load("s").array, truth(2)["s"])


def test_the_patch_that_is_live_is_said_where_its_operator_runs_again(say, session):
    say("step 2", "patch s = s + 1", "back 2")
    assert "s@2 is live, the patch s = s + 1, after operator 1" in say("step 2")
    assert "is live" not in say("back") + say("restart", "step")


def test_an_edit_before_its_operator_ran_is_not_dirty_and_needs_values(say, session):
    assert "dirty" not in say("edit 1 scale=3")
    with pytest.raises(UsageError, match="r is not there"):
        say("diff-edit")
    assert "dirty" not in say("continue", "edit 1 scale=3")
    assert session.dirty_operators() == set()
    assert 'operator 1 Scale "s" ran before the edit: dirty' in say("edit 1 scale=4")
    assert session.dirty_operators() == {1, 2, 3, 4}
    say("goto 1", "continue")  # several operators at once
    assert session.dirty_operators() == set()
    assert "before s@1" not in say("diff-edit")
