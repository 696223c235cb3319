"""What the README shows is run: every shell command, and the script."""

import os
import re
import subprocess
import sys

import pytest


def blocks(checkout):
    with open(os.path.join(checkout, "README.md"), encoding="utf-8") as file:
        return re.findall(r"^```(sh|sh fails|python)\n(.*?)^```", file.read(), re.M | re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, models):
    """A working folder with the sample models, shared by the commands, which follow on each other."""
    path = tmp_path_factory.mktemp("readme")
    os.symlink(models, str(path / "models"))
    return str(path)


def run(command, folder, checkout):
    environment = dict(os.environ, PYTHONPATH=checkout)
    return subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, stdin=subprocess.DEVNULL)  # fmt: skip


def test_commands(checkout, folder):
    shell = [(kind, line) for kind, text in blocks(checkout) if kind != "python" for line in text.splitlines()]
    assert len(shell) > 10
    for kind, line in shell:
        assert line.startswith("c2step ")
        done = run(["sh", "-c", "%s -m %s" % (sys.executable, line)], folder, checkout)
        assert done.returncode == (1 if kind == "sh fails" else 0), "%s\n%s" % (line, done.stdout)


def test_script(checkout, folder):
    for _, text in [block for block in blocks(checkout) if block[0] == "python"]:
        done = run([sys.executable, "-c", text], folder, checkout)
        assert done.returncode == 0, done.stdout
