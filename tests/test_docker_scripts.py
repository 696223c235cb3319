"""The Dockerfile's own rules and the scripts around it, without an engine."""

import os
import re
import runpy
import shutil
import subprocess
import sys

import pytest

from shared_material import CHECKOUT


@pytest.fixture
def run(tmp_path):
    """Runs a script: its exit status, what it told Docker, and its error text."""
    (tmp_path / "docker").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "docker").chmod(0o755)
    environment = dict(os.environ, DOCKER=str(tmp_path / "docker"))
    environment.pop("C2STEP_IMAGE", None)

    def script(name, *arguments):
        done = subprocess.run(
            ["scripts/" + name] + list(arguments), cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True
        )  # fmt: skip
        return done.returncode, done.stdout.splitlines(), done.stderr

    return script


def dockerfile():
    with open(os.path.join(CHECKOUT, "docker", "Dockerfile")) as file:
        return file.read()


def test_the_dockerfile_builds_from_a_base_that_is_there():
    text = dockerfile()
    assert not re.search(r"^#\s*syntax=", text, re.MULTILINE)
    assert not re.search(r"^FROM.*@sha256", text, re.MULTILINE)
    assert "ARG BASE_IMAGE=python:${PYTHON_VERSION}-slim-bookworm" in text
    assert not re.search(r"https?://", text)


def test_the_default_is_the_slim_target_of_torch_1_10_2(run):
    stages = re.findall(r"^FROM \S+ AS (\S+)", dockerfile(), re.MULTILINE)
    assert stages[-1] == "slim"
    _, words, _ = run("docker-build")
    assert words[words.index("--target") + 1] == "slim"
    assert {"TORCH_VERSION=1.10.2", "PYTHON_VERSION=3.9.18", "c2step", "c2step:1.10.2"} <= set(words)


def test_an_older_version_gets_its_python_and_its_tag(run):
    _, words, _ = run("docker-build", "1.2.0", "full", "--network", "host")
    assert {"TORCH_VERSION=1.2.0", "PYTHON_VERSION=3.7.17", "c2step:1.2.0-full", "full", "--network"} <= set(words)
    assert "c2step" not in words and words[-1] == "."


@pytest.mark.parametrize("version", ["1.11.0", "1.1", "10"])
def test_a_version_without_caffe2_is_refused(run, version):
    for script in ("docker-build", "make-runtime", "lock-pins"):
        status, words, error = run(script, version)
        assert (
            status == 2 and not words and ("no Caffe2 of torch %s" % version in error or "no torch " + version in error)
        )


def test_docker_run_gives_the_container_this_folder_and_nothing_else(run):
    _, words, _ = run("docker-run", "model.onnx", "--input", "a b.npz")
    assert words[-4:] == ["c2step", "model.onnx", "--input", "a b.npz"]
    assert {"--read-only", "--network", "none", "%d:%d" % (os.getuid(), os.getgid()), CHECKOUT + ":/work"} <= set(words)
    assert "-t" not in words  # no terminal here


@pytest.fixture
def library(tmp_path):
    """A copy of one of numpy's small extension modules, beside a copy that the slimming rewrote."""
    import numpy.fft

    place = os.path.dirname(numpy.fft.__file__)
    source = next(os.path.join(place, name) for name in os.listdir(place) if ".so" in name)
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        shutil.copy(source, str(tmp_path / name))
    return tmp_path, os.path.basename(source)


def test_a_rewritten_library_is_smaller_and_works(library):
    folder, name = library
    slim = runpy.run_path(os.path.join(CHECKOUT, "scripts", "slim"))
    slim["rewrite"](str(folder / "after" / name), hollow=True)
    assert (folder / "after" / name).stat().st_size < (folder / "before" / name).stat().st_size
    script = (
        "import sys, importlib.util as u, numpy as np, numpy.fft\n"
        "spec = u.spec_from_file_location(sys.argv[1], sys.argv[2])\n"
        "module = u.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "print(module.execute(np.arange(8.0) + 1j, False, True, 1.0).tobytes().hex())\n"
    )
    said = [
        subprocess.run([sys.executable, "-c", script, name.split(".")[0], str(folder / side / name)], check=True,
                       stdout=subprocess.PIPE).stdout
        for side in ("before", "after")
    ]  # fmt: skip
    assert said[0] == said[1] and len(said[0]) == 8 * 16 * 2 + 1
