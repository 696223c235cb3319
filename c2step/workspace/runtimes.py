"""Every Caffe2 that is at hand, and how to get the others."""

import os
import subprocess
import sys
import threading
from typing import Any, Dict, List, NamedTuple, Tuple

from ..errors import C2StepError, WorkerDied
from .process import ProcessWorkspace
from .runtime import DEFAULT, ROOT, find_runtime, has_caffe2

__all__ = ["DEFAULT", "Probe", "environments", "images", "obtainable", "probe"]

_DOCKER_SECONDS = 5.0


class Probe(NamedTuple):
    """What one runtime said of itself: its versions, or in one line why it does not work."""

    name: str
    versions: Dict[str, Any]
    missing: str

    @property
    def works(self) -> bool:
        """Whether it runs operators."""
        return bool(self.versions)

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON."""
        return dict({"runtime": self.name, "works": self.works, "missing": self.missing}, versions=self.versions)


def environments() -> List[str]:
    """What --runtime may be on this machine without Docker, the default first."""
    found = [DEFAULT]
    pinned = os.path.join(ROOT, ".venv", "bin", "python")
    if has_caffe2() and pinned != os.path.abspath(sys.executable) and os.access(pinned, os.X_OK):
        found.append("python:" + pinned)
    folder = os.path.join(ROOT, ".envs")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    made = [name[len("torch-") :] for name in names if name.startswith("torch-")]
    return found + [version for version in sorted(made, key=_order) if os.access(_python(version), os.X_OK)]


def _python(version: str) -> str:
    return os.path.join(ROOT, ".envs", "torch-" + version, "bin", "python")


def _order(version: str) -> Tuple[Any, ...]:
    return tuple(int(part) if part.isdigit() else -1 for part in version.split("."))


def images() -> Tuple[List[str], str]:
    """Docker's images of c2step as --runtime wants them, or in one line why Docker does not say."""
    command = [os.environ.get("DOCKER") or "docker", "images", "--format", "{{.Repository}}:{{.Tag}}", "c2step"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=_DOCKER_SECONDS,
        )
    except OSError as error:
        return [], "docker: %s" % (error.strerror or error)
    except subprocess.TimeoutExpired:
        return [], "docker: no answer in %g seconds" % _DOCKER_SECONDS
    if done.returncode:
        return [], "docker: " + _line(done.stderr)
    return ["docker:" + name for name in done.stdout.split() if not name.endswith(":<none>")], ""


def probe(name: str, seconds: float = 30.0) -> Probe:
    """Start a worker of this runtime and ask for its versions, for at most so long."""
    try:
        workspace = ProcessWorkspace(find_runtime(None if name == DEFAULT else name))
    except C2StepError as error:
        return Probe(name, {}, _line(error.message))
    limit = threading.Timer(seconds, workspace.kill)
    limit.start()
    try:
        versions = workspace.versions()
        lacking = [] if "onnx" in versions else ["no onnx: opens nets only"]
        return Probe(name, versions, "; ".join(lacking))
    except WorkerDied as death:
        return Probe(name, {}, "no answer in %g seconds" % seconds if death.by_user else _line(death.message))
    except (C2StepError, RuntimeError) as error:
        return Probe(name, {}, _line(str(getattr(error, "message", error)).strip().split("\n")[-1]))
    finally:
        limit.cancel()
        workspace.close()


def _line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def obtainable(probes: List[Probe]) -> List[str]:
    """The versions that the scripts make and that none of these is."""
    path = os.path.join(ROOT, "docker", "pins", "versions")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        pinned = [line.split()[0] for line in file if line[:1].isdigit()]
    here = {str(found.versions.get("torch", "")).split("+")[0] for found in probes}
    return [version for version in pinned if version not in here]
