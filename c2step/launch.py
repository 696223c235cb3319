"""Open a session from what a user names: model files, inputs, runtime."""

import os
import shutil
import tempfile
import weakref
import zipfile
from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from .blob import Blob
from .errors import InputError, UsageError
from .importer.inputs import Fed, Preprocess, check_dims, check_inputs, random_inputs, read_inputs
from .model import BACKENDS, Declared
from .recording import Keep
from .resuming import read_saved, resume
from .sizes import counted
from .stepper import Session
from .workspace import Workspace
from .workspace.loading import without_gpu_words
from .workspace.process import ProcessWorkspace
from .workspace.runtime import find_runtime
from .workspace.spawning import Spare

__all__ = [
    "declared_inputs",
    "default_keep",
    "fed_spec",
    "make_workspace",
    "model_spec",
    "open_on",
    "open_session",
    "read_fed",
    "resume_session",
    "unpack_folder",
]

Inputs = Union[None, np.ndarray, Mapping[str, np.ndarray], Sequence[str]]


def open_session(
    model: Optional[str] = None,
    inputs: Inputs = None,
    init_net: Optional[str] = None,
    predict_net: Optional[str] = None,
    runtime: Optional[str] = None,
    in_process: bool = False,
    importing: str = "faithful",
    dims: Optional[Dict[str, int]] = None,
    seed: Optional[int] = None,
    as_float32: bool = False,
    preprocess: Optional[Preprocess] = None,
    partial: bool = False,
    timeout: Optional[float] = None,
    keep: Optional[Keep] = None,
    on_output: Callable[[str], None] = lambda text: None,
    max_memory: Optional[int] = None,
    backend: str = BACKENDS[0],
) -> Session:
    """Open a model, run its init_net, feed its inputs, and stand before operator 0.

    `model` is an .onnx file, a folder or a zip; or give `predict_net` (and `init_net`).  `inputs` are
    arrays by name, or words such as "x=photo.npy" and "all.npz".  `runtime` names the interpreter
    ("python:PATH"); `in_process` runs Caffe2 here, without the protection of a worker.  `seed` fills
    inputs that are not given at random, `dims` fixes symbolic dimensions.  `timeout` is in seconds for
    one operator, `max_memory` in bytes what the worker may hold.  `backend` is the importer of ONNX models:
    "caffe2", or "onnx_caffe2", the one before it.  Raises C2StepError.
    """
    workspace = make_workspace(runtime, in_process, timeout, on_output, max_memory, keep.directory if keep else None)
    return open_on(
        workspace,
        model,
        inputs,
        init_net,
        predict_net,
        importing,
        dims,
        seed,
        as_float32,
        preprocess,
        partial,
        keep,
        backend,
    )


def open_on(
    workspace: Workspace,
    model: Optional[str] = None,
    inputs: Inputs = None,
    init_net: Optional[str] = None,
    predict_net: Optional[str] = None,
    importing: str = "faithful",
    dims: Optional[Dict[str, int]] = None,
    seed: Optional[int] = None,
    as_float32: bool = False,
    preprocess: Optional[Preprocess] = None,
    partial: bool = False,
    keep: Optional[Keep] = None,
    backend: str = BACKENDS[0],
) -> Session:
    """Open a model as `open_session` does, on a workspace that is there already; it is closed where that fails."""
    try:
        spec = model_spec(model, init_net, predict_net, importing, dims or {}, partial, backend)
        spec.update(unpack_folder(workspace, model))
        fed = read_fed(workspace, workspace.declare(spec), inputs, dims or {}, seed, as_float32, preprocess)
        spec.update(fed_spec(fed))
        header = {"preprocessing": fed.preprocessing, "seed": seed, "input_notes": fed.notes}
        session = Session(workspace, spec, fed.arrays, keep or default_keep(), header)
    except BaseException:
        workspace.close()
        raise
    session.notes = fed.notes + _drawn_note(list(session.drawn))
    return session


def resume_session(
    directory: str,
    runtime: Optional[str] = None,
    in_process: bool = False,
    timeout: Optional[float] = None,
    on_output: Callable[[str], None] = lambda text: None,
    max_memory: Optional[int] = None,
) -> Session:
    """Open a session again where it was left, in its capture: same position, same blobs, edits, patches, breakpoints.

    `runtime`, `timeout` and `max_memory` are those of before unless given; `session.notes` says what
    could not be taken over.
    """
    saved = read_saved(directory)
    opened = saved.opened
    runtime, timeout = runtime or opened.get("runtime"), timeout or opened.get("timeout")
    max_memory = opened.get("max_memory") if max_memory is None and not in_process else max_memory
    workspace = make_workspace(runtime, in_process, timeout, on_output, max_memory, directory)
    try:
        spec = {key: value for key, value in saved.state["spec"].items() if key not in ("edits", "scratch")}
        spec.update(unpack_folder(workspace, spec.get("model")))
        keep = replace(default_keep(directory), max_bytes=opened.get("max_bytes"), resume=True)
        keep = replace(keep, on_full=opened.get("on_full", keep.on_full))
        header = {key: saved.header[key] for key in ("preprocessing", "seed", "input_notes") if key in saved.header}
        session = Session(workspace, spec, saved.inputs, keep, header)
        session.notes = resume(session, saved)
    except BaseException:
        workspace.close()
        raise
    return session


def make_workspace(
    runtime: Optional[str] = None,
    in_process: bool = False,
    timeout: Optional[float] = None,
    on_output: Callable[[str], None] = lambda text: None,
    max_memory: Optional[int] = None,
    directory: Optional[str] = None,
    spare: Optional[Spare] = None,
    yielding: bool = False,
) -> Workspace:
    """Where the operators will run, with nothing opened yet; `directory` is one that it must be able to write to.

    `spare` is a worker that was started ahead, `yielding` is for one beside which other processes work.
    """
    if in_process:
        if max_memory is not None:
            raise UsageError("max_memory limits a worker, and there is none in this process", "leave out in_process")
        with without_gpu_words():
            from .workspace.local import LocalWorkspace

        return LocalWorkspace()
    found = find_runtime(runtime)
    found.share([directory] if directory else [])
    return ProcessWorkspace(found, on_output, timeout, max_memory, spare, yielding)


def model_spec(
    model: Optional[str],
    init_net: Optional[str],
    predict_net: Optional[str],
    importing: str = "faithful",
    dims: Optional[Dict[str, int]] = None,
    partial: bool = False,
    backend: str = BACKENDS[0],
) -> Dict[str, Any]:
    """What `Workspace.declare` and `Workspace.open` take."""
    paths = {"model": model, "init_net": init_net, "predict_net": predict_net}
    found: Dict[str, Any] = {key: os.path.abspath(path) for key, path in paths.items() if path}
    return dict(found, **{"import": importing, "dims": dims or {}, "partial": partial, "backend": backend})


def unpack_folder(workspace: Workspace, model: Optional[str]) -> Dict[str, str]:
    """For a zip, the part of a model's spec that names a folder to unpack it in, which goes away with the workspace."""
    if not model or not zipfile.is_zipfile(model):
        return {}
    scratch: Optional[str] = getattr(workspace, "scratch", None)
    if scratch and shutil.disk_usage(scratch).free > 2 * _unpacked_size(model):  # it may be memory
        return {"scratch": scratch}
    folder = tempfile.mkdtemp(prefix="c2step-zip-")
    weakref.finalize(workspace, shutil.rmtree, folder, True)
    return {"scratch": folder}


def _unpacked_size(path: str) -> int:
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(info.file_size for info in archive.infolist())
    except (OSError, zipfile.BadZipFile):  # said where it is opened
        return 0


def fed_spec(fed: Fed) -> Dict[str, Any]:
    """The part of a model's spec that tells of its inputs: their shapes, and the values that a node may depend on."""
    return {
        "input_shapes": {name: list(array.shape) for name, array in fed.arrays.items()},
        "input_values": {name: _as_json(array) for name, array in fed.arrays.items() if _is_small(array)},
    }


def read_fed(
    workspace: Workspace,
    declares: Dict[str, Any],
    inputs: Inputs,
    dims: Dict[str, int],
    seed: Optional[int],
    as_float32: bool,
    preprocess: Optional[Preprocess],
) -> Fed:
    """Read inputs and check them against what the workspace declares of the model."""
    declared = declared_inputs(declares)
    if declares["kind"] == "onnx":
        check_dims(dims, declared)
    if isinstance(inputs, np.ndarray):
        inputs = {_only(declared): inputs}
    if inputs is None or isinstance(inputs, Mapping):
        fed = Fed({name: np.asarray(array) for name, array in (inputs or {}).items()}, [], {})
    else:
        words = [inputs] if isinstance(inputs, str) else list(inputs)
        if not all(isinstance(word, str) for word in words):
            raise InputError("the inputs are arrays without names", "give them by name: {%s}" % _named(declared))
        fed = read_inputs(words, declared, _tensor_reader(workspace), preprocess)
    if seed is not None:
        drawn = random_inputs(seed, declared, dims, list(fed.arrays))
        fed.arrays.update(drawn)
        fed.notes.extend("input %s is drawn at random, seed %d" % (name, seed) for name in drawn)
    return check_inputs(fed, declared, declares["known"], as_float32)


def _only(declared: List[Declared]) -> str:
    """The name of a model's only input."""
    if len(declared) != 1:
        words = "the model has %s, and one array was given" % counted(len(declared), "input")
        raise InputError(words, "give arrays by name: {%s}" % _named(declared))
    return declared[0].name


def _named(declared: List[Declared]) -> str:
    return ", ".join("%r: array" % each.name for each in declared[:3]) or "name: array"


def declared_inputs(declares: Dict[str, Any]) -> List[Declared]:
    """The inputs that `Workspace.declare` names."""
    return [Declared(name, dtype, None if shape is None else tuple(shape)) for name, dtype, shape in declares["inputs"]]


def _drawn_note(names: List[str]) -> List[str]:
    if not names:
        return []
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return [
        "init_net draws %s at random, without a seed: this session keeps what was drawn, another draws anew" % shown
    ]


def _is_small(array: np.ndarray) -> bool:
    return array.size <= 64 and array.dtype.kind in "iub"


def _as_json(array: np.ndarray) -> Dict[str, Any]:
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": array.reshape(-1).tolist()}


def _tensor_reader(workspace: Workspace) -> Callable[[str], Blob]:
    def read(path: str) -> Blob:
        if isinstance(workspace, ProcessWorkspace):
            return workspace.read_tensor(path)
        from .importer.tensors import read_tensor

        return read_tensor(path)[1]

    return read


def default_keep(directory: Optional[str] = None) -> Keep:
    """Keep every version, in at most half of the free disk and 8 GiB."""
    free = shutil.disk_usage(directory if directory and os.path.isdir(directory) else tempfile.gettempdir()).free
    return Keep(directory, max_bytes=min(free // 2, 8 << 30))


def input_words(words: List[str]) -> List[str]:
    """Check that each word of --input names a file that is there."""
    for word in words:
        path = word if os.path.exists(word) else word.partition("=")[2]
        if not path or not os.path.exists(path):
            raise InputError(
                "--input %s: there is no such file" % word,
                "NAME=FILE, or FILE.npz with an array for each input; --random-inputs SEED draws them",
            )
    return words
