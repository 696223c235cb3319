"""For tests of sweeps: two hundred digits, and the processes that a sweep has."""

import os
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np


def write_digits(folder: Any, count: int) -> str:
    """Handwritten digits of scikit-learn, one .npy each."""
    from sklearn.datasets import load_digits

    folder.mkdir()
    for number, image in enumerate(load_digits().images[:count]):
        np.save(str(folder / ("%03d.npy" % number)), (image[None, None] / 16).astype(np.float32))
    return str(folder)


def processes() -> Iterator[Tuple[int, int, str]]:
    """Every process: its id, its parent's, its command line."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name) as file:
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
                with open("/proc/%s/cmdline" % name, "rb") as file:
                    yield int(name), parent, file.read().replace(b"\0", b" ").decode(errors="replace")
            except OSError:  # it ended meanwhile
                continue


def below(pid: int, word: str = "") -> List[int]:
    """The processes that a process has started, and those that these have, whose command holds a word."""
    children: Dict[int, List[int]] = {}
    commands = {}
    for one, parent, command in processes():
        children.setdefault(parent, []).append(one)
        commands[one] = command
    found, waiting = [], [pid]
    while waiting:
        waiting += children.get(waiting.pop(), [])
        found = sorted(set(found) | set(waiting))
    return [one for one in found if word in commands[one]]


JOB, WORKER, ENGINE = "sweeping.serving", "workspace.worker", "references.engines"
"""What the command line of a job, of its Caffe2 worker, and of its engine holds."""
