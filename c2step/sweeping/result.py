"""What a sweep found: its report, its rows, and tables of both."""

import shutil
import weakref
from typing import Any, Dict, Iterator, List

from ..compare.verdict import Verdict
from ..errors import ExitStatus
from ..export.tables import frame_of, write_csv
from .columns import SPREAD
from .folder import SweepFolder
from .report import LABELS, SIDES, badness
from .rows import FIGURES, STATISTICS

__all__ = ["Sweep"]


class Sweep:
    """A finished sweep: `report` is everything as JSON, `rows()` are the inputs' own results.

    `frame()` is a pandas table of the operators, `frame("inputs")` one of the inputs.
    """

    def __init__(self, report: Dict[str, Any], directory: str, places: List[int], temporary: bool) -> None:
        self.report = report
        self.directory = directory
        self._places = places
        if temporary:
            weakref.finalize(self, shutil.rmtree, directory, True)

    def __repr__(self) -> str:
        counts = ", ".join("%d %s" % (count, word) for word, count in self.report["verdicts"].items())
        return "<Sweep of %d inputs: %s>" % (self.report["inputs"], counts)

    def rows(self) -> Iterator[Dict[str, Any]]:
        """The row of each input, in the order of the inputs."""
        return SweepFolder.read(self.directory, self._places)

    @property
    def compared(self) -> bool:
        """Whether the inputs were compared with a reference."""
        return bool(self.report["against"])

    @property
    def operators(self) -> List[Dict[str, Any]]:
        """Each operator: labels and errors over all inputs, or the figures of its outputs."""
        found: List[Dict[str, Any]] = self.report["operators"]
        return found

    @property
    def verdict(self) -> Verdict:
        """FAIL where an input fails, INCONCLUSIVE where one could not be compared, else PASS."""
        counts = self.report["verdicts"]
        if counts.get("FAIL"):
            return Verdict.FAIL
        if counts.get("INCONCLUSIVE") or counts.get("NONE") or not self.report["inputs"]:
            return Verdict.INCONCLUSIVE
        return Verdict.PASS

    @property
    def status(self) -> ExitStatus:
        """The exit status that says the same; of a sweep without a reference, how the worst input ended."""
        if self.compared:
            return self.verdict.status
        troubles = self.report["troubles"]
        if any(troubles.get(what) for what in ("died", "timeout", "lost")):
            return ExitStatus.DIED
        if troubles.get("failed"):
            return ExitStatus.OPERATOR
        return ExitStatus.INCONCLUSIVE if troubles else ExitStatus.OK

    def table(self, what: str = "operators") -> List[Dict[str, Any]]:
        """Flat rows: of the `operators`, or of the `inputs`."""
        if what == "inputs":
            return [_input(row) for row in self.rows()]
        return [flat for operator in self.operators for flat in _operator(operator)]

    def frame(self, what: str = "operators") -> Any:
        """The same as a pandas.DataFrame; UsageError where there is no pandas."""
        return frame_of(self.table(what))

    def to_json(self) -> Dict[str, Any]:
        """Everything but the rows."""
        return dict(self.report, verdict=str(self.verdict) if self.compared else None)

    def write_csv(self, path: str, what: str = "operators") -> None:
        """Write a table as CSV."""
        with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:  # any file's name
            write_csv(self.table(what), file)


def _operator(operator: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    row: Dict[str, Any] = {"index": operator["index"], "type": operator["type"],
                           "outputs": " ".join(operator["outputs"])}  # fmt: skip
    if "blobs" in operator:
        for blob in operator["blobs"]:
            yield dict(row, blob=blob["blob"], **_flat(blob, STATISTICS))
        return
    row.update(("label_" + label, operator["labels"].get(label, 0)) for label in LABELS)
    for side in SIDES:
        row["%s_wrong" % side] = operator[side]["wrong"]
        row.update(("%s_%s" % (side, key), value) for key, value in _flat(operator[side], FIGURES).items())
    yield row


def _flat(said: Dict[str, Any], names: Any) -> Dict[str, Any]:
    return {"%s_%s" % (name, key): (said[name] or {}).get(key) for name in names for key in SPREAD}


def _input(row: Dict[str, Any]) -> Dict[str, Any]:
    found: Dict[str, Any] = {"input": row["input"], "status": row["status"], "error": row.get("error")}
    if "verdict" in row:
        _, said = badness(row)
        found.update(verdict=row["verdict"], origins=" ".join(map(str, said["origins"])))
        found.update((key, said.get(key)) for key in ("operator", "type", *FIGURES))
        found.update(("output_" + name, how) for name, how in row["outputs"].items())
    for name, fed in row.get("fed", {}).items():
        found.update(("%s_%s" % (name, key), fed[key]) for key in ("min", "max", "mean", "std") if key in fed)
    return found
