"""What a served page asks of a capture: the data without pictures, one operator with them, slices, files."""

import os
from typing import Any, Dict, Optional

from ..blob import Blob
from ..capture import Capture, read_blob
from ..errors import CaptureError, UsageError
from ..render import shape_text, summary_line, values_text
from ..repl.slices import parse_index
from ..report.page import data_of, page, with_values
from ..report.source import Source, open_source
from .server import Answer, json_answer

__all__ = ["Pages"]


class Pages:
    """Answers for one capture; `extra` adds what only a session knows."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.source: Source = self.opened()

    def opened(self) -> Source:
        """What the pages show, as it is now."""
        return open_source(self.path)

    def extra(self) -> Dict[str, Any]:
        """What is added to the page's data."""
        return {}

    def data(self) -> Dict[str, Any]:
        """The page's data without pictures: these come when an operator is opened."""
        return dict(data_of(self.source, 0), **self.extra())

    def get(self, path: str, values: Dict[str, str]) -> Optional[Answer]:
        """A page, its data, an operator, a slice, or a file of the capture."""
        if path == "":
            return Answer("text/html", page(self.data(), "live.js").encode("utf-8"))
        if path == "api/data":
            return json_answer(self.data())
        if path.startswith("api/operator/"):
            index = path.rpartition("/")[2]
            if not index.isdecimal():
                raise UsageError("the number of an operator is wanted, not %r" % index)
            return self._operator(int(index))
        if path == "api/slice":
            return self._slice(values)
        return self._file(path[len("files/") :]) if path.startswith("files/") else None

    def post(self, path: str, values: Dict[str, str]) -> Optional[Answer]:
        """A capture takes no actions."""
        return None

    def _operator(self, index: int) -> Answer:
        found = with_values(self.data()["operators"], self.source, index)
        return json_answer(found) if found else Answer("text/plain", b"no such operator", 404)

    def _slice(self, values: Dict[str, str]) -> Answer:
        for key in ("index", "slot"):
            if not values.get(key, "").isdecimal():
                raise UsageError("%s is wanted, the number of an operator or of its output" % key)
        held = self.source.value(values.get("side", "run"), int(values["index"]), int(values["slot"]))
        if held is None:
            raise CaptureError("no value was kept")
        blob = held[1]
        array = blob.array
        assert array is not None
        text = values.get("slice", "").strip()
        if text:
            try:
                array = array[parse_index(text if text.startswith("[") else "[%s]" % text)]
            except IndexError as error:
                raise CaptureError("%s does not fit the shape %s" % (text, shape_text(array.shape))) from error
        part = Blob(blob.name, blob.kind, array, blob.scale, blob.zero_point)
        return json_answer({"summary": summary_line(part.summary()), "values": values_text(part)})

    def _file(self, name: str) -> Answer:
        """One of the capture's .npy files; names are looked up, never joined to a path as they come."""
        side = self.source.sides.get("run")
        if side is None or name not in {stored.file for stored in side.capture.blobs() if stored.file}:
            return Answer("text/plain", b"not in the capture", 404)
        return Answer("application/octet-stream", _inside(side.capture, name))


def _inside(capture: Capture, name: str) -> bytes:
    """A file's bytes, if it lies in the capture's folder and holds an array that needs no pickle."""
    root = os.path.realpath(capture.path)
    path = os.path.realpath(os.path.join(root, name))
    if os.path.dirname(path) != root or os.path.basename(name) != name:
        raise CaptureError("%s is outside of the capture" % name)
    stored = next(blob for blob in capture.blobs() if blob.file == name)
    read_blob(path, stored.name, stored.kind)
    with open(path, "rb") as file:
        return file.read()
