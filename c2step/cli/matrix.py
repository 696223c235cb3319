"""Run a model on several runtimes: which import it, which outputs are equal, where the first difference starts.

c2step matrix model.onnx --input all.npz --runtimes default,1.2.0,1.0.1
c2step matrix deployment/ --input all.npz --runtimes all --json

Each runtime converts an ONNX model with its own backend. Every output is bitwise equal to that of the first runtime
that imports the model, close to it within the tolerance, or differs. Runtimes are those that `c2step runtimes` lists.
The exit status is 1 unless all agree.
"""

import argparse
import json
import shutil
from typing import List

from ..compare.matrix import BITWISE, CLOSE, Matrix, Place, Row, matrix
from ..errors import ExitStatus, UsageError
from ..leftovers import scratch_folder
from ..progress import Progress
from ..recording import Keep
from ..render import first_line, quote, table
from ..stepper import Session
from ..workspace.runtimes import DEFAULT, environments, images
from .against import add_tolerances, tolerances
from .options import add_session, quietly_opened

__all__ = ["add_arguments", "run"]

_SHOWN = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step matrix`."""
    add_session(parser)
    add_tolerances(parser)
    group = parser.add_argument_group("matrix")
    group.add_argument("--runtimes", default="all", metavar="R,R,...", help="which, or all (the default); see above")
    group.add_argument("--json", action="store_true", help="print one JSON object instead of the table")


def run(options: argparse.Namespace) -> int:
    """Run everywhere and print."""
    folder = scratch_folder("matrix")
    shown = Progress()
    try:
        with shown.over():
            found = matrix(
                lambda runtime, keep: _open(options, runtime, keep),
                _runtimes(options.runtimes),
                folder,
                tolerances(options),
                lambda runtime, at, of: shown.show("matrix", at, of, runtime),
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found.to_json(), indent=1) if options.json else "\n".join(_lines(found)))
    return ExitStatus.OK if found.agrees else ExitStatus.DIFFERS


def _runtimes(words: str) -> List[str]:
    found = (
        environments() + images()[0] if words == "all" else [word.strip() for word in words.split(",") if word.strip()]
    )
    if not found:
        raise UsageError("--runtimes names none", "--runtimes default,1.2.0; c2step runtimes lists what is there")
    return found


def _open(options: argparse.Namespace, runtime: str, keep: Keep) -> Session:
    return quietly_opened(options, options.runtime if runtime == DEFAULT else runtime, keep)


def _lines(found: Matrix) -> List[str]:
    rows = [["runtime", "torch", "Python", "operators", "outputs", "first difference"]]
    rows += [_cells(row, row.runtime == found.against) for row in found.rows]
    lines = table(rows, right=(3,))
    for row in found.rows:
        lines += ["%s: %s" % (row.runtime, line) for line in _more(row)]
    return lines


def _cells(row: Row, first: bool) -> List[str]:
    cells = [row.runtime, str(row.versions.get("torch", "-")), str(row.versions.get("python", "-"))]
    if row.error:
        return cells + ["-", "-", "does not import"]
    words = "%d failed of %d" % (len(row.failures), row.operators) if row.failures else str(row.operators)
    if first:
        return cells + [words, "these", "-"]
    return cells + [words, _outputs(row), _where(row.first) if row.first else "none"]


def _outputs(row: Row) -> str:
    """`bitwise` where all are, else how many of each."""
    found = list(row.outputs.values())
    return ", ".join(
        how if found.count(how) == len(found) else "%d %s" % (found.count(how), how) for how in dict.fromkeys(found)
    )


def _where(place: Place) -> str:
    types = "%s (%s in the first)" % (place.type, place.other_type) if place.other_type else place.type
    return "operator %d %s %s" % (place.index, types, quote(place.blob))


def _short(text: str) -> str:
    """Why an operator failed, without Caffe2's advice on how to link it and the operator's own text."""
    return first_line(text).split(" Verify that implementation")[0]


def _more(row: Row) -> List[str]:
    """What the table has no room for."""
    lines = [first_line(row.error)] if row.error else []
    lines += ["refuses %s" % text for text in row.refused[:_SHOWN]]
    if len(row.refused) > _SHOWN:
        lines.append("refuses %d more" % (len(row.refused) - _SHOWN))
    lines += ["%s fails: %s" % (_where(place), _short(place.text)) for place in row.failures[:_SHOWN]]
    if len(row.failures) > _SHOWN:
        lines.append("%d more operators fail" % (len(row.failures) - _SHOWN))
    lines += ["%s differs: %s" % (_where(row.first), row.first.text)] if row.first else []
    if row.first_bit and row.first_bit != row.first:
        lines.append("the first not bitwise equal: %s, %s" % (_where(row.first_bit), row.first_bit.text))
    bad = [quote(name) + " " + how for name, how in row.outputs.items() if how not in (BITWISE, CLOSE)]
    return lines + (["outputs: %s" % ", ".join(bad[:_SHOWN])] if bad else [])
