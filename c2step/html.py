"""Small HTML tables for notebooks, from plain values."""

from html import escape
from typing import Any, Iterable, Sequence

__all__ = ["figure", "html_table"]

MOST_ROWS = 200


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table under a title; what is past MOST_ROWS is counted, not shown."""
    shown = [list(row) for row in rows]
    left = len(shown) - MOST_ROWS
    cells = ["<tr>%s</tr>" % "".join("<td style='text-align:left'>%s</td>" % escape(str(cell)) for cell in row)
             for row in shown[:MOST_ROWS]]  # fmt: skip
    if left > 0:
        cells.append("<tr><td colspan='%d'>and %d more</td></tr>" % (len(head), left))
    top = "".join("<th style='text-align:left'>%s</th>" % escape(word) for word in head)
    return "<div><b>%s</b><table><thead><tr>%s</tr></thead><tbody>%s</tbody></table></div>" % (
        escape(title),
        top,
        "".join(cells),
    )


def figure(value: Any) -> str:
    """A number with six digits, `-` for none."""
    return "-" if value is None else "%.6g" % value if isinstance(value, float) else str(value)
