"""The page's data, and the file with script, style and data in it."""

import os
from typing import Any, Dict, Iterable, List, Optional

from .. import __version__
from ..blob import MISSING, UNINITIALISED
from ..capture import disk_error
from ..errors import UsageError
from ..render import as_json
from .blobs import Detail, drawn
from .source import Source

__all__ = ["asset", "data_of", "page", "with_values", "write_report"]

BUDGET = 16 << 20
_ASSETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "assets")
_SCRIPTS = ("dagre.min.js", "words.js", "charts.js", "graph.js", "operator.js", "report.js")
_KEPT_ARGUMENTS = 12


def asset(name: str) -> str:
    """The text of a file in `assets`."""
    with open(os.path.join(_ASSETS, name), encoding="utf-8") as file:
        return file.read()


def write_report(source: Source, path: str, budget: int = BUDGET) -> int:
    """Write the file and return its size; `budget` is for pictures and histograms, in bytes.

    Raises CaptureError where it cannot be written, UsageError for `-`: a page is a file.
    """
    if path == "-":
        raise UsageError("a report is not written to standard output", "name a file: -o report.html")
    text = page(data_of(source, budget)).encode("utf-8")
    try:
        with open(path, "wb") as file:
            file.write(text)
    except OSError as error:
        raise disk_error(error, path, begun=False) from error
    return len(text)


def page(data: Dict[str, Any], live: str = "") -> str:
    """The whole page with its data; `live` is a script of a served page."""
    safe = as_json(data).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    parts = {
        "TITLE": _escaped("%s - c2step" % data["name"]),
        "STYLE": asset("report.css"),
        "DATA": safe,
        "SCRIPTS": "\n".join("<script>\n%s</script>" % asset(name) for name in _SCRIPTS + ((live,) if live else ())),
    }
    text = asset("report.html")
    for key, value in parts.items():
        before, _, after = text.partition("{{%s}}" % key)
        text = before + value + after
    return text


def _escaped(text: str) -> str:
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(char, entity)
    return text


def data_of(source: Source, budget: int = BUDGET) -> Dict[str, Any]:
    """Everything that the page shows, as plain values."""
    judged = {row["index"]: row for row in source.blame.get("operators", ())}
    rows = source.rows()
    operators = [_operator(op, source, judged.get(op["index"]), rows.get(op["index"])) for op in source.operators]
    _draw(operators, source, budget)
    keys = ("verdict", "compared", "failed", "skipped", "missing", "aside", "reasons", "origins", "notes")
    return {
        "c2step": __version__,
        "name": source.name,
        "header": source.header,
        "reference": source.reference,
        "findings": source.findings,
        "blame": {key: source.blame[key] for key in keys if key in source.blame} or None,
        "operators": operators,
        "values": "run" in source.sides,
    }


def with_values(operators: List[Dict[str, Any]], source: Source, index: int) -> Optional[Dict[str, Any]]:
    """One operator of the page's data with its values drawn; None where there is no such operator."""
    found = next((op for op in operators if op["index"] == index), None)
    if found is not None:
        for blob in found["blobs"]:
            blob.pop("left_out", None)
        _draw([found], source, BUDGET)
    return found


def _operator(
    op: Dict[str, Any], source: Source, judged: Optional[Dict[str, Any]], row: Optional[Dict[str, Any]]
) -> Dict[str, Any]:
    index = op["index"]
    made: Dict[str, Any] = {
        "index": index,
        "type": op["type"],
        "name": op["name"],
        "inputs": op["inputs"],
        "outputs": op["outputs"],
        "node": _node(op, judged, row),
        "definition": source.definitions[index] if index < len(source.definitions) else _definition(op),
        "status": row["status"] if row else "not run",
        "error": row.get("error") if row else None,
        "seconds": row.get("seconds") if row else None,
        "blobs": [_blob(out) for out in (row or {}).get("outputs", ())],
        "findings": [i for i, f in enumerate(source.findings) if op.get("node") and f["index"] == op["node"]["index"]],
    }
    if judged:
        made.update({key: judged[key] for key in ("label", "reason", "hints", "run", "alone")})
    return made


def _node(op: Dict[str, Any], judged: Optional[Dict[str, Any]], row: Optional[Dict[str, Any]]) -> Optional[str]:
    node = op.get("node")
    if isinstance(node, dict):
        return str(node["name"] or "%s_%d" % (node["op_type"], node["index"]))
    known = [found.get("node") for found in (judged, row) if found]
    return next((name for name in known if isinstance(name, str)), None)


def _definition(op: Dict[str, Any]) -> str:
    """The operator as far as a capture tells, in OperatorDef's form."""
    lines = ["input: %s" % as_json(name) for name in op["inputs"]]
    lines += ["output: %s" % as_json(name) for name in op["outputs"]]
    lines += ["name: %s" % as_json(op["name"]), "type: %s" % as_json(op["type"])]
    for argument in op.get("arguments", ()):
        lines.append("arg { %s: %s }" % (argument["name"], _argument(argument)))
    return "\n".join(lines)


def _argument(argument: Dict[str, Any]) -> str:
    value = argument["value"]
    if argument.get("kind") == "net":
        return "a net of %d operators" % argument["size"]
    if not isinstance(value, (list, tuple)):
        return as_json(value)
    more = ", ... %d values" % argument["size"] if argument["size"] > _KEPT_ARGUMENTS else ""
    return "[%s%s]" % (", ".join(as_json(v) for v in value[:_KEPT_ARGUMENTS]), more)


def _blob(out: Dict[str, Any]) -> Dict[str, Any]:
    return {"name": out["name"], "version": out.get("version", 1), "kind": out["kind"], "ours": out.get("summary")}


def _draw(operators: List[Dict[str, Any]], source: Source, budget: int) -> None:
    """Draw the values, the important operators first, until the budget is used up."""
    detail = Detail(budget, len(operators))
    for op in sorted(operators, key=_importance):
        important = _importance(op)[0] < 2
        _golden_only(op, source)
        for slot, blob in enumerate(op["blobs"] if budget else ()):
            if blob["kind"] in (UNINITIALISED, MISSING) and "golden" not in source.sides:
                continue
            _draw_blob(op, slot, blob, source, detail, important)


def _importance(op: Dict[str, Any]) -> Any:
    return {"ORIGIN": 0, "PROPAGATED": 1}.get(op.get("label", ""), 2), op["index"]


def _golden_only(op: Dict[str, Any], source: Source) -> None:
    """An operator that did not run has golden values all the same."""
    if not op["blobs"] and "golden" in source.sides:
        op["blobs"] = [{"name": n, "version": None, "kind": MISSING, "ours": None} for n in op["outputs"]]


def _draw_blob(
    op: Dict[str, Any], slot: int, blob: Dict[str, Any], source: Source, detail: Detail, important: bool
) -> None:
    sides: Iterable[str] = ("alone", "run") if op.get("label") == "ORIGIN" else ("run",)
    found = [(side, source.value(side, op["index"], slot)) for side in sides]
    side, ours = next(((side, value) for side, value in found if value is not None), ("run", None))
    golden = source.value("golden", op["index"], slot)
    names = {"run": "Caffe2's value", "golden": "The reference's value"}
    unreadable = [name for key, name in names.items() if source.is_unreadable(key, op["index"], slot)]
    remarks = ["%s was kept, but its file cannot be read." % name for name in unreadable]
    if ours is None and golden is None:
        blob["remarks"] = remarks
        return
    if ours is not None and side == "alone":
        blob["ours"] = ours[0].summary.to_json()
    blob["golden"] = golden[0].summary.to_json() if golden else None
    comparison = (op.get(side) or {}).get("comparison") or {}
    blob["side"] = side
    blob.update(
        drawn(ours[1] if ours else None, golden[1] if golden else None, comparison.get("worst"), detail, important)
    )
    blob["remarks"] = remarks + blob.get("remarks", [])
