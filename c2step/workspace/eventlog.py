"""What operators gave, on its way from the worker to the front: a file to which a line is added after each operator.

The lines are there even where the next operator ends the worker, and the front reads them while the worker runs.
"""

import base64
import json
import os
from typing import Any, Dict, List

__all__ = ["EventReader", "EventWriter", "event_log"]


def event_log(status_path: str) -> str:
    """The log that belongs to a status page."""
    return status_path + ".events"


def _as_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


class EventWriter:
    """The worker's side; `bytes` are the values of small blobs."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._encode = json.JSONEncoder(default=_as_text, check_circular=False, separators=(",", ":")).encode

    def write(self, event: Dict[str, Any]) -> None:
        """Add one event."""
        os.write(self._file, (self._encode(event) + "\n").encode("utf-8"))


class EventReader:
    """The front's side, which also empties the log before a run."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._place = 0

    def clear(self) -> None:
        """Begin anew; the worker must be idle."""
        os.ftruncate(self._file, 0)
        self._place = 0

    def read(self) -> List[Dict[str, Any]]:
        """The events that were added since the last call; a line that is not whole yet is left for the next."""
        data = b""
        while True:
            part = os.pread(self._file, 1 << 20, self._place + len(data))
            data += part
            if len(part) < 1 << 20:
                break
        data = data[: data.rfind(b"\n") + 1]
        self._place += len(data)
        if not data:
            return []
        events: List[Dict[str, Any]] = json.loads("[%s]" % data[:-1].decode("utf-8").replace("\n", ","))
        for event in events:
            for row in event["outputs"] or ():
                if "data" in row:
                    row["data"] = base64.b64decode(row["data"])
        return events

    def close(self) -> None:
        """Close the log."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
