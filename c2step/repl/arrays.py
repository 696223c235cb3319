"""Values from files, for `compare` and `feed`: .npy, .npz, an ONNX TensorProto, or a capture."""

import os
import zipfile
from typing import Any, List, Optional, Tuple

import numpy as np

from ..blob import STRING, TENSOR, Blob
from ..capture import Capture
from ..errors import InputError, near
from ..npy import why_unreadable
from ..render import quote
from .context import Context

__all__ = ["read_value", "taken"]


def read_value(context: Context, path: str, name: str, version: Optional[int] = None) -> Blob:
    """The value that a file holds; in an .npz or a capture the one called `name`, or the only one: its name tells."""
    if os.path.isdir(path):
        capture = Capture(path)
        return capture.load(name if name in capture.names() else _only(capture.names(), path, name), version)
    if path.endswith(".pb"):
        return _read_proto(context, path)
    member, array = _read_numpy(path, name)
    return Blob(member, STRING if array.dtype.kind in "OSU" else TENSOR, array)


def _read_proto(context: Context, path: str) -> Blob:
    read = getattr(context.session.workspace, "read_tensor", None)
    if read is None:  # the front decodes no protobuf
        raise InputError("reading %s needs the worker process" % quote(path), "give a .npy or .npz file")
    found: Blob = read(path)
    return found


def _only(names: Any, path: str, name: str) -> str:
    if len(names) == 1:
        return str(names[0])
    hint = near(name, names) or "it holds %s" % ", ".join(map(quote, list(names)[:8]))
    raise InputError("%s holds no array %s" % (quote(path), quote(name)), hint)


def taken(path: str, name: str, value: Blob) -> List[str]:
    """A line that says so where a file's only value, of another name, was taken."""
    several = os.path.isdir(path) or path.endswith(".npz")
    if not several or value.name == name:
        return []
    return ["note: %s holds no %s; its only array, %s, is taken" % (quote(path), quote(name), quote(value.name))]


def _read_numpy(path: str, name: str) -> Tuple[str, np.ndarray]:
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return name, found
        with found:
            member = name if name in found.files else _only(found.files, path, name)
            return member, np.asarray(found[member])
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError("cannot read %s: %s" % (quote(path), why_unreadable(path, error))) from None
