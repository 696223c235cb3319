"""Starts worker processes, the first one ahead of need.

A worker first loads Caffe2 and then reads which session it is for, so that it can be started before the front itself
has loaded what it needs; this module is light for that reason.
"""

import contextlib
import os
import subprocess
from typing import Any, Optional, Sequence

from ..errors import C2StepError, RuntimeMissing
from .runtime import AnyRuntime, Runtime, find_runtime

__all__ = ["Spare", "boot", "spare_for", "spawn"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The package is loaded from its own folder: the folder around it may be another Python's site-packages.
_BOOT = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("c2step", {init!r}, submodule_search_locations=[{package!r}])
package = importlib.util.module_from_spec(spec)
sys.modules["c2step"] = package
spec.loader.exec_module(package)
from c2step.{module} import main
main(*{arguments!r})
"""


def boot(module: str, *arguments: Any) -> str:
    """What `python -c` gets to call `main` of a module of this package, whatever package is installed there."""
    init = os.path.join(_PACKAGE, "__init__.py")
    return _BOOT.format(init=init, package=_PACKAGE, module=module, arguments=arguments)


def spawn(runtime: AnyRuntime, onnx: bool = False, yielding: bool = False) -> "subprocess.Popen[bytes]":
    """Start a worker, which loads Caffe2 (and its ONNX backend) and then waits; RuntimeMissing where that fails.

    Threads of a `yielding` one sleep while they wait for work: beside other processes that is the faster way.
    """
    # numpy's own threads would wait for Caffe2's; Caffe2 does not use this library
    environment = dict(os.environ, PYTHONUNBUFFERED="1", OPENBLAS_NUM_THREADS="1")
    environment.pop("PYTHONPATH", None)
    if yielding:
        environment.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        return subprocess.Popen(
            runtime.command(["-c", boot("workspace.worker", onnx)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env=environment,
        )
    except OSError as error:
        raise RuntimeMissing("cannot start %s: %s" % (runtime, error.strerror or error)) from error


class Spare:
    """A worker that was started ahead, until a session of the same runtime takes it."""

    def __init__(self, runtime: Runtime, onnx: bool, yielding: bool = False) -> None:
        self._runtime, self._yielding = runtime, yielding
        self._process: Optional["subprocess.Popen[bytes]"] = spawn(runtime, onnx, yielding)

    def take(self, runtime: AnyRuntime, yielding: bool = False) -> Optional["subprocess.Popen[bytes]"]:
        """The worker, once, if it is of this runtime and this kind and still there."""
        process = self._process
        if process is None or (runtime, yielding) != (self._runtime, self._yielding) or process.poll() is not None:
            return None
        self._process = None
        return process

    def close(self) -> None:
        """End it where nobody took it."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream
            stream.close()
        process.wait()


def spare_for(words: Sequence[str], yielding: bool = False) -> Optional[Spare]:
    """A worker for what a command line will open; None where that has no runtime here, or asks for help only."""
    if not words or "-h" in words or "--help" in words:
        return None
    with contextlib.suppress(C2StepError):  # it is said where the command itself looks for it
        runtime = find_runtime(_runtime_of(words))
        if isinstance(runtime, Runtime):
            return Spare(runtime, any(word.endswith(".onnx") for word in words), yielding)
    return None


def _runtime_of(words: Sequence[str]) -> Optional[str]:
    for word, following in zip(words, [*words[1:], ""]):
        if word == "--runtime":
            return following
        if word.startswith("--runtime="):
            return word.partition("=")[2]
    return None
