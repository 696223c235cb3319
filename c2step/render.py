"""Values in words: aligned text tables, screens and JSON.

Plain text only, whole names, one line a thing, so that `grep` and `awk` can read it.  A name is
shown as the prompt takes it: `conv1` as it is, a name with a space, a quote or a line break in
double quotes with escapes.  Colour is added last (`colourise`), only for a terminal, and says
nothing that the text does not say.
"""

import functools
import itertools
import json
import math
import re
import unicodedata
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, FrozenSet, Iterable, List, Optional, Sequence, Tuple, cast

import numpy as np

from .blob import INT8, MISSING, OTHER, STRING, TENSOR, UNINITIALISED, UNREADABLE, Blob, BlobSummary
from .net import BlobVersion, Net, Operator, is_random, is_stateful
from .sizes import counted

if TYPE_CHECKING:
    from .history import Step
    from .stepper import Stop

__all__ = [
    "LEGEND",
    "STATUS_WORDS",
    "as_json",
    "blob_label",
    "blob_rows",
    "colourise",
    "figures",
    "first_line",
    "listing",
    "next_line",
    "number",
    "operator_line",
    "quote",
    "shape_text",
    "stats_rows",
    "stop_text",
    "summary_line",
    "summary_lines",
    "table",
    "values_text",
]

STATUS_WORDS = {".": "not run", "o": "ok", "F": "failed", "D": "died", "S": "skipped", "?": "output not written"}
DIRTY = "* dirty: it ran on a value, or as an operator, that was changed since"
LEGEND = "status: " + "   ".join("%s %s" % pair for pair in STATUS_WORDS.items())
KIND_WORDS = {
    UNINITIALISED: "not a tensor: never written",
    MISSING: "not in the workspace",
    OTHER: "not a tensor",
    UNREADABLE: "cannot be read",
}
STEP_LETTERS = {"ok": "o", "failed": "F", "died": "D", "skipped": "S"}
REASONS = {
    "failed": "failed; the session stands before it",
    "died": "ended the process; the session stands before it",
    "timeout": "took too long; the session stands before it",
}
STOPPED = {"breakpoint": "stopped at a breakpoint", "interrupted": "interrupted", "full": "the capture is full"}
SHOWN_STEPS = 12
WIDEST_PAD = 48  # a longer name pushes its own line only
SHOWN_ALIKE = 20  # operators in a row that are judged with one and the same operator; more become one line
SHOWN_VALUES = 64
SHOWN_REASON = 110  # characters in a table; the whole text follows below it

# Looks like a comment, Python, an option, a redirection, or like a version or slice of another blob.
_MISTAKABLE = re.compile(r"^(?:[#!<>|]|--)|.@\d+$|.\]$")
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", '"': '\\"', "\0": "\\0"}


@functools.lru_cache(maxsize=4096)
def quote(name: str, force: bool = False) -> str:
    """A name as the prompt takes it and as every screen shows it: quoted and escaped where it must be."""
    plain = name and all(_is_plain(c) for c in name) and not _MISTAKABLE.search(name)
    if plain and not force:
        return name
    return '"%s"' % "".join(_escape(c) for c in name)


def _is_plain(char: str) -> bool:
    return char.isprintable() and not char.isspace() and char not in "'\";\\"


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return "\\x%02x" % code if code < 0x100 else "\\u%04x" % code if code < 0x10000 else "\\U%08x" % code


def number(value: Any) -> str:
    """A number with six digits, `-` for none."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, (bool, np.bool_)) else "%.6g" % value


def shape_text(shape: Sequence[int]) -> str:
    """A shape as Python writes it: `(1, 8)`, `(3,)`, `()`."""
    return str(tuple(int(dim) for dim in shape))


def first_line(text: str) -> str:
    """The first line that says something; Caffe2's errors go on with a dozen lines of C++ stack."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def table(rows: Iterable[Sequence[str]], right: Iterable[int] = (), indent: str = "") -> List[str]:
    """Rows of cells as aligned lines; columns in `right` are aligned to the right, nothing is cut.

    The last cell of a row that is shorter than others spans the columns that it lacks.
    """
    cells = [list(row) for row in rows]
    if len(cells) == 1:  # there is nothing to align it with
        return [(indent + "  ".join(cells[0])).rstrip()]
    columns = max((len(row) for row in cells), default=0)
    widths = [0] * columns
    for row in cells:
        for i, cell in enumerate(row if len(row) == columns else row[:-1]):
            widths[i] = max(widths[i], min(_width(cell), WIDEST_PAD))
    flush: FrozenSet[int] = frozenset(right)
    return [
        (indent + "  ".join(_pad(cell, widths[i], i in flush) for i, cell in enumerate(row))).rstrip() for row in cells
    ]


def _pad(cell: str, width: int, right: bool) -> str:
    space = " " * max(0, width - _width(cell))
    return space + cell if right else cell + space


def _width(text: str) -> int:
    if text.isascii() if hasattr(text, "isascii") else len(text) == len(text.encode()):
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


def operator_line(op: Operator) -> str:
    """An operator on one line: index, type, label, and the blobs it reads and writes."""
    label = " %s" % quote(_label(op)) if _label(op) else ""
    return "%d %s%s  %s" % (op.index, op.type, label, _blobs_of(op))


def _label(op: Operator) -> str:
    return op.node.label if op.node else op.name


def _blobs_of(op: Operator) -> str:
    return "(%s) -> (%s)" % (", ".join(map(quote, op.inputs)), ", ".join(map(quote, op.outputs)))


def listing(
    net: Net,
    status: Callable[[int], str],
    position: int,
    start: int,
    stop: int,
    marks: Iterable[int] = (),
    headings: Sequence[Tuple[int, str]] = (),
) -> str:
    """Operators `start` to before `stop`, `-->` at the next one, `b` where a breakpoint stands, then the legend.

    `headings` stand above the operators at which something begins, such as a time step.
    """
    marked = frozenset(marks)
    rows = [
        [
            "-->" if op.index == position else "   ",
            status(op.index),
            "b" if op.index in marked else "",
            str(op.index),
            op.type,
            quote(_label(op)) if _label(op) else "-",
            _blobs_of(op) + _chance(op),
        ]
        for op in net.operators[start:stop]
    ]
    legend = [LEGEND] + ([DIRTY] if any(row[1] == "*" for row in rows) else [])
    if not marked:
        rows = [row[:2] + row[3:] for row in rows]
    lines = table(rows, right=[3 if marked else 2])
    for index, heading in sorted(headings, reverse=True):
        if start <= index < stop:
            lines.insert(index - start, "%s:" % heading)
    if position >= len(net) and stop >= len(net):
        lines.append("-->  end of the net")
    return "\n".join(lines + legend)


def _chance(op: Operator) -> str:
    """What is said of an operator that another run may find otherwise."""
    return "  ~random" if is_random(op) else "  ~stateful" if is_stateful(op) else ""


def figures(summary: BlobSummary) -> str:
    """The numbers of a summary, as `min -1 max 2 mean 0.5 std 1`, and what is odd about them."""
    words = []
    if summary.kind == INT8:
        words.append("scale %s zero point %s" % (number(summary.scale), number(summary.zero_point)))
    if summary.min is not None:
        words.append(
            "min %s max %s mean %s std %s"
            % tuple(number(v) for v in (summary.min, summary.max, summary.mean, summary.std))
        )
    words.extend("%s %d" % (word, count) for word, count in (("NaN", summary.nan), ("Inf", summary.inf)) if count)
    if 0 in summary.shape:
        words.append("empty")
    return " ".join(words)


def summary_line(summary: BlobSummary) -> str:
    """A summary on one line: dtype, shape and figures, or what the blob is when it is no tensor."""
    if not _has_array(summary):
        return _kind_text(summary)
    return ("%s %s  %s" % (_dtype(summary), shape_text(summary.shape), figures(summary))).rstrip()


def _has_array(summary: BlobSummary) -> bool:
    return summary.kind in (TENSOR, INT8, STRING)


def _dtype(summary: BlobSummary) -> str:
    stored = summary.dtype or summary.kind
    return "int8 blob of %s" % stored if summary.kind == INT8 else stored


def _kind_text(summary: BlobSummary) -> str:
    words = KIND_WORDS.get(summary.kind, summary.kind)
    text = " ".join(summary.text.split())
    return "%s (%s)" % (words, _printable(text)) if text and text not in words else words


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def summary_lines(summary: BlobSummary) -> List[str]:
    """A summary as a small table: one figure a line."""
    if not _has_array(summary):
        return [_kind_text(summary)]
    rows = [
        ("dtype", _dtype(summary)),
        ("shape", "%s  %s" % (shape_text(summary.shape), counted(summary.size, "value"))),
    ]
    if summary.kind == INT8:
        rows.append(("scale", "%s  zero point %s" % (number(summary.scale), number(summary.zero_point))))
    if summary.kind != STRING:
        rows.extend((key, number(getattr(summary, key))) for key in ("min", "max", "mean", "std"))
        rows.extend(
            (word, _share(count, summary.size))
            for word, count in (("zeros", summary.zeros), ("NaN", summary.nan), ("Inf", summary.inf))
        )
    return table(rows)


def _share(count: int, size: int) -> str:
    return "%d  (%.3g%%)" % (count, 100.0 * count / size) if count and size else str(count)


def blob_rows(blobs: Iterable[Tuple[str, int, BlobSummary]]) -> List[str]:
    """Blobs one a line: name and version, dtype, shape, or what it is when it is no tensor."""
    return table([_blob_row(name, version, summary) for name, version, summary in blobs])


def _blob_row(name: str, version: int, summary: BlobSummary) -> List[str]:
    label = blob_label(name, version)
    if not _has_array(summary):
        return [label, _kind_text(summary)]
    return [label, _dtype(summary), shape_text(summary.shape)]


def blob_label(name: str, version: Optional[int] = None) -> str:
    """A blob and its version as the prompt takes them: `conv1@2`, `"a b"@1`."""
    return quote(name) if version is None else str(BlobVersion(quote(name), version))


def stats_rows(blobs: Iterable[Tuple[str, int, BlobSummary]]) -> List[str]:
    """Blobs one a line with their figures, under a heading."""
    head = ["blob", "dtype", "shape", "min", "max", "mean", "std", "zeros", "NaN", "Inf"]
    rows = [head]
    for name, version, summary in blobs:
        row = _blob_row(name, version, summary)
        if _has_array(summary):
            row += [number(getattr(summary, key)) for key in head[3:7]]
            row += [str(count) for count in (summary.zeros, summary.nan, summary.inf)]
        rows.append(row)
    return table(rows, right=range(3, 10))


def values_text(blob: Blob, everything: bool = False) -> str:
    """The values of a blob, the middle left out when there are many; Int8 as the numbers they stand for."""
    array = blob.real()
    if array is None:
        return ""
    text = _array_text(array, everything)
    if blob.kind != INT8 or blob.array is None:
        return text
    return "real values\n%s\nstored integers\n%s" % (text, _array_text(blob.array, everything))


def _array_text(array: np.ndarray, everything: bool) -> str:
    threshold = array.size + 1 if everything else SHOWN_VALUES
    edge = {0: 3, 1: 3, 2: 3, 3: 2}.get(array.ndim, 1)  # so that a screen holds what is shown
    widths: List[int] = [0]

    def measured(value: Any) -> str:
        text = _value(value)
        widths.append(len(text))
        return text

    def padded(value: Any) -> str:
        return _value(value).rjust(max(widths))

    text = ""
    for form in (measured, padded):  # the first pass learns the width of what is shown
        text = np.array2string(
            array, max_line_width=110, threshold=threshold, edgeitems=edge, formatter={"all": cast(Any, form)}
        )
    return text


def _value(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return "%.6g" % value
    if isinstance(value, bytes):
        return repr(value)[1:]
    return repr(value) if isinstance(value, str) else str(value)


_COLOURS = (
    (re.compile(r"^-->.*", re.M), "1"),
    (re.compile(r"^(?:error: |[FD]  +\d).*", re.M), "31"),
    (re.compile(r"^\?  +\d.*", re.M), "33"),
    (re.compile(r"^status: .*", re.M), "2"),
)


def colourise(text: str) -> str:
    """The text with ANSI colours: bold for the next operator, red for failures."""
    for pattern, code in _COLOURS:
        text = pattern.sub(lambda match, code=code: "\033[%sm%s\033[0m" % (code, match.group()), text)  # type: ignore[misc]
    return text


_JSON_AS_IT_IS = (str, int, bool, type(None))


def as_json(value: Any, indent: Optional[int] = None) -> str:
    """Any of our values as strict JSON: dataclasses as objects, arrays as lists, NaN and Inf as strings."""
    return json.dumps(_plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if type(value) in _JSON_AS_IT_IS:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, BlobSummary):
        return _plain_object(value._asdict())
    if isinstance(value, dict):
        return _plain_object(value)
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _plain_object(value: Dict[Any, Any]) -> Dict[str, Any]:
    return {str(key): _plain(item) for key, item in value.items()}


def stop_text(stop: "Stop", net: Net, said: Sequence[str] = ()) -> str:
    """Why a run stopped: what ran, with every output, what went wrong, what else is said of it, and what comes next."""
    rows = [row for step in stop.steps[-SHOWN_STEPS:] for row in _step_rows(step)]
    if stop.lacking:
        rows[-1][-1] = "%s; %s" % (_printable(stop.lacking), rows[-1][-1])
    lines = table(rows, right=[1])
    hidden = len(stop.steps) - SHOWN_STEPS
    if hidden > 0:
        lines.insert(0, "... %s before these; `blobs` shows what was written" % counted(hidden, "operator"))
    return "\n".join([*lines, *_reason_lines(stop, net), *said, next_line(net, stop.position)])


def next_line(net: Net, position: int) -> str:
    """`-->` and the operator that comes next."""
    return "--> %s" % (operator_line(net.operators[position]) if position < len(net) else "end of the net")


def _step_rows(step: "Step") -> List[List[str]]:
    head = [STEP_LETTERS.get(step.status, "?"), str(step.index), step.operator.type]
    if step.status not in STEP_LETTERS or step.error:
        return [head + [_printable(first_line(step.error or step.status))]]
    if not step.outputs:
        return [head + ["-"]]
    return [
        (["?"] + head[1:] if out.kind in (UNINITIALISED, MISSING) else head)
        + [blob_label(out.name, out.version), summary_line(out.summary)]
        for out in step.outputs
    ] + [
        [
            "~",
            *head[1:],
            blob_label(out.name, out.version),
            summary_line(out.summary) + "  (changed without being named)",
        ]
        for out in step.touched
    ]


def _reason_lines(stop: "Stop", net: Net) -> List[str]:
    lines = []
    if stop.reason in REASONS and stop.operator is not None:
        lines.append("%s %s" % (_printable(str(stop.operator)), REASONS[stop.reason]))
    elif stop.reason in STOPPED:
        lines.append(STOPPED[stop.reason])
    detail = _without(stop.detail, stop)
    return lines + ([_printable(first_line(detail))] if detail else [])


def _without(detail: str, stop: "Stop") -> str:
    """The part of a stop's detail that its last row does not say already."""
    if not detail:
        return ""
    error = (stop.steps[-1].error if stop.steps else "") or ""
    for said in (stop.lacking, "%s: " % stop.operator, error, error.partition(": ")[2]):
        if said and detail.startswith(said):
            detail = detail[len(said) :].lstrip("; ")
    return detail.strip()


def blame_lines(found: Dict[str, Any]) -> List[str]:
    """A blame's JSON as a table, one operator a line, and the answer in the last lines."""
    rows = [["index", "type", "blob", "shape", "run max|d|", "alone max|d|", "label", "reason"]]
    for alike, group in itertools.groupby(found["operators"], _judged_elsewhere):
        together = list(group)
        if alike and len(together) > SHOWN_ALIKE:
            first, last = together[0], together[-1]
            place = "%s-%s" % (first["index"], last["index"])
            types = "%d operators" % len(together)
            rows.append([place, types, "-", "-", "-", "-", first["label"], first["reason"] + "; --json has each"])
        else:
            rows += [_blame_row(row) for row in together]
    return table(rows, right=(0,)) + [""] + _answer(found)


def _judged_elsewhere(row: Dict[str, Any]) -> str:
    """What is said of an operator inside an ONNX node that is judged by its last one; empty for any other."""
    plain = row["label"] == "UNCOMPARED" and row["run"]["status"] == "ok" and not row["hints"]
    return row["reason"] if plain and row["reason"].startswith("judged with operator") else ""


def _blame_row(row: Dict[str, Any]) -> List[str]:
    side = row["alone"]["comparison"] or row["run"]["comparison"] or {}
    shape = list(side.get("shape", ()))
    if side and shape != list(side.get("reference_shape", shape)):
        shapes = "%s against %s" % (shape_text(shape), shape_text(side["reference_shape"]))
    else:
        shapes = shape_text(shape) if side else "-"
    outputs = ",".join(quote(name) for name in row["outputs"]) or "-"
    reason = "" if row["label"] == "PROPAGATED" and not row["run"]["error"] else row["reason"]
    return [str(row["index"]), row["type"], outputs, shapes, _side_text(row["run"]), _side_text(row["alone"]),
            row["label"], reason if len(reason) <= SHOWN_REASON else reason[: SHOWN_REASON - 3] + "..."]  # fmt: skip


def _side_text(side: Dict[str, Any]) -> str:
    found = side["comparison"]
    if side["status"] in ("failed", "died", "not run") or not found:
        return side["status"] if side["status"] != "ok" else "-"
    if found["equal"]:
        return "equal, NaN" if found.get("nan") else "equal"
    if found.get("max_abs") is None or isinstance(found["max_abs"], dict):
        return "differs" if found["verdict"] == "FAIL" else "-"
    return "%s%.2g" % ("! " if found["verdict"] == "FAIL" else "", found["max_abs"])


def _alike_nan(operators: Sequence[Dict[str, Any]]) -> List[str]:
    """A line that says so where NaN on both sides counted as equal."""
    sides = [(row, row["run"]["comparison"] or {}) for row in operators]
    alike = [(row, side) for row, side in sides if side.get("nan") and side["verdict"] == "PASS"]
    if not alike:
        return []
    row, side = alike[0]
    values = "%d of %s" % (side["nan"], counted(int(np.prod(side["shape"])), "value"))
    where = "operator %d %s, %s" % (row["index"], row["type"], values)
    return [
        "NaN at the same places on both sides counts as equal: %s, first %s" % (counted(len(alike), "operator"), where)
    ]


def _answer(found: Dict[str, Any]) -> List[str]:
    lines = []
    for node in found.get("left_out", ()):
        where = "ONNX node %s %s, before operator %d" % (node["type"], quote(node["node"]), node["before"])
        lines.append("LEFT OUT: %s: %s" % (where, node["reason"]))
        lines += ["  " + hint for hint in node["hints"]]
    for origin in found["origins"]:
        node = " (ONNX node %s)" % quote(origin["node"]) if origin["node"] else ""
        outputs = ",".join(quote(name) for name in origin["outputs"])
        where = "operator %d %s -> %s%s" % (origin["index"], origin["type"], outputs, node)
        lines.append("ORIGIN: %s: %s" % (where, origin["reason"]))
        lines += ["  " + hint for hint in origin["hints"]]
    for row in found["operators"]:
        if row["run"]["status"] in ("failed", "died") and row["label"] != "ORIGIN":
            lines.append(
                "in the run, operator %d %s %s: %s"
                % (row["index"], row["type"], row["run"]["status"], row["run"]["error"])
            )
    if found["verdict"] == "FAIL" and not found["origins"] and not found.get("left_out"):
        first = next((row for row in found["operators"] if row["label"] == "PROPAGATED"), None)
        if first:
            lines.append("no operator is wrong on golden inputs; the error grows on the way and first shows at "
                         "operator %d %s" % (first["index"], first["type"]))  # fmt: skip
    if found["verdict"] != "FAIL":
        lines += ["not compared: %s" % reason for reason in found["reasons"][:SHOWN_STEPS]]
        if len(found["reasons"]) > SHOWN_STEPS:
            lines.append("not compared: %d more reasons, --json has them" % (len(found["reasons"]) - SHOWN_STEPS))
    words = {"PASS": "close", "FAIL": "differs"}
    lines += [
        "output %s: %s" % (quote(name), words.get(verdict, verdict)) for name, verdict in found["outputs"].items()
    ]
    lines += _alike_nan(found["operators"])
    counts = "%(compared)d compared, %(failed)d failed, %(skipped)d skipped, %(missing)d missing" % found
    if found.get("aside"):
        counts += ", %d without a golden value by nature" % found["aside"]
    return lines + ["%s: %s" % (found["verdict"], counts)]
