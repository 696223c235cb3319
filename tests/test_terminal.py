"""A session at a real terminal, with real Caffe2."""

import json
import os
import re
import signal
import sys
import time

import pexpect
import pytest
from caffe2.proto import caffe2_pb2

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROMPT_COMES, PROMPT_GOES = "\x1b[?2004h", "\x1b[?2004l"  # the prompt takes pasted text, a command does not
OPERATORS = 2000
PATIENCE = 60  # seconds, for a machine that does much else


def operator(type, inputs, outputs, **shape):
    op = caffe2_pb2.OperatorDef(type=type, input=inputs, output=outputs)
    for name, value in shape.items():
        argument = op.arg.add(name=name)
        if isinstance(value, float):
            argument.f = value
        else:
            argument.ints.extend(value)
    return op


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A net of many operators that take some milliseconds each, and at its end a loop without end."""
    folder = tmp_path_factory.mktemp("slow")
    init = caffe2_pb2.NetDef(name="init")
    init.op.extend(
        [
            operator("ConstantFill", [], ["left matrix"], shape=[128, 20000], value=0.5),
            operator("ConstantFill", [], ["right"], shape=[20000, 128], value=2.0),
            operator("GivenTensorBoolFill", [], ["yes"], shape=[1], values=[1]),
        ]
    )
    net = caffe2_pb2.NetDef(name="slow", external_input=["left matrix", "right", "yes"])
    net.op.extend(operator("MatMul", ["left matrix", "right"], ["product_%d" % i]) for i in range(OPERATORS))
    endless = net.op.add(type="While", input=["yes"], output=["yes"])
    body = caffe2_pb2.NetDef(name="body", op=[operator("Copy", ["right"], ["copied"])])
    endless.arg.add(name="loop_net").n.CopyFrom(body)
    for name, part in (("init_net.pb", init), ("predict_net.pb", net)):
        (folder / name).write_bytes(part.SerializeToString())
    return str(folder)


class Terminal:
    """c2step in a pseudo-terminal."""

    def __init__(self, model, folder):
        self.capture = str(folder / "capture")
        variables = dict(
            os.environ,
            XDG_STATE_HOME=str(folder),
            XDG_CONFIG_HOME=str(folder),
            TERM="xterm",
            PROMPT_TOOLKIT_NO_CPR="1",
            PYTHONPATH=ROOT,
            NO_COLOR="1",
        )
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "c2step", model, "--keep", self.capture],
            env=variables,
            dimensions=(50, 200),
            encoding="utf-8",
            timeout=PATIENCE,
        )
        self.child.expect_exact(PROMPT_COMES)

    def send(self, keys):
        self.child.send(keys)

    def say(self, line):
        """Type a line and return what it gave."""
        self.send(line + "\r")
        return self.answer()

    def answer(self):
        """What is printed until the prompt comes back."""
        self.child.expect_exact(PROMPT_GOES)
        self.child.expect_exact(PROMPT_COMES)
        return re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", self.child.before).replace("\r\n", "\n")

    def restart(self):
        """Begin anew; `rows` leaves out what the journal holds by now."""
        self.say("restart")
        self.rows_before = 0
        self.rows_before = len(self.rows())

    def rows(self):
        """The operators in the journal."""
        journal = os.path.join(self.capture, "journal.jsonl")
        if not os.path.exists(journal):
            return []
        with open(journal) as file:
            rows = [json.loads(line) for line in file if line.endswith("\n")]
        return [row for row in rows if "status" in row][self.rows_before :]

    def wait_for_operators(self, count):
        """Wait until so many operators have run."""
        for _ in range(PATIENCE * 50):
            if len(self.rows()) >= count:
                return
            time.sleep(0.02)
        pytest.fail("only %d operators ran" % len(self.rows()))

    def worker(self):
        """The process id of the worker."""
        with open("/proc/%d/task/%d/children" % (self.child.pid, self.child.pid)) as file:
            (child,) = file.read().split()
        return int(child)

    def close(self):
        self.child.close(force=True)


@pytest.fixture(scope="module")
def session(slow, tmp_path_factory):
    opened = Terminal(slow, tmp_path_factory.mktemp("terminal"))
    yield opened
    opened.close()


@pytest.fixture
def terminal(session):
    session.restart()
    return session


def position(text):
    return int(re.search(r"(\d+) of %d operators done" % (OPERATORS + 1), text).group(1))


def test_tab_completes_and_ctrl_c_stops_between_operators(terminal):
    assert "@0[0, 0]  of (128, 20000)" in terminal.say("inspect lef\t[0, 0]")
    assert '"left matrix"@0[0, 0]' in terminal.say("p ma\t[0, 0]")
    terminal.send("continue\r")
    terminal.wait_for_operators(3)
    terminal.child.expect("\rrunning: [0-9]+ of %d operators, at MatMul +\r" % (OPERATORS + 1))
    terminal.child.sendintr()
    terminal.child.expect_exact("\r\x1b[K")  # what was shown goes away before anything else is said
    terminal.child.expect_exact(PROMPT_COMES)
    text = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", terminal.child.before)
    assert "interrupted" in text and "running: " not in text
    done = position(terminal.say("where"))
    assert 3 <= done < OPERATORS
    assert '--> %d MatMul  ("left matrix", right) -> (product_%d)' % (done, done) in text
    assert "o  %d  MatMul  product_%d@1  float32 (128, 128)  min 20000 max 20000" % (done, done) in terminal.say("step")
    terminal.send("step 100")
    terminal.child.sendintr()  # clears the line
    terminal.answer()
    assert position(terminal.say("where")) == done + 1


def test_a_worker_that_is_killed_loses_nothing(terminal):
    terminal.send("continue\r")
    terminal.wait_for_operators(3)
    os.kill(terminal.worker(), signal.SIGKILL)
    text = terminal.answer()
    assert "SIGKILL" in text
    done = position(terminal.say("where"))
    assert 3 <= done < OPERATORS
    assert 'operator %d MatMul "product_%d" ended the process; the session stands before it' % (done, done) in text
    assert "20000" in terminal.say("inspect product_0[0, 0]")
    assert "20000" in terminal.say("inspect product_%d[0, 0]" % (done - 1))
    assert "o  %d  MatMul  product_%d@1" % (done, done) in terminal.say("step")
    os.kill(terminal.worker(), signal.SIGKILL)  # between two commands
    assert "20000" in terminal.say("inspect product_0[0, 0]")
    assert "o  %d  MatMul" % (done + 1) in terminal.say("step")
    rows = terminal.rows()
    assert [row["index"] for row in rows if row["status"] == "ok"] == list(range(done + 2))
    assert [row["index"] for row in rows if row["status"] == "died"] == [done]


def test_a_second_ctrl_c_ends_the_operator_that_runs(terminal):
    terminal.say("skip %d" % OPERATORS)
    terminal.send("next\r")
    time.sleep(0.5)
    terminal.child.sendintr()
    time.sleep(0.1)
    terminal.child.sendintr()
    text = terminal.answer()
    assert "interrupted" in text
    assert "--> %d While  (yes) -> (yes)" % OPERATORS in text
    assert "of (128, 20000)" in terminal.say("inspect lef\t[0, 0]")


def test_ctrl_d_ends_the_session(session):
    session.send("\x04")
    session.child.expect(pexpect.EOF)
    session.child.close()
    assert session.child.exitstatus == 0
