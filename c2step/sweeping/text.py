"""A sweep's report in words: a table with a line for each operator, then what is worth saying, then the verdict."""

from typing import Any, Dict, List, Optional

from ..render import number, quote, shape_text, table
from .report import LABELS, SHOWN

__all__ = ["sweep_lines"]


def sweep_lines(found: Dict[str, Any]) -> List[str]:
    """A report's JSON as lines."""
    if not found["against"]:
        return _statistics(found) + [""] + _channels(found) + _failures(found) + [_counts(found)]
    lines = _operators(found) + [""] + _depends(found) + _failures(found) + _worst(found)
    for name, counts in found["outputs"].items():
        lines.append("output %s: %s" % (quote(name), _how_many(counts)))
    return lines + [_counts(found)]


def _operators(found: Dict[str, Any]) -> List[str]:
    head = ["index", "type", "blob"]
    for side in ("run", "alone"):
        head += ["%s max|d|: min" % side, "median", "p95", "max", "at"]
    rows = [head + ["labels"]]
    for operator in found["operators"]:
        row = [str(operator["index"]), operator["type"], ",".join(map(quote, operator["outputs"])) or "-"]
        for side in ("run", "alone"):
            row += _spread(operator[side]["max_abs"], operator[side]["wrong"])
        rows.append(row + [_labels(operator["labels"])])
    return table(rows, right=(0, 3, 4, 5, 6, 8, 9, 10, 11))


def _spread(said: Optional[Dict[str, Any]], wrong: int) -> List[str]:
    if said is None:
        return (["differs"] if wrong else ["-"]) * 4 + ["-"]
    if said["max"] == 0:
        return ["equal"] * 4 + ["-"]
    return [_figure(said[key]) for key in ("min", "median", "p95", "max")] + [_name(said["worst"])]


def _name(text: str) -> str:
    """An input's id, one word on one line."""
    return text if text.isprintable() and " " not in text else quote(text)


def _figure(value: Any) -> str:
    return value if isinstance(value, str) else "%.2g" % value


def _labels(counts: Dict[str, int]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join("%s %d" % (label, counts[label]) for label in LABELS if label in counts)


def _where(entry: Dict[str, Any]) -> str:
    outputs = ",".join(quote(name) for name in entry.get("outputs", ()))
    return "operator %d %s%s" % (entry["index"], entry["type"], " -> " + outputs if outputs else "")


def _depends(found: Dict[str, Any]) -> List[str]:
    lines = []
    for entry in found["depends"]:
        lines.append("%s is %s for %d of %d inputs, %s for most: %s" % (
            _where(entry), entry["label"], entry["count"], entry["of"], entry["usual"], _named(entry)))  # fmt: skip
        if entry["where"]:
            lines.append("  %s" % entry["where"])
    return lines


def _named(entry: Dict[str, Any]) -> str:
    shown = entry["inputs"][:8]
    more = entry["count"] - len(shown)
    return ", ".join(map(_name, shown)) + (", and %d more" % more if more > 0 else "")


def _failures(found: Dict[str, Any]) -> List[str]:
    lines = []
    for entry in found["failures"]:
        name, what = _name(entry["input"]), entry["what"]
        if "index" in entry:
            side = " on golden inputs" if entry.get("side") == "alone" else ""
            lines.append("%s: %s %s%s: %s" % (name, _where(entry), what, side, _first(entry["error"])))
        else:
            words = "could not be run" if what == "error" else "is lost"
            lines.append("%s %s: %s" % (name, words, _first(entry["error"])))
    more = sum(found["troubles"].values()) - len(found["failures"])
    return lines + (["and %d more such; rows.jsonl has them" % more] if more > 0 else [])


def _first(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]


def _worst(found: Dict[str, Any]) -> List[str]:
    rows = []
    for entry in found["worst"]:
        if entry["operator"] is None:
            continue
        ratio, largest = entry["ratio"], entry["max_abs"]
        figures = "-" if ratio is None else "%s times what is allowed" % _figure(ratio)
        origins = "ORIGIN %s" % ", ".join(map(str, entry["origins"])) if entry["origins"] else ""
        rows.append([_name(entry["input"]), entry["verdict"], "operator %d %s" % (entry["operator"], entry["type"]),
                     "max|d| %s" % _figure(largest) if largest is not None else "-", figures, origins])  # fmt: skip
    return ["worst inputs:", *table(rows, indent="  ")] if rows else []


def _statistics(found: Dict[str, Any]) -> List[str]:
    head = ["index", "type", "blob", "shape", "least", "at", "mean: min", "median", "max", "std: min", "median", "max"]
    rows = [head + ["largest", "at", "zeros", "NaN", "Inf"]]
    for operator in found["operators"]:
        for blob in operator["blobs"]:
            rows.append([str(operator["index"]), operator["type"], blob["blob"], _shapes(blob), *_least(blob["min"])])
            for name in ("mean", "std"):
                rows[-1] += [number(_value(blob[name], key)) for key in ("min", "median", "max")]
            rows[-1] += [number(_value(blob["max"], "max")), _name(str(_value(blob["max"], "worst") or "-"))]
            rows[-1] += [number(_value(blob["zeros"], "median"))]
            rows[-1] += [number(_value(blob[name], "max")) for name in ("nan", "inf")]
    return table(rows, right=(0, 4, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16))


def _channels(found: Dict[str, Any]) -> List[str]:
    """The blobs with channels that are zero for every input, or hardly more."""
    lines = []
    for operator in found["operators"]:
        for blob in operator["blobs"]:
            channels = blob.get("channels") or {"dead": [], "weak": []}
            said = ["%s %s" % (word, _some(channels[word])) for word in ("dead", "weak") if channels[word]]
            if said:
                many = len(channels["mean"])
                lines.append("%s: of %d channels %s" % (blob["blob"], many, "; ".join(said)))
    return lines


def _some(places: List[int]) -> str:
    more = ", ... %d in all" % len(places) if len(places) > 12 else ""
    return ", ".join(map(str, places[:12])) + more


def _value(said: Optional[Dict[str, Any]], key: str) -> Any:
    value = (said or {}).get(key)
    return float(value) if key not in ("worst", "lowest") and value is not None else value


def _least(said: Optional[Dict[str, Any]]) -> List[str]:
    return [number(_value(said, "min")), _name(str(_value(said, "lowest") or "-"))]


def _shapes(blob: Dict[str, Any]) -> str:
    shapes = ["%s %s" % (dtype, shape_text(shape)) for dtype, shape in blob["shapes"]]
    return shapes[0] if len(shapes) == 1 else "%d shapes%s" % (len(shapes), " or more" if len(shapes) == SHOWN else "")


def _how_many(counts: Dict[str, int]) -> str:
    words = {"PASS": "close", "FAIL": "differs"}
    return ", ".join("%s for %d" % (words.get(how, how), counts[how]) for how in sorted(counts))


def _counts(found: Dict[str, Any]) -> str:
    words = {"PASS": "PASS", "FAIL": "FAIL", "INCONCLUSIVE": "INCONCLUSIVE", "RAN": "ran to the end"}
    counts = ["%d %s" % (found["verdicts"][key], word) for key, word in words.items() if found["verdicts"].get(key)]
    none = found["verdicts"].get("NONE")
    counts += ["%d without a result" % none] if none else []
    lead = "%s: " % found["verdict"] if found.get("verdict") else ""
    return "%s%d inputs, %s" % (lead, found["inputs"], ", ".join(counts) or "none ran")
