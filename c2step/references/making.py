"""Making golden values: onnxruntime and PyTorch, each in a process that may die, into a capture."""

import os
from typing import Any, Callable, Dict, Mapping, Optional

import numpy as np

from ..blob import STRING, TENSOR, Blob
from ..capture import CaptureWriter, file_name, write_blob
from ..digests import Digests
from ..errors import ReferenceFailed, WorkerDied, WorkerTimeout
from .engine import Engine, Shown
from .reference import Reference, open_capture

__all__ = ["GoldenCapture", "Progress", "make_onnxruntime", "make_torch"]

Progress = Callable[[int, int, str], None]
"""Gets the position, the number of nodes (0 where it is not known) and what is run."""

_DEATHS = 20


def make_onnxruntime(
    model_path: str,
    inputs: Mapping[str, np.ndarray],
    out_dir: str,
    python: str,
    progress: Optional[Progress] = None,
    shown: Optional[Shown] = None,
    timeout: Optional[float] = None,
) -> Reference:
    """Every value of an ONNX file on these inputs, from onnxruntime with optimisations off.

    Nodes are run one by one, so memory holds what one node needs.  A node that onnxruntime refuses,
    that ends the process or that takes longer than `timeout` seconds is recorded with its reason, and so
    is everything that needs it; all others have values.
    """
    run = GoldenCapture(out_dir, python, inputs, progress, shown)
    try:
        run.onnxruntime(model_path, timeout)
    finally:
        run.writer.close()
    return open_capture(out_dir)


def make_torch(
    spec: str,
    inputs: Mapping[str, np.ndarray],
    out_dir: str,
    python: str,
    progress: Optional[Progress] = None,
    shown: Optional[Shown] = None,
    timeout: Optional[float] = None,
) -> Reference:
    """The outputs of every module of a PyTorch model on these inputs; `spec` is FILE.py:factory.

    The factory gives a module, or a module and a dict with `inputs` (the names in the order in which
    forward takes them) and `preprocessing` (a text that is kept).  Names are the paths of
    named_modules(), with `#2` for a second call and `.0` or `.key` for one of several outputs; `<root>`
    is the model itself.
    """
    path, colon, factory = spec.rpartition(":")
    if not colon or not os.path.isfile(path):
        raise ReferenceFailed(
            "%s is not FILE.py:factory" % spec, "name a Python file and the function in it that gives the module"
        )
    run = GoldenCapture(out_dir, python, inputs, progress, shown)
    try:
        run.torch(os.path.abspath(path), factory, timeout)
    finally:
        run.writer.close()
    return open_capture(out_dir)


class GoldenCapture:
    """One capture being filled by an engine, which is started again where it left off when it dies."""

    def __init__(
        self,
        out_dir: str,
        python: str,
        inputs: Mapping[str, np.ndarray],
        progress: Optional[Progress],
        shown: Optional[Shown],
    ) -> None:
        self.writer = CaptureWriter(out_dir)
        self.out, self.python = self.writer.path, python
        self.arrays = {name: np.asarray(array) for name, array in inputs.items()}
        self.progress, self.shown = progress, shown
        self.values: Dict[str, Dict[str, Any]] = {}
        self.lost: Dict[str, str] = {}
        self.current: Dict[str, Any] = {}
        self.header: Dict[str, Any] = {"kind": "reference"}

    def begin(self, header: Dict[str, Any]) -> None:
        """Write the header and the inputs."""
        self.header.update(header, inputs=[_declared(name, array) for name, array in self.arrays.items()])
        self.writer.begin(self.header)
        for slot, (name, array) in enumerate(self.arrays.items()):
            self.add(
                {
                    "index": None,
                    "type": "Input",
                    "name": name,
                    "node": None,
                    "status": "ok",
                    "error": "",
                    "inputs": [],
                    "outputs": [_stored(self.out, slot, name, array)],
                }
            )

    def add(self, row: Dict[str, Any]) -> None:
        """Write a row, and remember what it gave."""
        self.writer.add(row)
        for out in row["outputs"]:
            self.values[out["name"]] = out
            if out["kind"] == "missing":
                self.lost[out["name"]] = out["summary"]["text"]

    def heard(self, event: Dict[str, Any]) -> None:
        """Take an event of the engine."""
        if "doing" in event:
            self.current = event
            if self.progress is not None:
                self.progress(event.get("at", 0), event.get("of", 0), event["doing"])
        else:
            self.add(event["row"])

    def onnxruntime(self, model: str, timeout: Optional[float]) -> None:
        """Run all nodes, starting the engine again after each death."""
        given = {name: _declared(name, array) for name, array in self.arrays.items()}
        digests = Digests([os.path.abspath(model)])
        start, notes, begun = 0, [], False
        for _ in range(_DEATHS):
            with Engine(self.python, "onnx_engine", "onnxruntime", self.shown) as engine:
                told = engine.ask({"do": "open", "model": os.path.abspath(model), "inputs": given})
                if not begun:
                    notes, begun = told["notes"], True
                    self.begin(
                        {
                            "engine": "onnxruntime",
                            "model": os.path.abspath(model),
                            "sha256": digests.of(model),
                            "opset": told["opset"],
                            "versions": dict(told["versions"], python=engine.version),
                            "preprocessing": "",
                            "notes": notes,
                            **({"quantised": told["quantised"]} if told["quantised"] else {}),
                        }
                    )
                try:
                    engine.ask(self._nodes(start), self.heard, timeout)
                    return
                except WorkerDied as death:
                    start = self._bury(death)
                    notes.append(death.message)
                    self.writer.write_header(self.header)
        raise ReferenceFailed(
            "onnxruntime ended %d times on %s" % (_DEATHS, model), "values up to there are in %s" % self.out
        )

    def _nodes(self, start: int) -> Dict[str, Any]:
        return {"do": "run", "out": self.out, "start": start, "tick": 1, "values": self.values, "lost": self.lost}

    def _bury(self, death: WorkerDied) -> int:
        """Write the row of the node at which the engine ended, and give the next one's position."""
        head = self.current.get("row")
        if head is None:
            raise ReferenceFailed(death.message, "the model may be too large for the memory of this machine")
        word = "stopped" if isinstance(death, WorkerTimeout) else "ended by " + death.signal
        reason = "onnxruntime %s at %s" % (word, self.current["doing"])
        outputs = [self._absent(name, reason) for name in head["node"]["outputs"] if name]
        self.add(dict(head, status="died", error=death.message, outputs=outputs))
        return int(self.current["at"]) + 1

    def _absent(self, name: str, reason: str) -> Dict[str, Any]:
        version = self.values[name]["version"] + 1 if name in self.values else 1
        return {
            "name": name,
            "version": version,
            "kind": "missing",
            "dtype": "",
            "shape": [],
            "file": None,
            "summary": {"kind": "missing", "text": reason},
        }

    def torch(self, path: str, factory: str, timeout: Optional[float]) -> None:
        """Run the module once."""
        with Engine(self.python, "torch_engine", "PyTorch", self.shown) as engine:
            try:
                told = engine.ask(
                    {"do": "open", "path": path, "factory": factory, "inputs": list(self.arrays)}, self.heard, timeout
                )
                self.begin(
                    {
                        "engine": "torch",
                        "model": "%s:%s" % (path, factory),
                        "sha256": told["sha256"],
                        "versions": dict(told["versions"], python=engine.version),
                        "preprocessing": told["preprocessing"],
                        "notes": told["notes"],
                    }
                )
                files = {name: os.path.join(self.out, self.values[name]["file"]) for name in self.arrays}
                done = engine.ask({"do": "run", "out": self.out, "files": files}, self.heard, timeout)
            except WorkerDied as death:
                raise ReferenceFailed(death.message, "values of the modules before it are in %s" % self.out) from death
            self.header["notes"] += done["notes"]
            self.writer.write_header(self.header)


def _declared(name: str, array: np.ndarray) -> Dict[str, Any]:
    import hashlib

    data = np.ascontiguousarray(array)
    digest = hashlib.sha256(data.tobytes()).hexdigest() if data.dtype.kind != "O" else ""
    return {
        "name": name,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "sha256": digest,
        "type": _type_text(array),
    }


_WORDS = {"float32": "float", "float64": "double"}


def _type_text(array: np.ndarray) -> str:
    word = "string" if array.dtype.kind in "OSU" else array.dtype.newbyteorder("=").name
    return "tensor(%s)" % _WORDS.get(word, word)


def _utf8(array: np.ndarray) -> np.ndarray:
    """Strings as bytes, as captures keep them."""
    made = np.empty(array.size, dtype=object)
    made[:] = [word if isinstance(word, bytes) else str(word).encode() for word in array.reshape(-1).tolist()]
    return made.reshape(array.shape)


def _stored(folder: str, slot: int, name: str, array: np.ndarray) -> Dict[str, Any]:
    """Write an input in this machine's byte order, and return its entry for the journal."""
    kind = STRING if array.dtype.kind in "OSU" else TENSOR
    native = _utf8(array) if kind == STRING else np.asarray(array, array.dtype.newbyteorder("="), order="C")
    blob = Blob(name, kind, native)
    file = file_name(0, "i%d" % slot, name, kind)
    write_blob(os.path.join(folder, file), blob)
    summary = blob.summary()
    return {
        "name": name,
        "version": 0,
        "kind": kind,
        "dtype": summary.dtype,
        "shape": list(array.shape),
        "file": file,
        "type": _type_text(array),
        "summary": summary.to_json(),
    }
