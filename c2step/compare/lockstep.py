"""Two Caffe2 versions in lockstep: the same nets, the same inputs, on another runtime."""

import tempfile
from typing import List, Optional

from ..launch import open_session
from ..recording import Keep
from ..references import Reference, open_capture
from ..stepper import Session, Stop

__all__ = ["run_elsewhere", "run_through"]


def run_through(session: Session) -> List[Stop]:
    """Run to the end of predict_net, past operators that fail, and return the stops at those.

    KeyboardInterrupt where the user stops it.
    """
    failed = []
    stop = session.cont()
    while stop.reason in ("failed", "died", "timeout"):
        failed.append(stop)
        session.skip()
        stop = session.cont()
    if stop.reason == "interrupted":
        raise KeyboardInterrupt
    session.finish(stop)
    return failed


def run_elsewhere(session: Session, runtime: str, directory: str, timeout: Optional[float] = None) -> Reference:
    """Run the session's nets on another runtime into a capture, past operators that fail there.

    The nets are those that this session's runtime made, so operator indices and versions agree.
    """
    with tempfile.TemporaryDirectory(prefix="c2step-nets-") as nets:
        paths = session.workspace.convert(nets)
        with open_session(
            None, session.inputs, paths[0], paths[1], runtime, timeout=timeout, keep=Keep(directory)
        ) as other:
            for name, array in session.drawn.items():
                other.feed(name, array)
            run_through(other)
    reference = open_capture(directory)
    reference.notes = []
    return reference
