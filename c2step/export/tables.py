"""Captures, nets and blames as rows: for CSV files, and as pandas frames where pandas is there."""

import csv
from typing import Any, Dict, Iterable, List, TextIO, Union

from ..capture import Capture
from ..compare.blame import Blame
from ..errors import UsageError
from ..net import Net

__all__ = ["frame", "frame_of", "rows", "write_csv"]

Table = Union[Capture, Net, Blame]
_FIGURES = ("min", "max", "mean", "std", "zeros", "nan", "inf")
_ERRORS = ("verdict", "max_abs", "max_rel", "rel_l2", "cosine", "ulp", "ratio", "bad", "compared")


def rows(table: Table) -> List[Dict[str, Any]]:
    """One flat dict for each blob version of a capture, each operator of a net or of a blame."""
    if isinstance(table, Capture):
        return list(_capture(table))
    if not isinstance(table, (Net, Blame)):
        raise UsageError("%r is no capture, net or blame" % (table,),
                         "c2step.open_capture(FOLDER) opens a capture")  # fmt: skip
    return list(_net(table) if isinstance(table, Net) else _blame(table))


def frame(table: Table) -> Any:
    """The rows as a pandas.DataFrame; UsageError where there is no pandas."""
    return frame_of(rows(table))


def frame_of(table: List[Dict[str, Any]]) -> Any:
    """Flat dicts as a pandas.DataFrame; UsageError where there is no pandas."""
    try:
        import pandas
    except ImportError as error:
        raise UsageError("frames need pandas: %s" % error, "pip install pandas; the rows are plain dicts") from error
    return pandas.DataFrame(table)


def write_csv(table: Iterable[Dict[str, Any]], file: TextIO) -> None:
    """Write rows with a heading; the columns are those of all rows, in order of appearance."""
    listed = list(table)
    fields = list(dict.fromkeys(key for row in listed for key in row))
    writer = csv.DictWriter(file, fields)
    writer.writeheader()
    writer.writerows(listed)


def _capture(capture: Capture) -> Iterable[Dict[str, Any]]:
    for row in capture.rows:
        for out in row.get("outputs", ()) or [{}]:
            summary = out.get("summary") or {}
            yield {
                "index": row.get("index"), "type": row["type"], "node": _name(row.get("node")), "status": row["status"],
                "error": row.get("error"), "seconds": row.get("seconds"), "blob": out.get("name"),
                "version": out.get("version"), "kind": out.get("kind"), "dtype": summary.get("dtype"),
                "shape": _shape(summary.get("shape")), "file": out.get("file"),
                **{key: summary.get(key) for key in _FIGURES},
            }  # fmt: skip


def _name(node: Any) -> Any:
    return node.get("name") if isinstance(node, dict) else node


def _shape(shape: Any) -> str:
    return "" if shape is None else "x".join(map(str, shape))


def _net(net: Net) -> Iterable[Dict[str, Any]]:
    for op in net.operators:
        yield {
            "index": op.index, "type": op.type, "name": op.name, "inputs": " ".join(op.inputs),
            "outputs": " ".join(op.outputs), "node": op.node.label if op.node else None,
            "arguments": " ".join(map(str, op.arguments)), "engine": op.engine, "device": op.device,
        }  # fmt: skip


def _blame(blame: Blame) -> Iterable[Dict[str, Any]]:
    for judged in blame.operators:
        op = judged.operator
        row: Dict[str, Any] = {
            "index": op.index, "type": op.type, "node": op.node.label if op.node else None,
            "outputs": " ".join(op.outputs), "label": judged.label, "reason": judged.reason,
        }  # fmt: skip
        for name, side in (("run", judged.run), ("alone", judged.alone)):
            worst = side.worst
            row[name + "_status"] = side.status
            row.update(
                {"%s_%s" % (name, key): None if worst is None else _plain(getattr(worst, key)) for key in _ERRORS}
            )
        yield row


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, float)) else str(value)
