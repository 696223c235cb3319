"""The set-up scripts: which interpreter they find, and environments that mend themselves.

A shell script stands in for Python: it makes "environments" in no time and logs what pip is asked for.
"""

import os
import shutil
import subprocess
import sys

import pytest

from shared_material import CHECKOUT

VERSION = "%d.%d" % sys.version_info[:2]
TOOLS = ("bash", "dirname", "cat", "cksum", "mkdir", "rm", "flock", "cp", "chmod")

FAKE_PYTHON = """#!/usr/bin/env bash
here=$(dirname "$0")
if [ "$1 $2" = "-m venv" ]; then
  mkdir -p "$3/bin"
  cp "$0" "$3/bin/python"
elif [ "$1 $2" = "-m pip" ]; then
  echo "${@: -1}" >>"$LOG"
  [ -z "${PIP_FAILS:-}" ]
elif [ "$1 $2 $3" = "-W ignore -c" ]; then
  [ ! -e "$here/broken" ] || { echo "ImportError: broken"; exit 1; }
else
  exit 1
fi
"""


@pytest.fixture
def place(tmp_path):
    """A checkout with the scripts, and a PATH with a few tools and no Python."""
    root = tmp_path / "check out"
    for folder in ("scripts", "docker"):
        shutil.copytree(os.path.join(CHECKOUT, folder), str(root / folder))
    shutil.copy(os.path.join(CHECKOUT, "pyproject.toml"), str(root))
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        if found:
            (tools / tool).symlink_to(found)
    return Place(root, tools, tmp_path)


class Place:
    """Runs shell lines with the functions of environment.sh, in a checkout of its own."""

    def __init__(self, root, tools, outside):
        self.root, self.tools, self.outside = root, tools, outside
        self.log = outside / "pip.log"
        self.python = outside / "fake python"
        self.python.write_text(FAKE_PYTHON)
        self.python.chmod(0o755)

    def run(self, *command, **variables):
        env = {"PATH": str(self.tools), "HOME": str(self.outside), "LOG": str(self.log)}
        return subprocess.run(
            command,
            env=dict(env, **variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=60,
        )

    def shell(self, lines, **variables):
        source = 'set -euo pipefail; . "%s/scripts/lib/environment.sh"; ' % self.root
        return self.run(str(self.tools / "bash"), "-c", source + lines, **variables)

    def environment(self, wanted="numpy", **variables):
        lines = 'environment "$root/.venv" "%s" "import x" %s; echo made' % (self.python, wanted)
        return self.shell(lines, **variables)

    def asked(self):
        return self.log.read_text().split() if self.log.exists() else []


def test_finds_python_on_path(place):
    (place.tools / "python3").symlink_to(sys.executable)
    done = place.shell("find_python 9.9 " + VERSION)
    assert os.path.samefile(done.stdout.strip(), sys.executable)


def test_passes_over_commands_that_do_not_run(place):
    broken = place.tools / ("python" + VERSION)
    broken.write_text("#!/usr/bin/env bash\necho 'not this version' >&2\nexit 127\n")
    broken.chmod(0o755)
    (place.tools / "python").symlink_to(sys.executable)
    done = place.shell("find_python " + VERSION)
    assert os.path.samefile(done.stdout.strip(), sys.executable)
    assert done.stderr == ""


@pytest.mark.parametrize("variables", [{}, {"PYENV_ROOT": "elsewhere"}], ids=["home", "PYENV_ROOT"])
def test_finds_python_among_pyenvs_versions(place, variables):
    folder = place.outside / variables.get("PYENV_ROOT", ".pyenv")
    home = folder / "versions" / (VERSION + ".1") / "bin"
    home.mkdir(parents=True)
    (home / "python").symlink_to(sys.executable)
    done = place.shell("find_python " + VERSION, **{name: str(folder) for name in variables})
    assert os.path.samefile(done.stdout.strip(), sys.executable)


def test_python_of_another_version_is_none(place):
    (place.tools / "python3").symlink_to(sys.executable)
    assert place.shell("find_python 9.9").returncode == 1


def test_asks_uv_where_there_is_no_other(place):
    uv = place.tools / "uv"
    uv.write_text('#!/usr/bin/env bash\n[ "$2 $3" = "find %s" ] && echo "%s"\n' % (VERSION, sys.executable))
    uv.chmod(0o755)
    done = place.shell("find_python {0} || uv_python 9.9 {0}".format(VERSION))
    assert os.path.samefile(done.stdout.strip(), sys.executable)


@pytest.mark.parametrize("script", ["demo", "test", "make_models"])
def test_without_any_python_one_line_says_what_to_install(place, script):
    done = place.run(str(place.tools / "bash"), str(place.root / "scripts" / script))
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "install Python 3.9" in line


def test_environment_is_made_once(place):
    first, second = place.environment(), place.environment()
    assert "Installing" in first.stderr and first.stdout == "made\n"
    assert (second.stdout, second.stderr) == ("made\n", "")
    assert place.asked() == ["pip>=22.1", "numpy"]


def test_environment_that_was_cut_short_is_made_anew(place):
    failed = place.environment(PIP_FAILS="1")
    assert failed.returncode != 0 and "made" not in failed.stdout
    leftover = place.root / ".venv" / "leftover"
    leftover.write_text("")
    assert place.environment().stdout == "made\n"
    assert not leftover.exists()


def test_broken_environment_is_made_anew(place):
    place.environment()
    (place.root / ".venv" / "bin" / "broken").write_text("")
    done = place.environment()
    assert "Installing" in done.stderr and done.stdout == "made\n"
    assert not (place.root / ".venv" / "bin" / "broken").exists()


def test_environment_without_its_python_is_made_anew(place):
    place.environment()
    (place.root / ".venv" / "bin" / "python").unlink()
    assert place.environment().stdout == "made\n"


def test_changed_pins_are_installed_into_the_same_environment(place):
    place.environment()
    kept = place.root / ".venv" / "kept"
    kept.write_text("")
    with open(str(place.root / "docker" / "pins" / "caffe2.txt"), "a") as pins:
        pins.write("more==1.0\n")
    assert "Installing" in place.environment().stderr
    assert place.asked() == ["pip>=22.1", "numpy"] * 2
    assert kept.exists()


def test_environment_that_does_not_work_says_so(place):
    def broken(text):
        return text.replace('cp "$0" "$3/bin/python"', 'cp "$0" "$3/bin/python"; : >"$3/bin/broken"')

    place.python.write_text(broken(FAKE_PYTHON))
    done = place.environment()
    assert done.returncode != 0
    assert "ImportError: broken" in done.stderr
    assert not (place.root / ".venv" / "finished").exists()
