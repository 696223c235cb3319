"""A copy of an ONNX file whose nodes say what a run found: doc strings that viewers show, and metadata.

Nothing that is computed changes: nodes keep their order, inputs, outputs and attributes.
"""

import os
import re
from typing import Any, Dict

import onnx
from onnx import external_data_helper

from c2step.errors import ReferenceFailed, UsageError

from .graph import Graph
from .serve import Event, serve

__all__ = ["annotate", "main"]

_PREFIX = "c2step."
_LABEL = re.compile("^(?:(?:ORIGIN|PROPAGATED|RECOVERED|UNCOMPARED|OK) )+")
_END = "\n\n-- so far c2step --\n"  # what stood there before comes after it


def main() -> None:
    """Serve requests on the pipe."""
    serve({"annotate": annotate})


def annotate(request: Dict[str, Any], send: Event) -> Dict[str, Any]:
    """Write `out`; `nodes` gives for the name of a node's first output its text and its properties.

    The answer counts the nodes that were annotated, and names what fits no node.
    """
    graph = Graph(request["model"])
    wanted: Dict[str, Any] = request["nodes"]
    used = set()
    for node in graph.model.graph.node:
        key = next((name for name in node.output if name in wanted), None)
        if key is not None:
            used.add(key)
            _annotate(node, wanted[key], request["marked"])
    if not used:
        raise UsageError("no node of %s is in the capture" % graph.path, "annotate the model that was run")
    _properties(graph.model, request["properties"])
    _write(graph, os.path.abspath(request["out"]))
    return {"nodes": len(used), "unknown": sorted(set(wanted) - used)}


def _annotate(node: Any, found: Dict[str, Any], marked: bool) -> None:
    kept = node.doc_string.partition(_END)[2] if _END in node.doc_string else node.doc_string
    node.doc_string = found["text"] + (_END + kept if kept else "")
    if marked and found["properties"].get("label"):
        plain = _LABEL.sub("", node.name) or node.output[0]
        node.name = "%s %s" % (found["properties"]["label"], plain)
    if hasattr(node, "metadata_props"):  # onnx 1.16 and newer
        _properties(node, found["properties"])


def _properties(holder: Any, properties: Dict[str, str]) -> None:
    kept = [(p.key, p.value) for p in holder.metadata_props if not p.key.startswith(_PREFIX)]
    del holder.metadata_props[:]
    for key, value in kept + [(_PREFIX + key, value) for key, value in properties.items()]:
        holder.metadata_props.add(key=key, value=value)


def _write(graph: Graph, out: str) -> None:
    if os.path.exists(out) and os.path.samefile(out, graph.path):
        raise UsageError("%s is the model itself" % out, "name another file with -o")
    beside = os.path.dirname(out) == graph.folder  # then the weights' files serve both
    external = any(external_data_helper.uses_external_data(tensor) for tensor in graph.model.graph.initializer)
    try:
        if not external or beside:
            onnx.save_model(graph.model, out)
            return
        external_data_helper.load_external_data_for_model(graph.model, graph.folder)
        onnx.save_model(graph.model, out, save_as_external_data=True, location=os.path.basename(out) + ".data")
    except OSError as error:
        raise ReferenceFailed("cannot write %s: %s" % (out, error.strerror or error)) from error
