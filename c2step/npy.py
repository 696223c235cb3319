"""Reading and writing .npy files fast: numpy's own ways with a header take longer than small files do.

A header that numpy or we wrote in version 1.0 is read with one pattern; anything else is left to numpy.
"""

import contextlib
import functools
import io
import mmap
import os
import re
from typing import Any, List, Optional, Tuple

import numpy as np

__all__ = ["npy_header", "read_npy", "why_unreadable", "write_new", "write_npy"]

_SMALL = 1 << 16  # bytes of a file that is read at once instead of being mapped
_MAGIC = b"\x93NUMPY"
_START = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([<>|=][a-zA-Z]\d+)', 'fortran_order': False, "
    rb"'shape': \((|\d+,|\d+(?:, \d+)+)\), \} *\n",
    re.DOTALL,
)


def read_npy(path: str, mapped: bool = False, private: bool = False) -> np.ndarray:
    """The array of a .npy file: a copy of one's own, or `mapped`, a read-only view.

    A mapped array that is `private` may be written; the file stays as it is.  Raises what numpy.load raises:
    ValueError where it is no .npy file or is cut short, OSError.
    """
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(min(size, _SMALL))
        found = _plain(file, start, size, mapped, private)
    return _by_numpy(path, mapped, private) if found is None else found


def _plain(file: Any, start: bytes, size: int, mapped: bool, private: bool) -> Optional[np.ndarray]:
    """The array where the header is a plain one and the file has just the bytes that it names."""
    match = _START.match(start)
    if match is None or match.end() != 10 + int.from_bytes(match.group(1), "little"):
        return None
    dtype = np.dtype(match.group(2).decode())
    shape = tuple(int(dim) for dim in match.group(3).replace(b",", b" ").split())
    count = 1
    for dim in shape:
        count *= dim
    if not count or dtype.hasobject or match.end() + count * dtype.itemsize != size:
        return None
    if size <= len(start):
        found = np.frombuffer(start, dtype, count, match.end()).reshape(shape)
        return found if mapped and not private else found.copy()
    if not mapped:
        file.seek(match.end())
        return np.fromfile(file, dtype, count).reshape(shape)
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY if private else mmap.ACCESS_READ)
    return np.frombuffer(data, dtype, count, match.end()).reshape(shape)


def _by_numpy(path: str, mapped: bool, private: bool) -> np.ndarray:
    found = None
    if mapped:
        with contextlib.suppress(ValueError):  # an empty array cannot be mapped
            found = np.load(path, mmap_mode="c" if private else "r", allow_pickle=False)
    if found is None:
        found = np.load(path, allow_pickle=False)
    if not isinstance(found, np.ndarray):
        found.close()
        raise ValueError("it is an archive of arrays, no .npy file")
    return np.asarray(found)


def why_unreadable(path: str, error: Exception) -> str:
    """What is wrong with an array's file that could not be read: numpy takes whatever it does not know for a pickle."""
    reason = getattr(error, "strerror", None)
    if reason:
        return str(reason)
    with contextlib.suppress(OSError):
        with open(path, "rb") as file:
            start = file.read(len(_MAGIC))
        if not start:
            return "it is empty"
        if start != _MAGIC and start[:2] != b"PK":
            return "it is no %s file" % (".npz" if path.lower().endswith(".npz") else ".npy")
    if "allow_pickle" in str(error):
        return "it holds Python objects, no numbers"
    return (str(error).split("\n") or [""])[0] or type(error).__name__


@functools.lru_cache(maxsize=1024)
def npy_header(dtype: np.dtype, shape: Tuple[int, ...]) -> bytes:
    """What stands before the values in a .npy file of version 1.0."""
    buffer = io.BytesIO()
    layout: Any = np.lib.format
    described = {"descr": layout.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    layout.write_array_header_1_0(buffer, described)
    return buffer.getvalue()


def write_npy(path: str, array: np.ndarray) -> int:
    """Write an array straight from its memory; see `write_new`."""
    values = np.ascontiguousarray(array).reshape(-1)
    return write_new(path, npy_header(array.dtype, array.shape), values.view(np.uint8).data)


def write_new(path: str, *parts: Any) -> int:
    """Write bytes into a new file and return how many; OSError where that fails.

    An older file of the name goes away first: whoever has it mapped keeps it.
    """
    left: List[Any] = [part for part in parts if len(part)]
    size = sum([len(part) for part in left])
    flags = os.O_WRONLY | os.O_CREAT
    try:
        file = os.open(path, flags | os.O_EXCL, 0o666)
    except FileExistsError:
        with contextlib.suppress(OSError):
            os.remove(path)
        file = os.open(path, flags | os.O_TRUNC, 0o666)
    try:
        while left:
            left = _rest(left, os.writev(file, left))
    finally:
        os.close(file)
    return size


def _rest(parts: List[Any], done: int) -> List[Any]:
    """What is left of some parts when so many bytes are written."""
    while parts and done >= len(parts[0]):
        done -= len(parts[0])
        parts = parts[1:]
    return [memoryview(parts[0])[done:], *parts[1:]] if done else parts
