"""Open a model: find its files, convert or load them, and say what it takes and gives.

Worker side only.  The nets stay Caffe2's own protobuf objects here; `Opened.to_json` is what the
front sees.
"""

import warnings
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
from caffe2.proto import caffe2_pb2

from ..errors import ModelError, UsageError
from ..model import BACKENDS
from ..net import Net, OnnxNode
from . import netdef
from .files import ModelFiles, find_model
from .operators import lint_nets, lint_pair

__all__ = ["Loaded", "Opened", "lint_model", "load_model", "open_model"]

Declared = Tuple[str, Optional[str], Optional[Sequence[Any]]]


def _nothing() -> Iterator[Tuple[str, np.ndarray]]:
    return iter(())


@dataclass
class Opened:
    """A model ready to run: nets, where the initial values come from, declarations and notes."""

    files: ModelFiles
    init_net: Any
    predict_net: Any
    inputs: List[Declared]
    outputs: List[Declared]
    notes: List[str]
    findings: List[Dict[str, Any]] = field(default_factory=list)
    refused: List[Dict[str, Any]] = field(default_factory=list)
    nodes: List[OnnxNode] = field(default_factory=list)
    node_of: List[int] = field(default_factory=list)
    init_node_of: List[int] = field(default_factory=list)
    onnx_model: Any = None
    initializers: Callable[[], Iterator[Tuple[str, np.ndarray]]] = _nothing
    fixed: Dict[str, np.ndarray] = field(default_factory=dict)

    def to_net(self) -> Net:
        """predict_net as plain data."""
        return netdef.to_net(self.predict_net, self.node_of, self.nodes)

    def to_json(self) -> Dict[str, Any]:
        """What the front needs to know, as plain JSON."""
        return {
            "kind": "onnx" if self.files.onnx else "nets",
            "files": self.files.paths(),
            "weights": list(self.files.weights),
            "init_net": netdef.to_net(self.init_net, self.init_node_of, self.nodes).to_json(),
            "predict_net": self.to_net().to_json(),
            "inputs": [list(d) for d in self.inputs],
            "outputs": [list(d) for d in self.outputs],
            "notes": self.notes,
            "findings": self.findings,
            "refused": self.refused,
            "fixed": {name: value.tolist() for name, value in self.fixed.items()},
        }


class Loaded(NamedTuple):
    """A model's files as read, before anything is converted: an ONNX model or a pair of nets."""

    files: ModelFiles
    onnx_model: Any = None
    pair: Optional[netdef.Pair] = None

    def declared(self) -> Dict[str, Any]:
        """What may be fed and what comes out, as JSON; `known` are further names that may be fed."""
        if self.onnx_model is not None:
            from . import backend

            inputs, outputs = backend.declared(self.onnx_model)
            known = [tensor.name for tensor in self.onnx_model.graph.initializer]
            return {
                "kind": "onnx",
                "inputs": [list(d) for d in inputs],
                "outputs": [list(d) for d in outputs],
                "known": known,
            }
        assert self.pair
        known = netdef.to_net(self.pair.predict_net).blobs() + sorted(netdef.read_inside(self.pair.predict_net))
        return {
            "kind": "nets",
            "inputs": [list(d) for d in netdef.inputs_of(self.pair)],
            "known": known,
            "outputs": [[name, None, None] for name in self.pair.predict_net.external_output],
        }


def load_model(spec: Dict[str, Any]) -> Loaded:
    """Find and read the files that `spec` names: model, or init_net and predict_net."""
    files = find_model(spec.get("model"), spec.get("init_net"), spec.get("predict_net"), spec.get("scratch"))
    first = _is_first(spec)
    if not files.onnx:
        if first:
            raise UsageError(
                "--backend %s converts ONNX models, and these are Caffe2 nets" % spec["backend"], "leave it out"
            )
        return Loaded(files, pair=netdef.load_pair(files))
    if first:
        from . import onnx_caffe2

        onnx_caffe2.require()
    from . import backend

    weights: Set[str] = set()
    model = backend.load(files.onnx, everything=False, weights=weights)
    return Loaded(files._replace(weights=tuple(sorted(weights))), onnx_model=model)


def open_model(loaded: Loaded, spec: Dict[str, Any], on_node: Callable[[int, str], None]) -> Opened:
    """Convert what was loaded, with the import mode and the dimensions that `spec` gives.

    `on_node(index, label)` is called before each ONNX node is converted.
    """
    if loaded.pair is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the backend's own use of old numpy names, of no use to anyone here
            return _open_onnx(loaded, spec, on_node)
    return _open_pair(loaded.files, loaded.pair)


def _open_pair(files: ModelFiles, pair: netdef.Pair) -> Opened:
    given = [(name, None, None) for name in pair.predict_net.external_output]
    notes = ([files.note] if files.note else []) + pair.notes
    return Opened(
        files,
        pair.init_net,
        pair.predict_net,
        list(netdef.inputs_of(pair)),
        list(given),
        notes,
        lint_pair(pair.init_net, pair.predict_net),
    )


def _open_onnx(loaded: Loaded, spec: Dict[str, Any], on_node: Callable[[int, str], None]) -> Opened:
    from . import backend

    model = loaded.onnx_model
    converted, findings = _converted(model, spec, on_node)
    if not converted.predict.op:
        raise ModelError("%s has no nodes that become operators" % loaded.files.onnx, "its graph is empty")
    init = caffe2_pb2.NetDef(name=(converted.predict.name or "net").replace("_predict", "") + "_init")
    init.op.extend(converted.init_ops)
    inputs, outputs = backend.declared(model)
    blobs = converted.predict.external_output  # an output may be in a blob of another name
    return Opened(
        loaded.files,
        init,
        converted.predict,
        list(inputs),
        [(blob, dtype, shape) for blob, (_, dtype, shape) in zip(blobs, outputs)],
        list(converted.notes),
        [finding._asdict() for finding in findings],
        [refused._asdict() for refused in converted.refused],
        list(converted.nodes),
        list(converted.node_of),
        list(converted.init_node_of),
        model,
        converted.blobs,
        converted.fixed,
    )


def _converted(model: Any, spec: Dict[str, Any], on_node: Callable[[int, str], None]) -> Tuple[Any, List[Any]]:
    """The nets, and what lint says of them, by the importer that `spec` asks for."""
    from . import backend
    from .lint import lint

    def begins(index: int, node: OnnxNode) -> None:
        on_node(index, "%s %s" % (node.op_type, node.label))

    if _is_first(spec):
        from . import onnx_caffe2

        made = onnx_caffe2.convert(model, begins, not spec.get("partial"))
        return made, made.findings
    shapes, values = _input_shapes(backend, model, spec), small_values(spec)
    repaired = spec.get("import", "faithful") == "repaired"
    findings = [] if repaired else lint(model, shapes, values)
    made = backend.import_model(model, repaired, begins, shapes or None, not spec.get("partial"), values)
    return made, findings or made.findings


def _is_first(spec: Dict[str, Any]) -> bool:
    """Whether onnx_caffe2 is to convert the model; UsageError where that does not go with the rest of `spec`."""
    if spec.get("backend", BACKENDS[0]) == BACKENDS[0]:
        return False
    if spec.get("import", "faithful") == "repaired":
        raise UsageError(
            "--import repaired does not go with --backend %s" % spec["backend"],
            "repairs are for what --backend %s gets wrong" % BACKENDS[0],
        )
    return True


def lint_model(loaded: Loaded, spec: Dict[str, Any]) -> List[Dict[str, Any]]:
    """What Caffe2 will refuse, fail at, die of or get wrong, as JSON; nothing is converted.

    With `operators` in `spec` instead what this Caffe2 does not have of the operators and arguments that the
    model becomes: that does convert, and a conversion may end the process.
    """
    if spec.get("operators"):
        opened = open_model(loaded, dict(spec, partial=True), lambda index, label: None)
        return lint_nets(opened.init_net, opened.predict_net, opened.to_net())
    if loaded.pair is not None:
        return lint_pair(loaded.pair.init_net, loaded.pair.predict_net)
    if _is_first(spec):
        return open_model(loaded, dict(spec, partial=True), lambda index, label: None).findings
    from . import backend
    from .lint import lint

    shapes = _input_shapes(backend, loaded.onnx_model, spec)
    return [finding._asdict() for finding in lint(loaded.onnx_model, shapes, small_values(spec))]


def small_values(spec: Dict[str, Any]) -> Optional[Dict[str, np.ndarray]]:
    """Fed values that are small enough to be looked at when a node's form depends on them, such as axes."""
    given = spec.get("input_values") or {}
    values = {name: np.array(v["values"], dtype=v["dtype"]).reshape(v["shape"]) for name, v in given.items()}
    return values or None


def _input_shapes(backend: Any, model: Any, spec: Dict[str, Any]) -> Dict[str, Sequence[int]]:
    """The shapes of the inputs where they are known: those fed, or the declared ones with --dim filled in."""
    fed: Dict[str, Sequence[int]] = dict(spec.get("input_shapes") or {})
    dims: Dict[str, int] = spec.get("dims") or {}
    inputs, _ = backend.declared(model)
    shapes: Dict[str, Sequence[int]] = {}
    for name, _, shape in inputs:
        if name in fed:
            shapes[name] = list(fed[name])
        elif shape is not None:
            filled: List[Any] = [dims.get(d, d) if isinstance(d, str) else d for d in shape]
            if all(isinstance(d, int) and d >= 0 for d in filled):
                shapes[name] = filled
    return shapes
