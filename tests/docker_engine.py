"""A Docker engine for the tests, and c2step's image built in it; test processes that run side by side share both."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from typing import Dict, Iterator, List, NamedTuple

from shared_material import CHECKOUT, shared_dir

BASE = ("3.9.18", "bookworm")
PATIENCE = 300  # seconds, for a machine that does much else


class Engine(NamedTuple):
    """A docker command line that reaches an engine; `ours` where it is the private one of the shared tools."""

    docker: str
    environment: Dict[str, str]
    ours: bool

    def run(self, *command: str, **options) -> "subprocess.CompletedProcess[str]":
        """Run a program with this engine as its Docker."""
        options.setdefault("timeout", PATIENCE)
        return subprocess.run(
            command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            universal_newlines=True, **options
        )  # fmt: skip

    @property
    def build_options(self) -> str:
        """What a build needs here beside what the scripts say: without a bridge it is the host's network."""
        return " --network host" if self.run(self.docker, "network", "inspect", "bridge").returncode else ""

    def answers(self) -> bool:
        """Whether there is an engine behind the command line."""
        return bool(shutil.which(self.docker)) and self.run(self.docker, "info", timeout=60).returncode == 0


def default_engine() -> Engine:
    """What `docker` means to whoever runs the tests."""
    return Engine("docker", dict(os.environ), False)


def private_engine() -> Engine:
    """The engine that the shared tools start, for machines where no other is."""
    folder = os.environ.get("C2_ENGINE") or os.path.join(tempfile.gettempdir(), "c2step-engine")
    reached = {"C2_ENGINE": folder, "DOCKER_HOST": "unix://%s/docker.sock" % folder, "DOCKER": "/usr/bin/docker"}
    return Engine("/usr/bin/docker", dict(os.environ, **reached), True)


def tools() -> str:
    """The folder with engine.sh, or an empty string."""
    folder = os.path.join(shared_dir() or "", "tools")
    return folder if os.path.exists(os.path.join(folder, "engine.sh")) else ""


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """One test process at a time."""
    with open(os.path.join(tempfile.gettempdir(), "c2step-tests-%s.lock" % name), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def started(engine: Engine) -> Iterator[None]:
    """Start the private engine with the first test process that wants it, and stop it with the last."""
    users = engine.environment["C2_ENGINE"] + "-users"
    mine = os.path.join(users, str(os.getpid()))
    with lock("engine"):
        if not _alive(users) and engine.answers():
            yield  # somebody else's, and theirs to stop
            return
        os.makedirs(users, exist_ok=True)
        open(mine, "w").close()
        done = engine.run("bash", os.path.join(tools(), "engine.sh"), "start")
        assert done.returncode == 0, "the engine does not start:\n" + done.stdout + done.stderr
    try:
        yield
    finally:
        with lock("engine"):
            os.remove(mine)
            if not _alive(users):
                engine.run("bash", os.path.join(tools(), "engine.sh"), "stop")
                shutil.rmtree(users, ignore_errors=True)


def _alive(users: str) -> List[int]:
    found = [int(name) for name in os.listdir(users)] if os.path.isdir(users) else []
    return [pid for pid in found if os.path.isdir("/proc/%d" % pid)]


def build(engine: Engine) -> None:
    """Build the default image as the README says; the base is made here where it cannot be pulled."""
    with lock("image"):
        if engine.ours and engine.run(engine.docker, "image", "inspect", "python:%s-slim-%s" % BASE).returncode:
            _succeed(engine.run("bash", os.path.join(tools(), "make-base.sh"), *BASE))
        _succeed(engine.run("scripts/docker-build", *engine.build_options.split(), cwd=CHECKOUT, timeout=900))


def _succeed(done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
