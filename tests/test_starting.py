"""Starting fast: a worker ahead of need, and nothing loaded only to be asked for a number."""

import contextlib
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from c2step.launch import make_workspace, open_on
from c2step.workspace.runtime import Runtime, find_runtime
from c2step.workspace.spawning import Spare, spare_for
from c2step.workspace.unimported import thread_numbers, version_of
from small_nets import written


def last_line(code, checkout):
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
                          universal_newlines=True, timeout=120)  # fmt: skip
    return done.stdout.splitlines()[-1]


def alive(process):
    return process.poll() is None


@pytest.fixture
def spare():
    made = Spare(find_runtime(), False)
    yield made
    made.close()


@pytest.fixture
def net(tmp_path):
    return written([("Relu", ["x"], ["y"], {})], ["x"], str(tmp_path))


def test_a_session_takes_the_worker_that_was_started_ahead(spare, net):
    process = spare._process
    with open_on(make_workspace(spare=spare), predict_net=net) as session:
        assert session.workspace.pid == process.pid
        assert spare.take(find_runtime()) is None  # once
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        session.feed("x", np.float32([-1, 2]))  # the next one is an ordinary one
        session.cont()
        assert session.fetch("y").array.tolist() == [0, 2] and session.workspace.pid != process.pid


def test_it_is_not_taken_by_a_session_of_another_runtime(spare):
    assert spare.take(Runtime(sys.executable + "-other", "python:other")) is None
    assert alive(spare._process)


def test_one_that_died_is_not_taken(spare):
    spare._process.kill()
    spare._process.wait()
    assert spare.take(find_runtime()) is None


def test_what_nobody_took_ends(spare):
    process = spare._process
    spare.close()
    assert not alive(process)
    spare.close()


@pytest.mark.parametrize(
    "words, runtime",
    [
        (["model.onnx"], "here"),
        (["model.onnx", "--runtime", "python:%s" % sys.executable], "named"),
        (["model.onnx", "--runtime=python:%s" % sys.executable], "named"),
        (["model.onnx", "--runtime", "python:/no/such"], None),
        (["--help"], None),
        (["model.onnx", "-h"], None),
        ([], None),
    ],
)
def test_which_worker_a_command_line_gets(words, runtime):
    found = spare_for(words)
    assert (found is None) == (runtime is None)
    if found is not None:
        kind = Runtime(sys.executable, "python:%s" % sys.executable) if runtime == "named" else find_runtime()
        process = found.take(kind)
        assert process is not None and alive(process)
        process.communicate()  # it ends where the front does


def test_a_command_that_fails_leaves_no_worker(checkout):
    command = [sys.executable, "-m", "c2step", "dump", "/no/such.onnx", "-o", "/no/such/out"]
    environment = dict(os.environ, C2STEP_TEST_LEFT="1")
    done = subprocess.run(command, cwd=checkout, stderr=subprocess.PIPE, universal_newlines=True, timeout=120,
                          env=environment)  # fmt: skip
    assert done.returncode == 3 and "/no/such.onnx" in done.stderr
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/environ" % pid, "rb") as file:
            assert b"C2STEP_TEST_LEFT=1" not in file.read()


def test_the_worker_is_started_before_anything_heavy_is_loaded(checkout):
    code = "import sys, c2step.cli, c2step.workspace.spawning as s\n"
    code += (
        "print(*[n for n in ('numpy', 'prompt_toolkit', 'onnx', 'torch', 'caffe2') if n in sys.modules] or ['none'])"
    )
    assert last_line(code, checkout) == "none"


def test_a_worker_loads_neither_torch_nor_onnx_to_open_nets(checkout, net):
    """torch is loaded when a tensor is looked at, or while nothing else is to do."""
    code = "import sys; from c2step.workspace.local import LocalWorkspace, quiet\n"
    code += "quiet(); w = LocalWorkspace(); w.versions(); w.open({'predict_net': %r}); w.init()\n" % net
    code += "print(*[n for n in ('torch', 'onnx', 'onnxruntime') if n in sys.modules] or ['none'])"
    assert last_line(code, checkout) == "none"


def test_versions_are_those_that_the_packages_say(checkout):
    import numpy
    import onnx
    import onnxruntime
    import torch

    for package in (torch, onnx, onnxruntime, numpy):
        assert version_of(package.__name__) == package.__version__
    assert version_of("no_such_package") == ""


def test_thread_numbers_are_those_of_a_bare_script(checkout):
    """OpenMP and MKL are asked in a process that has loaded Caffe2 and nothing else, and torch says the same."""
    code = "from c2step.workspace.unimported import thread_numbers; from caffe2.python import workspace\n"
    code += "import sys; found = thread_numbers(); assert 'torch' not in sys.modules; import torch\n"
    code += "print(found == (torch.get_num_threads(),) * 2)"
    assert last_line(code, checkout) == "True"
    assert all(number > 0 for number in thread_numbers())
