"""onnxruntime, one node at a time, optimisations off, one thread: the same bits on every run."""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import onnxruntime

from c2step.errors import ReferenceFailed

from .graph import Call, Graph, dense, model_of, size_of
from .old_opsets import FIRST, modernise
from .values import WIDER, type_of

__all__ = ["Result", "Sessions", "first_line", "no_kernel", "run_call", "run_plain"]

_OF_A_SESSION = 100 << 10  # bytes that one takes beside its constants, generously
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : |This is an invalid model\. |In Node, \(.*?\) : ")


class Result(NamedTuple):
    """The named outputs of a node with their types, and a note where it was not run as it stands."""

    values: Dict[str, Tuple[str, Any]]
    note: str = ""


class Sessions:
    """Sessions of a graph's nodes that stay for the next input, as far as they fit into `room` bytes."""

    def __init__(self, room: int = 0) -> None:
        self._room = room
        self._kept: Dict[Tuple[Any, ...], Any] = {}

    def get(self, graph: Graph, call: Call, types: Optional[Dict[str, str]] = None) -> Any:
        """A session for one node; see `model_of` for `types`."""
        own = graph.key(call) if self._room else None
        key = None if own is None else (*own, types is None)
        if key in self._kept:
            return self._kept[key]
        made = _session(graph, call, types)
        size = _OF_A_SESSION + sum(2 * size_of(constant) for constant in call.constants.values())
        if key is not None and size <= self._room:
            self._room -= size
            self._kept[key] = made
        return made


def run_call(graph: Graph, call: Call, sessions: Optional[Sessions] = None) -> Result:
    """A node's outputs; ReferenceFailed with onnxruntime's reason where it refuses.

    A node of opset 6 or older that has no kernel is run as the node of opset 7 that means the same.
    """
    try:
        return Result(run_plain(graph, call, sessions))
    except Exception as error:
        if not (call.standard and call.opset < FIRST):
            raise ReferenceFailed(first_line(error)) from error
    newer = modernise(call)
    try:
        values = run_plain(graph, newer)
    except Exception as error:
        raise ReferenceFailed(first_line(error)) from error
    return Result(values, "opset %d, run as the node of opset %d that means the same" % (call.opset, FIRST))


def no_kernel(reason: str) -> bool:
    """Whether onnxruntime takes the node for valid and only has no kernel for its types or its form."""
    return "Could not find an implementation" in reason or "(layout == 1) are not supported" in reason


def first_line(error: Exception) -> str:
    """An exception's reason in one line, without onnxruntime's decoration."""
    text = " ".join(str(error).split())
    for _ in range(3):
        text = _PREFIX.sub("", text, count=1)
    return text[:400] or type(error).__name__


def run_plain(graph: Graph, call: Call, sessions: Optional[Sessions] = None) -> Dict[str, Tuple[str, Any]]:
    """The outputs of a node as it stands, by name, with their types; raises what onnxruntime raises."""
    sparse = next((a.sparse_tensor for a in call.node.attribute if a.name == "sparse_value"), None)
    if sparse is not None:  # onnxruntime gives such a Constant as text
        return {name: (type_of(dense(sparse)), dense(sparse)) for name in call.node.output}
    names = [name for name in call.node.output if name]
    sessions = sessions or Sessions()
    session = sessions.get(graph, call)
    types = {out.name: out.type for out in session.get_outputs()}
    if any(kind in WIDER for kind in types.values()):
        session = sessions.get(graph, call, types)
    feeds = {_fed_as(session, name): _fed(value) for name, value in call.feeds.items()}
    values = session.run(None, feeds)
    return {name: (types[name], value) for name, value in zip(names, values)}


def _fed_as(session: Any, name: str) -> str:
    return name if any(entry.name == name for entry in session.get_inputs()) else name + "__wide"


def _fed(value: Any) -> Any:
    return value.astype(object) if isinstance(value, np.ndarray) and value.dtype.kind in "SU" else value


def _session(graph: Graph, call: Call, types: Optional[Dict[str, str]]) -> Any:
    """A session for one node; large weights are lent to it, so that no message and no copy holds them."""
    lent: Dict[str, np.ndarray] = {}
    model = model_of(graph, call, types, lent)
    _name_nodes(model.graph)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    options.log_severity_level = 4
    if lent:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array)) for array in lent.values()]
        options.add_external_initializers(list(lent), values)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _name_nodes(graph: Any, taken: Optional[List[str]] = None) -> None:
    """Give the nodes of each graph names that differ: onnxruntime refuses a model where two agree."""
    seen: Dict[str, int] = {}
    for node in graph.node:
        seen[node.name] = seen.get(node.name, 0) + 1
        if seen[node.name] > 1 and node.name:
            node.name = ""
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _name_nodes(attribute.g)
