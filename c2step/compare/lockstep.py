"""The same run elsewhere: the same nets on another runtime, or the same model by another importer."""

import tempfile
from typing import List, Optional

from ..errors import UsageError, near
from ..launch import open_session
from ..model import BACKENDS
from ..recording import Keep
from ..references import Reference, open_capture, open_onnx_values
from ..stepper import Session, Stop
from ..workspace.process import ProcessWorkspace
from ..workspace.runtime import Runtime

__all__ = ["run_elsewhere", "run_imported", "run_through"]


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


def run_imported(session: Session, backend: str, directory: str, timeout: Optional[float] = None) -> Reference:
    """Run the session's ONNX model as another importer makes it, on the same runtime, past operators that fail.

    The two nets have other operators, so values go by the names that the model gives them.
    """
    if backend not in BACKENDS:
        raise UsageError("there is no backend %s" % backend, near(backend, BACKENDS) or "; ".join(BACKENDS))
    if session.model.kind != "onnx":
        raise UsageError("backend:%s converts ONNX models, and these are Caffe2 nets" % backend)
    spec = session.spec
    with open_session(
        spec["model"],
        session.inputs,
        runtime=_same_runtime(session),
        in_process=not isinstance(session.workspace, ProcessWorkspace),
        dims=spec.get("dims"),
        partial=spec.get("partial", False),
        timeout=timeout,
        keep=Keep(directory),
        backend=backend,
    ) as other:
        for name in set(session.drawn) & set(other.drawn):
            other.feed(name, session.drawn[name])
        failed = run_through(other)
        net, notes = other.model.predict_net, list(other.model.notes)
    reference = open_onnx_values(directory, net)
    reference.source, reference.notes = "backend:" + backend, notes
    values = net.onnx_values()
    for stop in failed:
        assert stop.operator
        for slot in range(len(stop.operator.outputs)):
            reference.missing[values.get((stop.operator.index, slot), "")] = "%s %s there: %s" % (
                stop.operator,
                stop.reason,
                stop.detail,
            )
    return reference


def _same_runtime(session: Session) -> Optional[str]:
    """The session's runtime as --runtime names it."""
    if not isinstance(session.workspace, ProcessWorkspace):
        return None
    runtime = session.workspace.runtime
    return "python:" + runtime.python if isinstance(runtime, Runtime) else str(runtime)
