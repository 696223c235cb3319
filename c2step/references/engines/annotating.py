"""A copy of an ONNX file whose nodes say what a run found: doc strings that viewers show, and metadata.

Nothing that is computed changes: nodes keep their order, inputs, outputs and attributes.
"""

import os
import re
from typing import Any, Dict, Optional

import onnx
from onnx import external_data_helper

from c2step.errors import CaptureError, UsageError

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
    _check(graph, request["original"])
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


def _check(graph: Graph, original: Optional[Dict[str, str]]) -> None:
    """UsageError where the model computes something else than the one that was run."""
    if original is None:
        return
    told = {p.key: p.value for p in graph.model.metadata_props}
    if told.get(_PREFIX + "model_sha256") == original["sha256"]:
        return
    if original["path"] and _plain(graph.model) == _plain(Graph(original["path"]).model):
        return
    raise UsageError("%s is not the model of %s (another SHA-256)" % (graph.path, original["capture"]),
                     "annotate the model that was run%s" % (original["path"] and ": " + original["path"]))  # fmt: skip


def _plain(model: Any) -> bytes:
    """What a model computes: without the names of nodes, and without what is only told."""
    plain = type(model)()
    plain.CopyFrom(model)
    for holder in [plain, plain.graph, *plain.graph.node]:
        for field in ("doc_string", "metadata_props"):
            if hasattr(holder, field):
                holder.ClearField(field)
    for node in plain.graph.node:
        node.ClearField("name")
    for field in ("producer_name", "producer_version", "ir_version"):
        plain.ClearField(field)
    return bytes(plain.SerializeToString(deterministic=True))


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
        raise CaptureError("cannot write %s: %s" % (out, error.strerror or error)) from error
