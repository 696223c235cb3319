"""What `--against` may name, and who makes it."""

import os
from typing import Mapping, NamedTuple, Optional, Union

import numpy as np

from ..errors import UsageError
from .archive import archive_of, open_archive
from .engine import Shown
from .frameworks import keras_model, openvino_model
from .making import ROOM, Maker, OnnxRuntime, Progress, torch_model
from .reference import Reference, is_capture, open_capture, open_folder, open_npz

__all__ = ["Elsewhere", "load", "maker", "open_files"]


class Elsewhere(NamedTuple):
    """Golden values from the same nets run elsewhere: `kind` is python, docker, runtime or backend."""

    kind: str
    value: str


_ELSEWHERE = ("python", "docker", "runtime", "backend")
_FORMS = (
    "onnxruntime, torch:FILE.py:factory, openvino, keras:FILE, python:PATH, backend:onnx_caffe2, a capture, an "
    "archive, an .npz file or a folder of .npy files"
)


def load(
    spec: str,
    model_path: Optional[str],
    inputs: Mapping[str, np.ndarray],
    out_dir: str,
    python: str,
    progress: Optional[Progress] = None,
    shown: Optional[Shown] = None,
    timeout: Optional[float] = None,
    name_map: Optional[str] = None,
) -> Union[Reference, Elsewhere]:
    """The reference that `spec` names, made in `out_dir` where it has to be made.

    Values that another run of the nets must give are an `Elsewhere`.
    """
    found = maker(spec, model_path, python, shown, timeout, room=0)
    if found is None:
        return open_files(spec, name_map)
    if isinstance(found, Elsewhere):
        return found
    with found:
        return found.make(inputs, out_dir, progress)


def maker(
    spec: str,
    model_path: Optional[str],
    python: str,
    shown: Optional[Shown] = None,
    timeout: Optional[float] = None,
    room: int = ROOM,
) -> Union[Maker, Elsewhere, None]:
    """What makes the golden values that `spec` names, for one input after another; None where it names files."""
    kind, _, rest = spec.partition(":")
    if spec == "onnxruntime":
        if model_path is None:
            raise UsageError(
                "onnxruntime needs the ONNX model, and these are Caffe2 nets",
                "compare with a capture or with another runtime",
            )
        return OnnxRuntime(model_path, python, shown, timeout, room)
    if kind == "torch" and rest:
        return torch_model(rest, python, shown, timeout)
    if kind in ("openvino", "keras", "keras-nchw") and not os.path.exists(spec):
        return _framework(kind, rest or model_path, python, shown, timeout)
    if kind in _ELSEWHERE and rest and not os.path.exists(spec):
        return Elsewhere(kind, rest)
    return None


def _framework(kind: str, path: Optional[str], python: str, shown: Optional[Shown], timeout: Optional[float]) -> Maker:
    if not path:
        raise UsageError("%s needs a file" % kind, "openvino:FILE.onnx or .xml, keras:FILE.keras or FILE.py:factory")
    if kind == "openvino":
        return openvino_model(path, python, shown, timeout)
    return keras_model(path, python, kind == "keras-nchw", shown, timeout)


def open_files(path: str, name_map: Optional[str] = None) -> Reference:
    """A capture, an archive's only case or one that is named, an .npz file or a folder of .npy files."""
    archive, case = archive_of(path)
    if archive:
        return open_archive(archive).reference(case)
    if os.path.isdir(path):
        return open_capture(path) if is_capture(path) else open_folder(path, name_map)
    if os.path.isfile(path) and path.endswith(".npz"):
        return open_npz(path, name_map)
    if os.path.exists(path):
        raise UsageError("%s is no reference" % path, "it may be " + _FORMS)
    raise UsageError("there is no reference %s" % path, "it may be " + _FORMS)
