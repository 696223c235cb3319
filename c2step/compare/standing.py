"""Golden values for one input after another, from what stays open between them.

Engines keep what they have read and prepared, another Caffe2 keeps its nets; files are one reference for each input.
"""

import os
import tempfile
from typing import Any, Callable, Dict, List, Optional, Sequence

from ..errors import CaptureError, UsageError
from ..launch import open_session
from ..recording import Keep
from ..references import Elsewhere, Maker, Reference, maker, open_capture, open_files
from ..references.archive import archive_of, open_archive
from ..references.reference import is_capture
from ..stepper import Session, Stop
from ..workspace.runtime import find_runtime
from .loading import matched
from .lockstep import imported_values, open_imported, run_through

__all__ = ["GOLDEN_FOLDER", "Source", "open_source"]

GOLDEN_FOLDER = "a sweep needs them for each: a folder with a capture, a folder or an .npz for each input, by its name"
Shown = Callable[[str], None]


class Source:
    """Where golden values come from; `deaths` counts how often a process of its own ended on the way."""

    deaths = 0

    def make(self, session: Session, key: str, directory: str) -> Reference:
        """The golden values of the session's inputs, in a new directory; `key` names the input."""
        raise NotImplementedError

    def about(self, reference: Reference) -> Dict[str, Any]:
        """What must be the same for every input: the engine, its versions, what it read."""
        return {key: reference.meta[key] for key in ("engine", "sha256", "opset", "versions") if key in reference.meta}

    def file(self, key: str) -> Optional[str]:
        """The file or folder that holds the golden values of one input, None where they are made."""
        return None

    def pids(self) -> List[int]:
        """The processes that belong to it."""
        return []

    def close(self) -> None:
        """Let go of everything."""


def open_source(
    spec: str,
    model: Dict[str, str],
    names: Optional[str] = None,
    engine_runtime: Optional[str] = None,
    timeout: Optional[float] = None,
    shown: Optional[Shown] = None,
) -> Source:
    """The source that `--against` names; `model` gives the model's files, as `Model.files` does."""
    python = find_runtime(engine_runtime).python
    found = maker(spec, model.get("onnx"), python, shown, timeout)
    if isinstance(found, Maker):
        return _Engine(found)
    if isinstance(found, Elsewhere):
        return (_Imported if found.kind == "backend" else _Elsewhere)(found, timeout)
    return _Files(spec, names)


class _Engine(Source):
    def __init__(self, engine: Maker) -> None:
        self._engine = engine

    def make(self, session: Session, key: str, directory: str) -> Reference:
        before = self._engine.deaths
        try:
            found = self._engine.make(session.inputs, directory)
        finally:
            self.deaths += self._engine.deaths - before
        return matched(session, found) if found.meta.get("engine") == "torch" else found

    def pids(self) -> List[int]:
        return [self._engine.pid] if self._engine.pid else []

    def close(self) -> None:
        self._engine.close()


class _Elsewhere(Source):
    """The same nets on another runtime, opened once for each time that they are converted."""

    def __init__(self, where: Elsewhere, timeout: Optional[float]) -> None:
        self._where = where
        self._timeout = timeout
        self._other: Optional[Session] = None
        self._of: Optional[Session] = None

    def make(self, session: Session, key: str, directory: str) -> Reference:
        other = self._opened(session, directory)
        failed = run_through(other)
        self.deaths += sum(stop.reason != "failed" for stop in failed)
        reference = self._values(other, directory, failed)
        reference.notes = []
        return reference

    def _opened(self, session: Session, directory: str) -> Session:
        if self._other is not None and self._of is session:
            self._other.restart(Keep(directory), session.inputs)
        else:
            self.close()
            self._other, self._of = self._open(session, directory), session
        for name, array in session.drawn.items():
            self._other.feed(name, array)
        return self._other

    def _open(self, session: Session, directory: str) -> Session:
        where, timeout = self._where, self._timeout
        runtime = where.value if where.kind == "runtime" else "%s:%s" % where
        with tempfile.TemporaryDirectory(prefix="c2step-nets-") as nets:
            paths = session.workspace.convert(nets)
            return open_session(
                None, session.inputs, paths[0], paths[1], runtime, timeout=timeout, keep=Keep(directory)
            )

    def _values(self, other: Session, directory: str, failed: Sequence[Stop]) -> Reference:
        return open_capture(directory)

    def about(self, reference: Reference) -> Dict[str, Any]:
        versions = {name: v for name, v in reference.meta.get("versions", {}).items() if name != "executable"}
        return {"engine": "caffe2", "versions": versions}

    def pids(self) -> List[int]:
        pid = getattr(self._other.workspace, "pid", None) if self._other is not None else None
        return [pid] if pid else []

    def close(self) -> None:
        if self._other is not None:
            self._other.close()
        self._other = self._of = None


class _Imported(_Elsewhere):
    """The same model by another importer, on the same runtime."""

    def _open(self, session: Session, directory: str) -> Session:
        return open_imported(session, self._where.value, directory, self._timeout)

    def _values(self, other: Session, directory: str, failed: Sequence[Stop]) -> Reference:
        return imported_values(other, directory, failed)


class _Files(Source):
    """A folder with a reference for each input, under the input's name: a capture, a folder or an .npz."""

    def __init__(self, folder: str, names: Optional[str]) -> None:
        self._folder, self._names = folder, names
        archive, case = archive_of(folder) if os.path.isdir(folder) else ("", "")
        if case or os.path.isfile(folder) or is_capture(folder):
            raise UsageError("%s holds the golden values of one input" % folder, GOLDEN_FOLDER)
        self._archive = open_archive(archive) if archive else None
        if self._archive is None and not os.path.isdir(folder):
            open_files(folder)  # says that there is none, and what it may be

    def make(self, session: Session, key: str, directory: str) -> Reference:
        if self._archive is not None:
            return self._archive.reference(key)
        path = self.file(key)
        if path is None:
            raise CaptureError("%s has no golden values for %s" % (self._folder, key), "%s.npz is looked for" % key)
        return open_files(path, self._names)

    def about(self, reference: Reference) -> Dict[str, Any]:
        return {"engine": "files"}

    def file(self, key: str) -> Optional[str]:
        if self._archive is not None:
            found = os.path.join(self._archive.path, "cases", key)
            return found if os.path.isdir(found) else None
        return next((path for path in (os.path.join(self._folder, key + end) for end in ("", ".npz"))
                     if os.path.exists(path)), None)  # fmt: skip
