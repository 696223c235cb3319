"""Writes what operators read and wrote into the directories of captures.  Worker side only."""

import os
import re
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import numpy as np

from ..blob import TENSOR, Blob, BlobSummary, summarize, summarize_tensor
from ..capture import NPY_HEADER, file_name, write_blob
from ..errors import CaptureError
from . import reader

__all__ = ["Recorder"]


class Recorder:
    """Writes outputs into a capture's directory, as far as its filters and its limit allow."""

    def __init__(self, record: Optional[Dict[str, Any]], wraps: Sequence[Tuple[str, str]]) -> None:
        self._record = record
        self._left: Optional[int] = None
        self._types = set(record.get("types") or ()) if record else set()
        self._match = re.compile(record["match"]) if record and record.get("match") else None
        self._wraps = [(re.compile(pattern), directory) for pattern, directory in wraps]
        self._before: Set[str] = set()
        self._full = bool(record) and (record or {}).get("level", "full") == "full"
        self._packs = bool(record and record.get("packs"))
        self._chosen = bool(self._types or self._match)
        self.directory = record["directory"] if record else ""

    def begin(self, left: Optional[int]) -> None:
        """A run begins, which may keep so many bytes; None for any number."""
        self._left = left
        self._before = set(self._record.get("before") or ()) if self._record else set()

    @property
    def looks_before(self) -> bool:
        """Whether there may be anything to save before an operator runs."""
        return bool(self._before or self._wraps)

    def before(self, op: Any) -> List[str]:
        """The blobs whose initial value this operator is about to overwrite, each once."""
        names = [name for name in dict.fromkeys(op.output + op.unnamed) if name in self._before]
        self._before.difference_update(names)
        return names

    def wraps(self, op: Any) -> List[str]:
        """The directories into which this operator's inputs and outputs go."""
        return [directory for pattern, directory in self._wraps if pattern.match(op.type)]

    def save_all(self, directories: Sequence[str], tick: int, side: str, names: Sequence[str]) -> List[Dict[str, Any]]:
        """Save blobs of a wrapped operator into each directory."""
        rows = []
        for slot, name in enumerate(names):
            blob = reader.read(name, view=True)
            row = _row(blob)
            if blob.array is not None:
                row["file"] = file_name(tick, "%s%d" % (side, slot), name, blob.kind)
                for directory in directories:
                    write_blob(os.path.join(directory, row["file"]), blob)
            rows.append(row)
        return rows

    def shared(self, tick: int, names: Sequence[str]) -> List[Dict[str, Any]]:
        """The rows of blobs that share storage with an output, with their values where those are kept."""
        return (
            self.save_all([self.directory], tick, "shared", names) if self._full else self.describe(map(_view, names))
        )

    def describe(self, blobs: Iterable[Blob]) -> List[Dict[str, Any]]:
        """The rows of blobs whose bytes are not kept."""
        return [_row(blob) for blob in blobs]

    def record(self, op: Any, tick: int, blobs: Sequence[Blob]) -> Optional[List[Dict[str, Any]]]:
        """Write what is wanted and return the rows; None where the limit on bytes would be passed."""
        wanted = [self._wanted(op, blob.name) for blob in blobs]
        size = sum(b.array.nbytes + NPY_HEADER for b, w in zip(blobs, wanted) if w and b.array is not None)
        if self._left is not None and size > self._left:
            if self._record and self._record.get("on_full") == "skip":
                wanted = [False] * len(blobs)
                size = 0
            else:
                return None
        rows = []
        for slot, (blob, keep) in enumerate(zip(blobs, wanted)):
            if keep and blob.array is not None:
                file = file_name(tick, str(slot), blob.name, blob.kind)
                write_blob(os.path.join(self.directory, file), blob)
                rows.append(_row(blob, file))
            else:
                rows.append(_row(blob))
        if self._left is not None:
            self._left -= size
        return rows

    def packs(self, op: Any, name: str, size: int) -> Optional[bool]:
        """Whether the front is to keep the bytes of a small tensor, which it gets in any case.

        None where they belong into a file of their own, or the limit on bytes would be passed.
        """
        if not self._full or (self._chosen and not self._wanted(op, name)):
            return False
        return True if self._packs and self._takes(size + NPY_HEADER) else None

    def record_only(self, op: Any, tick: int, array: np.ndarray) -> Optional[Tuple[BlobSummary, Optional[str]]]:
        """The summary of a tensor that is an operator's only output, and its file, None where it is not kept.

        None where the limit on bytes would be passed, or the disk is full.
        """
        if not self._wanted(op, op.only):
            return summarize_tensor(array), None
        size = array.nbytes + NPY_HEADER
        if not self._takes(size):
            return None
        file = file_name(tick, "0", op.only)
        try:
            write_blob(os.path.join(self.directory, file), Blob(op.only, TENSOR, array))
            return summarize_tensor(array), file
        except CaptureError:
            self._takes(-size)
            return None

    def _takes(self, size: int) -> bool:
        """Whether there is room for so many bytes, which then are taken."""
        if self._left is None:
            return True
        if size > self._left:
            return False
        self._left -= size
        return True

    def _wanted(self, op: Any, name: str) -> bool:
        if not self._full:
            return False
        if self._types and op.type not in self._types:
            return False
        return not self._match or self._match.search(name) is not None


def _view(name: str) -> Blob:
    return reader.read(name, view=True)


def _row(blob: Blob, file: Optional[str] = None) -> Dict[str, Any]:
    summary = summarize(blob)
    return {
        "name": blob.name,
        "kind": blob.kind,
        "dtype": summary.dtype,
        "shape": list(summary.shape),
        "file": file,
        "summary": summary.to_json(),
    }
