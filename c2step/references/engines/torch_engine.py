"""The engine for PyTorch: a module in eval mode, every inner module's outputs through hooks.

Each output is written to its file inside the hook, so that a module which later works in place
cannot change it, and memory holds one output at a time.
"""

import hashlib
import importlib.util
import os
import random
import sys
import traceback
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

import numpy as np
import torch

from c2step.blob import TENSOR, Blob, summarize
from c2step.capture import file_name, write_blob
from c2step.errors import ELSEWHERE, ReferenceFailed

from .serve import Event, serve

__all__ = ["ROOT", "TorchEngine", "flatten", "forward", "main", "settle", "tensor"]

ROOT = "<root>"
_SEED = 0


def main() -> None:
    """Serve requests on the pipe."""
    engine = TorchEngine()
    serve({"open": engine.open, "run": engine.run})


class TorchEngine:
    """A module made by the user's factory, and the names of what it takes."""

    def __init__(self) -> None:
        self.module: Any = None
        self.names: List[str] = []
        self.notes: List[str] = []

    def open(self, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
        """Make the module and put it into eval mode."""
        path = request["path"]
        send({"doing": "%s of %s" % (request["factory"], path)})
        settle()
        self.notes += _deterministic()
        made = _called(path, request["factory"], _factory(path, request["factory"]))
        self.module, options = made if isinstance(made, tuple) else (made, {})
        if not isinstance(self.module, torch.nn.Module):
            kind = type(self.module).__name__
            raise ReferenceFailed(
                "%s:%s gave %s, not a module" % (path, request["factory"], kind),
                "return an nn.Module, or (module, dict)",
            )
        self.module.eval()
        self.names = list(options.get("inputs") or request["inputs"])
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        return {
            "versions": {"torch": str(torch.__version__), "numpy": np.__version__},
            "sha256": digest,
            "preprocessing": str(options.get("preprocessing", "")),
            "notes": self.notes,
        }

    def run(self, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
        """Run the module once on the given files, with an event for each module."""
        missing = [name for name in self.names if name not in request["files"]]
        if missing:
            raise ReferenceFailed("no value for input %s of the module" % missing[0], "give it with --input")
        arguments = [tensor(name, request["files"][name]) for name in self.names]
        recorder = _Recorder(request["out"], send)
        handles, notes = recorder.attach(self.module)
        settle()
        with torch.no_grad():
            forward(self.module, self.names, arguments)
        for handle in handles:
            handle.remove()
        unused = [name for name in request["files"] if name not in self.names]
        return {"notes": notes + ["input %s was not used by the module" % name for name in unused]}


class _Recorder:
    """Writes what modules give, in the order in which they finish."""

    def __init__(self, folder: str, send: Event) -> None:
        self.folder, self.send = folder, send
        self.calls: Dict[str, int] = {}
        self.tick = 0

    def attach(self, module: Any) -> Tuple[List[Any], List[str]]:
        """Hook every module; what cannot be hooked is noted."""
        handles, notes = [], []
        for path, inner in module.named_modules():
            try:
                handles += self._hooks(path or ROOT, inner)
            except RuntimeError as error:
                notes.append("module %s has no hooks: %s" % (path or ROOT, str(error).splitlines()[0]))
        return handles, notes

    def _hooks(self, path: str, module: Any) -> List[Any]:
        kind = type(module).__name__

        def before(_: Any, inputs: Any) -> None:
            self.send({"doing": "module %s %s" % (path, kind), "at": self.tick, "of": 0})

        def after(_: Any, inputs: Any, outputs: Any) -> None:
            self._record(path, kind, outputs)

        return [module.register_forward_pre_hook(before), module.register_forward_hook(after)]

    def _record(self, path: str, kind: str, outputs: Any) -> None:
        self.calls[path] = self.calls.get(path, 0) + 1
        name = path if self.calls[path] == 1 else "%s#%d" % (path, self.calls[path])
        self.tick += 1
        flat = list(flatten(name, outputs))
        stored = [self._store(slot, key, value) for slot, (key, value) in enumerate(flat)]
        notes = [note for _, note in stored if note]
        self.send(
            {
                "row": {
                    "index": None,
                    "type": kind,
                    "name": name,
                    "node": None,
                    "status": "ok",
                    "error": "",
                    "inputs": [],
                    "call": self.calls[path],
                    "outputs": [out for out, _ in stored],
                    "note": "; ".join(notes),
                }
            }
        )

    def _store(self, slot: int, name: str, value: Any) -> Tuple[Dict[str, Any], str]:
        try:
            array, note = _to_numpy(value)
        except (TypeError, RuntimeError) as error:
            text = str(error).splitlines()[0]
            return {
                "name": name,
                "version": 1,
                "kind": "other",
                "dtype": "",
                "shape": [],
                "file": None,
                "summary": {"kind": "other", "text": text},
            }, ""
        file = file_name(self.tick, "o%d" % slot, name)
        write_blob(os.path.join(self.folder, file), Blob(name, TENSOR, array))
        summary = summarize(Blob(name, TENSOR, array))
        return {
            "name": name,
            "version": 1,
            "kind": TENSOR,
            "dtype": summary.dtype,
            "shape": list(array.shape),
            "file": file,
            "summary": summary.to_json(),
        }, note


def flatten(name: str, value: Any) -> Iterator[Tuple[str, Any]]:
    """The tensors of an output with their names: `.0` and `.key` for those inside of tuples and dicts."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from flatten("%s.%s" % (name, key), part)
    elif isinstance(value, (tuple, list)):
        for number, part in enumerate(value):
            yield from flatten("%s.%d" % (name, number), part)
    elif value is not None:
        yield name, value


def _to_numpy(value: Any) -> Tuple[np.ndarray, str]:
    """A tensor's values, and a note where they had to be put into another form."""
    if not isinstance(value, torch.Tensor):
        raise TypeError("no tensor but %s" % type(value).__name__)
    note = ""
    value = value.detach().cpu()
    if getattr(value, "is_quantized", False):
        value, note = value.dequantize(), "quantised, kept as its real values"
    if value.layout != torch.strided:
        value, note = value.to_dense(), "sparse, kept as a dense array"
    if str(value.dtype) == "torch.bfloat16":
        value, note = value.float(), "bfloat16, kept as float32"
    for resolve in ("resolve_conj", "resolve_neg"):
        value = getattr(value, resolve, lambda v=value: v)()
    return value.contiguous().numpy(), note


def settle() -> None:
    """The same random numbers on every run."""
    torch.manual_seed(_SEED)
    np.random.seed(_SEED)
    random.seed(_SEED)


def _deterministic() -> List[str]:
    switch = getattr(torch, "use_deterministic_algorithms", None)
    if switch is None:
        return ["this torch cannot be told to use deterministic algorithms only"]
    try:
        switch(True, warn_only=True)
        return []
    except TypeError:  # before 1.11 it can only refuse, and an operator that is refused has no value
        return ["this torch cannot prefer deterministic algorithms without refusing others"]


def _factory(path: str, name: str) -> Any:
    sys.path.insert(0, os.path.dirname(path))
    stem = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(stem, path)
    assert spec is not None and spec.loader is not None
    load = spec.loader.exec_module
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem] = module
    _called(path, stem, lambda: load(module))
    if not callable(getattr(module, name, None)):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ReferenceFailed("%s has no function %s" % (path, name), "it has %s" % ", ".join(known))
    return getattr(module, name)


def _called(path: str, what: str, function: Any) -> Any:
    """What a function of the user's gives; its exception is the user's to mend and names the line."""
    try:
        return function()
    except ModuleNotFoundError as error:
        raise _missing("%s of %s" % (what, path), error, _line(path)) from error
    except Exception as error:
        raise ReferenceFailed(
            "%s of %s raised %s: %s" % (what, path, type(error).__name__, error), _line(path)
        ) from error


def _missing(what: str, error: ModuleNotFoundError, line: str) -> ReferenceFailed:
    words = what, sys.executable, error, line
    return ReferenceFailed("%s asks for what %s does not have: %s (%s)" % words, ELSEWHERE)


def _line(path: str) -> str:
    frames = traceback.extract_tb(sys.exc_info()[2])
    own = [frame for frame in frames if frame.filename == path] or frames
    return "%s:%s: %s" % (os.path.basename(own[-1].filename), own[-1].lineno, own[-1].line)


def tensor(name: str, path: str) -> Any:
    """An input from its file."""
    try:
        return torch.from_numpy(np.load(path, allow_pickle=False))
    except (TypeError, ValueError) as error:
        raise ReferenceFailed("input %s cannot be a tensor: %s" % (name, str(error).splitlines()[0])) from error


def forward(module: Any, names: Sequence[str], arguments: Sequence[Any]) -> None:
    """Run the module; its exception is the user's to mend."""
    try:
        module(*arguments)
    except ModuleNotFoundError as error:
        raise _missing("the module", error, _line("")) from error
    except Exception as error:
        shapes = ", ".join("%s %s" % (n, tuple(a.shape)) for n, a in zip(names, arguments))
        raise ReferenceFailed(
            "the module raised %s: %s" % (type(error).__name__, str(error).splitlines()[0]),
            "it was given %s" % shapes if shapes else "it was given no input: --input NAME=FILE.npy",
        ) from error
