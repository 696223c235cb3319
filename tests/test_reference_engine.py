"""Engines are processes of their own: they may die, hang, print and be interrupted, and are named when they do."""

import ast
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from c2step.errors import ReferenceFailed, RuntimeMissing, WorkerDied, WorkerTimeout
from c2step.references import Engine, Truth, load, make_onnxruntime
from c2step.references import engine as engine_module
from reference_support import PYTHON, fed, node, write_model
from shared_material import CHECKOUT, shared_dir

DIV = {"a": np.array([4, 9]), "b": np.array([2, 0])}


@pytest.fixture
def dividing(tmp_path):
    """A model that divides by zero in its second node; two nodes follow that do not need it."""
    nodes = [
        node("Add", "a a", "s"),
        node("Div", "s b", "q", name="kills"),
        node("Add", "q q", "y"),
        node("Sub", "s a", "z"),
        node("Add", "z z", "zz"),
    ]
    return write_model(tmp_path / "div.onnx", nodes, DIV, ["y", "zz"])


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """An engine that does what its request says, started as all are."""
    (tmp_path / "toy.py").write_text("""
import os, time, sys
from c2step.references.engines.serve import serve
def do(request, send):
    send({"doing": "what was asked", "at": 7})
    exec(request["code"], {"send": send})
    return {"pid": os.getpid()}
def main():
    serve({"do": do})
""")
    places = engine_module._PACKAGES[:-1] + [(engine_module._PACKAGES[-1][0], str(tmp_path))]
    shutil.copy(os.path.join(engine_module._PACKAGES[-1][1], "serve.py"), str(tmp_path))
    monkeypatch.setattr(engine_module, "_PACKAGES", places)

    def start(**options):
        return Engine(PYTHON, "toy", "the toy", **options)

    return start


def test_a_node_that_ends_the_process_is_named_and_the_others_have_values(dividing, tmp_path):
    reference = make_onnxruntime(dividing, DIV, str(tmp_path / "values"), PYTHON)
    assert np.array_equal(reference.get("s"), [8, 18]) and np.array_equal(reference.get("zz"), [8, 18])
    assert reference.missing["q"] == 'onnxruntime ended by SIGFPE at node 1 Div "kills"'
    assert reference.missing["y"] == reference.missing["q"]
    assert reference.notes == ['onnxruntime ended by SIGFPE at node 1 Div "kills"']
    assert [row["status"] for row in rows(tmp_path)] == ["ok", "ok", "ok", "died", "skipped", "ok", "ok"]


def rows(tmp_path):
    from c2step.capture import Capture

    return Capture(str(tmp_path / "values")).rows


def test_the_shared_case_that_ends_onnxruntime(tmp_path):
    folder = os.path.join(shared_dir() or "", "cases", "25_int_div_by_zero_sigfpe")
    if not os.path.isdir(folder):
        pytest.skip("no shared material")
    reference = load("onnxruntime", os.path.join(folder, "model.onnx"), fed(folder), str(tmp_path / "v"), PYTHON)
    assert sorted(reference.missing) == ["q", "y"] and "s" in reference
    assert "SIGFPE" in reference.missing["q"]


def test_truth_survives_a_node_that_ends_the_process(dividing):
    with Truth(dividing, PYTHON) as truth:
        with pytest.raises(WorkerDied, match="SIGFPE at node 1 Div"):
            truth.node(1, {"s": np.array([8]), "b": np.array([0])})
        assert np.array_equal(truth.node("s", {"a": np.array([4])}).values["s"], [8])


def test_what_is_printed_is_shown_and_does_not_mix_with_answers(toy):
    lines = []
    with toy(shown=lines.append) as engine:
        engine.ask({"do": "do", "code": "print('from python'); os = __import__('os'); os.system('echo from a child')"})
    assert lines == ["from a child", "from python"] or lines == ["from python", "from a child"]


def test_reading_standard_input_takes_nothing_from_the_pipe(toy):
    with toy() as engine:
        engine.ask({"do": "do", "code": "import sys; assert sys.stdin.read() == ''"})
        assert engine.ask({"do": "do", "code": "pass"})["pid"]


def test_a_death_names_the_signal_and_what_was_done(toy):
    with toy() as engine, pytest.raises(WorkerDied) as caught:
        engine.ask({"do": "do", "code": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"})
    assert (caught.value.signal, caught.value.index) == ("SIGSEGV", 7)
    assert caught.value.message == "the toy ended by SIGSEGV at what was asked"


def test_an_exit_is_a_death_too(toy):
    with toy() as engine, pytest.raises(WorkerDied, match="exit status 3"):
        engine.ask({"do": "do", "code": "import os; os._exit(3)"})


def test_silence_ends_it(toy):
    with toy() as engine:
        with pytest.raises(WorkerTimeout, match="said nothing for 0.2 s at what was asked"):
            engine.ask({"do": "do", "code": "import time; time.sleep(60)"}, timeout=0.2)
        with pytest.raises(WorkerDied):
            engine.ask({"do": "do", "code": "pass"})


def test_a_bug_shows_its_traceback(toy):
    with toy() as engine, pytest.raises(RuntimeError, match="ZeroDivisionError"):
        engine.ask({"do": "do", "code": "1 / 0"})


def test_an_interrupt_ends_the_engine_and_passes_on(toy):
    with toy() as engine:
        pid = engine.ask({"do": "do", "code": "pass"})["pid"]
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            engine.ask({"do": "do", "code": "import time; time.sleep(60)"})
        timer.join()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_engine_ends_with_the_near_side(tmp_path):
    """The front is killed while its engine waits for the next request."""
    code = (
        "import sys\nfrom c2step.references import Engine\n"
        "engine = Engine(sys.executable, 'onnx_engine', 'onnx')\nprint(engine._process.pid, flush=True)\n"
        "import time; time.sleep(60)"
    )
    front = subprocess.Popen([sys.executable, "-c", code], cwd=CHECKOUT, stdout=subprocess.PIPE)
    pid = int(front.stdout.readline())
    front.kill()
    front.wait()
    front.stdout.close()
    assert ends(pid)


def ends(pid):
    """Whether a process is gone, or a zombie that nobody took, within ten seconds."""
    for _ in range(200):
        try:
            with open("/proc/%d/stat" % pid) as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_an_interpreter_that_is_not_there():
    with pytest.raises(RuntimeMissing, match="cannot start /no/such/python"):
        Engine("/no/such/python", "onnx_engine", "onnxruntime")


def test_an_interpreter_without_the_library(tmp_path):
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\nexec %s -S -I "$@"\n' % sys.executable)
    bare.chmod(0o755)
    with pytest.raises(ReferenceFailed, match="cannot run onnxruntime: ModuleNotFoundError"):
        Engine(str(bare), "onnx_engine", "onnxruntime")


def test_nothing_of_ours_need_be_installed_there_and_nothing_comes_before_its_own_packages(toy):
    printed = subprocess.check_output([PYTHON, "-c", "import sys; print(repr(sys.path))"], text=True)
    own = [place for place in ast.literal_eval(printed) if place]
    with toy() as engine:
        engine.ask({"do": "do", "code": "import sys; assert sys.path == %r, sys.path" % own})
