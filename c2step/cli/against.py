"""`--against`: the reference that a command compares with."""

import argparse
import os
import sys
import time
from typing import List, Optional

import numpy as np

from ..compare.lockstep import run_elsewhere
from ..compare.tolerance import Tolerances
from ..errors import UsageError
from ..references import Elsewhere, Match, Reference, load, match_modules
from ..stepper import Session
from ..workspace.runtime import find_runtime
from .options import say, show_output

__all__ = ["Progress", "add_tolerances", "reference_for", "tolerances"]


def add_tolerances(parser: argparse.ArgumentParser) -> None:
    """How close is close."""
    group = parser.add_argument_group("tolerance")
    group.add_argument("--rtol", type=float, metavar="R", help="relative tolerance of every float blob")
    group.add_argument("--atol", type=float, metavar="A", help="absolute tolerance of every float blob")
    group.add_argument("--tolerance", action="append", default=[], metavar="PATTERN=R[,A]",
                       help="for blobs whose name fits; type:Softmax=1e-2 for an operator type")  # fmt: skip


def tolerances(options: argparse.Namespace) -> Tolerances:
    """The tolerances that the options give."""
    return Tolerances.parse(*options.tolerance, rtol=options.rtol, atol=options.atol)


def reference_for(session: Session, spec: str, directory: str, name_map: Optional[str] = None,
                  engine_runtime: Optional[str] = None, timeout: Optional[float] = None,
                  match: bool = True) -> Reference:  # fmt: skip
    """Make or open what `--against` names; golden values that are made go into `directory`.

    Module outputs of PyTorch get the names of the blobs they belong to, unless `match` is False.
    """
    python = find_runtime(engine_runtime).python if engine_runtime else _python(session)
    found = load(spec, session.model.files.get("onnx"), session.inputs, directory, python, Progress("reference").node,
                 show_output, timeout, name_map)  # fmt: skip
    if isinstance(found, Elsewhere):
        if found.kind not in ("python", "runtime"):
            raise UsageError("--against %s: not here yet" % spec, "python:PATH compares with another Caffe2")
        return run_elsewhere(
            session, found.value if found.kind == "runtime" else "python:" + found.value, directory, timeout
        )
    return matched(session, found) if match and found.meta.get("engine") == "torch" else found


def _python(session: Session) -> str:
    runtime = getattr(session.workspace, "runtime", None)
    return runtime.python if runtime else sys.executable


def matched(session: Session, reference: Reference) -> Reference:
    """The reference with module outputs under the names of the blobs they belong to; each match is a note."""
    stop = session.cont()
    blobs = [(out.name, np.asarray(kept.real())) for step in stop.steps for out in step.outputs for kept in [session.kept(out)]
             if kept is not None and kept.array is not None]  # fmt: skip
    matches: List[Match] = match_modules(reference, blobs)
    session.restart()
    sure = {match.blob: match.module for match in matches if match.sure}
    renamed = reference.renamed(sure)
    renamed.notes += ["%s is module %s (%s)%s" % (match.blob, match.module, match.how, "" if match.sure else ", not compared")
                      for match in matches]  # fmt: skip
    return renamed


class Progress:
    """How far something long is, on a terminal, twice a second."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._tty = sys.stderr.isatty()
        self._shown = time.monotonic()

    def node(self, at: int, of: int, label: str) -> None:
        """For references."""
        self.show(self.what, at, of, label)

    def show(self, what: str, at: int, of: int, label: str = "") -> None:
        """Show it if half a second has passed."""
        if self._tty and time.monotonic() - self._shown > 0.5:
            self._shown = time.monotonic()
            width = os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else 80
            text = "%s: %d of %d %s" % (what, at, of, label) if of else "%s: %s" % (what, label)
            print("\r" + text[: width - 1].ljust(width - 1) + "\r", end="", file=sys.stderr)


def said(reference: Reference) -> None:
    """Show the reference's notes."""
    for note in reference.notes:
        say("reference: %s" % note)
