"""What many tests need: the shared material, the sample models, and other interpreters.

What is not there fails in CI and is skipped with a reason elsewhere.
"""

import os
import subprocess
import sys
from typing import Iterator, NoReturn

import pytest

from shared_material import CHECKOUT, shared_dir


def absent(reason: str) -> NoReturn:
    """End the test that asked: a failure in CI, a skip elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(reason + " (CI must have it)")
    pytest.skip(reason)


def interpreter(name: str) -> str:
    """The Python of the environment `.envs/NAME` that scripts/test makes, or `.venv` by that name."""
    folder = ".venv" if name == ".venv" else os.path.join(".envs", name)
    path = os.path.join(CHECKOUT, folder, "bin", "python")
    if not os.path.exists(os.path.join(CHECKOUT, folder, "finished")):
        absent("%s is not set up: run ./scripts/test" % folder)
    return path


@pytest.fixture(autouse=True)
def empty_caffe2_workspace() -> Iterator[None]:
    """What a test leaves in Caffe2's own workspace in this process is gone before the next one."""
    yield
    caffe2 = sys.modules.get("caffe2.python.workspace")
    if caffe2 is not None:
        caffe2.SwitchWorkspace("default", True)
        caffe2.ResetWorkspace()


@pytest.fixture(scope="session")
def checkout() -> str:
    """The checkout's folder."""
    return CHECKOUT


@pytest.fixture(scope="session")
def shared() -> str:
    """The folder of the shared material."""
    folder = shared_dir()
    if folder is None:
        absent("no shared material: set C2STEP_SHARED, or put it into ../shared beside the checkout")
    return folder


@pytest.fixture(scope="session")
def models() -> str:
    """The folder of the sample models, made where missing."""
    command = [sys.executable, "-W", "ignore", os.path.join(CHECKOUT, "scripts", "samples"), "--if-needed"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return os.path.join(CHECKOUT, "models")


@pytest.fixture(scope="session")
def older_caffe2() -> str:
    """The interpreter with torch 1.2.0, on Python 3.7."""
    return interpreter("torch-1.2.0")


@pytest.fixture(scope="session")
def first_caffe2() -> str:
    """The interpreter with torch 1.0.1 and onnx_caffe2, on Python 3.7."""
    return interpreter("torch-1.0.1")


@pytest.fixture(scope="session")
def front_only() -> str:
    """An interpreter of 3.10 or newer with numpy and prompt_toolkit but no Caffe2."""
    return interpreter("front")
