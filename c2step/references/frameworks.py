"""Golden values from OpenVINO and Keras, each in the interpreter that has it, into a capture."""

import os
from typing import Any, Dict, Mapping, Optional

import numpy as np

from ..errors import ReferenceFailed
from .engine import Shown
from .making import Progress, Whole
from .reference import Reference

__all__ = ["keras_model", "make_keras", "make_openvino", "openvino_model"]


def make_openvino(path: str, inputs: Mapping[str, np.ndarray], out_dir: str, python: str,
                  progress: Optional[Progress] = None, shown: Optional[Shown] = None,
                  timeout: Optional[float] = None) -> Reference:  # fmt: skip
    """Every value of an ONNX file or an IR (.xml) on these inputs, from OpenVINO in float32 on the CPU.

    Names are those of the file's values, or of the operations where these have none.
    """
    with openvino_model(path, python, shown, timeout) as model:
        return model.make(inputs, out_dir, progress)


def make_keras(path: str, inputs: Mapping[str, np.ndarray], out_dir: str, python: str, nchw: bool = False,
               progress: Optional[Progress] = None, shown: Optional[Shown] = None,
               timeout: Optional[float] = None) -> Reference:  # fmt: skip
    """The outputs of every layer of a Keras model on these inputs; `path` is a .keras or .h5 file, or FILE.py:factory.

    With `nchw`, 4-d inputs are NCHW and turned for the model, and values that are known to lie as NHWC are
    turned back.  Without it values stay as Keras has them.  Notes say how they lie.
    """
    with keras_model(path, python, nchw, shown, timeout) as model:
        return model.make(inputs, out_dir, progress)


def openvino_model(path: str, python: str, shown: Optional[Shown] = None, timeout: Optional[float] = None) -> Whole:
    """An engine with this model that stays open."""
    return _framework("openvino", path, python, shown, timeout, {})


def keras_model(
    path: str, python: str, nchw: bool = False, shown: Optional[Shown] = None, timeout: Optional[float] = None
) -> Whole:
    """An engine with this model that stays open."""
    file, colon, factory = path.rpartition(":")
    if colon and os.path.isfile(file):
        path = "%s::%s" % (file, factory)
    return _framework("keras", path, python, shown, timeout, {"nchw": nchw})


def _framework(
    name: str, path: str, python: str, shown: Optional[Shown], timeout: Optional[float], running: Dict[str, Any]
) -> Whole:
    file, colon, factory = path.partition("::")
    if not os.path.isfile(file) and not os.path.isdir(file):
        raise ReferenceFailed("there is no file %s" % file)
    full = os.path.abspath(file) + colon + factory
    return Whole(python, (name + "_engine", name, name), full, {"path": full}, running, shown, timeout)
