"""Making golden values: onnxruntime and PyTorch, each in a process that may die, into a capture.

An engine that is kept open makes them for one input after another: what it has read and prepared stays.
"""

import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np

from ..blob import STRING, TENSOR, Blob
from ..capture import CaptureWriter, file_name, write_blob
from ..digests import Digests, of_array
from ..errors import ReferenceFailed, WorkerDied, WorkerTimeout
from .engine import Engine, Shown
from .reference import Reference, open_capture

__all__ = [
    "Maker",
    "GoldenCapture",
    "OnnxRuntime",
    "Progress",
    "Whole",
    "make_onnxruntime",
    "make_torch",
    "onnxruntime_ahead",
    "torch_model",
]

Progress = Callable[[int, int, str], None]
"""Gets the position, the number of nodes (0 where it is not known) and what is run."""

_DEATHS = 20
_ONNXRUNTIME = ("onnx_engine", "onnxruntime")
ROOM = 256 << 20  # bytes of prepared nodes that an engine keeps for the next input


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
    with OnnxRuntime(model_path, python, shown, timeout, room=0) as runtime:
        return runtime.make(inputs, out_dir, progress)


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
    with torch_model(spec, python, shown, timeout) as model:
        return model.make(inputs, out_dir, progress)


class Maker:
    """An engine that stays open and makes golden values for one input after another.

    `deaths` counts how often its process ended; the next one starts by itself.  `spare` is one that was started
    ahead, which is then the first.
    """

    def __init__(self, python: str, module: str, name: str, shown: Optional[Shown], timeout: Optional[float]) -> None:
        self.python, self.module, self.name = python, module, name
        self.shown, self.timeout = shown, timeout
        self.engine: Optional[Engine] = None
        self.told: Dict[str, Any] = {}
        self.deaths = 0
        self.spare: Optional[Engine] = None
        self._cancelled = False

    def __enter__(self) -> "Maker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> Optional[int]:
        """The engine's process, None where there is none."""
        return self.engine.pid if self.engine else None

    def make(self, inputs: Mapping[str, np.ndarray], out_dir: str, progress: Optional[Progress] = None) -> Reference:
        """The golden values of one input, in a capture in `out_dir`."""
        capture = GoldenCapture(out_dir, inputs, progress)
        try:
            self.fill(capture)
        except BaseException:
            self.close()  # it may be in the middle of an answer
            raise
        finally:
            capture.writer.close()
        return open_capture(out_dir)

    def fill(self, capture: "GoldenCapture") -> None:
        """Run once, into a capture."""
        raise NotImplementedError

    def started(self, request: Dict[str, Any], capture: "GoldenCapture") -> Engine:
        """The engine, with the model open; `told` is what it said of it."""
        if self.engine is None:
            self.engine = self._taken() or Engine(self.python, self.module, self.name, self.shown)
            if self._cancelled:
                self.engine.kill()
            self.told = self.engine.ask(dict(request, do="open"), capture.heard, self.timeout)
        return self.engine

    def _taken(self) -> Optional[Engine]:
        """The engine that was started ahead, once."""
        spare, self.spare = self.spare, None
        if spare is not None:
            spare.shown = self.shown
            spare.greet()
        return spare

    def buried(self, death: WorkerDied) -> None:
        """The process ended: count it, and let the next request start another; raises it where that was asked for."""
        if self._cancelled:
            raise death
        self.deaths += 1
        self.close()

    def cancel(self) -> None:
        """From another thread: end the process, and start it no more."""
        self._cancelled, engine = True, self.engine
        if engine is not None:
            engine.kill()

    def close(self) -> None:
        """End the process."""
        ended, self.engine, self.spare = (self.engine, self.spare), None, None
        for engine in ended:
            if engine is not None:
                engine.close()


def onnxruntime_ahead(python: str) -> Engine:
    """An engine that an `OnnxRuntime` can have as its `spare`; it loads what it needs meanwhile."""
    return Engine(python, *_ONNXRUNTIME, ahead=["onnx", "onnxruntime"])


class OnnxRuntime(Maker):
    """onnxruntime on one ONNX file, node by node; prepared nodes stay for the next input, up to `room` bytes."""

    def __init__(
        self,
        model_path: str,
        python: str,
        shown: Optional[Shown] = None,
        timeout: Optional[float] = None,
        room: int = ROOM,
    ) -> None:
        super().__init__(python, *_ONNXRUNTIME, shown, timeout)
        self.model, self.room = model_path, room
        self._digests = Digests([os.path.abspath(model_path)])

    def fill(self, capture: "GoldenCapture") -> None:
        """Run all nodes, starting the engine again after each death."""
        given = {name: _declared(name, array) for name, array in capture.arrays.items()}
        start, notes = 0, None
        for _ in range(_DEATHS):
            fresh = self.engine is None
            request = {"model": os.path.abspath(self.model), "inputs": given, "room": self.room, "light": True}
            engine = self.started(request, capture)
            if notes is None:
                told = self.told if fresh else engine.ask({"do": "check", "inputs": given})
                notes = list(told["notes"])
                capture.begin(dict(self._header(engine), notes=notes))
            try:
                engine.ask(capture.nodes(start), capture.heard, self.timeout)
                return
            except WorkerDied as death:
                self.buried(death)
                start = capture.bury(death)
                notes.append(death.message)
                capture.write_header()
        raise ReferenceFailed(
            "onnxruntime ended %d times on %s" % (_DEATHS, self.model), "values up to there are in %s" % capture.out
        )

    def _header(self, engine: Engine) -> Dict[str, Any]:
        return {
            "engine": "onnxruntime",
            "model": os.path.abspath(self.model),
            "sha256": self._digests.of(self.model),
            "opset": self.told["opset"],
            "nodes": self.told["nodes"],
            "versions": dict(self.told["versions"], python=engine.version),
            "preprocessing": "",
            **({"quantised": self.told["quantised"]} if self.told["quantised"] else {}),
        }


def torch_model(spec: str, python: str, shown: Optional[Shown] = None, timeout: Optional[float] = None) -> "Whole":
    """A PyTorch module, from the factory that FILE.py:factory names."""
    path, colon, factory = spec.rpartition(":")
    if not colon or not os.path.isfile(path):
        raise ReferenceFailed(
            "%s is not FILE.py:factory" % spec, "name a Python file and the function in it that gives the module"
        )
    path = os.path.abspath(path)
    opening = {"path": path, "factory": factory}
    return Whole(python, ("torch_engine", "PyTorch", "torch"), "%s:%s" % (path, factory), opening, {}, shown, timeout)


class Whole(Maker):
    """A model that runs as a whole, with an event for each value; `kind` is the engine's module, its name and its word.

    `model` is what the capture says that it is of, `opening` and `running` go into the engine's requests.
    """

    def __init__(
        self,
        python: str,
        kind: Tuple[str, str, str],
        model: str,
        opening: Dict[str, Any],
        running: Dict[str, Any],
        shown: Optional[Shown],
        timeout: Optional[float],
    ) -> None:
        super().__init__(python, kind[0], kind[1], shown, timeout)
        self.word, self.model, self.opening, self.running = kind[2], model, opening, running
        self._names: List[str] = []

    def fill(self, capture: "GoldenCapture") -> None:
        """Run the model once."""
        if self._names != list(capture.arrays):
            self.close()
            self._names = list(capture.arrays)
        try:
            engine = self.started(dict(self.opening, inputs=self._names), capture)
            capture.begin(self._header(engine))
            done = engine.ask(dict(self.running, do="run", out=capture.out, files=capture.files()), capture.heard,
                              self.timeout)  # fmt: skip
        except WorkerDied as death:
            self.buried(death)
            raise ReferenceFailed(death.message, "values up to there are in %s" % capture.out) from death
        capture.header["notes"] += done["notes"]
        capture.write_header()

    def _header(self, engine: Engine) -> Dict[str, Any]:
        return {
            "engine": self.word,
            "model": self.model,
            "sha256": self.told["sha256"],
            "versions": dict(self.told["versions"], python=engine.version),
            "preprocessing": self.told["preprocessing"],
            "notes": list(self.told["notes"]),
        }


class GoldenCapture:
    """One capture being filled by an engine."""

    def __init__(self, out_dir: str, inputs: Mapping[str, np.ndarray], progress: Optional[Progress] = None) -> None:
        self.writer = CaptureWriter(out_dir)
        self.out = self.writer.path
        self.arrays = {name: np.asarray(array) for name, array in inputs.items()}
        self.progress = progress
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

    def files(self) -> Dict[str, str]:
        """Where the inputs are."""
        return {name: os.path.join(self.out, self.values[name]["file"]) for name in self.arrays}

    def write_header(self) -> None:
        """Write what is known by now."""
        self.writer.write_header(self.header)

    def nodes(self, start: int) -> Dict[str, Any]:
        """The request for the nodes from position `start` on."""
        return {"do": "run", "out": self.out, "start": start, "tick": 1, "values": self.values, "lost": self.lost}

    def bury(self, death: WorkerDied) -> int:
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


def _declared(name: str, array: np.ndarray) -> Dict[str, Any]:
    return {
        "name": name,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "sha256": of_array(array),
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
