"""Folders for the time of one process, and what processes that were killed have left of theirs."""

import os
import re
import shutil
import tempfile

__all__ = ["runs", "scratch_folder"]


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    try:
        with open("/proc/%d/stat" % pid) as file:  # one that has ended and was not waited for does not run
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


def scratch_folder(kind: str) -> str:
    """A new temporary folder; those of the same kind whose processes were killed go away."""
    base = tempfile.gettempdir()
    mine = re.compile(r"c2step-%s-(\d+)-" % re.escape(kind))
    for name in os.listdir(base):
        match, path = mine.match(name), os.path.join(base, name)
        if match and _is_mine(path) and not runs(int(match.group(1))):
            shutil.rmtree(path, ignore_errors=True)
    return tempfile.mkdtemp(prefix="c2step-%s-%d-" % (kind, os.getpid()))


def _is_mine(path: str) -> bool:
    try:
        return os.lstat(path).st_uid == os.getuid()
    except OSError:
        return False
