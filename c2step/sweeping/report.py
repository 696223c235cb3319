"""What the rows of a sweep say together: errors of each operator over all inputs, labels, the worst inputs.

Rows are taken in by the order of the inputs, so that the report does not depend on who made them or when.
"""

from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np

from ..analyses.channels import ChannelSums
from ..compare.blame import OK, ORIGIN, PROPAGATED, RECOVERED, UNCOMPARED
from ..net import BlobVersion
from .columns import Columns, spread
from .rows import FIGURES, STATISTICS
from .separate import Features

__all__ = ["LABELS", "SHOWN", "SIDES", "Report", "badness"]

SIDES = ("run", "alone")
LABELS = (ORIGIN, PROPAGATED, RECOVERED, OK, UNCOMPARED)
SHOWN = 20  # inputs that are named for a label or a trouble; rows.jsonl has them all
WORST = 10
WEAK = 0.01  # of the median channel: what a weak one never reaches
_RANKS = {"FAIL": 2, "INCONCLUSIVE": 1, "PASS": 0}
Key = Tuple[int, str, Tuple[str, ...]]
NameOf = Callable[[int], str]


class _Operator:
    """One operator over all inputs: how often which label and status, and a column for each figure."""

    def __init__(self, key: Key, columns: Columns) -> None:
        self.key = key
        self.labels = columns.new()
        self.statuses: Dict[str, Dict[str, int]] = {side: {} for side in SIDES}
        self.failed = dict.fromkeys(SIDES, 0)
        self.figures = {(side, name): columns.new() for side in SIDES for name in FIGURES}

    def add(self, position: int, row: Mapping[str, Any]) -> None:
        """Take in what one input's row says of it."""
        self.labels[position] = LABELS.index(row["label"])
        for side in SIDES:
            found = row[side]
            counts = self.statuses[side]
            counts[found["status"]] = counts.get(found["status"], 0) + 1
            self.failed[side] += found.get("verdict") == "FAIL"
            for name in FIGURES:
                if name in found:
                    self.figures[side, name][position] = float(found[name])

    def to_json(self, name_of: NameOf) -> Dict[str, Any]:
        """As an entry of `operators`."""
        index, kind, outputs = self.key
        row: Dict[str, Any] = {"index": index, "type": kind, "outputs": list(outputs), "labels": self.counts()}
        for side in SIDES:
            said: Dict[str, Any] = {"statuses": self.statuses[side], "wrong": self.failed[side]}
            for name in FIGURES:
                said[name] = _named(spread(self.figures[side, name]), name_of)
            row[side] = said
        return row

    def counts(self) -> Dict[str, int]:
        """How many inputs have each label."""
        found = {label: int((self.labels == code).sum()) for code, label in enumerate(LABELS)}
        return {label: count for label, count in found.items() if count}


def _named(found: Optional[Dict[str, Any]], name_of: NameOf) -> Optional[Dict[str, Any]]:
    """A spread whose positions are replaced by the inputs' names, with nothing that JSON has not."""
    if found is None:
        return None
    said = {key: value if np.isfinite(value) else str(value) for key, value in found.items()}
    return dict(said, **{key: name_of(found[key]) for key in ("worst", "lowest") if key in found})


class _Blob:
    """One output over all inputs of a sweep without a reference."""

    def __init__(self, columns: Columns) -> None:
        self.shapes: List[Tuple[str, Tuple[int, ...]]] = []
        self.figures = {name: columns.new() for name in STATISTICS}
        self.channels: Optional[ChannelSums] = None

    def add(self, position: int, row: Mapping[str, Any]) -> None:
        """Take in one input's summary."""
        shape = (row["dtype"] or row["kind"], tuple(row["shape"]))
        if len(self.shapes) < SHOWN and shape not in self.shapes:
            self.shapes.append(shape)
        for name in STATISTICS:
            if name in row:
                self.figures[name][position] = float(row[name])
        if "channels" in row:
            self.channels = self.channels or ChannelSums("")
            self.channels.add(row["channels"])

    def to_json(self, name_of: NameOf) -> Dict[str, Any]:
        """As an entry of an operator's `blobs`."""
        said: Dict[str, Any] = {"shapes": [[dtype, list(shape)] for dtype, shape in self.shapes]}
        for name, column in self.figures.items():
            found = spread(column)
            if found is not None:
                found["lowest"] = int(np.nanargmin(column))
            said[name] = _named(found, name_of)
        if self.channels is not None:
            found = self.channels.result(BlobVersion("", 0), WEAK)._asdict()
            said["channels"] = {key: found[key] for key in ("mean", "largest", "zeros", "dead", "weak")}
        return said


class Report:
    """Takes in the rows of all inputs, in their order, and says what they come to."""

    def __init__(self, length: int, name_of: NameOf) -> None:
        """`length` is the number of inputs, `name_of` gives the id of each."""
        self._columns = Columns(length)
        self._name_of = name_of
        self._length = length
        self._operators: Dict[Key, _Operator] = {}
        self._blobs: Dict[Key, Dict[Tuple[int, str], _Blob]] = {}
        self._features = Features(self._columns)
        self._verdicts: Dict[str, int] = {}
        self._outputs: Dict[str, Dict[str, int]] = {}
        self._worst: List[Tuple[Tuple[float, ...], Dict[str, Any]]] = []
        self._troubles: List[Dict[str, Any]] = []
        self._counts: Dict[str, int] = {}
        self._notes: Dict[str, int] = {}

    def add(self, position: int, row: Mapping[str, Any]) -> None:
        """Take in the row of the input at a position."""
        for trouble in troubles(row):
            kind = trouble["what"]
            self._counts[kind] = self._counts.get(kind, 0) + 1
            if len(self._troubles) < SHOWN:
                self._troubles.append(dict(input=self._name_of(position), **trouble))
        if row["status"] != "ok":
            self._verdicts["NONE"] = self._verdicts.get("NONE", 0) + 1
            return
        for note in row.get("notes", ()):
            self._notes[note] = self._notes.get(note, 0) + 1
        self._features.add(position, row["fed"])
        if "verdict" in row:
            self._blamed(position, row)
        else:
            self._ran(position, row)

    def _blamed(self, position: int, row: Mapping[str, Any]) -> None:
        self._verdicts[row["verdict"]] = self._verdicts.get(row["verdict"], 0) + 1
        for name, said in row["outputs"].items():
            counts = self._outputs.setdefault(name, {})
            counts[said] = counts.get(said, 0) + 1
        for operator in row["operators"]:
            key = _key(operator)
            if key not in self._operators:
                self._operators[key] = _Operator(key, self._columns)
            self._operators[key].add(position, operator)
        rank, said = badness(row)
        self._worst.append((rank, dict(said, input=self._name_of(position))))
        self._worst.sort(key=lambda entry: entry[0], reverse=True)  # stable: of two alike the first stays first
        del self._worst[WORST:]

    def _ran(self, position: int, row: Mapping[str, Any]) -> None:
        self._verdicts["RAN"] = self._verdicts.get("RAN", 0) + ("stopped" not in row)
        for operator in row["operators"]:
            blobs = self._blobs.setdefault(_key(operator), {})
            for slot, blob in enumerate(operator["blobs"]):
                key = (slot, "%s@%d" % (blob["name"], blob["version"]))
                if key not in blobs:
                    blobs[key] = _Blob(self._columns)
                blobs[key].add(position, blob)

    def notes(self) -> List[str]:
        """What was done to inputs before they were fed, and to how many of them."""
        said = ["%s (%d of %d inputs)" % (note, count, self._length) for note, count in self._notes.items()]
        return said[:SHOWN]

    def to_json(self) -> Dict[str, Any]:
        """Everything, as JSON."""
        found: Dict[str, Any] = {"inputs": self._length, "verdicts": self._verdicts, "troubles": self._counts}
        if self._blobs:
            found["operators"] = [self._blobs_of(key) for key in sorted(self._blobs)]
        else:
            found["operators"] = [self._operators[key].to_json(self._name_of) for key in sorted(self._operators)]
            found["outputs"] = self._outputs
            found["depends"] = [entry for key in sorted(self._operators) for entry in self._depends(key)]
            found["worst"] = [said for _, said in self._worst]
        return dict(found, failures=self._troubles)

    def _blobs_of(self, key: Key) -> Dict[str, Any]:
        blobs = [dict(blob.to_json(self._name_of), blob=name) for (_, name), blob in sorted(self._blobs[key].items())]
        return {"index": key[0], "type": key[1], "outputs": list(key[2]), "blobs": blobs}

    def _depends(self, key: Key) -> List[Dict[str, Any]]:
        """The labels of an operator that some inputs have and others have not, but for the most frequent one."""
        operator = self._operators[key]
        counts = operator.counts()
        usual = max(counts, key=lambda label: (counts[label], label == OK))
        found = []
        for label in counts:
            if label == usual:
                continue
            those = operator.labels == LABELS.index(label)
            others = ~those & ~np.isnan(operator.labels)
            named = [self._name_of(int(position)) for position in np.flatnonzero(those)[:SHOWN]]
            found.append({
                "index": key[0], "type": key[1], "outputs": list(key[2]), "label": label, "count": counts[label],
                "of": sum(counts.values()), "usual": usual, "inputs": named,
                "where": self._features.telling(those, others),
            })  # fmt: skip
        return found


def _key(operator: Mapping[str, Any]) -> Key:
    return operator["index"], operator["type"], tuple(operator["outputs"])


def badness(row: Mapping[str, Any]) -> Tuple[Tuple[float, ...], Dict[str, Any]]:
    """How bad an input is, for sorting, and its entry: verdict, origins, the operator that is worst in the run."""
    worst: Tuple[float, ...] = (-1.0, 0.0, 0.0)
    entry: Dict[str, Any] = {"operator": None}
    largest = 0.0  # tells inputs apart whose worst operators gave another shape, or nothing
    for operator in row["operators"]:
        side = operator["run"]
        ended = side["status"] in ("failed", "died")
        ratio = float(side.get("ratio", "inf" if ended or side.get("verdict") == "FAIL" else 0))
        rank = (float(ended or side.get("verdict") == "FAIL"), ratio, float(side.get("max_abs", 0)))
        largest = max(largest, ratio if np.isfinite(ratio) else 0.0)
        if (ended or "verdict" in side) and rank > worst:
            worst = rank
            figures = {name: side.get(name) for name in FIGURES}
            entry = dict(figures, operator=operator["index"], type=operator["type"], outputs=operator["outputs"])
    origins = [operator["index"] for operator in row["operators"] if operator["label"] == ORIGIN]
    said = dict(entry, verdict=row["verdict"], origins=origins)
    return (float(_RANKS[row["verdict"]]), *worst, largest), said


def troubles(row: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """What went wrong with an input: it could not be run, its process ended, an operator failed or died."""
    if row["status"] != "ok":
        return [{"what": row["status"], "error": row["error"], "kind": row.get("kind")}]
    found = []
    stopped = row.get("stopped")
    if stopped:
        found.append({"what": stopped["status"], "index": stopped["index"], "type": stopped["type"],
                      "error": stopped["error"]})  # fmt: skip
    for operator in row["operators"]:
        for side in SIDES:
            said = operator.get(side) or {}
            if said.get("status") in ("failed", "died"):
                found.append({"what": said["status"], "index": operator["index"], "type": operator["type"],
                              "side": side, "error": said.get("error", "")})  # fmt: skip
    return found
