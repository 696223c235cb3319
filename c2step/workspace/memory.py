"""How much memory this process holds, and a limit on it.  Linux; the worker uses it on itself."""

import resource
from typing import Optional

from ..errors import UsageError
from ..sizes import size_text

__all__ = ["limit_memory", "memory_held"]


def memory_held() -> int:
    """The bytes of data that the process has asked for: what the limit counts."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    return 0


def limit_memory(limit: Optional[int]) -> None:
    """Let an allocation fail where the process would hold more; UsageError where it holds that much already."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if limit is None:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        return
    held = memory_held()
    if limit <= held:
        raise UsageError(
            "at most %s of memory is too little: the worker holds %s before it runs anything"
            % (size_text(limit), size_text(held)),
            "allow more, --max-memory 2G",
        )
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))
