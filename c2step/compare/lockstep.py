"""The same run elsewhere: the same nets on another runtime, or the same model by another importer."""

import tempfile
from typing import List, Optional, Sequence

from ..errors import UsageError, near
from ..launch import open_session
from ..model import BACKENDS
from ..recording import Keep
from ..references import Reference, open_capture, open_onnx_values
from ..stepper import Session, Stop
from ..workspace.process import ProcessWorkspace
from ..workspace.runtime import Runtime

__all__ = ["imported_values", "open_imported", "run_elsewhere", "run_imported", "run_through"]


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
            other.workspace.watch = session.workspace.watch
            run_through(other)
    reference = open_capture(directory)
    reference.notes = []
    return reference


def run_imported(session: Session, backend: str, directory: str, timeout: Optional[float] = None) -> Reference:
    """Run the session's ONNX model as another importer makes it, on the same runtime, past operators that fail.

    The two nets have other operators, so values go by the names that the model gives them.
    """
    with open_imported(session, backend, directory, timeout) as other:
        return imported_values(other, directory, run_through(other))


def open_imported(session: Session, backend: str, directory: str, timeout: Optional[float] = None) -> Session:
    """The session's ONNX model and inputs, opened by another importer on the same runtime, with a capture."""
    if backend not in BACKENDS:
        raise UsageError("there is no backend %s" % backend, near(backend, BACKENDS) or "; ".join(BACKENDS))
    if session.model.kind != "onnx":
        raise UsageError("backend:%s converts ONNX models, and these are Caffe2 nets" % backend)
    other = open_session(
        session.spec["model"],
        session.inputs,
        runtime=_same_runtime(session),
        in_process=not isinstance(session.workspace, ProcessWorkspace),
        dims=session.spec.get("dims"),
        partial=session.spec.get("partial", False),
        timeout=timeout,
        keep=Keep(directory),
        backend=backend,
    )
    other.workspace.watch = session.workspace.watch
    for name in set(session.drawn) & set(other.drawn):
        other.feed(name, session.drawn[name])
    return other


def imported_values(other: Session, directory: str, failed: Sequence[Stop]) -> Reference:
    """What a session of `open_imported` has computed, and why other values are missing."""
    net = other.model.predict_net
    reference, values = open_onnx_values(directory, net), net.onnx_values()
    reference.source, reference.notes = "backend:%s" % other.spec["backend"], list(other.model.notes)
    for stop in failed:
        assert stop.operator
        reason = "%s %s there: %s" % (stop.operator, stop.reason, stop.detail)
        places = ((stop.operator.index, slot) for slot in range(len(stop.operator.outputs)))
        reference.missing.update((values[place], reason) for place in places if place in values)
    return reference


def _same_runtime(session: Session) -> Optional[str]:
    """The session's runtime as --runtime names it."""
    if not isinstance(session.workspace, ProcessWorkspace):
        return None
    runtime = session.workspace.runtime
    return "python:" + runtime.python if isinstance(runtime, Runtime) else str(runtime)
