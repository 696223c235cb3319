"""Golden values that are made beside other work."""

from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Mapping, Optional

import numpy as np

from .engine import Engine, Shown
from .making import OnnxRuntime, Progress
from .reference import Reference

__all__ = ["Making", "begin_onnxruntime"]


class Making:
    """A reference that is being made, in a thread: `result` waits for it, `cancel` gives it up."""

    def __init__(self, make: Callable[[], Reference], cancel: Callable[[], None] = lambda: None) -> None:
        self._cancel = cancel
        pool = ThreadPoolExecutor(1, "c2step-reference")
        self._made = pool.submit(make)
        pool.shutdown(wait=False)

    @property
    def ready(self) -> bool:
        """Whether `result` would not wait."""
        return self._made.done()

    def result(self) -> Reference:
        """The reference; raises what its making raised."""
        return self._made.result()

    def cancel(self) -> None:
        """End its making, and wait for that."""
        self._cancel()
        self._made.exception()


def begin_onnxruntime(
    model_path: str,
    inputs: Mapping[str, np.ndarray],
    out_dir: str,
    python: str,
    progress: Optional[Progress] = None,
    shown: Optional[Shown] = None,
    timeout: Optional[float] = None,
    spare: Optional[Engine] = None,
) -> Making:
    """As `make_onnxruntime`, beside other work; `spare` is an engine of this interpreter that was started ahead."""
    runtime = OnnxRuntime(model_path, python, shown, timeout, room=0)
    runtime.spare = spare

    def make() -> Reference:
        with runtime:
            return runtime.make(inputs, out_dir, progress)

    return Making(make, runtime.cancel)
