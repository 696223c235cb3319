"""`--against`: the reference that a command compares with."""

import argparse
from typing import Optional

from ..compare.loading import begin_reference, make_reference
from ..compare.tolerance import Tolerances
from ..references import Engine, Making, Reference
from ..stepper import Session
from .options import progress_of, say, show_output

__all__ = ["add_tolerances", "begin_reference_for", "reference_for", "tolerances", "tolerances_of"]


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


def tolerances_of(session: Session, options: argparse.Namespace) -> Tolerances:
    """The tolerances that the options give; UsageError for one that fits nothing in the session's net."""
    found, net = tolerances(options), session.model.predict_net
    found.check(net.blobs(), dict.fromkeys(op.type for op in net.operators))
    return found


def reference_for(
    session: Session,
    spec: str,
    directory: str,
    name_map: Optional[str] = None,
    engine_runtime: Optional[str] = None,
    timeout: Optional[float] = None,
    match: bool = True,
) -> Reference:
    """Make or open what `--against` names, and show how far it is; see `make_reference`."""
    progress = progress_of(session)
    with progress.over():
        return make_reference(session, spec, directory, name_map, engine_runtime, timeout, match,
                              progress.node, show_output)  # fmt: skip


def begin_reference_for(
    session: Session, options: argparse.Namespace, directory: str, spare: Optional[Engine] = None
) -> Making:
    """The same for what a command's options name, beside what the session does meanwhile; see `engine_ahead`."""
    progress = progress_of(session).node
    return begin_reference(session, options.against, directory, options.names, options.engine_runtime,
                           options.timeout, True, progress, show_output, spare)  # fmt: skip


def said(reference: Reference) -> None:
    """Show the reference's notes."""
    for note in reference.notes:
        say("reference: %s" % note)
