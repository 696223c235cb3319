"""The image, really built and really run: a prompt at a terminal, a dump, a blame, slim against full bit for bit."""

import json
import os
import re
import shutil
import sys
import threading
import time

import numpy as np
import pexpect
import pytest

import bit_for_bit
import c2step
from conftest import absent
from docker_engine import PATIENCE, build, default_engine, private_engine, started, tools
from shared_material import CHECKOUT

PROMPT_COMES = "\x1b[?2004h"  # the prompt takes pasted text


@pytest.fixture(scope="session")
def engine():
    """An engine with the image in it; in CI the private one is started where there is no other."""
    found = default_engine()
    if found.answers():
        build(found)
        yield found
        return
    if not os.environ.get("CI") or not tools():
        absent("no Docker engine answers")
    found = private_engine()
    with started(found):
        build(found)
        yield found


@pytest.fixture
def work(tmp_path, models):
    """A working folder with two sample models in it."""
    for name in ("digits_cnn", "digits_ceil"):
        shutil.copytree(os.path.join(models, name), str(tmp_path / name))
    return tmp_path


@pytest.fixture
def c2step_in(engine, work):
    """Runs c2step in the image by the script, on the working folder."""

    def run(*arguments, **variables):
        engine.environment.update(variables)
        return engine.run(os.path.join(CHECKOUT, "scripts", "docker-run"), *arguments, cwd=str(work))

    return run


def inside(engine, *command):
    """What a program other than c2step prints in a container."""
    run = ("run", "--rm", "--network", "none", "--entrypoint", command[0], "c2step") + command[1:]
    done = engine.run(engine.docker, *run)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_c2step_is_the_entry_point_and_nobody_special_runs_it(engine):
    done = engine.run(engine.docker, "run", "--rm", "--network", "none", "c2step", "--version")
    assert (done.returncode, done.stdout.strip()) == (0, "c2step " + c2step.__version__)
    assert inside(engine, "id", "-u") == "1000"


def test_the_default_image_is_slim(engine):
    size = engine.run(engine.docker, "image", "inspect", "-f", "{{.Size}}", "c2step")
    assert int(size.stdout) < 900e6
    script = "from caffe2.python import workspace; print(len(workspace.RegisteredOperators()))"
    assert inside(engine, "python", "-c", script) == "915"
    assert not re.search("cudnn|detectron", inside(engine, "ls", "/opt/c2step/lib/python3.9/site-packages/torch/lib"))


def test_the_locked_versions_are_inside(engine):
    with open(os.path.join(CHECKOUT, "docker", "pins", "torch-1.10.2.txt")) as file:
        locked = re.findall(r"^([a-z0-9-]+)==(\S+)", file.read(), re.MULTILINE)
    frozen = inside(engine, "pip", "list", "--format", "freeze").lower().replace("_", "-").splitlines()
    dropped = {"sympy", "mpmath"}  # see scripts/slim
    assert {"%s==%s" % pin for pin in locked if pin[0] not in dropped} <= set(frozen)


def test_a_dump_belongs_to_the_caller_and_is_what_runs_outside(c2step_in, work, tmp_path):
    done = c2step_in("dump", "digits_cnn/model.onnx", "--input", "digits_cnn/input.npz", "-o", "out")
    assert done.returncode == 0, done.stderr
    files = [work / "out"] + list((work / "out").iterdir())
    assert len(files) > 10 and {(file.stat().st_uid, file.stat().st_gid) for file in files} == {
        (os.getuid(), os.getgid())
    }
    capture = c2step.open_capture(str(work / "out"))
    expected = np.load(str(work / "digits_cnn" / "expected.npz"))
    for name in expected.files:
        assert np.abs(capture.load(name).array - expected[name]).max() < 1e-5


def test_another_user_owns_what_that_user_makes(c2step_in, work, engine):
    if os.getuid():
        absent("only root can be somebody else")
    people = work / "people"
    people.mkdir()
    (people / "id").write_text("#!/bin/sh\necho 4321\n")
    (people / "id").chmod(0o755)
    os.chown(str(work), 4321, 4321)
    path = engine.environment["PATH"]
    done = c2step_in("dump", "digits_cnn/model.onnx", "--input", "digits_cnn/input.npz", "-o", "theirs",
                     PATH=str(people) + os.pathsep + path)  # fmt: skip
    engine.environment["PATH"] = path
    assert done.returncode == 0, done.stderr
    assert {file.stat().st_uid for file in (work / "theirs").iterdir()} == {4321}


def test_blame_inside(c2step_in):
    good = c2step_in("blame", "digits_cnn/model.onnx", "--input", "digits_cnn/input.npz", "--against", "onnxruntime")
    assert good.returncode == 0 and "PASS" in good.stdout, good.stdout + good.stderr
    bad = c2step_in(
        "blame", "digits_ceil/model.onnx", "--input", "digits_ceil/input.npz", "--against", "onnxruntime", "--json"
    )
    assert bad.returncode == 1, bad.stdout + bad.stderr
    with open(os.path.join(CHECKOUT, "models", "manifest.json")) as file:
        assert "digits_ceil" in json.dumps(json.load(file))
    assert "MaxPool" in bad.stdout


def test_the_prompt_at_a_terminal(engine, work):
    command = [
        os.path.join(CHECKOUT, "scripts", "docker-run"),
        "digits_cnn/model.onnx",
        "--input",
        "digits_cnn/input.npz",
    ]
    screen = pexpect.spawn(command[0], command[1:], cwd=str(work), env=dict(engine.environment, TERM="xterm"),
                           dimensions=(40, 160), encoding="utf-8", timeout=PATIENCE)  # fmt: skip
    try:
        answer(screen)
        screen.send("step 3\r")
        screen.expect("MaxPool")
        answer(screen)
        screen.send("save relu1 relu1.npy\r")
        answer(screen)
        screen.send("\x1b[A\r")  # the arrow up: the command before
        answer(screen)
        screen.send("\x03")  # an empty line, and the prompt again
        answer(screen)
        screen.send("\x04")
        screen.expect(pexpect.EOF)
    finally:
        screen.close(force=True)
    assert screen.exitstatus == 0
    saved = work / "relu1.npy"
    assert np.load(str(saved)).shape == (4, 8, 8, 8) and saved.stat().st_uid == os.getuid()


def answer(screen):
    """Wait until the prompt takes keys, telling it on the way where the cursor is."""
    while screen.expect_exact(["\x1b[6n", PROMPT_COMES]) == 0:
        screen.send("\x1b[1;1R")


@pytest.fixture
def copy(tmp_path, models):
    """A copy of the checkout with the sample models, so that what the commands write stays out of it."""
    for name in ("c2step", "docker", "scripts"):
        shutil.copytree(
            os.path.join(CHECKOUT, name), str(tmp_path / name), ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE", ".dockerignore"):
        shutil.copy(os.path.join(CHECKOUT, name), str(tmp_path / name))
    shutil.copytree(models, str(tmp_path / "models"))
    tmp_path.chmod(0o755)  # as a working folder usually is: without --user a stranger reads it
    return tmp_path


def test_the_readme_commands_run(engine, copy):
    with open(os.path.join(CHECKOUT, "README.md"), encoding="utf-8") as file:
        lines = "".join(re.findall(r"^```sh docker\n(.*?)^```", file.read(), re.M | re.S)).splitlines()
    binaries = copy / "bin"
    binaries.mkdir()
    (binaries / "docker").symlink_to(shutil.which(engine.docker))
    environment = dict(engine.environment, PATH=str(binaries) + os.pathsep + engine.environment["PATH"])
    for line in lines:
        if "docker-build" in line:
            line += engine.build_options
        screen = pexpect.spawn("sh", ["-c", line], cwd=str(copy), env=environment, dimensions=(40, 200),
                               encoding="utf-8", timeout=PATIENCE)  # fmt: skip
        if screen.expect_exact([PROMPT_COMES, pexpect.EOF]) == 0:
            screen.send("\x04")
            screen.expect(pexpect.EOF)
        screen.close()
        assert screen.exitstatus == 0, line + "\n" + screen.before


@pytest.fixture
def docker_here(engine, monkeypatch):
    """The same engine for c2step itself, running out here."""
    for name in ("DOCKER", "DOCKER_HOST"):
        if name in engine.environment:
            monkeypatch.setenv(name, engine.environment[name])
    return engine


def containers(engine):
    """The names of the containers of this process's workers."""
    names = engine.run(engine.docker, "ps", "--format", "{{.Names}}").stdout.split()
    return [name for name in names if name.startswith("c2step-%d-" % os.getpid())]


def test_slim_equals_full_bit_for_bit(docker_here, shared, tmp_path):
    runtimes = ("python:" + sys.executable, "docker:c2step")
    everything = [bit_for_bit.serialized(str(tmp_path))]
    everything += bit_for_bit.models_of(os.path.join(shared, "models"))
    verdicts = [bit_for_bit.compare(model, runtimes, str(tmp_path / str(n))) for n, model in enumerate(everything)]
    assert [verdict.differences for verdict in verdicts] == [[]] * len(everything)
    assert len(verdicts) == 10 and all(verdict.blobs for verdict in verdicts) and verdicts[0].operators == 156


def test_a_killed_container_is_a_died_worker(docker_here, tmp_path):
    from caffe2.proto import caffe2_pb2

    net = caffe2_pb2.NetDef(name="endless", external_input=["x", "yes"])
    net.op.add(type="Relu", input=["x"], output=["y"])
    loop = net.op.add(type="While", input=["yes"], output=["yes"])
    body = caffe2_pb2.NetDef(name="body", op=[caffe2_pb2.OperatorDef(type="Copy", input=["x"], output=["copied"])])
    loop.arg.add(name="loop_net").n.CopyFrom(body)
    net.op.add(type="Relu", input=["y"], output=["z"])
    (tmp_path / "predict_net.pb").write_bytes(net.SerializeToString())
    inputs = {"x": np.float32([-1, 2]), "yes": np.array([True])}
    with c2step.open(predict_net=str(tmp_path / "predict_net.pb"), inputs=inputs, runtime="docker:1.10.2") as session:
        (name,) = containers(docker_here)
        killer = threading.Thread(target=kill_at, args=(docker_here, name, session, 1))
        killer.start()
        stop = session.cont()
        killer.join()
        assert (stop.reason, stop.position) == ("died", 1) and "SIGKILL" in stop.detail
        assert session.fetch("y").array.tolist() == [0, 2]
        session.skip()
        assert session.cont().reason == "end" and session.fetch("z").array.tolist() == [0, 2]
        assert containers(docker_here) not in ([], [name])
    assert not containers(docker_here)


def kill_at(engine, name, session, index):
    """Kill the container when the worker is at that operator."""
    for _ in range(PATIENCE * 10):
        if session.workspace.doing().position >= index:
            break
        time.sleep(0.1)
    engine.run(engine.docker, "kill", name)
