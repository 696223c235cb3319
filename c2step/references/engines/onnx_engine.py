"""The engine for ONNX files: every value of every node, float64 truths, exposed outputs.

`open` reads a file, `run` runs its nodes one by one and writes each value at once, `truth` computes
one node in float64, `expose` writes a copy with more outputs.
"""

import os
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np
import onnx

from c2step.errors import ReferenceFailed

from .exposing import expose
from .graph import Call, Graph, dense
from .quantised import quantised
from .serve import Event, serve
from .values import WIDER, Values, type_of

__all__ = ["main"]


def main() -> None:
    """Serve requests on the pipe."""
    engine = _Engine()
    handlers = {"open": engine.open, "check": engine.check, "run": engine.run, "truth": engine.truth}
    serve(dict(handlers, expose=engine.expose))


class _Engine:
    def __init__(self) -> None:
        self._graph: Optional[Graph] = None
        self._sessions: Any = None

    @property
    def graph(self) -> Graph:
        """The model that `open` read."""
        assert self._graph is not None
        return self._graph

    def open(self, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
        """Read the model and compare its inputs with those given; onnxruntime is looked for here.

        With `room`, sessions of nodes stay for further runs, in so many bytes.  Of a `light` one the weights stay in
        the file until a node needs them.
        """
        self._graph = Graph(request["model"], request.get("light", False))
        self._sessions = None
        versions = {"onnx": onnx.__version__, "numpy": np.__version__}
        if request.get("runtime", True):
            import onnxruntime

            versions["onnxruntime"] = onnxruntime.__version__
        if request.get("room"):
            from .kernels import Sessions

            self._sessions = Sessions(request["room"])
        return {
            "versions": versions,
            "notes": [] if request.get("inputs") is None else self.check(request, send)["notes"],
            "opset": self.graph.opset,
            "nodes": len(self.graph.nodes),
            "quantised": quantised(self.graph),
        }

    def check(self, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
        """Compare the model's inputs with those given."""
        return {"notes": list(_check_inputs(self.graph, request["inputs"]))}

    def run(self, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
        """Run the nodes from position `start` on, with an event before and after each."""
        values = Values(request["out"], request["values"])
        runner = _Runner(self.graph, values, dict(request["lost"]), self._sessions)
        total = len(self.graph.nodes)
        for at in range(request["start"], total):
            index, node = self.graph.nodes[at]
            head = _head(index, node, values)
            send({"doing": label(index, node), "at": at, "of": total, "row": head})
            send({"row": dict(head, **runner.row(request["tick"] + at, index, node))})
        outputs = [value.name for value in self.graph.model.graph.output]
        for slot, name in enumerate(name for name in outputs if name in self.graph.initializers and name not in values):
            array = dense(self.graph.loaded(self.graph.initializers[name]))
            stored = dict(values.keep(request["tick"] + total, slot, name, array, type_of(array)), version=0)
            send(
                {
                    "row": {
                        "index": None,
                        "type": "Initializer",
                        "name": name,
                        "node": None,
                        "inputs": [],
                        "error": "",
                        "status": "ok",
                        "outputs": [stored],
                    }
                }
            )
        return {"outputs": outputs, "lost": {name: runner.lost[name] for name in outputs if name in runner.lost}}

    def truth(self, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
        """One node in float64 from the arrays in `inputs` (paths by name)."""
        from .truth import truth

        index, node = self.graph.find(request["node"])
        send({"doing": label(index, node)})
        feeds = {name: np.load(path, allow_pickle=False) for name, path in request["inputs"].items()}
        call = self._call(node, feeds)
        found = truth(self.graph, call, request["draws"])
        return {
            "how": found.how,
            "doubt": found.doubt,
            "values": _save(found.values, request["out"], "value"),
            "noise": _save(found.noise, request["out"], "noise"),
        }

    def expose(self, request: Dict[str, Any], send: Event) -> Dict[str, Any]:
        """A copy of a model with more outputs."""
        return expose(request)

    def _call(self, node: Any, feeds: Dict[str, np.ndarray]) -> Call:
        needed = self.graph.reads(node)
        for name in needed:
            if name not in feeds and name in self.graph.fixed:
                feeds[name] = self._constant(name)
        missing = [name for name in needed if name not in feeds and name not in self.graph.initializers]
        if missing:
            raise ReferenceFailed("no value for %s, which %s reads" % (", ".join(missing), node.op_type))
        used = {name: feeds[name] for name in needed if name in feeds}
        return self.graph.call(node, used, {name: type_of(value) for name, value in used.items()})

    def _constant(self, name: str) -> np.ndarray:
        from .kernels import run_plain

        _, node = self.graph.find(name)
        return np.asarray(run_plain(self.graph, self.graph.call(node, {}, {}))[name][1])


class _Runner:
    """Runs nodes, and remembers for each value that is not there why it is not."""

    def __init__(self, graph: Graph, values: Values, lost: Dict[str, str], sessions: Any = None) -> None:
        self.graph, self.values, self.lost, self.sessions = graph, values, lost, sessions

    def row(self, tick: int, index: int, node: Any) -> Dict[str, Any]:
        """What the journal says of a node after it ran, or why it did not."""
        reads = self.graph.reads(node)
        absent = [name for name in reads if name not in self.values and name not in self.graph.initializers]
        if absent:
            reason = "needs %s: %s" % (absent[0], self.lost.get(absent[0], "nothing gives it"))
            return self._without("skipped", node, reason, self.lost.get(absent[0], reason))
        try:
            made, note = self._run(node, reads)
        except ReferenceFailed as error:
            return self._without(
                "failed", node, error.message, "onnxruntime refuses %s: %s" % (label(index, node), error.message)
            )
        outputs = [
            self.values.keep(tick, slot, name, made[name][1], made[name][0])
            for slot, name in enumerate(node.output)
            if name
        ]
        return {"status": "ok", "outputs": outputs, "note": note}

    def _run(self, node: Any, reads: List[str]) -> Tuple[Dict[str, Tuple[str, Any]], str]:
        from .kernels import no_kernel, run_call

        names = [name for name in reads if name in self.values]
        call = self.graph.call(
            node, {name: self.values.load(name) for name in names}, {name: self.values.type(name) for name in names}
        )
        try:
            result = run_call(self.graph, call, self.sessions)
        except ReferenceFailed as error:
            if not (call.standard and no_kernel(error.message)):
                raise
            return self._evaluate(call, error)
        return {n: (t, _array(t, v)) for n, (t, v) in result.values.items()}, result.note

    def _evaluate(self, call: Call, refusal: ReferenceFailed) -> Tuple[Dict[str, Tuple[str, Any]], str]:
        """A node that onnxruntime takes for valid and has no kernel for."""
        from .truth import evaluate, own

        for name, run in (("numpy", own), ("onnx's reference evaluator", lambda c: evaluate(self.graph, c))):
            try:
                made = run(call)
                values = {key: (type_of(value), value) for key, value in _narrowed(made, call).items()}
                return {n: values[n] for n in call.node.output if n}, "onnxruntime has no kernel, computed by %s" % name
            except Exception:  # the next one, or onnxruntime's own refusal
                continue
        raise refusal

    def _without(self, status: str, node: Any, error: str, reason: str) -> Dict[str, Any]:
        outputs = []
        for name in node.output:
            if name:
                self.lost[name] = reason
                outputs.append(
                    {
                        "name": name,
                        "version": self.values.lose(name),
                        "kind": "missing",
                        "dtype": "",
                        "shape": [],
                        "file": None,
                        "summary": {"kind": "missing", "text": reason},
                    }
                )
        return {"status": status, "error": error, "outputs": outputs}


def label(index: int, node: Any) -> str:
    """What to call a node: `node 3 Floor "fl"`, with its name or else its first output."""
    name = node.name or next((output for output in node.output if output), "")
    return "node %d %s%s" % (index, node.op_type, ' "%s"' % name if name else "")


def _head(index: int, node: Any, values: Values) -> Dict[str, Any]:
    origin = {
        "index": index,
        "name": node.name,
        "op_type": node.op_type,
        "domain": node.domain,
        "inputs": list(node.input),
        "outputs": list(node.output),
    }
    reads = [{"name": name, "version": values.version(name)} for name in node.input if name]
    return {"index": index, "type": node.op_type, "name": node.name, "node": origin, "inputs": reads, "error": ""}


def _narrowed(made: Dict[str, np.ndarray], call: Call) -> Dict[str, np.ndarray]:
    """What was computed in float64, in the float type that the node was fed."""
    fed = {v.dtype for v in call.feeds.values() if isinstance(v, np.ndarray) and v.dtype.kind == "f"}
    if len(fed) != 1:
        return made
    dtype = fed.pop()
    return {name: value.astype(dtype) if value.dtype == np.float64 else value for name, value in made.items()}


def _array(kind: str, value: Any) -> Any:
    return np.asarray(value) if kind.startswith("tensor") or isinstance(value, np.generic) else value


def _check_inputs(graph: Graph, given: Dict[str, Any]) -> Iterator[str]:
    read = {name for _, node in graph.nodes for name in graph.reads(node)}
    for value in graph.inputs():
        if value.name not in given:
            if value.name in read:
                raise ReferenceFailed(
                    "no value for input %s of %s" % (value.name, graph.path),
                    "give it with --input %s=FILE.npy" % value.name,
                )
            continue
        _check_type(value, given[value.name])
        note = _shape_note(value, given[value.name]["shape"])
        if note:
            yield note
    known = {value.name for value in graph.model.graph.input} | set(graph.initializers)
    for name in given:
        if name not in known:
            yield "input %s is not one of the model's and was not used" % name


def _check_type(value: Any, given: Dict[str, Any]) -> None:
    if not value.type.HasField("tensor_type"):
        raise ReferenceFailed("input %s is no tensor in the model: such inputs cannot be given" % value.name)
    declared = "tensor(%s)" % onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()
    if given["type"] not in (declared, WIDER.get(declared)) and declared != "tensor(undefined)":
        raise ReferenceFailed(
            "input %s is %s, the model takes %s" % (value.name, given["type"], declared),
            "convert it first: the reference and Caffe2 must see the same bytes",
        )


def _shape_note(value: Any, shape: List[int]) -> str:
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return ""
    dims = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in kind.shape.dim]
    fits = len(dims) == len(shape) and all(not isinstance(d, int) or d == s for d, s in zip(dims, shape))
    return (
        ""
        if fits
        else "input %s has shape %s, the model declares %s"
        % (value.name, tuple(shape), "(%s)" % ", ".join(str(d) for d in dims))
    )


def _save(arrays: Dict[str, np.ndarray], folder: str, kind: str) -> Dict[str, str]:
    paths = {}
    for number, (name, array) in enumerate(arrays.items()):
        paths[name] = os.path.join(folder, "%s%d.npy" % (kind, number))
        np.save(paths[name], array.astype(str) if array.dtype.kind == "O" else array)
    return paths
