"""The table: what was measured, against what, the bar, the verdict; as Markdown, as JSON, in the README."""

import json
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from .timing import Figure

__all__ = ["BEGIN", "END", "Row", "all_hold", "markdown", "other_verdicts", "to_json", "within_markers"]

BEGIN, END = "<!-- scripts/bench writes from here -->", "<!-- to here -->"
_HEAD = ("what", "against", "bar", "measured", "quartiles", "")

# unit: how a figure of it is written
_UNITS = {"x": "%.2fx", "faster": "%.1fx faster", "us": "%.1f us", "ms": "%.1f ms", "s": "%.2f s", "MB": "%.0f MB",
          "imports": "%.0f"}  # fmt: skip


class Row(NamedTuple):
    """One row of the table.

    `bar` is the most that the figure may be, or for the unit "faster" the least; None where there is no bar.
    `measured` is None where it could not be measured; `note` then says why.  An `optional` row may be so.
    """

    key: str
    what: str
    against: str
    unit: str
    bar: Optional[float]
    measured: Optional[Figure]
    note: str = ""
    optional: bool = False

    @property
    def holds(self) -> Optional[bool]:
        """Whether the bar is reached; None where there is no bar, or no figure."""
        if self.bar is None or self.measured is None:
            return None
        return self.measured.median >= self.bar if self.unit == "faster" else self.measured.median <= self.bar

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.measured is None:
            return "not measured"
        return {True: "reached", False: "**not reached**", None: "no bar"}[self.holds]


def all_hold(rows: Sequence[Row]) -> bool:
    """Whether every bar is reached; a row that must be measured and was not holds nothing."""
    return all(row.holds is not False and (row.measured is not None or row.optional) for row in rows)


def markdown(rows: Sequence[Row], machine: Dict[str, Any]) -> str:
    """The table and a line on the machine."""
    lines = ["| %s |" % " | ".join(_HEAD), "|%s" % ("---|" * len(_HEAD))]
    lines += ["| %s |" % " | ".join(_cells(row)) for row in rows]
    notes = ["%s: %s." % (row.what, row.note) for row in rows if row.note]
    said = "Measured on %s." % ", ".join("%s %s" % (key, value) for key, value in machine.items())
    return "\n".join(lines + [""] + [" ".join([said] + notes)]) + "\n"


def _cells(row: Row) -> List[str]:
    bar = "-" if row.bar is None else ("at least " if row.unit == "faster" else "at most ") + _text(row.bar, row.unit)
    if row.measured is None:
        return [row.what, row.against, bar, "-", "-", row.verdict]
    found = row.measured
    spread = "%s to %s" % (_text(found.low, row.unit), _text(found.high, row.unit))
    return [row.what, row.against, bar, _text(found.median, row.unit), spread, row.verdict]


def _text(value: float, unit: str) -> str:
    return _UNITS[unit] % value


def to_json(rows: Sequence[Row], machine: Dict[str, Any]) -> str:
    """Everything that the table says, and nothing rounded."""
    found = [dict(row._asdict(), measured=row.measured and row.measured._asdict(), verdict=row.verdict.strip("*"))
             for row in rows]  # fmt: skip
    return json.dumps({"machine": machine, "all_hold": all_hold(rows), "rows": found}, indent=1) + "\n"


def other_verdicts(rows: Sequence[Row], before: str) -> List[str]:
    """The rows whose verdict is not that of a former run, which `to_json` wrote, in words."""
    was = {(row["what"], row["against"]): row["verdict"] for row in json.loads(before)["rows"]}
    now = {(row.what, row.against): row.verdict.strip("*") for row in rows}
    return ["%s: %s, was %s" % (key[0], now[key], was[key]) for key in now if was.get(key, now[key]) != now[key]]


def within_markers(text: str, table: str) -> str:
    """The text with the table between the two markers; ValueError where it has not exactly one pair of them."""
    before, begin, rest = text.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in after:
        raise ValueError("one %s and one %s after it are wanted" % (BEGIN, END))
    return "%s%s\n%s%s%s" % (before, begin, table, end, after)
