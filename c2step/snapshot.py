"""Every blob that a session has now, as a capture: .npy files and a journal of names."""

import os
from typing import Any, Dict, Mapping

from .blob import Blob, BlobSummary
from .capture import CaptureWriter, file_name, write_blob
from .net import BlobVersion, Operator

__all__ = ["save_all"]


def save_all(session: Any, folder: str) -> int:
    """Write every blob that a `stepper.Session` has into a folder; returns how many."""
    writer = CaptureWriter(folder)
    writer.begin(dict(session.header(), kind="snapshot", position=session.position))
    found = session.blobs()
    makers = {BlobVersion(out.name, out.version): step.operator for step in session.steps for out in step.outputs}
    for number, (name, version, _) in enumerate(found):
        blob = session.fetch(name)
        file = None
        if blob.array is not None:
            file = file_name(number, "0", name, blob.kind)
            write_blob(os.path.join(writer.path, file), blob)
        writer.add(_row(makers, blob, blob.summary(), version, file))
    writer.close()
    return len(found)


def _row(
    makers: Mapping[BlobVersion, Operator], blob: Blob, summary: BlobSummary, version: int, file: Any
) -> Dict[str, Any]:
    """A journal row of the operator that made this version of a blob, `index` null when none did."""
    op = makers.get(BlobVersion(blob.name, version))
    entry = {"name": blob.name, "version": version, "kind": blob.kind, "dtype": summary.dtype}
    entry.update(shape=list(summary.shape), file=file, summary=summary.to_json())
    return {
        "index": op.index if op else None,
        "type": op.type if op else "",
        "name": op.name if op else "",
        "node": op.node.label if op and op.node else None,
        "status": "ok",
        "error": None,
        "inputs": [],
        "outputs": [entry],
    }
