"""The command line of a worker in a container, without an engine: what it sees, what it may, and how it ends."""

import os
import subprocess
import sys

import pytest

from c2step import errors
from c2step.workspace.container import Container
from c2step.workspace.process import ProcessWorkspace
from c2step.workspace.runtime import find_runtime


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder, another place for temporary files, and a `docker` that fails as told."""
    for name in ("work", "temporary", "models", "bin"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("DOCKER", str(tmp_path / "bin" / "docker"))
    return tmp_path


def docker(place, script):
    path = place / "bin" / "docker"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)


def mounts(words):
    found = [words[i + 1] for i, word in enumerate(words) if word == "--mount"]
    return {option.split('"')[1][len("source=") :]: option.endswith(",readonly") for option in found}


@pytest.mark.parametrize(
    "word, image", [("1.2.0", "c2step:1.2.0"), ("c2step", "c2step"), ("registry/a/b:tag", "registry/a/b:tag")]
)
def test_a_version_means_our_image_of_it(word, image):
    assert Container(word).command([])[-1] == image


def test_the_container_sees_what_it_needs_and_only_the_package_read_only(place):
    container = Container("c2step")
    container.share([str(place / "models"), str(place / "models" / "inner"), str(place / "not" / "yet")])
    seen = mounts(container.command(["-c", "x"]))
    package = os.path.dirname(os.path.dirname(sys.modules["c2step.workspace"].__file__))
    assert seen[package] and [folder for folder, readonly in seen.items() if readonly] == [package]
    # `not/yet` is shared by the folder around it, which holds all the others
    assert set(seen) == {package, str(place)}
    fresh = Container("c2step")
    fresh.share([str(place / "models")])
    assert set(mounts(fresh.command([]))) == {package} | {str(place / name) for name in ("work", "temporary", "models")}


def test_nothing_that_hides_the_image_is_mounted(place, monkeypatch):
    container = Container("c2step")
    container.share(["/", "/usr", "/etc"])
    assert not {"/", "/usr", "/etc"} & set(mounts(container.command([])))


def test_no_network_no_pull_the_callers_files_and_his_threads(place, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    words = Container("c2step").command([])
    pairs = set(zip(words, words[1:]))
    user = "%d:%d" % (os.getuid(), os.getgid())
    assert {("--network", "none"), ("--pull", "never"), ("--user", user), ("--env", "OMP_NUM_THREADS=1")} <= pairs
    assert {"--read-only", "--rm", "--init"} <= set(words)


def test_each_worker_has_a_container_of_its_own(place):
    container = Container("c2step")
    names = {container.command([])[container.command([]).index("--name") + 1] for _ in range(3)}
    assert len(names) == 3


@pytest.mark.parametrize("code, told", [(137, -9), (136, -8), (134, -6), (0, 0), (1, 1), (125, 125)])
def test_the_signal_of_the_worker_shows_through(code, told):
    assert Container("c2step").ending(code) == told


def test_kill_ends_the_container_not_its_client(place):
    docker(place, 'echo "$@" > %s/said\n' % place)
    container = Container("c2step")
    words = container.command([])
    container.kill(os.getpid())
    assert (place / "said").read_text().split() == ["kill", words[words.index("--name") + 1]]


def test_an_image_that_is_not_there_is_one_line(place):
    docker(
        place, 'echo "docker: Error: No such image: c2step:9." >&2; echo "See \'docker run --help\'." >&2; exit 125\n'
    )
    workspace = ProcessWorkspace(find_runtime("docker:9"))
    with pytest.raises(errors.RuntimeMissing) as told:
        workspace.declare({"model": "/nowhere/model.onnx"})
    workspace.close()
    assert "docker:c2step:9 does not start" in told.value.message and "No such image" in told.value.message
    assert "docker-build" in told.value.hint


def test_without_docker_the_runtime_is_missing(place):
    with pytest.raises(errors.RuntimeMissing) as told:
        find_runtime("docker:c2step")
    assert "no docker command" in told.value.message


def test_the_worker_behind_it_is_a_worker(place, shared):
    """A `docker` that runs the command here: everything but the container itself is as in one."""
    docker(place, 'while [ "$1" != --entrypoint ]; do shift; done\nshift 3\nexec %s "$@"\n' % sys.executable)
    folder = os.path.join(shared, "models", "digits_cnn_bn-op9")
    import c2step

    with c2step.open(
        os.path.join(folder, "model.onnx"), [os.path.join(folder, "input.npz")], runtime="docker:c2step"
    ) as session:
        assert session.cont().reason == "end"
    assert (
        subprocess.run([os.environ["DOCKER"], "run", "--entrypoint", "python", "c2step", "--version"]).returncode == 0
    )
