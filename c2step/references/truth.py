"""Asking for one node in float64: an engine kept for many nodes of one model."""

import os
import tempfile
from typing import Any, Dict, Mapping, NamedTuple, Optional, Union

import numpy as np

from ..errors import WorkerDied
from .engine import Engine, Shown

__all__ = ["NodeTruth", "Truth"]


class NodeTruth(NamedTuple):
    """A node's outputs in float64.

    `noise` gives for each element of a floating output how far it moves when every input moves by half
    a unit in its last place, as float32 rounding moves it.  `how` says what computed the values, `doubt`
    why they may be wrong: it is empty where onnxruntime agrees with them.
    """

    values: Dict[str, np.ndarray]
    noise: Dict[str, np.ndarray]
    how: str
    doubt: str


class Truth:
    """Float64 values for the nodes of one ONNX file, from the interpreter `python`.

    A node that ends the process raises WorkerDied; the next one starts another process.
    """

    def __init__(
        self, model_path: str, python: str, shown: Optional[Shown] = None, timeout: Optional[float] = None
    ) -> None:
        self.model_path, self.python = os.path.abspath(model_path), python
        self._shown, self._timeout = shown, timeout
        self._engine: Optional[Engine] = None
        self._folder = tempfile.TemporaryDirectory(prefix="c2step-truth-")

    def __enter__(self) -> "Truth":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def node(self, which: Union[int, str], inputs: Mapping[str, np.ndarray], draws: int = 2) -> NodeTruth:
        """The node with this index in the file, or that gives this output, on these inputs.

        Initializers and outputs of Constant nodes need not be given.  `draws` is how often the inputs are
        moved to measure the noise.  ReferenceFailed where nothing computes the node in float64.
        """
        request = {
            "do": "truth",
            "node": which,
            "inputs": self._write(inputs),
            "out": self._folder.name,
            "draws": draws,
        }
        try:
            done = self._running().ask(request, timeout=self._timeout)
        except (WorkerDied, KeyboardInterrupt):
            self._stop()
            raise
        return NodeTruth(_read(done["values"]), _read(done["noise"]), done["how"], done["doubt"])

    def close(self) -> None:
        """End the engine and remove its files."""
        self._stop()
        self._folder.cleanup()

    def _running(self) -> Engine:
        if self._engine is None:
            engine = Engine(self.python, "onnx_engine", "onnx", self._shown)
            try:
                engine.ask({"do": "open", "model": self.model_path})
            except BaseException:
                engine.close()
                raise
            self._engine = engine
        return self._engine

    def _stop(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _write(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, str]:
        paths: Dict[str, str] = {}
        for number, (name, array) in enumerate(inputs.items()):
            paths[name] = os.path.join(self._folder.name, "input%d.npy" % number)
            np.save(paths[name], array.astype(str) if array.dtype.kind == "O" else array)
        return paths


def _read(paths: Dict[str, Any]) -> Dict[str, np.ndarray]:
    arrays = {}
    for name, path in paths.items():
        arrays[name] = np.load(path, allow_pickle=False)
        os.remove(path)
    return arrays
