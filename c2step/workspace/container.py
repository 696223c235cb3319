"""A worker in a container: `docker:IMAGE`, or `docker:1.2.0` for the image c2step:1.2.0.

Both sides see the same folders at the same places, so that every path in a request is true on both: the package
(read-only), the worker's scratch folder through which values go, the model's folders, the working folder, and where
temporary captures are.  The container has no network, and files that it makes belong to the caller.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import uuid
from typing import Dict, Iterable, List, Optional, Set

__all__ = ["Container"]

# Mounting one of these would hide what the image is made of.
_THE_IMAGE_S = ("/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var")
# How many threads share a matrix product decides its last bit.
_PASSED_ON = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_CBWR")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_KILLED_BY = 128  # a shell's and Docker's way to say which signal: 137 for SIGKILL


class Container:
    """An image with Caffe2; each worker runs in a container of its own."""

    def __init__(self, image: str) -> None:
        self.image = "c2step:" + image if image[:1].isdigit() else image
        self._docker = os.environ.get("DOCKER") or "docker"
        self._folders: Set[str] = set()
        self._running: Optional[str] = None

    def share(self, folders: Iterable[str]) -> None:
        """Let workers that are started from now on see these folders, where they are on this side."""
        for folder in map(os.path.abspath, folders):
            while not os.path.isdir(folder):
                folder = os.path.dirname(folder)
            self._folders.update((folder, os.path.realpath(folder)))

    def command(self, arguments: List[str]) -> List[str]:
        """The command line that starts a worker, in a container with a name of its own."""
        self._running = "c2step-%d-%s" % (os.getpid(), uuid.uuid4().hex[:8])
        words = [self._docker, "run", "--rm", "--interactive", "--init", "--pull", "never"]
        words += ["--name", self._running]
        words += ["--network", "none", "--user", "%d:%d" % (os.getuid(), os.getgid()), "--read-only"]
        words += [
            "--env",
            "PYTHONUNBUFFERED=1",
            "--env",
            "OPENBLAS_NUM_THREADS=1",
            "--env",
            "TMPDIR=" + tempfile.gettempdir(),
        ]
        for name in _PASSED_ON:
            if name in os.environ:
                words += ["--env", "%s=%s" % (name, os.environ[name])]
        for folder, access in self._mounts().items():
            words += ["--mount", 'type=bind,"source=%s","target=%s"%s' % (folder, folder, access)]
        return words + ["--entrypoint", "python", self.image] + arguments

    def _mounts(self) -> Dict[str, str]:
        """Each folder that a worker sees, with its access; a folder inside another needs no mount of its own."""
        found = {_PACKAGE: ",readonly"}
        always = {os.path.abspath(tempfile.gettempdir()), os.path.realpath(tempfile.gettempdir()), os.getcwd()}
        for folder in sorted(self._folders | always, key=len):
            inside = any(folder == outer or folder.startswith(outer + os.sep) for outer in found if outer != _PACKAGE)
            if not inside and folder not in _THE_IMAGE_S and os.path.isdir(folder):
                found[folder] = ""
        return found

    def kill(self, pid: int) -> None:
        """End the worker now: the end of Docker's client, which has this process id, would leave it running."""
        if self._running:
            with contextlib.suppress(OSError):
                subprocess.run(
                    [self._docker, "kill", self._running], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )

    def ending(self, code: int) -> int:
        """The client's exit status as Popen would tell it of the worker itself: -9 for 137."""
        return _KILLED_BY - code if _KILLED_BY < code < _KILLED_BY + 65 else code

    @property
    def python(self) -> str:
        """The interpreter of what needs no Caffe2, such as onnxruntime's golden values: out here, this one."""
        return sys.executable

    @property
    def hint(self) -> str:
        """What to do where it does not work."""
        return "scripts/docker-build VERSION makes an image, and `docker images` lists those that are there"

    def __str__(self) -> str:
        return "docker:" + self.image
