"""What a report is made from: a capture's folder, or the JSON of a blame with the folder it kept."""

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..blob import Blob
from ..capture import HEADER, Capture, StoredBlob
from ..compare.about import ALONE, BLAME, GOLDEN
from ..errors import CaptureError, UsageError, near

__all__ = ["Side", "Source", "open_source"]

Row = Dict[str, Any]


class Side:
    """One capture's values by operator index and output slot."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self._root = os.path.realpath(capture.path)
        self.rows: Dict[int, Row] = {row["index"]: row for row in capture.rows if row.get("index") is not None}
        self._places: Dict[Tuple[int, int], Tuple[str, int]] = {}
        for index, row in self.rows.items():
            for slot, out in enumerate(row.get("outputs", ())):
                self._places[(index, out.get("slot", slot))] = (out["name"], out.get("version", 1))

    def value(self, index: int, slot: int) -> Optional[Tuple[StoredBlob, Blob]]:
        """What is held of an output; None where no bytes were kept, or where the file lies outside of the capture."""
        place = self._places.get((index, slot))
        if place is None:
            return None
        try:
            stored = self.capture.find(*place)
            if not self.capture.has_value(stored) or not self._is_inside(stored.file or ""):
                return None
            return stored, self.capture.load(*place, mapped=True)
        except CaptureError:
            return None

    def is_unreadable(self, index: int, slot: int) -> bool:
        """Whether the journal names a file for an output, and it cannot be read."""
        place = self._places.get((index, slot))
        return place is not None and self.capture.find(*place).file is not None and self.value(index, slot) is None

    def _is_inside(self, file: str) -> bool:
        path = os.path.join(self._root, file.partition("#")[0])  # a bare name: only a link leads out
        return not os.path.islink(path) or os.path.dirname(os.path.realpath(path)) == self._root


class Source(NamedTuple):
    """A run and what is known of it; `blame` is empty for a capture alone, `definitions` where nobody kept them."""

    path: str
    header: Dict[str, Any]
    reference: Dict[str, Any]
    operators: List[Dict[str, Any]]
    definitions: List[str]
    findings: List[Dict[str, Any]]
    blame: Dict[str, Any]
    sides: Dict[str, Side]

    @property
    def name(self) -> str:
        """What to call it: the model with its folder."""
        folder, file = os.path.split(str(self.header.get("model") or self.path))
        return os.path.join(os.path.basename(folder), file)

    def rows(self) -> Dict[int, Row]:
        """The last journal row of each operator of the run."""
        return self.sides["run"].rows if "run" in self.sides else {}

    def value(self, side: str, index: int, slot: int) -> Optional[Tuple[StoredBlob, Blob]]:
        """What one side (run, golden, alone) holds of an output; None where no bytes were kept."""
        return self.sides[side].value(index, slot) if side in self.sides else None

    def is_unreadable(self, side: str, index: int, slot: int) -> bool:
        """Whether one side kept an output in a file that cannot be read."""
        return side in self.sides and self.sides[side].is_unreadable(index, slot)


def open_source(path: str, begun: bool = True) -> Source:
    """Open a capture's folder, or a file that `c2step blame --json` wrote; CaptureError where it is neither.

    `begun` is False for a session's capture, which has nothing before the first operator has run.
    """
    if os.path.isfile(path):
        found = _read_blame(path)
        folder = os.path.dirname(os.path.abspath(path))
        kept = folder if os.path.exists(os.path.join(folder, HEADER)) else found["about"].get("kept")
        return _source(path, found, kept if kept and os.path.exists(os.path.join(kept, HEADER)) else None)
    if begun:
        _refuse(path)
    answer = os.path.join(path, BLAME)
    return _source(path, _read_blame(answer) if os.path.isfile(answer) else {}, path)


def _refuse(path: str) -> None:
    """CaptureError where a path is no capture's folder."""
    if not os.path.isdir(path):
        folder, name = os.path.split(os.path.abspath(path))
        there = os.listdir(folder) if os.path.isdir(folder) else []
        raise CaptureError("there is no %s" % path, near(name, there) or "give a capture's folder, or a blame's JSON")
    if os.path.exists(os.path.join(path, HEADER)) or os.path.exists(os.path.join(path, BLAME)):
        return
    cases = os.path.join(path, "cases")
    known = sorted(os.listdir(cases)) if os.path.isdir(cases) else []
    if known:
        places = ", ".join(os.path.join(path, "cases", name) for name in known[:4])
        raise CaptureError("%s is an archive, no capture" % path, "name a case: %s" % places)
    raise CaptureError("%s is no capture: it has no %s" % (path, HEADER), "c2step dump MODEL -o DIR makes one")


def _read_blame(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found: Dict[str, Any] = json.load(file)
    except (OSError, ValueError) as error:
        model = path.endswith((".onnx", ".pb", ".pbtxt"))
        words = "it is a model, and a report is of a run or a blame of it" if model else "it is no text"
        why = words if model or isinstance(error, UnicodeDecodeError) else str(error)
        raise UsageError(
            "cannot read %s: %s" % (path, why), "give a capture's folder, or what c2step blame --json printed"
        ) from error
    if not _is_blame(found):
        raise UsageError("%s is no blame" % path, "c2step blame ... --json > blame.json writes one")
    found.setdefault("about", {})
    return found


def _is_blame(found: Any) -> bool:
    """Whether this has what a page reads of a blame."""
    if not isinstance(found, dict) or "verdict" not in found or not isinstance(found.get("about", {}), dict):
        return False
    rows = found.get("operators")
    keys = {"index", "type", "outputs", "label", "reason", "hints", "run", "alone"}
    return isinstance(rows, list) and all(isinstance(row, dict) and keys <= set(row) for row in rows)


def _source(path: str, found: Dict[str, Any], folder: Optional[str]) -> Source:
    places = {"run": folder or ""}
    if found and folder:
        places.update(golden=os.path.join(folder, GOLDEN), alone=os.path.join(folder, ALONE))
    sides = {key: Side(Capture(place)) for key, place in places.items() if os.path.exists(os.path.join(place, HEADER))}
    about = found.get("about", {})
    header = dict(about.get("header") or (sides["run"].capture.header if "run" in sides else {}))
    net = about.get("net") or header.pop("net", None)
    operators = net["operators"] if net else _operators_of(sides.get("run"), found)
    return Source(path, header, about.get("reference") or {}, operators, about.get("definitions") or [],
                  about.get("findings") or [], found, sides)  # fmt: skip


def _operators_of(run: Optional[Side], found: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Operators as far as a journal, or a blame, tells of them."""
    if run is None:
        return [dict(row, name="", inputs=[], arguments=[], node=None) for row in found.get("operators", ())]
    return [
        {
            "index": index,
            "type": row["type"],
            "name": row.get("name", ""),
            "inputs": [blob["name"] for blob in row.get("inputs", ())],
            "outputs": [blob["name"] for blob in row.get("outputs", ())],
            "arguments": [],
            "node": row["node"] if isinstance(row.get("node"), dict) else None,
        }
        for index, row in sorted(run.rows.items())
    ]
