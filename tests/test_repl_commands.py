"""What the commands say, over a session of numpy: golden texts."""

import io

import numpy as np
import pytest

from c2step.capture import Capture
from c2step.errors import ExitStatus, InputError, UsageError
from c2step.repl.environment import Environment
from c2step.repl.loop import make_interpreter
from fake_session import FakeSession

NET = [
    ("Add", ("x", "one"), ("sum",)),
    ("Relu", ("sum",), ("sum",)),
    ("Dropout", ("sum",), ("drop", "mask")),
    ("Quantize", ("drop",), ("q",)),
    ("Copy", ("sum",), ("a b",)),
    ("Copy", ("a b",), ("17",)),
]
FEEDS = {"x": np.array([[-2, 0.5, 1]], np.float32), "one": np.ones(1, np.float32)}


@pytest.fixture
def session():
    return FakeSession(NET, FEEDS)


@pytest.fixture
def say(session):
    interpreter = make_interpreter(session, Environment(io.StringIO(), io.StringIO(), io.StringIO()))

    def say(line):
        return "\n".join(result.text for result in interpreter.run(line))

    say.interpreter = interpreter
    return say


def test_step(say):
    assert (
        say("step 3")
        == """\
o  0  Add      sum@1   float32 (1, 3)  min -1 max 2 mean 0.833333 std 1.31233
o  1  Relu     sum@2   float32 (1, 3)  min 0 max 2 mean 1.16667 std 0.849837
o  2  Dropout  drop@1  float32 (1, 3)  min 0 max 2 mean 1.16667 std 0.849837
?  2  Dropout  mask@1  not a tensor: never written
--> 3 Quantize Quantize_3  (drop) -> (q)"""
    )


def test_continue_to_the_end_and_beyond(say):
    assert (
        say("until 5; continue")
        == """\
o  0  Add       sum@1    float32 (1, 3)  min -1 max 2 mean 0.833333 std 1.31233
o  1  Relu      sum@2    float32 (1, 3)  min 0 max 2 mean 1.16667 std 0.849837
o  2  Dropout   drop@1   float32 (1, 3)  min 0 max 2 mean 1.16667 std 0.849837
?  2  Dropout   mask@1   not a tensor: never written
o  3  Quantize  q@1      int8 blob of uint8 (1, 3)  scale 0.5 zero point 0 min 0 max 2 mean 1.16667 std 0.849837
o  4  Copy      "a b"@1  float32 (1, 3)  min 0 max 2 mean 1.16667 std 0.849837
--> 5 Copy Copy_5  ("a b") -> (17)
o  5  Copy  17@1  float32 (1, 3)  min 0 max 2 mean 1.16667 std 0.849837
--> end of the net"""
    )
    assert say("step") == "--> end of the net"


def test_a_long_run_shows_its_end():
    session = FakeSession([("Relu", ("x",), ("x",))] * 40, FEEDS)
    interpreter = make_interpreter(session, Environment(io.StringIO(), io.StringIO(), io.StringIO()))
    lines = list(interpreter.run("continue"))[0].text.splitlines()
    assert lines[0] == "... 28 operators before these; `blobs` shows what was written"
    assert len(lines) == 14
    assert lines[-2].startswith("o  39  Relu  x@40  float32 (1, 3)")


def test_a_failure_says_the_reason_and_stands_before_it():
    session = FakeSession([("Relu", ("x",), ("y",)), ("Fail", ("y",), ("z",)), ("Die", ("y",), ("w",))], FEEDS)
    interpreter = make_interpreter(session, Environment(io.StringIO(), io.StringIO(), io.StringIO()))
    (failed,) = interpreter.run("continue")
    assert (
        failed.text
        == """\
o  0  Relu  y@1  float32 (1, 3)  min 0 max 1 mean 0.5 std 0.408248
F  1  Fail  [enforce fail at relu_op.cc:12] X.dim() == 2. 1 vs 2
operator 1 Fail "z" failed; the session stands before it
--> 1 Fail Fail_1  (y) -> (z)"""
    )
    assert failed.status is ExitStatus.OPERATOR
    skipped, died = interpreter.run("skip; step")
    assert skipped.text == "--> 2 Die Die_2  (y) -> (w)"
    assert (
        died.text
        == """\
D  2  Die  SIGFPE: operator 2 ended its process with SIGFPE
operator 2 Die "w" ended the process; the session stands before it
--> 2 Die Die_2  (y) -> (w)"""
    )
    assert died.status is interpreter.status is ExitStatus.DIED


def test_list_where_and_op(say):
    say("step; break Copy")
    assert (
        say("list")
        == """\
     o     0  Add       Add_0       (x, one) -> (sum)
-->  .     1  Relu      Relu_1      (sum) -> (sum)
     .     2  Dropout   Dropout_2   (sum) -> (drop, mask)  ~random
     .     3  Quantize  Quantize_3  (drop) -> (q)
     .  b  4  Copy      Copy_4      (sum) -> ("a b")
     .  b  5  Copy      Copy_5      ("a b") -> (17)
status: . not run   o ok   F failed   D died   S skipped   ? output not written"""
    )
    assert (
        say("list 0-1")
        == say("list 0,1")
        == """\
     o  0  Add   Add_0   (x, one) -> (sum)
-->  .  1  Relu  Relu_1  (sum) -> (sum)
status: . not run   o ok   F failed   D died   S skipped   ? output not written""".replace("o  0", "o    0").replace(
            ".  1", ".    1"
        )
    )
    assert say("list all") == say("list 0-") == say("list")
    assert say("where") == "iteration 1, 1 of 6 operators done\nlast: 0 Add ok\n--> 1 Relu Relu_1  (sum) -> (sum)"
    assert say("op") == '1 Relu Relu_1  (sum) -> (sum)\ntype: "Relu"\nin place: it overwrites sum'
    assert say("op drop").splitlines()[-1] == "random: running it again may give other values"
    assert say("op blob:17").startswith("5 Copy")


def test_inputs_and_outputs(say, session):
    del session._values["one"]
    assert (
        say("inputs")
        == """\
x    float32 (1, 3)  float32 (1, 3)  min -2 max 1 mean -0.166667 std 1.31233
one  float32 (1,)    NOT FED"""
    )
    assert say("outputs") == "17  not written yet"
    session.feed("one", FEEDS["one"])
    say("continue")
    assert say("outputs") == "17  float32 (1, 3)  min 0 max 2 mean 1.16667 std 0.849837"


def test_blobs_and_stats(say):
    say("step 4")
    assert (
        say("blobs")
        == """\
x@0     float32             (1, 3)
one@0   float32             (1,)
sum@2   float32             (1, 3)
drop@1  float32             (1, 3)
mask@1  not a tensor: never written
q@1     int8 blob of uint8  (1, 3)"""
    )
    assert (
        say("stats s")
        == """\
blob    dtype    shape   min  max     mean       std  zeros  NaN  Inf
sum@2   float32  (1, 3)    0    2  1.16667  0.849837      1    0    0
mask@1  not a tensor: never written"""
    )
    assert say("blobs '?'") == "x@0  float32             (1, 3)\nq@1  int8 blob of uint8  (1, 3)"
    assert say("blobs none") == "no blob that is there matches none"


def test_inspect(say):
    say("continue")
    assert (
        say("inspect sum@1[0, 1:]")
        == """\
sum@1[0, 1:]  of (1, 3)
dtype  float32
shape  (2,)  2 values
min    1.5
max    2
mean   1.75
std    0.25
zeros  0
NaN    0
Inf    0
[1.5   2]"""
    )
    assert say("inspect sum").startswith("sum@2\ndtype  float32\nshape  (1, 3)  3 values\nmin    0\n")
    assert (
        say("p 'a b' mask")
        == """\
"a b"@1
dtype  float32
shape  (1, 3)  3 values
min    0
max    2
mean   1.16667
std    0.849837
zeros  1  (33.3%)
NaN    0
Inf    0
[[  0 1.5   2]]

mask@1
not a tensor: never written"""
    )
    assert "scale  0.5  zero point 0" in say("i q")
    assert say("i q[0,1]").endswith("real values\n1.5\nstored integers\n3")


@pytest.mark.parametrize(
    "line, message, hint",
    [
        ("inspect smu", "inspect: no blob smu", "did you mean sum?"),
        ("inspect sum[5]", "sum[5] does not fit the shape (1, 3): index 5 is out of bounds", ""),
        ("inspect sum[x]", "inspect: slice [x] cannot be read", "a slice holds integers"),
        ("inspect mask[0]", "mask holds no array, so it has no part [0]", ""),
        ("inspect", "inspect: BLOB[@VERSION][SLICE] is missing", "usage: inspect BLOB[@VERSION][SLICE]... [--all]"),
        ("step no", "step: no is not a count", "give a whole number, 1 or more"),
        ("until Cpoy", "until: no operator is, writes or came from Cpoy", "did you mean Copy"),
        ("stepp", "no command stepp", "did you mean step"),
        ("s sum; x", "step: sum is not a count", ""),
        ("de x", "delete: x is no breakpoint's number", "there are: none"),
        ("info nothing", "info: nothing is none of breakpoints, wraps", ""),
        ("compare sum nothing", "compare: no blob nothing and no such file", ""),
        ("!1/0", "python: ZeroDivisionError: division by zero", ""),
        ("!x x", "python: SyntaxError: invalid syntax", ""),
        ("source nowhere", "cannot read nowhere: No such file or directory", ""),
    ],
)
def test_mistakes(say, line, message, hint):
    say("continue")
    with pytest.raises(UsageError) as caught:
        say(line)
    assert caught.value.message.startswith(message)
    assert caught.value.hint.startswith(hint)


def test_a_backward_step_after_a_breakpoint(say):
    say("break sum; tbreak Copy")
    assert (
        say("info breakpoints")
        == """\
number  where  kind    enabled  hits
1       sum    always  yes      0
2       Copy   once    yes      0"""
    )
    assert (
        say("delete 1; info b")
        == "deleted breakpoint 1\n"
        + """\
number  where  kind  enabled  hits
2       Copy   once  yes      0"""
    )
    assert say("continue").splitlines()[-2:] == ["stopped at a breakpoint", '--> 4 Copy Copy_4  (sum) -> ("a b")']
    assert say("back 2") == "--> 2 Dropout Dropout_2  (sum) -> (drop, mask)"
    assert (
        say("delete; delete; info breakpoints")
        == "deleted temporary breakpoint 2\nno breakpoint is set\nno breakpoint is set"
    )


def test_wrap(say):
    assert say("wrap Copy --save out; info wraps") == "Copy  saved to out\nCopy  saved to out"
    assert say("unwrap Copy") == "nothing is wrapped"


def test_an_empty_line_repeats_the_last_step_like_command(say, session):
    assert say("") == ""
    say("step 2; where; list")
    say("")
    say("   ")
    assert session.calls == ["step 2", "step 2", "step 2"]
    assert say("# nothing") == ""


def test_save_and_compare(say, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    say("continue")
    assert say("save sum@1") == "saved sum@1 to sum_1.npy"
    np.testing.assert_array_equal(np.load("sum_1.npy"), FEEDS["x"] + 1)
    assert say("save 'a b'[0, :2] part.npy") == 'saved "a b"[0, :2] to part.npy'
    assert np.load("part.npy").tolist() == [0, 1.5]
    assert say("save sum@1") == "saved sum@1 to sum_1-2.npy"
    assert say("save 'a b' .") == 'saved "a b" to ./a_b.npy'
    with pytest.raises(UsageError, match="mask@1 has no value to save|mask has no value"):
        say("save mask")
    assert say("compare sum@1 sum_1.npy").splitlines()[0] == "sum@1 against sum_1.npy: PASS  equal"
    text = say("compare sum sum_1.npy")
    assert text.splitlines()[0].startswith("sum against sum_1.npy: FAIL")
    assert "max |d|    1\n" in text
    assert "worst      at [0, 0]: 0, reference -1" in text
    assert say("compare sum sum@1 --atol 1").splitlines()[0].startswith("sum against sum@1: PASS")
    assert say("compare sum[0, 1:] sum_1.npy").splitlines()[0] == "sum[0, 1:] against sum_1.npy[0, 1:]: PASS  equal"
    assert say("compare mask sum").startswith("mask against sum: INCONCLUSIVE")


def test_compare_with_members_of_files(say, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    say("continue")
    np.savez("two.npz", sum=FEEDS["x"], other=FEEDS["x"])
    np.savez("only.npz", whatever=np.maximum(FEEDS["x"] + 1, 0))
    assert "FAIL" in say("compare sum two.npz")
    assert "PASS" in say("compare sum only.npz")
    with pytest.raises(InputError, match="two.npz holds no array drop"):
        say("compare drop two.npz")
    (tmp_path / "junk.npy").write_bytes(b"junk")
    with pytest.raises(InputError, match="cannot read junk.npy"):
        say("compare sum junk.npy")


def test_exit_statuses_of_comparisons(say):
    say("continue; compare sum sum")
    assert say.interpreter.status is ExitStatus.OK
    say("compare mask sum")
    assert say.interpreter.status is ExitStatus.INCONCLUSIVE
    say("compare sum sum@1; compare mask sum; compare sum sum")
    assert say.interpreter.status is ExitStatus.DIFFERS


def test_save_all_is_a_capture(say, tmp_path):
    say("continue")
    assert say("save all '%s'" % (tmp_path / "all")) == "saved 8 blobs to %s" % (tmp_path / "all")
    capture = Capture(str(tmp_path / "all"))
    assert capture.names() == ["x", "one", "sum", "drop", "mask", "q", "a b", "17"]
    np.testing.assert_array_equal(capture.load("a b").array, np.maximum(FEEDS["x"] + 1, 0))
    assert (capture.load("q").scale, capture.load("mask").array) == (0.5, None)
    assert [row["type"] for row in capture.rows] == ["", "", "Relu", "Dropout", "Dropout", "Quantize", "Copy", "Copy"]
    assert "PASS" in say("compare sum '%s'" % (tmp_path / "all"))


def test_feed(say, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.array([[1.0, 2, 3]]))
    np.save("wide.npy", np.ones((2, 2), np.float32))
    assert (
        say("feed x x.npy --as-float32")
        == """\
x@0  float32 (1, 3)  min 1 max 3 mean 2 std 0.816497
input x: float64 was cast to float32, as declared"""
    )
    with pytest.raises(InputError, match="has shape .2, 2., declared is .1, 3."):
        say("feed x wide.npy")
    with pytest.raises(InputError, match="the model has no input y"):
        say("feed y x.npy")


def test_python(say):
    assert say("!blob('x').shape") == "(1, 3)"
    assert say("!y = np.float32(2); print('two'); session.position + y") == "two\n" + repr(np.float32(2))
    assert say("!y + 1") == repr(np.float32(3))
    with pytest.raises(UsageError, match="no version 7"):
        say("!blob('x', 7)")


def test_help_knows_every_command(say):
    listed = say("help")
    for item in say.interpreter.table.commands:
        assert item.summary in listed
        assert len(item.summary) < 100, item.name
        assert say("help " + item.name).startswith(item.usage)
    assert (
        say("help delete")
        == """\
delete [NUMBER...]   (d)

Delete breakpoints or watches, or all of them.

  NUMBER  a breakpoint's number, as `info breakpoints` shows it; $ is the last one"""
    )


def test_notes_and_quit(say):
    assert say("notes") == "a note"
    (result,) = say.interpreter.run("quit; step")
    assert result.stop


@pytest.mark.parametrize(
    "word, name",
    [
        ("s", "step"),
        ("n", "next"),
        ("c", "continue"),
        ("l", "list"),
        ("p", "inspect"),
        ("i", "inspect"),
        ("b", "break"),
        ("r", "run"),
        ("u", "until"),
        ("q", "quit"),
        ("w", "where"),
        ("d", "delete"),
        ("h", "help"),
        ("ins", "inspect"),
        ("un", "x"),
        ("cont", "continue"),
        ("ba", "back"),
        ("inp", "inputs"),
        ("comp", "compare"),
    ],
)
def test_short_names(say, word, name):
    table = say.interpreter.table
    if name == "x":
        with pytest.raises(UsageError, match="un is until or undisplay or unpatch"):
            table.find(word)
    else:
        assert table.find(word).name == name
