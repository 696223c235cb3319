"""Whether a capture is whole: its journal to the end, every file with the array that the journal tells of."""

import os
from typing import Any, Dict, Tuple

from ..blob import Blob
from ..capture import JOURNAL, Capture, StoredBlob
from ..errors import CaptureError

__all__ = ["check_whole"]

_AGAIN = "make the capture again"


def check_whole(path: str) -> Tuple[Capture, Dict[str, str]]:
    """The capture, and the reason for each value that it says is missing; CaptureError names what is broken."""
    capture = Capture(path)
    _check_journal(capture)
    lost = {}
    for stored in capture.blobs():
        if stored.file is None:
            continue
        if not os.path.isfile(os.path.join(path, stored.file)):
            raise CaptureError("%s is not whole: %s of blob %s is missing" % (path, stored.file, stored.name), _AGAIN)
        _check_value(capture, stored)
    for row in capture.rows:
        for out in row.get("outputs", ()):
            if out["kind"] == "missing":
                lost[out["name"]] = str((out.get("summary") or {}).get("text") or row.get("error") or "no reason given")
    return capture, lost


def _check_journal(capture: Capture) -> None:
    """The journal's last line, how the run ended, and a row for every operator."""
    journal, header = os.path.join(capture.path, JOURNAL), capture.header
    try:
        with open(journal, "rb") as file:
            text = file.read()
    except OSError as error:
        raise CaptureError("%s is not whole: %s: %s" % (capture.path, JOURNAL, error.strerror), _AGAIN) from error
    if text and not text.endswith(b"\n"):
        raise CaptureError("%s is not whole: the last line of %s is cut short" % (capture.path, JOURNAL), _AGAIN)
    rows: Dict[int, Any] = {row["index"]: row for row in capture.rows if row.get("index") is not None}
    if header.get("kind") == "run":
        _check_run(capture, rows)
    count = header.get("operators", header.get("nodes"))
    if isinstance(count, int) and len(rows) < count:
        lacking = next(index for index in range(count + 1) if index not in rows)
        words = (capture.path, JOURNAL, len(rows), count, lacking)
        raise CaptureError("%s is not whole: %s tells of %d of %d operators, not of %d" % words, _AGAIN)


def _check_run(capture: Capture, rows: Dict[int, Any]) -> None:
    bad = next((row for _, row in sorted(rows.items()) if row["status"] != "ok"), None)
    if bad is not None:
        what = "operator %d %s %s" % (bad["index"], bad["type"], bad["status"])
        raise CaptureError("%s is no whole run: %s" % (capture.path, what), "archive a run that came to its end")
    end = capture.header.get("ended") or {}
    if end and end.get("reason") != "end":
        where = "it ended (%s) at operator %s" % (end.get("reason"), end.get("position"))
        raise CaptureError("%s is no whole run: %s" % (capture.path, where), "run it to its end")


def _check_value(capture: Capture, stored: StoredBlob) -> None:
    """The array is read whole, and has the shape, dtype and figures that the journal tells."""
    blob: Blob = capture.load(stored.name, stored.version)
    found, told = blob.summary(), stored.summary
    if (found.shape, found.dtype) != (told.shape, told.dtype):
        words = (capture.path, stored.file, found.dtype, found.shape, told.dtype, told.shape)
        raise CaptureError("%s is not whole: %s is %s %s, the journal tells of %s %s" % words, _AGAIN)
    if _figures(found) != _figures(told):
        raise CaptureError("%s is not whole: %s has other values than the journal tells of" % (
            capture.path, stored.file), _AGAIN)  # fmt: skip


def _figures(summary: Any) -> Any:
    """What is exact whoever computes it."""
    counts = (summary.zeros, summary.nan, summary.inf)
    return counts + tuple(None if value is None else "%.5g" % value for value in (summary.min, summary.max))
