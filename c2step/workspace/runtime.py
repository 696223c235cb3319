"""Which interpreter runs the operators.

`python:PATH` names one, `docker:IMAGE` one in a container, and a version alone, as 1.2.0, the environment
`.envs/torch-1.2.0` that scripts/make-runtime makes.  Without a name it is this interpreter if it has Caffe2,
else the pinned environment that set-up made (`.venv` beside the package, or the one in C2STEP_RUNTIME).
"""

import importlib.util
import os
import re
import shutil
import signal
import sys
from typing import Iterable, List, NamedTuple, Optional, Union

from ..errors import RuntimeMissing
from .container import Container

__all__ = ["DEFAULT", "ROOT", "AnyRuntime", "Runtime", "find_runtime", "has_caffe2"]

# The checkout, where there is one: set-up makes its environments in it.
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_ENVIRONMENT = "C2STEP_RUNTIME"
_NONE = (
    "no interpreter with Caffe2 was found",
    "run ./scripts/demo once to make one, or name one: --runtime python:/path/to/python "
    "(Python 3.7 to 3.9 with torch 1.0.0 to 1.10.2)",
)


class Runtime(NamedTuple):
    """An interpreter with Caffe2, and how it was chosen."""

    python: str
    name: str

    def command(self, arguments: List[str]) -> List[str]:
        """The command line that starts it."""
        return [self.python] + arguments

    def share(self, folders: Iterable[str]) -> None:
        """A process here sees every folder."""

    def kill(self, pid: int) -> None:
        """End the worker now."""
        os.kill(pid, signal.SIGKILL)

    def ending(self, code: int) -> int:
        """The worker's exit status, negative for a signal."""
        return code

    @property
    def hint(self) -> str:
        """What to do where it does not work."""
        return (
            "it needs Python 3.7 to 3.9 with torch 1.0.0 to 1.10.2, numpy below 1.24, protobuf 3.20, onnx, future, six"
        )

    def __str__(self) -> str:
        return self.name


DEFAULT = "default"  # the word for what is used where --runtime is not given
AnyRuntime = Union[Runtime, Container]


def has_caffe2() -> bool:
    """Whether this interpreter has Caffe2's Python bindings, without importing them."""
    found = importlib.util.find_spec("caffe2")
    if found is None or not found.submodule_search_locations:
        return False
    folder = os.path.join(list(found.submodule_search_locations)[0], "python")
    return os.path.isdir(folder) and any(name.startswith("caffe2_pybind11_state") for name in os.listdir(folder))


def find_runtime(spec: Optional[str] = None) -> AnyRuntime:
    """The interpreter that `--runtime` names, or the default one; RuntimeMissing where there is none."""
    spec = (spec or os.environ.get(_ENVIRONMENT) or "").strip()
    if spec and spec != DEFAULT:
        return _named(spec)
    if has_caffe2():
        return Runtime(sys.executable, "this interpreter")
    pinned = os.path.join(ROOT, ".venv", "bin", "python")
    if os.access(pinned, os.X_OK):
        return Runtime(pinned, "python:%s" % pinned)
    raise RuntimeMissing(*_NONE)


def _named(spec: str) -> AnyRuntime:
    kind, colon, path = spec.partition(":")
    if kind == "docker" and path:
        if not shutil.which(os.environ.get("DOCKER") or "docker"):
            raise RuntimeMissing("runtime %s: there is no docker command" % spec, "scripts/make-runtime needs none")
        return Container(path)
    if _VERSION.fullmatch(spec):
        return _made(spec)
    if not colon or kind != "python":
        kind, path = "python", spec
    if os.path.isdir(path):
        path = os.path.join(path, "bin", "python")
    if not os.access(path, os.X_OK):
        raise RuntimeMissing(
            "runtime %s: %s is no program" % (spec, path or "nothing"),
            "a version such as 1.2.0, python:/path/to/python or docker:IMAGE is wanted; c2step runtimes lists them",
        )
    return Runtime(os.path.abspath(path), "python:%s" % path)


def _made(version: str) -> Runtime:
    python = os.path.join(ROOT, ".envs", "torch-" + version, "bin", "python")
    if not os.access(python, os.X_OK):
        raise RuntimeMissing(
            "runtime %s: there is no .envs/torch-%s" % (version, version),
            "scripts/make-runtime %s makes it; c2step runtimes lists what is there" % version,
        )
    return Runtime(python, version)
