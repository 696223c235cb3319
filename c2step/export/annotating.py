"""`c2step annotate`: an ONNX file whose nodes carry label, error and statistics, for Netron and other viewers."""

import os
from typing import Any, Dict, List, NamedTuple, Optional

from ..blob import BlobSummary
from ..digests import Digests
from ..errors import UsageError
from ..references import Engine
from ..render import first_line, summary_line
from ..report.source import Source

__all__ = ["Annotated", "annotate", "annotations"]

# When several operators come from one node, the node has the label that matters most.
_ORDER = ("ORIGIN", "PROPAGATED", "RECOVERED", "UNCOMPARED", "OK")


class Annotated(NamedTuple):
    """What was written: how many nodes have a text, and which operators' outputs are no node's."""

    path: str
    nodes: int
    unknown: List[str]


def annotate(model: str, source: Source, out: str, python: str, marked: bool = False, shown: Any = None) -> Annotated:
    """Write `out`, a copy of `model` with annotations; `marked` puts the label into the node's name too.

    Runs in the interpreter `python`, which needs onnx.  Raises UsageError where the capture is of another model.
    """
    keys = ("verdict", "compared", "failed")
    about = {key: str(source.blame[key]) for key in keys if key in source.blame}
    about.update(capture=source.path, reference=str(source.reference.get("source", "")), model_sha256=_digest(source))
    request = {"do": "annotate", "model": os.path.abspath(model), "out": os.path.abspath(out), "marked": marked,
               "nodes": annotations(source), "properties": {k: v for k, v in about.items() if v},
               "original": _original(model, source)}  # fmt: skip
    with Engine(python, "annotating", "onnx", shown) as engine:
        done = engine.ask(request)
    return Annotated(out, done["nodes"], done["unknown"])


def _digest(source: Source) -> str:
    """The SHA-256 of the ONNX file that was run, as far as the source tells."""
    told = source.header.get("sha256")
    if isinstance(told, dict):
        return next((str(digest) for name, digest in told.items() if name.endswith(".onnx")), "")
    return told if isinstance(told, str) and str(source.header.get("model", "")).endswith(".onnx") else ""


def _original(model: str, source: Source) -> Optional[Dict[str, str]]:
    """What the model must be like: the digest, and the file that was run where it still lies there.

    None where it is that very file, or nothing is known.
    """
    wanted = _digest(source)
    if not wanted or not os.path.isfile(model) or Digests([model]).of(model) == wanted:
        return None
    place = str((source.header.get("files") or {}).get("onnx") or source.header.get("model") or "")
    there = bool(place) and os.path.isfile(place) and Digests([place]).of(place) == wanted
    return {"sha256": wanted, "path": os.path.abspath(place) if there else "", "capture": source.path}


def annotations(source: Source) -> Dict[str, Any]:
    """For each ONNX node, by its first output: a text, and its properties."""
    judged = {row["index"]: row for row in source.blame.get("operators", ())}
    rows = source.rows()
    groups: Dict[str, List[Dict[str, Any]]] = {}
    for op in source.operators:
        key = _key(op, rows.get(op["index"]))
        if key:
            groups.setdefault(key, []).append(op)
    if not groups:
        raise UsageError("%s tells of no operator's outputs" % source.path)
    return {key: _node(ops, judged, rows) for key, ops in groups.items()}


def _key(op: Dict[str, Any], row: Optional[Dict[str, Any]]) -> str:
    node = op.get("node") or (row or {}).get("node")
    outputs = node["outputs"] if isinstance(node, dict) and node.get("outputs") else op["outputs"]
    return next((name for name in outputs if name), "")


def _node(ops: List[Dict[str, Any]], judged: Dict[int, Any], rows: Dict[int, Any]) -> Dict[str, Any]:
    found = [judged[op["index"]] for op in ops if op["index"] in judged]
    lines = [line for op in ops for line in _lines(op, judged.get(op["index"]), rows.get(op["index"]))]
    properties = {"operators": ", ".join("%d %s" % (op["index"], op["type"]) for op in ops)}
    if found:
        worst = min(found, key=lambda row: _ORDER.index(row["label"]))
        lines.insert(0, " ".join(filter(None, (worst["label"], worst["reason"]))))
        properties.update(label=worst["label"])
        properties.update({side: _error(worst[side]) for side in ("run", "alone") if _error(worst[side])})
    return {"text": "\n".join(lines), "properties": properties}


def _lines(op: Dict[str, Any], judged: Optional[Dict[str, Any]], row: Optional[Dict[str, Any]]) -> List[str]:
    lines = ["Caffe2 operator %d %s" % (op["index"], op["type"])]
    for out in (row or {}).get("outputs", ()):
        lines.append("%s: %s" % (out["name"], summary_line(BlobSummary.from_json(out["summary"]))))
    if row and row.get("error"):
        lines.append("%s: %s" % (row["status"], first_line(row["error"])))
    if judged:
        lines += ["%s: %s" % (side, _error(judged[side])) for side in ("run", "alone") if _error(judged[side])]
        lines += judged["hints"]
    return lines


def _error(side: Dict[str, Any]) -> str:
    found = side["comparison"]
    if not found:
        return side["status"] if side["status"] != "ok" else ""
    if found["equal"]:
        return "equal"
    if isinstance(found.get("max_abs"), float):
        return "%s max|d| %.3g rel L2 %.3g" % (found["verdict"], found["max_abs"], _number(found.get("rel_l2")))
    return "%s %s" % (found["verdict"], found["reason"])


def _number(value: Any) -> float:
    return float(value["float"]) if isinstance(value, dict) else float(value or 0.0)
