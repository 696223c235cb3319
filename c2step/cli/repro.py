"""Cut an operator out of a model so that it runs on its own, and say whether it does there what it does here.

c2step repro model.onnx --input all.npz --at conv1 -o conv1-repro
c2step repro model.onnx --input all.npz --at 4-9 --against onnxruntime -o part
c2step repro model.onnx --input all.npz -o crash        the operator at which the run fails or dies

The folder holds nets (.pb, .pbtxt), .npy files, an ONNX backend test, and run.py, which needs Caffe2 and numpy.
"""

import argparse
import shutil
from typing import Optional

from ..errors import ExitStatus, UsageError
from ..leftovers import scratch_folder
from ..references import Reference
from ..reproducing import Repro, make_repro, operators_of
from ..stepper import Session, Stop
from .against import reference_for
from .options import add_session, opened, say, warn_unfed

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step repro`."""
    add_session(parser)
    group = parser.add_argument_group("repro")
    group.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder; new, empty, or an older repro")
    group.add_argument("--at", metavar="WHERE", help="an index, blob, ONNX node, type or name, or FIRST-LAST")
    group.add_argument("--against", metavar="REFERENCE", help="golden outputs, as `c2step blame` takes them")


def run(options: argparse.Namespace) -> int:
    """Run to the operator, cut it out, run it on its own."""
    folder = scratch_folder("reference")
    try:
        with opened(options) as session:
            warn_unfed(session)
            reference = reference_for(session, options.against, folder) if options.against else None
            repro = _made(session, options, reference)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(repro)
    for note in repro.notes:
        say("note: %s" % note)
    return ExitStatus.OK if repro.reproduces else ExitStatus.DIFFERS


def _made(session: Session, options: argparse.Namespace, reference: Optional[Reference]) -> Repro:
    where = _run_to(session, options.at) if options.at else _run_to_failure(session)
    return make_repro(session, where, options.output, reference, options.timeout or 120.0)


def _run_to(session: Session, where: str) -> str:
    """Run through the operators that are meant; returns them as FIRST-LAST."""
    operators = operators_of(session, where)
    stop = session.until(str(operators[0].index))
    if stop.reason not in ("until", "end"):
        raise stop.error("%s lies behind %s: %s" % (operators[0], stop.operator, stop.detail or stop.reason))
    stop = session.step(len(operators))
    if stop.reason == "interrupted":
        raise KeyboardInterrupt
    return "%d-%d" % (operators[0].index, operators[-1].index)


def _run_to_failure(session: Session) -> str:
    stop: Stop = session.cont()
    if stop.reason == "interrupted":
        raise KeyboardInterrupt
    if stop.reason not in ("failed", "died", "timeout"):
        raise UsageError("no operator fails", "name one: --at WHERE")
    return str(stop.position)
