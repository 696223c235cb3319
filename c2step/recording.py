"""What a session writes as it goes: its capture."""

import contextlib
import os
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .blob import STRING, TENSOR, Blob
from .capture import NPY_HEADER, PACK, CaptureWriter, Pack, file_name, write_blob
from .history import Kept, Step
from .journal import Journal
from .model import BACKENDS, Model

__all__ = ["Keep", "Recording", "describe_run"]

TEMPORARY = "c2step-capture-"
_LATE = 0.05  # seconds
Header = Callable[[], Dict[str, Any]]


def describe_run(
    model: Model, inputs: Dict[str, np.ndarray], importing: Dict[str, str], versions: Dict[str, Any]
) -> Dict[str, Any]:
    """What capture.json says of a run: the model and how it was imported, the versions, the inputs."""
    from . import __version__

    return {
        "kind": "run",
        "c2step": __version__,
        "model": model.path,
        "files": model.files,
        "sha256": model.sha256,
        "import": importing.get("import", "faithful"),
        "backend": importing.get("backend", BACKENDS[0]) if model.kind == "onnx" else None,
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
    values.  `on_full` "skip" goes on without keeping more, "stop" stops the run.  `resume` goes on with the
    capture that is in `directory`.  Without `journal` the values alone are written, for runs that nothing
    reads afterwards; the directory must be there, and stays.
    """

    directory: Optional[str] = None
    level: str = "full"
    max_bytes: Optional[int] = None
    types: Tuple[str, ...] = ()
    match: str = ""
    on_full: str = "skip"
    resume: bool = False
    journal: bool = True


class Recording:
    """The capture of one session; its directory is made when it is first needed.

    `lasting`: a temporary one outlives this session, as one that was resumed does until it is ended for good.
    """

    def __init__(self, keep: Keep, header: Header) -> None:
        self.keep = keep
        self._header = header
        self._writer: Optional[CaptureWriter] = None
        self._pack: Optional[Pack] = None
        self._journal = Journal()
        self._steps: List[Step] = []  # still to be journalled
        self.journalled = 0  # how many were
        self._when = 0.0
        self.late = False  # whether a step may be written some milliseconds after it ran
        self._temporary = ""
        self.lasting = keep.resume
        self._bytes = self._fed = self._ran = 0

    @property
    def directory(self) -> str:
        """Where the blob versions are."""
        if not self.keep.journal and self.keep.directory:
            return self.keep.directory
        return self._begun().path

    def _begun(self) -> CaptureWriter:
        if self._writer is None:
            if self.keep.directory is None:
                self._temporary = tempfile.mkdtemp(prefix=TEMPORARY)
            self._writer = CaptureWriter(self.keep.directory or self._temporary)
            if self.keep.resume:
                self._resume(self._writer)
            else:
                self._writer.begin(self._header())
        return self._writer

    def _resume(self, writer: CaptureWriter) -> None:
        """Go on with a capture; one that was temporary goes away when it is no longer `lasting`."""
        writer.resume()
        names = os.listdir(writer.path)
        self._fed = len(names)
        self._ran = 1 + max([int(name[:6]) for name in names if name[:6].isdigit()], default=-1)
        self._bytes = sum(
            os.path.getsize(os.path.join(writer.path, name)) for name in names if name.endswith((".npy", ".pack"))
        )
        if os.path.basename(writer.path).startswith(TEMPORARY):
            self._temporary = writer.path

    @property
    def tick(self) -> int:
        """The number of the next operator in names of files: none comes twice, also where steps were undone."""
        return self._ran

    def request(self, before: List[str]) -> Dict[str, Any]:
        """What the workspace needs to know to write blobs here; `before`: initial values to be kept."""
        return {
            "directory": self.directory,
            "level": self.keep.level,
            "types": list(self.keep.types),
            "match": self.keep.match,
            "on_full": self.keep.on_full,
            "packs": bool(self._temporary) or not self.keep.journal,
            "before": before if self.keep.level == "full" else [],
        }

    @property
    def left(self) -> Optional[int]:
        """How many bytes of blobs may still be kept; None for any number."""
        return None if self.keep.max_bytes is None else max(self.keep.max_bytes - self._bytes, 0)

    def add(self, step: Step) -> None:
        """Journal a step; it is written by `flush`."""
        self._ran += 1
        if self.keep.journal:
            self._steps.append(step)
        for out in step.written:
            if out.file and PACK not in out.file:
                self._bytes += out.summary.nbytes + NPY_HEADER

    def pack(self, dtype: str, shape: Tuple[int, ...], data: bytes) -> str:
        """Keep the bytes of a small tensor; the name of its file.  They are written by `flush`."""
        if self._pack is None:
            self._pack = Pack(self.directory)
        self._bytes += len(data) + NPY_HEADER
        return self._pack.add(dtype, shape, data)

    def flush(self) -> None:
        """Write what was added: first the values, then the journal that names them."""
        if self._pack is not None:
            self._pack.flush()
        self._when = time.monotonic()
        if self._steps:
            self._begun().add_lines("".join(map(self._journal.line, self._steps)))
            self.journalled += len(self._steps)
            self._steps = []  # where there is no room for them they wait for the next time

    def flush_in_time(self) -> None:
        """Write what was added, unless that may still wait."""
        if not self.late or time.monotonic() - self._when > _LATE:
            self.flush()

    def take_back(self, steps: Sequence[Step]) -> None:
        """Take away what the last steps wrote; the journal must say already that they do not count."""
        outputs = [out for step in steps for out in step.written if out.file]
        self._bytes = max(0, self._bytes - sum([out.summary.nbytes + NPY_HEADER for out in outputs]))
        packed = [int(str(out.file).rpartition("#")[2]) for out in outputs if PACK in str(out.file)]
        for out in outputs:
            if PACK not in str(out.file):
                with contextlib.suppress(OSError):
                    os.remove(os.path.join(self.directory, str(out.file)))
        if packed:
            self._pack = self._pack or Pack(self.directory)
            self._pack.cut(min(packed))

    def event(self, kind: str, **what: Any) -> None:
        """Journal what is no operator: going back, a feed."""
        if self._steps:
            self.flush()
        if self.keep.journal:
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
        if self.keep.journal:
            self._begun().write_header(self._header())

    def close(self) -> None:
        """Close the journal and take a temporary directory away, unless that is `lasting`."""
        if self._pack is not None:
            self._pack.close()
        if self._writer:
            self._writer.close()
        if self._temporary and not self.lasting:
            shutil.rmtree(self._temporary, ignore_errors=True)
