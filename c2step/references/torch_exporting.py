"""`c2step export-torch`: a PyTorch module as ONNX, with outputs of inner modules as outputs of their own."""

import os
import shutil
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from ..capture import disk_error
from ..errors import ReferenceFailed, UsageError
from ..leftovers import scratch_folder
from .engine import Engine, Shown

__all__ = ["Exported", "export_torch", "module_calls"]


class Exported(NamedTuple):
    """What was written: the inputs, and the outputs, the module's own first."""

    path: str
    inputs: List[str]
    outputs: List[str]


def export_torch(spec: str, out: str, outputs: Sequence[str], inputs: Mapping[str, np.ndarray], python: str,
                 opset: int = 9, shown: Optional[Shown] = None) -> Exported:  # fmt: skip
    """Export FILE.py:factory with the outputs of the modules in `outputs`, which are named as `module_calls` does.

    The module is traced on `inputs` in the interpreter `python`, in eval mode; its code stays as it is.
    """
    _try_to_write(out)
    request = {"do": "export", "out": os.path.abspath(out), "outputs": list(outputs), "opset": opset}
    done = _ask(spec, inputs, python, shown, request)
    return Exported(out, done["inputs"], done["outputs"])


def module_calls(spec: str, inputs: Mapping[str, np.ndarray], python: str,
                 shown: Optional[Shown] = None) -> List[Dict[str, Any]]:  # fmt: skip
    """Each call of each module: name (`path`, `path#2` for a second call), type, names and shapes of its outputs."""
    calls: List[Dict[str, Any]] = _ask(spec, inputs, python, shown, {"do": "list"})["calls"]
    return calls


def _ask(spec: str, inputs: Mapping[str, np.ndarray], python: str, shown: Optional[Shown],
         request: Dict[str, Any]) -> Dict[str, Any]:  # fmt: skip
    path, colon, factory = spec.rpartition(":")
    if not colon or not os.path.isfile(path):
        raise UsageError("%s is not FILE.py:factory" % spec,
                         "name a Python file and the function in it that gives the module")  # fmt: skip
    folder = scratch_folder("export")
    try:
        files = {}
        for number, (name, array) in enumerate(inputs.items()):
            files[name] = os.path.join(folder, "%d.npy" % number)
            np.save(files[name], np.asarray(array), allow_pickle=False)
        with Engine(python, "torch_exporting", "PyTorch", shown) as engine:
            try:
                engine.ask({"do": "open", "path": os.path.abspath(path), "factory": factory, "inputs": list(inputs)})
                return engine.ask(dict(request, files=files))
            except ReferenceFailed as error:  # the file, the function or the inputs that were named
                raise UsageError(error.message, error.hint) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _try_to_write(path: str) -> None:
    """CaptureError where no file can be written there, before anything is traced."""
    there = os.path.exists(path)
    try:
        open(path, "ab").close()
        if not there:
            os.remove(path)
    except OSError as error:
        raise disk_error(error, path, begun=False) from error
