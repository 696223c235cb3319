"""The engine for Keras: every call of every layer, nested and shared ones too, in inference mode.

Layouts are said, never guessed.  A layer that has a `data_format` says how its 4-d output lies; layers that
work element by element keep what their inputs have; of all others nothing is said.  With `nchw`, 4-d inputs are
given as NCHW and turned into NHWC, and what is known to lie as NHWC is turned back; each turn is noted.
"""

import contextlib
import hashlib
import importlib.util
import inspect
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

import keras
import numpy as np

from c2step.errors import ReferenceFailed

from .serve import Event, serve
from .storing import row

__all__ = ["main"]

LAST, FIRST = "channels_last", "channels_first"
_WORDS = {LAST: "NHWC", FIRST: "NCHW"}
_ELEMENTWISE = {
    "Activation", "ReLU", "LeakyReLU", "PReLU", "ELU", "BatchNormalization", "Dropout", "SpatialDropout2D", "Add",
    "Subtract", "Multiply", "Average", "Maximum", "Minimum", "GaussianNoise", "GaussianDropout", "Rescaling",
    "Identity",
}  # fmt: skip


def main() -> None:
    """Serve requests on the pipe."""
    engine = _Engine()
    serve({"open": engine.open, "run": engine.run})


class _Engine:
    def __init__(self) -> None:
        self.model: Any = None
        self.names: List[str] = []

    def open(self, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
        """Load a model from .keras or .h5, or make one with FILE.py:factory."""
        path, _, factory = request["path"].partition("::")
        send({"doing": "loading %s" % path})
        self.model = _made(path, factory) if factory else _loaded(path)
        self.names = [tensor.name.split(":")[0] for tensor in self.model.inputs]
        missing = [name for name in self.names if name not in request["inputs"]]
        if missing:
            raise ReferenceFailed("no value for input %s of %s" % (missing[0], path), "give it with --input")
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        versions = {"keras": keras.__version__, "backend": keras.backend.backend(), "numpy": np.__version__}
        with contextlib.suppress(ImportError):
            versions["tensorflow"] = __import__("tensorflow").__version__
        return {"versions": versions, "sha256": digest, "notes": [], "preprocessing": ""}

    def run(self, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
        """Run once, with a row for each call of a layer."""
        watcher = _Watcher(request["out"], send, request["nchw"])
        arguments, notes = [], []
        for tensor, name in zip(self.model.inputs, self.names):
            array, note = _fed(tensor, name, np.load(request["files"][name], allow_pickle=False), request["nchw"])
            value = keras.ops.convert_to_tensor(array)
            arguments.append(value)
            notes += [note] if note else []
        watcher.watch(self.model, "")
        self.model(arguments if len(arguments) > 1 else arguments[0], training=False)
        return {"notes": notes + watcher.notes()}


def _loaded(path: str) -> Any:
    if os.path.isdir(path):
        raise ReferenceFailed(
            "%s is a folder: a SavedModel keeps no layers" % path, "save it as .keras, or give FILE.py:factory"
        )
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except (ValueError, OSError, TypeError) as error:
        raise ReferenceFailed("keras cannot load %s: %s" % (path, str(error).splitlines()[0])) from error


def _made(path: str, factory: str) -> Any:
    spec = importlib.util.spec_from_file_location("model_file", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, factory, None)):
        raise ReferenceFailed("%s has no function %s" % (path, factory))
    return getattr(module, factory)()


def _fed(tensor: Any, name: str, array: np.ndarray, nchw: bool) -> Tuple[np.ndarray, str]:
    note = ""
    if nchw and array.ndim == 4:
        array, note = (
            np.ascontiguousarray(array.transpose(0, 2, 3, 1)),
            "input %s was given as NCHW and turned into NHWC" % name,
        )
    declared = tuple(tensor.shape)
    fits = len(declared) == array.ndim and all(d is None or d == s for d, s in zip(declared, array.shape))
    if not fits:
        turned = array.ndim == 4 and not nchw and declared[1:] == tuple(array.shape[i] for i in (2, 3, 1))
        raise ReferenceFailed(
            "input %s has shape %s, the model declares %s" % (name, array.shape, declared),
            "keras-nchw:FILE turns inputs from NCHW into NHWC" if turned else "",
        )
    return array, note


class _Watcher:
    """Puts itself around `call` of every layer, and writes what each gives."""

    def __init__(self, folder: str, send: Event, nchw: bool) -> None:
        self.folder, self.send, self.nchw = folder, send, nchw
        self.tick = 0
        self.counts: Dict[str, int] = {}
        self.layouts: Dict[int, str] = {}
        self.kept: List[Any] = []  # so that no two tensors ever have one id
        self.said: Dict[str, int] = {}

    def watch(self, layer: Any, path: str) -> None:
        """Watch a layer's inner layers, and theirs."""
        for inner in getattr(layer, "layers", ()):
            if type(inner).__name__ != "InputLayer":
                name = "%s/%s" % (path, inner.name) if path else inner.name
                self._around(inner, name)
                self.watch(inner, name)

    def _around(self, layer: Any, name: str) -> None:
        before = layer.call

        def call(*arguments: Any, **options: Any) -> Any:
            outputs = before(*arguments, **options)
            self._take(layer, name, arguments, outputs)
            return outputs

        call.__signature__ = inspect.signature(before)  # type: ignore[attr-defined]
        object.__setattr__(layer, "call", call)

    def _take(self, layer: Any, path: str, arguments: Any, outputs: Any) -> None:
        self.tick += 1
        self.counts[path] = count = self.counts.get(path, 0) + 1
        name = path if count == 1 else "%s#%d" % (path, count)
        layout = self._layout(layer, arguments)
        values, notes = [], []
        for key, tensor in _flat(name, outputs):
            array, note = self._given(tensor, layout)
            values.append((key, array))
            notes.append(note)
        self.send(
            {"row": row(self.folder, self.tick, type(layer).__name__, name, values, "; ".join(filter(None, notes)))}
        )

    def _layout(self, layer: Any, arguments: Any) -> Optional[str]:
        said = getattr(layer, "data_format", None)
        if said:
            return str(said)
        if type(layer).__name__ in _ELEMENTWISE:
            known = {self.layouts.get(id(t)) for _, t in _flat("", list(arguments)) if len(t.shape) == 4}
            if len(known) == 1:
                return known.pop()
        return None

    def _given(self, tensor: Any, layout: Optional[str]) -> Tuple[np.ndarray, str]:
        array = np.asarray(keras.ops.convert_to_numpy(tensor))
        if array.ndim != 4:
            return array, ""
        self.kept.append(tensor)
        layout = layout or self.layouts.get(id(tensor))  # a model gives what its last layer gave
        words = _WORDS.get(layout or "", "unknown")
        self.said[words] = self.said.get(words, 0) + 1
        if layout:
            self.layouts[id(tensor)] = layout
        if layout == LAST and self.nchw:
            return np.ascontiguousarray(array.transpose(0, 3, 1, 2)), "NHWC, given as NCHW"
        return array, "layout %s" % words

    def notes(self) -> List[str]:
        """How the 4-d values lie."""
        turned = ", given as NCHW" if self.nchw else ""
        return [
            "%d values lie as %s%s" % (count, words, turned if words == "NHWC" else "")
            for words, count in self.said.items()
        ]


def _flat(name: str, value: Any) -> List[Tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [pair for key, part in value.items() for pair in _flat("%s.%s" % (name, key), part)]
    if isinstance(value, (list, tuple)):
        named = [(name, value[0])] if len(value) == 1 else [("%s.%d" % (name, i), part) for i, part in enumerate(value)]
        return [pair for key, part in named for pair in _flat(key, part)]
    return [(name, value)] if hasattr(value, "shape") else []
