"""Golden values from OpenVINO and Keras, each in the interpreter that has it, into a capture."""

import os
from typing import Any, Dict, Mapping, Optional

import numpy as np

from ..errors import ReferenceFailed, WorkerDied
from .engine import Engine, Shown
from .making import GoldenCapture, Progress
from .reference import Reference, open_capture

__all__ = ["make_keras", "make_openvino"]


def make_openvino(path: str, inputs: Mapping[str, np.ndarray], out_dir: str, python: str,
                  progress: Optional[Progress] = None, shown: Optional[Shown] = None,
                  timeout: Optional[float] = None) -> Reference:  # fmt: skip
    """Every value of an ONNX file or an IR (.xml) on these inputs, from OpenVINO in float32 on the CPU.

    Names are those of the file's values, or of the operations where these have none.
    """
    run = _Framework(out_dir, python, inputs, progress, shown)
    return run.make("openvino_engine", "openvino", path, timeout, {})


def make_keras(path: str, inputs: Mapping[str, np.ndarray], out_dir: str, python: str, nchw: bool = False,
               progress: Optional[Progress] = None, shown: Optional[Shown] = None,
               timeout: Optional[float] = None) -> Reference:  # fmt: skip
    """The outputs of every layer of a Keras model on these inputs; `path` is a .keras or .h5 file, or FILE.py:factory.

    With `nchw`, 4-d inputs are NCHW and turned for the model, and values that are known to lie as NHWC are
    turned back.  Without it values stay as Keras has them.  Notes say how they lie.
    """
    file, colon, factory = path.rpartition(":")
    if colon and os.path.isfile(file):
        path = "%s::%s" % (file, factory)
    run = _Framework(out_dir, python, inputs, progress, shown)
    return run.make("keras_engine", "keras", path, timeout, {"nchw": nchw})


class _Framework(GoldenCapture):
    def make(self, module: str, name: str, path: str, timeout: Optional[float], options: Dict[str, Any]) -> Reference:
        """Open and run once."""
        file, colon, factory = path.partition("::")
        if not os.path.isfile(file) and not os.path.isdir(file):
            raise ReferenceFailed("there is no file %s" % file)
        full = os.path.abspath(file) + colon + factory
        try:
            with Engine(self.python, module, name, self.shown) as engine:
                self._run(engine, name, full, timeout, options)
        except WorkerDied as death:
            raise ReferenceFailed(death.message, "values up to there are in %s" % self.out) from death
        finally:
            self.writer.close()
        return open_capture(self.out)

    def _run(self, engine: Engine, name: str, path: str, timeout: Optional[float], options: Dict[str, Any]) -> None:
        told = engine.ask({"do": "open", "path": path, "inputs": list(self.arrays)}, self.heard, timeout)
        self.begin({"engine": name, "model": path, "sha256": told["sha256"], "preprocessing": told["preprocessing"],
                    "versions": dict(told["versions"], python=engine.version), "notes": told["notes"]})  # fmt: skip
        files = {key: os.path.join(self.out, self.values[key]["file"]) for key in self.arrays}
        done = engine.ask(dict(options, do="run", out=self.out, files=files), self.heard, timeout)
        self.header["notes"] += done["notes"]
        self.writer.write_header(self.header)
