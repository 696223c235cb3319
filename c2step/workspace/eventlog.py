"""What operators gave, on its way from the worker to the front: a file to which a line is added after each operator.

The lines are there even where the next operator ends the worker, and the front reads them while the worker runs.
"""

import binascii
import json
import os
from typing import Any, Dict, List

__all__ = ["EventReader", "EventWriter", "event_log"]


_LONG = 1 << 24  # bytes of what has been read, after which the file begins anew
_LIGHT = (
    '{"index":%d,"status":"ok","seconds":%r,"outputs":[{"name":%s,"dtype":"%s","shape":%s,"data":"%s","pack":%s}]}\n'
)


def event_log(status_path: str) -> str:
    """The log that belongs to a status page."""
    return status_path + ".events"


class EventWriter:
    """The worker's side; a small blob's row has `data`, its bytes, which are written as base64."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._quoted: Dict[str, str] = {}

    def write(self, event: Dict[str, Any]) -> None:
        """Add one event."""
        rows = event["outputs"]
        line = self._light(event, rows[0]) if rows and "data" in rows[0] else json.dumps(event) + "\n"
        os.write(self._file, line.encode("utf-8"))

    def _light(self, event: Dict[str, Any], row: Dict[str, Any]) -> str:
        """What json.dumps would say of an operator whose only output is small, in a fraction of the time."""
        name = row["name"]
        quoted = self._quoted.get(name)
        if quoted is None:
            quoted = self._quoted[name] = json.dumps(name)
        return _LIGHT % (
            event["index"],
            event["seconds"],
            quoted,
            row["dtype"],
            list(row["shape"]),
            binascii.b2a_base64(row["data"], newline=False).decode("ascii"),
            "true" if row["pack"] else "false",
        )


class EventReader:
    """The front's side, which also empties the log, before a run."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._place = 0
        self._torn = False

    def clear(self) -> None:
        """Begin anew; the worker must be idle."""
        if self._torn or self._place > _LONG:
            os.ftruncate(self._file, 0)
            self._place, self._torn = 0, False

    def read(self) -> List[Dict[str, Any]]:
        """The events that were added since the last call; a line that is not whole yet is left for the next."""
        data = b""
        while True:
            part = os.pread(self._file, 1 << 20, self._place + len(data))
            data += part
            if len(part) < 1 << 20:
                break
        whole = data.rfind(b"\n") + 1
        self._torn = whole < len(data)
        data = data[:whole]
        self._place += len(data)
        if not data:
            return []
        events: List[Dict[str, Any]] = json.loads("[%s]" % data[:-1].decode("utf-8").replace("\n", ","))
        for event in events:
            for row in event["outputs"] or ():
                if "data" in row:
                    row["data"] = binascii.a2b_base64(row["data"])
        return events

    def close(self) -> None:
        """Close the log."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
