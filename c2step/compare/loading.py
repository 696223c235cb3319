"""Make or open the golden values that a user names, for the command line and the prompt alike."""

import contextlib
import os
import shutil
import sys
import weakref
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional

import numpy as np

from ..digests import of_array, of_header
from ..errors import C2StepError
from ..leftovers import scratch_folder
from ..model import BACKENDS
from ..net import Net
from ..references import (
    Elsewhere,
    Engine,
    Making,
    Match,
    Reference,
    begin_onnxruntime,
    load,
    match_modules,
    onnxruntime_ahead,
    open_onnx_values,
)
from ..stepper import Session
from ..workspace.runtime import find_runtime
from .against import Against
from .lockstep import run_elsewhere, run_imported
from .tolerance import Tolerances

__all__ = ["begin_reference", "engine_ahead", "from_the_start", "load_against", "make_reference", "matched", "strange",
           "undisturbed", "unpatched"]  # fmt: skip

Progress = Callable[[int, int, str], None]


def make_reference(
    session: Session,
    spec: str,
    directory: str,
    name_map: Optional[str] = None,
    engine_runtime: Optional[str] = None,
    timeout: Optional[float] = None,
    match: bool = True,
    progress: Optional[Progress] = None,
    shown: Optional[Callable[[str], None]] = None,
) -> Reference:
    """Make or open what `spec` names (see `references.load`); golden values that are made go into `directory`.

    Module outputs of PyTorch get the names of the blobs they belong to, unless `match` is False; for that
    the session runs once, and stands afterwards where it stood.
    """
    python = _python(session, engine_runtime)
    model = session.model.files.get("onnx")
    found = load(spec, model, session.inputs, directory, python, progress, shown, timeout, name_map)
    if isinstance(found, Elsewhere):
        if found.kind == "backend":
            return run_imported(session, found.value, directory, timeout)
        runtime = found.value if found.kind == "runtime" else "%s:%s" % (found.kind, found.value)
        return run_elsewhere(session, runtime, directory, timeout)
    if os.path.exists(spec):  # what is made just now is of this model and these inputs
        found.notes += strange(session, found)
    if _is_of_another_importer(session, found):
        values = open_onnx_values(found.source, Net.from_json(found.meta["net"]))
        values.notes += found.notes
        return values
    return matched(session, found) if match and found.meta.get("engine") == "torch" else found


def begin_reference(
    session: Session,
    spec: str,
    directory: str,
    name_map: Optional[str] = None,
    engine_runtime: Optional[str] = None,
    timeout: Optional[float] = None,
    match: bool = True,
    progress: Optional[Progress] = None,
    shown: Optional[Callable[[str], None]] = None,
    spare: Optional[Engine] = None,
) -> Making:
    """As `make_reference`, beside what the session does meanwhile where that does not need the session itself.

    `spare` is an engine that was started ahead, see `engine_ahead`; it is closed where it is not of use.
    """
    model = session.model.files.get("onnx")
    python = _python(session, engine_runtime)
    if spare is not None and (spec != "onnxruntime" or not model or spare.python != python):
        spare.kill()
        spare.close()
        spare = None
    if spec == "onnxruntime" and model:
        return begin_onnxruntime(model, session.inputs, directory, python, progress, shown, timeout, spare)
    made = make_reference(session, spec, directory, name_map, engine_runtime, timeout, match, progress, shown)
    return Making(lambda: made)


def engine_ahead(spec: str, runtime: Optional[str] = None, engine_runtime: Optional[str] = None) -> Optional[Engine]:
    """The engine for a reference that will be asked for, starting while the model is opened; None where there is none.

    `runtime` is that of the session.  What is wrong with either is said where it is needed.
    """
    if spec == "onnxruntime":
        with contextlib.suppress(C2StepError):
            python = find_runtime(engine_runtime or runtime).python
            return onnxruntime_ahead(python)
    return None


def load_against(
    session: Session,
    spec: str,
    directory: Optional[str] = None,
    names: Optional[str] = None,
    engine_runtime: Optional[str] = None,
    timeout: Optional[float] = None,
    tolerances: Optional[Tolerances] = None,
    progress: Optional[Progress] = None,
    shown: Optional[Callable[[str], None]] = None,
) -> Against:
    """Load golden values into a session; conditions may ask for them from then on.  See `make_reference`.

    Without a directory, what is made lies in a temporary one that goes away with the result.
    """
    folder = directory or scratch_folder("reference")
    try:
        found = make_reference(session, spec, folder, names, engine_runtime, timeout, True, progress, shown)
    except BaseException:
        if directory is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    rules = tolerances or Tolerances()
    how: Dict[str, Any] = {
        "spec": _absolute(spec),
        "names": names and os.path.abspath(names),
        "engine_runtime": engine_runtime,
    }
    how.update(timeout=timeout, rtol=rules.rtol, atol=rules.atol, tolerance=[str(rule) for rule in rules.rules])
    made = Against(session, found, rules, spec, how)
    if directory is None:
        weakref.finalize(made, shutil.rmtree, folder, True)
    return made


def _absolute(spec: str) -> str:
    """The words of a reference with the file that they name by its whole path."""
    if os.path.exists(spec):
        return os.path.abspath(spec)
    return ":".join(os.path.abspath(part) if os.path.isfile(part) else part for part in spec.split(":"))


def _is_of_another_importer(session: Session, reference: Reference) -> bool:
    """Whether it is a run of the model with other operators, so that only what the model names can be compared."""
    meta, ours = reference.meta, session.spec.get("backend", BACKENDS[0])
    return meta.get("kind") == "run" and session.model.kind == "onnx" and meta.get("backend") not in (None, ours)


def strange(session: Session, reference: Reference) -> List[str]:
    """What tells that golden values were made from another model, or from other inputs, than the session has."""
    notes, made = [], of_header(reference.meta)
    ours = set(session.model.sha256.values())
    if made and not ours & made:
        of = " ".join(str(part) for part in (reference.meta.get("model"), "(sha256 %s...)" % min(made)[:12]) if part)
        notes.append("%s was made from another model, %s, and this is %s" % (reference.source, of, session.model.path))
    listed = reference.meta.get("inputs")
    told = {row["name"]: row for row in listed} if isinstance(listed, list) else listed or {}
    given = {name: np.asarray(array) for name, array in session.inputs.items() if name in told}
    others = [name for name, array in given.items() if _differs(array, told[name])]
    if others:
        notes.append("%s was made from other inputs: %s had other values there" % (reference.source, ", ".join(others)))
    return notes


def _differs(array: np.ndarray, told: Dict[str, Any]) -> bool:
    """Whether an input is another than the one that a header tells of, as far as it tells."""
    if list(array.shape) != told["shape"]:
        return True
    known = bool(told.get("sha256")) and str(array.dtype) == told["dtype"]
    return known and of_array(array) not in ("", told["sha256"])


def _python(session: Session, engine_runtime: Optional[str]) -> str:
    if engine_runtime:
        return find_runtime(engine_runtime).python
    runtime = getattr(session.workspace, "runtime", None)
    return runtime.python if runtime else sys.executable


def matched(session: Session, reference: Reference) -> Reference:
    """The reference with module outputs under the names of the blobs they belong to; each match is a note."""
    position = session.position
    with undisturbed(session), unpatched(session):
        if session.steps:
            session.restart()
        stop = session.cont()
        blobs = [
            (out.name, np.asarray(kept.real()))
            for step in stop.steps
            for out in step.outputs
            for kept in [session.kept(out)]
            if kept is not None and kept.array is not None
        ]
        matches: List[Match] = match_modules(reference, blobs)
    session.restart()
    with undisturbed(session):
        if position:
            session.step(position)
    renamed = reference.renamed({match.blob: match.module for match in matches if match.sure})
    renamed.notes += [
        "%s is module %s (%s)%s" % (match.blob, match.module, match.how, "" if match.sure else ", not compared")
        for match in matches
    ]
    return renamed


@contextmanager
def undisturbed(session: Session) -> Iterator[None]:
    """Inside, no breakpoint stops the session, and an operator that fails does."""
    points = [point for point in session.breakpoints if point.enabled]
    catching, session.catching = session.catching, {"error", "crash"}
    for point in points:
        point.enabled = False
    try:
        yield
    finally:
        session.catching = catching
        for point in points:
            point.enabled = True


@contextmanager
def unpatched(session: Session) -> Iterator[None]:
    """Inside, nothing that runs is patched; begin with a restart, and with another one afterwards."""
    patches, session.changes.patches = session.changes.patches, []
    try:
        yield
    finally:
        session.changes.patches = patches


@contextmanager
def from_the_start(session: Session) -> Iterator[List[str]]:
    """Inside, the session stands at the start, undisturbed and unpatched, and so it does afterwards.

    Gives what to say of the patches that are left out meanwhile.
    """
    left_out = ["left out: the patch %s" % patch for patch in session.changes.patches]
    with undisturbed(session), unpatched(session):
        session.restart()
        yield left_out
    session.restart()
