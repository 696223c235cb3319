"""Compare two captures, or two files of arrays; for CI, with a saved baseline.

  c2step compare baseline/ out/ --tolerance 'type:Softmax=1e-2'
  c2step compare input_here.npy input_there.npy

Two arrays that differ are looked at for a layout, channel order, scale or mean that would explain it.
"""

import argparse
import json
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..blob import Blob
from ..capture import HEADER, Capture, StoredBlob
from ..compare import Comparison, Tally, Tolerances, Verdict, compare_blobs
from ..compare.hints import explain
from ..compare.preprocessing import explain_inputs
from ..errors import UsageError
from ..references import Reference, open_folder, open_npz
from ..render import blob_label, table
from .against import add_tolerances, tolerances
from .options import say

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step compare`."""
    parser.add_argument("actual", metavar="A", help="a capture, a folder of .npy, an .npz or an .npy file")
    parser.add_argument("reference", metavar="B", help="the same, taken as right")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    add_tolerances(parser)


def run(options: argparse.Namespace) -> int:
    """Compare what both sides hold; what only one holds counts as missing."""
    rules = tolerances(options)
    if _is_capture(options.actual) and _is_capture(options.reference):
        captures = Capture(options.actual), Capture(options.reference)
        held = [blob for capture in captures for blob in capture.blobs()]
        rules.check(dict.fromkeys(blob.name for blob in held), dict.fromkeys(blob.type for blob in held if blob.type))
        rows, tally = _captures(captures[0], captures[1], rules)
    else:
        actual, reference = _values(options.actual), _values(options.reference)
        rules.check(dict.fromkeys(list(actual.names()) + list(reference.names())), [])
        rows, tally = _arrays(actual, reference, rules)
    _print(rows, tally, options.json)
    return int(tally.verdict.status)


Row = Dict[str, Any]


def _is_capture(path: str) -> bool:
    return os.path.exists(os.path.join(path, HEADER))


def _captures(actual: Capture, reference: Capture, rules: Tolerances) -> "tuple[List[Row], Tally]":
    ours = {(blob.name, blob.version): blob for blob in actual.blobs()}
    quanta = _quanta(actual)
    rows, tally = [], Tally()
    for theirs in reference.blobs():
        label = blob_label(theirs.name, theirs.version)
        mine = ours.pop((theirs.name, theirs.version), None)
        if mine is None:
            tally.miss("%s has no %s" % (actual.path, label))
            rows.append({"blob": label, "verdict": "missing"})
            continue
        read = quanta.get((mine.name, mine.version), [])
        rows.append(_stored(label, mine, theirs, actual, reference, read, rules, tally))
    for name, version in ours:
        tally.miss("%s has no %s" % (reference.path, blob_label(name, version)))
        rows.append({"blob": blob_label(name, version), "verdict": "missing"})
    return rows, tally


def _quanta(capture: Capture) -> Dict[Tuple[str, int], List[float]]:
    """The scales of the Int8 blobs that each blob was computed from."""
    scales = {(blob.name, blob.version): blob.summary.scale for blob in capture.blobs() if blob.summary.scale}
    found: Dict[Tuple[str, int], List[float]] = {}
    for row in capture.rows if scales else ():
        read = [scales.get((each["name"], each["version"])) for each in row.get("inputs", ())]
        for out in row.get("outputs", ()):
            found[out["name"], out.get("version", 1)] = [scale for scale in read if scale]
    return found


def _stored(label: str, mine: StoredBlob, theirs: StoredBlob, actual: Capture, reference: Capture, quanta: List[float],
            rules: Tolerances, tally: Tally) -> Row:  # fmt: skip
    both = [mine.file, theirs.file]
    if not any(both) and mine.kind == theirs.kind:
        same = mine.summary == theirs.summary
        tally.skip(
            "%s: neither side kept its value%s" % (label, "" if same else ", and the summaries differ"),
            same and mine.kind != "tensor",
        )
        return {"blob": label, "verdict": "skipped"}
    left, right = actual.load(mine.name, mine.version, True), reference.load(theirs.name, theirs.version, True)
    return _compared(label, left, right, theirs.type, rules, tally, quanta)


def _compared(label: str, left: Blob, right: Blob, op_type: str, rules: Tolerances, tally: Tally,
              quanta: Sequence[float] = ()) -> Row:  # fmt: skip
    found: Comparison = compare_blobs(left, right, rules.of(left, right, op_type, quanta))
    tally.add(found.verdict, "%s: %s" % (label, found.reason))
    row = {"blob": label, "verdict": str(found.verdict), "comparison": found}
    if found.verdict is Verdict.FAIL and left.array is not None and right.array is not None:
        row["hints"] = _hints(np.asarray(left.real()), np.asarray(right.real()))
    return row


def _hints(left: np.ndarray, right: np.ndarray) -> List[str]:
    if left.dtype.kind in "OSU" or right.dtype.kind in "OSU":
        return []
    prepared: Optional[str] = explain_inputs(left, right)
    return explain(left, right) + ([prepared] if prepared else [])


def _values(path: str) -> Reference:
    if os.path.isdir(path):
        return open_folder(path)
    if path.endswith(".npz"):
        return open_npz(path)
    if not os.path.exists(path):
        raise UsageError("there is no %s" % path, "a capture, a folder of .npy, an .npz or an .npy file is wanted")
    from ..importer.inputs import load_npy

    array = load_npy(path, path)
    single = Reference(path)
    single.add("array", 1, lambda: Blob("array", "string" if array.dtype.kind in "SU" else "tensor", array))
    return single


def _arrays(actual: Reference, reference: Reference, rules: Tolerances) -> "tuple[List[Row], Tally]":
    rows, tally = [], Tally()
    for name in reference.names():
        if name in actual:
            rows.append(_compared(name, actual.blob(name), reference.blob(name), "", rules, tally))
    for one, other in ((actual, reference), (reference, actual)):
        for name in other.names():
            if name not in one:
                other.blob(name)  # an array that cannot be read is refused, not merely missing
                tally.miss("%s has no %s" % (one.source, name))
                rows.append({"blob": name, "verdict": "missing"})
    return rows, tally


def _print(rows: List[Row], tally: Tally, as_json: bool) -> None:
    if as_json:
        plain = [dict(row, comparison=row["comparison"].to_json()) if "comparison" in row else row for row in rows]
        print(json.dumps(dict(tally.to_json(), blobs=plain), indent=1))
        return
    cells = []
    for row in rows:
        found = row.get("comparison")
        cells.append(
            [
                row["blob"],
                row["verdict"],
                "" if found is None else "  ".join(([found.reason] if found.reason else []) + found.figures()),
            ]
        )
    print("\n".join(table(cells)))
    for row in rows:
        for hint in row.get("hints", ()):
            print("%s: %s" % (row["blob"], hint))
    for reason in tally.summary() if tally.verdict is Verdict.INCONCLUSIVE else []:
        say("not compared: %s" % reason)
    print(tally.line())
