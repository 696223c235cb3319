"""The engine for OpenVINO: an ONNX file or an IR, every operation's output added to the model's own.

What is an output cannot be fused away, so the runtime keeps all of them.  Inference is in float32 on the CPU.
"""

import hashlib
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import openvino

from c2step.errors import ReferenceFailed

from .serve import Event, serve
from .storing import row

__all__ = ["main"]

_PLAIN = ("Parameter", "Constant", "Result", "Convert")


def main() -> None:
    """Serve requests on the pipe."""
    engine = _Engine()
    serve({"open": engine.open, "run": engine.run})


class _Engine:
    def __init__(self) -> None:
        self.core = openvino.Core()
        self.model: Any = None
        self.inputs: List[str] = []

    def open(self, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
        """Read the model; the answer names versions and the file's hash."""
        path = request["path"]
        try:
            self.model = self.core.read_model(path)
        except RuntimeError as error:
            raise ReferenceFailed("OpenVINO cannot read %s: %s" % (path, _last(error))) from error
        self.inputs = [_name(port) for port in self.model.inputs]
        missing = [name for name in self.inputs if name not in request["inputs"]]
        if missing:
            raise ReferenceFailed("no value for input %s of %s" % (missing[0], path), "give it with --input")
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        versions = {"openvino": openvino.__version__, "numpy": np.__version__}
        return {"versions": versions, "sha256": digest, "notes": [], "preprocessing": ""}

    def run(self, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
        """Run once and send a row for each operation that has a value."""
        places = list(self._expose())
        send({"doing": "the model with %d outputs" % len(places)})
        options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
        try:
            compiled = self.core.compile_model(self.model, "CPU", options)
            feeds = {name: np.load(request["files"][name], allow_pickle=False) for name in self.inputs}
            found = compiled.create_infer_request().infer(feeds)
        except RuntimeError as error:
            raise ReferenceFailed("OpenVINO refuses the model: %s" % _last(error)) from error
        for tick, (number, kind, friendly, name) in enumerate(places):
            value = np.array(found[compiled.output(number)])
            send({"row": row(request["out"], tick + 1, kind, friendly, [(name, value)])})
        return {"notes": []}

    def _expose(self) -> Iterator[Tuple[int, str, str, str]]:
        """Make every value an output; the number, type, node and name of each, in the order of the graph."""
        numbers = {_name(port): number for number, port in enumerate(self.model.outputs)}
        for node in self.model.get_ordered_ops():
            if node.get_type_name() in _PLAIN:
                continue
            for slot, port in enumerate(node.outputs()):
                name = _name(port)
                if name not in numbers:
                    numbers[name] = len(self.model.outputs)
                    self.model.add_outputs([(node.get_friendly_name(), slot)])
                yield numbers[name], node.get_type_name(), node.get_friendly_name(), name


def _name(port: Any) -> str:
    """A value's name in the file; where it has none, its node's, with its number where there are several."""
    names = sorted(port.get_names(), key=lambda name: (len(name), name))
    if names:
        return str(names[0])
    node = port.get_node()
    return (
        node.get_friendly_name() if len(node.outputs()) == 1 else "%s.%d" % (node.get_friendly_name(), port.get_index())
    )


def _last(error: Exception) -> str:
    return next((line for line in reversed(str(error).splitlines()) if line.strip()), "no reason given").strip()
