"""Starting: until the first prompt stands, and what --help imports."""

import os
import pty
import subprocess
import sys
import time
from typing import List, Set

from .setting import Setting
from .table import Row
from .timing import Figure, alternate, quotient

__all__ = ["starting"]

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_HEAVY = ("numpy", "prompt_toolkit", "onnx", "onnxruntime", "torch", "caffe2", "google")
_IMPORTED = """import contextlib, io, sys
from c2step.cli import main
with contextlib.redirect_stdout(io.StringIO()): main(["--help"])"""
_SAID = "\nprint(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"


def starting(setting: Setting) -> List[Row]:
    """The first prompt on a small model, against importing Caffe2 and onnx; the heavy imports of --help."""
    model = setting.chain(10)
    c2step = [sys.executable, "-m", "c2step"]
    imports = [sys.executable, "-c", "import caffe2.python.workspace, onnx"]
    sides = {
        "ours": lambda: _until_prompt([*c2step, model.path, "--input", model.inputs], setting.folder),
        "theirs": lambda: _until_end(imports),
        "help": lambda: _until_end([*c2step, "--help"]),
        "python": lambda: _until_end([sys.executable, "-c", ""]),
    }
    seconds = alternate(sides, setting.rounds(15), 1)
    heavy = float(len(_loaded(_IMPORTED + _SAID).intersection(_HEAVY) - _loaded("import sys" + _SAID)))
    return [
        Row("start", "first prompt on a small model", '`python -c "import caffe2.python.workspace, onnx"`', "x", 1.5,
            quotient(seconds["ours"], seconds["theirs"])),
        Row("start", "`c2step --help`", "heavy imports", "imports", 0.0, Figure(heavy, heavy, heavy)),
        Row("start", "`c2step --help`", '`python -c ""`', "x", None, quotient(seconds["help"], seconds["python"])),
    ]  # fmt: skip


def _loaded(code: str) -> Set[str]:
    """The libraries that are loaded when an interpreter has run this; some come with it through .pth files."""
    return set(subprocess.check_output([sys.executable, "-c", code], cwd=_ROOT).decode().split())


def _until_end(command: List[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def _until_prompt(command: List[str], home: str) -> float:
    """The seconds until the prompt stands in a terminal of its own."""
    environment = dict(os.environ, TERM="xterm", XDG_CONFIG_HOME=home, XDG_STATE_HOME=home)
    ours, theirs = pty.openpty()
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=_ROOT, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    said = b""
    while b"(c2step)" not in said:
        said += os.read(ours, 65536)
        if b"\x1b[6n" in said:  # where is the cursor?
            os.write(ours, b"\x1b[1;1R")
            said = said.replace(b"\x1b[6n", b"")
    seconds = time.perf_counter() - start
    os.write(ours, b"\x04")
    try:
        while os.read(ours, 65536):
            pass
    except OSError:  # the other end is closed
        pass
    process.wait()
    os.close(ours)
    return seconds
