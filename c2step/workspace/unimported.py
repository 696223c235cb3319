"""What packages would say, without the time that importing them takes: half a second for torch.  Worker side only."""

import contextlib
import ctypes
import importlib
import importlib.util
import os
import re
from typing import Iterator, Tuple

__all__ = ["thread_numbers", "version_of"]

_OPENMP = re.compile(r"lib(gomp|iomp5|omp)\b")


def thread_numbers() -> Tuple[int, int]:
    """How many threads OpenMP and MKL have in a bare Caffe2 script; torch says it where they cannot be asked."""
    loaded = list(_loaded())
    openmp = [_asked(path, "omp_get_max_threads") for path in loaded if _OPENMP.match(os.path.basename(path))]
    mkl = [_asked(path, "mkl_get_max_threads") for path in loaded if os.path.basename(path).startswith("libtorch")]
    found = max(openmp, default=0), max(mkl, default=0)
    if all(found):
        return found
    import torch

    number = int(torch.get_num_threads())
    return number, number


def _loaded() -> Iterator[str]:
    """The shared libraries of this process."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            yield from dict.fromkeys(line.rstrip("\n").split(None, 5)[-1] for line in file if ".so" in line)
    except OSError:
        return


def _asked(path: str, function: str) -> int:
    try:
        return int(getattr(ctypes.CDLL(path), function)())
    except (OSError, AttributeError):
        return 0


_VERSION = re.compile(r"^(?:__version__|version)\b[^=\n]*= *['\"]([^'\"]+)['\"]", re.M)


def version_of(package: str) -> str:
    """The version of an installed package, from its files where they say it; empty where there is no such package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin:
        return ""
    for name in ("version.py", "__init__.py"):
        with contextlib.suppress(OSError):
            with open(os.path.join(os.path.dirname(spec.origin), name), encoding="utf-8") as file:
                found = _VERSION.search(file.read())
            if found:
                return found.group(1)
    try:
        return str(importlib.import_module(package).__version__)
    except (ImportError, AttributeError):
        return ""
