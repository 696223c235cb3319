"""SHA-256 of files, computed in the background: a model of half a gigabyte takes as long to hash as to open."""

import hashlib
import os
import threading
from typing import Any, Dict, FrozenSet, Iterable, Mapping, Optional

import numpy as np

from .errors import ModelError

__all__ = ["Digests", "of_array", "of_header"]

_PART = 1 << 22  # bytes at a time; hashing lets other threads run meanwhile


class Digests:
    """The digests of some files, by file name; reading begins at once."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = list(paths)
        self._found: Dict[str, str] = {}
        self._failed: Optional[OSError] = None
        self._thread = threading.Thread(target=self._run, name="c2step-digests", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for path in self._paths:
                self._found[os.path.basename(path)] = _sha256(path)
        except OSError as error:
            self._failed = error

    def all(self) -> Dict[str, str]:
        """Every digest in hexadecimal, as soon as they are there; ModelError where a file cannot be read."""
        self._thread.join()
        if self._failed:
            raise ModelError("cannot read %s: %s" % (self._failed.filename, self._failed.strerror))
        return dict(self._found)

    def of(self, path: str) -> str:
        """The digest of one of them."""
        return self.all()[os.path.basename(path)]


def of_header(header: Mapping[str, Any]) -> FrozenSet[str]:
    """The digests of the model's files that a capture's header tells of; empty where it tells none."""
    told = header.get("sha256")
    found = told.values() if isinstance(told, dict) else [told]
    return frozenset(digest for digest in found if isinstance(digest, str) and digest)


def of_array(array: np.ndarray) -> str:
    """The digest of an array's elements in their order; empty where they are Python objects."""
    return "" if array.dtype.kind == "O" else hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        for part in iter(lambda: file.read(_PART), b""):
            digest.update(part)
    return digest.hexdigest()
