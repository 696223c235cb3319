"""Values that a framework gives, as rows of a capture's journal."""

import os
from typing import Any, Dict, Sequence, Tuple

import numpy as np

from c2step.blob import STRING, TENSOR, Blob
from c2step.capture import file_name, write_blob

__all__ = ["row", "stored"]


def stored(folder: str, tick: int, slot: int, name: str, array: np.ndarray) -> Dict[str, Any]:
    """Write an array and return its entry of a row."""
    blob = Blob(name, STRING if array.dtype.kind in "OSU" else TENSOR, np.ascontiguousarray(array))
    file = file_name(tick, "o%d" % slot, name, blob.kind)
    write_blob(os.path.join(folder, file), blob)
    summary = blob.summary()
    return {
        "name": name,
        "version": 1,
        "kind": blob.kind,
        "dtype": summary.dtype,
        "shape": list(array.shape),
        "file": file,
        "summary": summary.to_json(),
    }


def row(
    folder: str, tick: int, kind: str, name: str, values: Sequence[Tuple[str, Any]], note: str = ""
) -> Dict[str, Any]:
    """The row of one layer or operation with its named values."""
    outputs = [stored(folder, tick, slot, key, np.asarray(value)) for slot, (key, value) in enumerate(values)]
    return {"index": None, "type": kind, "name": name, "node": None, "status": "ok", "error": "", "inputs": [],
            "outputs": outputs, "note": note}  # fmt: skip
