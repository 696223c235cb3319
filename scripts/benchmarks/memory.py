"""Memory: the peak of all processes of a command, within what --max-memory allows, and as the inputs get more."""

import os
import subprocess
import sys
import threading
import time
from typing import Callable, Dict, List, Set

import numpy as np

from .setting import Model, Setting
from .stepping import name_of
from .table import Row
from .timing import Figure, figure

__all__ = ["memory"]

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BUDGET = 1 << 30  # bytes
_EVERY = 0.01  # seconds
_SUM = "the sum of the PSS of all its processes, every 10 ms"


def memory(setting: Setting) -> List[Row]:
    """dump, blame and sweep of ResNet-50 with --max-memory 1G; a sweep over three times as many inputs."""
    model = setting.model("resnet50")
    rows = [_within(setting, model, what) for what in ("dump", "blame")]
    return rows + _sweeps(setting, model)


def _within(setting: Setting, model: Model, what: str) -> Row:
    def once() -> float:
        with setting.temporary() as folder:
            more = {"dump": ["-o", os.path.join(folder, "out")], "blame": ["--against", "onnxruntime"]}[what]
            return _peak([what, model.path, "--input", model.inputs, "--max-memory", str(_BUDGET), *more])

    return _row("`%s` of %s, peak" % (what, name_of(model.name)), _measured(once, 2))


def _row(what: str, found: Figure) -> Row:
    return Row("memory", what, "`--max-memory 1G`, " + _SUM, "MB", _BUDGET / 1e6, found)


def _sweeps(setting: Setting, model: Model) -> List[Row]:
    few, many = (_measured(lambda count=count: _sweep(setting, model, count), 2) for count in (4, 12))
    grown = Figure(*(value / few.median for value in many))
    return [
        _row("`sweep` of %s with 2 jobs, peak" % name_of(model.name), many),
        Row("memory", "`sweep` over 12 inputs, peak", "over 4 inputs", "x", 1.1, grown),
    ]


def _sweep(setting: Setting, model: Model, count: int) -> float:
    with setting.temporary() as folder:
        [(name, array)] = model.arrays().items()
        rows = np.random.RandomState(0).standard_normal((count,) + array.shape[1:]).astype(array.dtype)
        path = os.path.join(folder, "inputs.npz")
        np.savez(path, **{name: rows})
        return _peak(["sweep", model.path, "--inputs", path, "--against", "onnxruntime", "--jobs", "2",
                      "--max-memory", str(_BUDGET), "-o", os.path.join(folder, "sweep")])  # fmt: skip


def _measured(once: Callable[[], float], rounds: int) -> Figure:
    return figure([once() / 1e6 for _ in range(rounds)])


def _peak(arguments: List[str]) -> float:
    """The most bytes that a command and all that it starts hold at one time; RuntimeError where it fails."""
    process = subprocess.Popen(
        [sys.executable, "-m", "c2step", *arguments], cwd=_ROOT, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
    )  # fmt: skip
    said: List[str] = []
    assert process.stdout
    reading = threading.Thread(target=lambda stream=process.stdout: said.append(stream.read()))
    reading.start()
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(_pss, _family(process.pid))))
        time.sleep(_EVERY)
    reading.join()
    process.stdout.close()
    if process.returncode not in (0, 1):
        raise RuntimeError("c2step %s ended with %d:\n%s" % (" ".join(arguments), process.returncode, "".join(said)))
    return float(peak)


def _family(ancestor: int) -> List[int]:
    """A process and all that descend from it."""
    children: Dict[int, Set[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, encoding="utf-8", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, set()).add(int(name))
    found, ahead = [], [ancestor]
    while ahead:
        found.append(ahead.pop())
        ahead += children.get(found[-1], ())
    return found


def _pss(pid: int) -> int:
    """The bytes that a process holds, what it shares with others divided by how many they are."""
    try:
        with open("/proc/%d/smaps_rollup" % pid) as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0
