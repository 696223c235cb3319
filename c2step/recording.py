"""What a session writes as it goes: its capture, and the captures of wrapped operators."""

import fnmatch
import os
import re
import shutil
import tempfile
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .blob import STRING, TENSOR, Blob
from .capture import CaptureWriter, file_name, write_blob
from .errors import UsageError, near
from .history import History, Kept, Step
from .model import Model

__all__ = ["Keep", "Recording", "Wraps", "describe_run"]

Header = Callable[[], Dict[str, Any]]


def describe_run(
    model: Model, inputs: Dict[str, np.ndarray], importing: str, versions: Dict[str, Any]
) -> Dict[str, Any]:
    """What capture.json says of a run: the model, the versions, the inputs."""
    from . import __version__

    return {
        "kind": "run",
        "c2step": __version__,
        "model": model.path,
        "files": model.files,
        "sha256": model.sha256,
        "import": importing,
        "versions": versions,
        "inputs": {name: {"dtype": str(a.dtype), "shape": list(a.shape)} for name, a in inputs.items()},
        "outputs": model.output_names(),
        "notes": list(model.notes),
        "operators": len(model.predict_net),
        "net": model.predict_net.to_json(),
    }


@dataclass(frozen=True)
class Keep:
    """Which blob versions a session keeps: where, up to how many bytes, and of which operators or blobs.

    `directory` None is a temporary one that goes away with the session.  `level` "stats" keeps no
    values.  `on_full` "skip" goes on without keeping more, "stop" stops the run.
    """

    directory: Optional[str] = None
    level: str = "full"
    max_bytes: Optional[int] = None
    types: Tuple[str, ...] = ()
    match: str = ""
    on_full: str = "skip"


class Recording:
    """The capture of one session; its directory is made when it is first needed."""

    def __init__(self, keep: Keep, header: Header) -> None:
        self.keep = keep
        self._header = header
        self._writer: Optional[CaptureWriter] = None
        self._temporary = ""
        self._bytes = self._fed = 0

    @property
    def directory(self) -> str:
        """Where the blob versions are."""
        return self._begun().path

    def _begun(self) -> CaptureWriter:
        if self._writer is None:
            if self.keep.directory is None:
                self._temporary = tempfile.mkdtemp(prefix="c2step-capture-")
            self._writer = CaptureWriter(self.keep.directory or self._temporary)
            self._writer.begin(self._header())
        return self._writer

    def request(self, history: History) -> Dict[str, Any]:
        """What the workspace needs to know to write blobs here."""
        limit = None if self.keep.max_bytes is None else max(self.keep.max_bytes - self._bytes, 0)
        return {
            "directory": self.directory,
            "level": self.keep.level,
            "types": list(self.keep.types),
            "match": self.keep.match,
            "max_bytes": limit,
            "on_full": self.keep.on_full,
            "before": history.unkept_initial() if self.keep.level == "full" else [],
        }

    def add(self, step: Step) -> None:
        """Journal a step."""
        self._begun().add(step.to_json())
        self._bytes += sum(out.summary.nbytes for out in step.outputs if out.file)

    def event(self, kind: str, **what: Any) -> None:
        """Journal what is no operator: going back, a feed."""
        self._begun().add(dict(event=kind, **what))

    def keep_value(self, name: str, array: np.ndarray, tick: int) -> Kept:
        """Write a value that came from outside."""
        return self.keep_blob(Blob(name, STRING if array.dtype.kind in "OSU" else TENSOR, array), tick)

    def keep_blob(self, blob: Blob, tick: int) -> Kept:
        """Write a value that came from outside."""
        self._fed += 1  # so that no two of them, and no two names that look alike, meet in one file
        path = os.path.join(self.directory, file_name(tick, "fed%d" % self._fed, blob.name, blob.kind))
        write_blob(path, blob)
        return Kept(path, blob.kind, blob.summary())

    @property
    def nbytes(self) -> int:
        """The bytes of blobs that steps have written here."""
        return self._bytes

    def keep_up_to(self, limit: Optional[int], on_full: str = "stop") -> None:
        """Keep at most so many bytes of blobs from now on; `on_full` as in `Keep`."""
        self.keep = replace(self.keep, max_bytes=limit, on_full=on_full)

    def write_header(self) -> None:
        """Write capture.json again."""
        self._begun().write_header(self._header())

    def close(self) -> None:
        """Close the journal and take a temporary directory away."""
        if self._writer:
            self._writer.close()
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)


class Wraps:
    """Operator types whose inputs and outputs are saved as they run, each in a capture of its own."""

    def __init__(self, header: Header) -> None:
        self.directories: Dict[str, str] = {}
        self._header = header
        self._writers: Dict[str, CaptureWriter] = {}

    def add(self, pattern: str, types: Sequence[str], save: Optional[str]) -> str:
        """Wrap the types that fit a glob pattern, or one of several with commas between; returns the directory."""
        for part in pattern.split(","):
            if not any(fnmatch.fnmatchcase(name, part) for name in types):
                raise UsageError("no operator has type %s" % part, near(part, types))
        directory = os.path.abspath(save or "wrapped-%s" % re.sub(r"\W", "_", pattern))
        writer = CaptureWriter(directory)
        writer.begin(dict(self._header(), kind="wrap", wrapped=pattern))
        self._writers[directory] = writer
        self.directories[pattern] = directory
        return directory

    def remove(self, pattern: str) -> None:
        """Stop saving."""
        if pattern not in self.directories:
            raise UsageError("%s is not wrapped" % pattern, "wrapped: %s" % (", ".join(self.directories) or "none"))
        directory = self.directories.pop(pattern)
        if directory not in self.directories.values():
            self._writers.pop(directory).close()

    def request(self) -> List[List[str]]:
        """Regular expressions and directories, for the workspace."""
        return [
            [fnmatch.translate(part), directory]
            for pattern, directory in self.directories.items()
            for part in pattern.split(",")
        ]

    def journal(self, step: Step, wrapped: Dict[str, Any]) -> None:
        """Journal a wrapped operator in each of its captures."""
        row = dict(
            step.to_json(),
            inputs=_versioned(wrapped["inputs"], step.inputs),
            outputs=_versioned(wrapped.get("outputs", []), step.outputs),
        )
        for directory in wrapped["directories"]:
            self._writers[directory].add(row)

    def close(self) -> None:
        """Close every journal."""
        for writer in self._writers.values():
            writer.close()


def _versioned(rows: Sequence[Dict[str, Any]], versions: Sequence[Any]) -> List[Dict[str, Any]]:
    known = {v.name: v.version for v in versions}
    return [dict(row, version=known.get(row["name"], 0)) for row in rows]
