"""Golden values by name, wherever they come from, read when they are asked for."""

import json
import os
import zipfile
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

import numpy as np

from ..blob import INT8, STRING, TENSOR, Blob
from ..capture import HEADER, Capture, StoredBlob
from ..errors import CaptureError, near
from ..history import Kept
from ..net import Net
from ..npy import why_unreadable

__all__ = ["Reference", "open_capture", "open_folder", "open_npz", "open_onnx_values"]

Load = Callable[[], Blob]
NameMap = Mapping[str, str]

_UNREADABLE = (OSError, ValueError, AttributeError, zipfile.BadZipFile, EOFError)
_NAME_FILES = ("names.json", "ref_names.json")


class Reference:
    """Golden values: `names()`, `get(name)`, and `missing`, the reason for each that is not there.

    A value that was written several times has versions, as in a capture; the last one is meant
    unless a version is given.  `meta` says what made the values, `notes` what one should know.
    """

    def __init__(self, source: str, meta: Optional[Dict[str, Any]] = None, notes: Iterable[str] = ()) -> None:
        self.source = source
        self.meta: Dict[str, Any] = dict(meta or {})
        self.notes: List[str] = list(notes)
        self.missing: Dict[str, str] = {}
        self._values: Dict[str, Dict[int, Load]] = {}
        self._kept: Dict[Load, Kept] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def add(self, name: str, version: int, load: Load, kept: Optional[Kept] = None) -> None:
        """Say where one version of a value is; `kept` is its file, where it has one of its own in a capture."""
        self._values.setdefault(name, {})[version] = load
        if kept is not None:
            self._kept[load] = kept

    def names(self) -> List[str]:
        """Every name that has a value, in the order in which they were made."""
        return list(self._values)

    def versions(self, name: str) -> List[int]:
        """The versions of a value, oldest first."""
        return sorted(self._values.get(name, ()))

    def blob(self, name: str, version: Optional[int] = None) -> Blob:
        """One value with its kind; CaptureError gives the reason where it is missing."""
        versions = self._values.get(name, {})
        wanted = version if version is not None or not versions else max(versions)
        if wanted in versions:
            assert wanted is not None
            return versions[wanted]()
        shown = name if version is None else "%s@%d" % (name, version)
        if name in self.missing:
            raise CaptureError("%s has no %s: %s" % (self.source, shown, self.missing[name]))
        raise CaptureError("%s has no %s" % (self.source, shown), near(name, list(self._values) + list(self.missing)))

    def kept(self, name: str, version: Optional[int] = None) -> Optional[Kept]:
        """The capture's file that holds a value, None where there is none."""
        versions = self._values.get(name, {})
        wanted = version if version is not None or not versions else max(versions)
        return self._kept.get(versions[wanted]) if wanted in versions else None

    def get(self, name: str, version: Optional[int] = None) -> np.ndarray:
        """One value as numbers (of an Int8 blob the real ones), mapped from its file where that is possible."""
        array = self.blob(name, version).real()
        assert array is not None
        return array

    def find(self, name: str, version: Optional[int] = None) -> Optional[np.ndarray]:
        """As `get`, and None where there is no such value."""
        held = self._values.get(name, {})
        return self.get(name, version) if held and (version is None or version in held) else None

    def renamed(self, names: Mapping[str, str]) -> "Reference":
        """The same values under other names: `names` gives for each new name the old one."""
        made = Reference(self.source, self.meta, self.notes)
        for new, old in names.items():
            if old in self._values:
                made._values[new] = self._values[old]
                made._kept.update((load, self._kept[load]) for load in self._values[old].values() if load in self._kept)
            elif old in self.missing:
                made.missing[new] = self.missing[old]
        return made


def open_capture(path: str) -> Reference:
    """The values of any capture: a run of c2step or a reference made earlier."""
    capture = Capture(path)
    reference = Reference(path, capture.header, capture.header.get("notes", ()))
    for stored in capture.blobs():
        if capture.has_value(stored):
            _add_stored(reference, stored.name, stored.version, capture, stored)
    for row in capture.rows:
        _explain(reference, row)
    return reference


def open_onnx_values(path: str, net: Net) -> Reference:
    """The values of a run of `net`, under the names that they have in its ONNX model, whichever importer made it."""
    capture, values = Capture(path), net.onnx_values()
    reference = Reference(path, dict(capture.header, kind="reference"))
    for stored in capture.blobs():
        value = values.get((stored.index, stored.slot)) if stored.index is not None else None
        if value and capture.has_value(stored):
            _add_stored(reference, value, 1, capture, stored)
        elif value:
            reference.missing[value] = stored.summary.text or "its value was not kept"
    return reference


def _add_stored(reference: Reference, name: str, version: int, capture: Capture, stored: StoredBlob) -> None:
    load = _from_capture(capture, stored.name, stored.version)
    kept = Kept(os.path.join(capture.path, stored.file), stored.kind, stored.summary) if stored.file else None
    reference.add(name, version, load, kept)


def _from_capture(capture: Capture, name: str, version: int) -> Load:
    stored = capture.find(name, version)
    mapped = 0 not in stored.summary.shape  # an empty file cannot be mapped
    return lambda: capture.load(name, version, mapped and stored.kind in (TENSOR, INT8))


def _explain(reference: Reference, row: Dict[str, Any]) -> None:
    for out in row.get("outputs", ()):
        if out["name"] not in reference:
            text = (out.get("summary") or {}).get("text", "")
            reference.missing[out["name"]] = text or row.get("error") or "its value was not kept"
    if row.get("note"):
        reference.notes.append("%s: %s" % (_label(row), row["note"]))


def _label(row: Dict[str, Any]) -> str:
    name = row.get("name") or (row["outputs"][0]["name"] if row.get("outputs") else "")
    if row.get("index") is None:
        return "module %s %s" % (name, row["type"])
    return "node %d %s%s" % (row["index"], row["type"], ' "%s"' % name if name else "")


def open_npz(path: str, name_map: Optional[str] = None) -> Reference:
    """The arrays of an .npz file; `ref.npz` takes its names from `ref_names.json` beside it, if there."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            keys = list(archive.files)
    except _UNREADABLE as error:
        raise CaptureError("%s is no .npz file of named arrays: %s" % (path, why_unreadable(path, error))) from error
    names = _names(name_map or _beside(path), keys)
    reference = Reference(path, {"kind": "reference", "engine": "file"})
    for key in keys:
        reference.add(names.get(key, key), 1, _from_archive(path, key, names.get(key, key)))
    return reference


def _from_archive(path: str, key: str, name: str) -> Load:
    def load() -> Blob:
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                array = archive[key]
        except _UNREADABLE as error:
            raise CaptureError("cannot read %s from %s: %s" % (name, path, why_unreadable(path, error))) from error
        return Blob(name, STRING if array.dtype.kind in "SU" else TENSOR, array)

    return load


def _beside(path: str) -> Optional[str]:
    stem = os.path.splitext(path)[0]
    for candidate in (stem + "_names.json", stem + ".names.json"):
        if os.path.exists(candidate):
            return candidate
    return None


def open_folder(path: str, name_map: Optional[str] = None) -> Reference:
    """The .npy files of a folder, under their own names or those that names.json gives them.

    A folder that holds a ref.npz and no .npy file stands for that file.
    """
    try:
        entries = sorted(os.listdir(path))
    except OSError as error:
        raise CaptureError("cannot read %s: %s" % (path, error.strerror or error)) from error
    files = [entry for entry in entries if entry.endswith(".npy")]
    if not files and "ref.npz" in entries:
        return open_npz(os.path.join(path, "ref.npz"), name_map)
    if not files:
        raise CaptureError(
            "%s holds no capture and no .npy file" % path,
            "give a capture, an .npz of named arrays or a folder of .npy files",
        )
    found = next((os.path.join(path, entry) for entry in _NAME_FILES if entry in entries), None)
    names = _names(name_map or found, [file[:-4] for file in files])
    reference = Reference(path, {"kind": "reference", "engine": "files"})
    for file in files:
        name = names.get(file, names.get(file[:-4], file[:-4]))
        reference.add(name, 1, _from_file(os.path.join(path, file), name))
    return reference


def _from_file(path: str, name: str) -> Load:
    def load() -> Blob:
        try:
            try:
                array = np.load(path, mmap_mode="r", allow_pickle=False)
            except ValueError:  # an empty array cannot be mapped
                array = np.load(path, allow_pickle=False)
        except _UNREADABLE as error:
            raise CaptureError("cannot read %s from %s: %s" % (name, path, why_unreadable(path, error))) from error
        return Blob(name, STRING if array.dtype.kind in "SU" else TENSOR, array)

    return load


def _names(path: Optional[str], keys: List[str]) -> Dict[str, str]:
    """The true name of each key, from {key: name}, {name: key} or a list of names for r0, r1, ..."""
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError) as error:
        raise CaptureError("cannot read the names in %s: %s" % (path, error)) from error
    if isinstance(data, list):
        return {"r%d" % number: str(name) for number, name in enumerate(data)}
    if not isinstance(data, dict):
        raise CaptureError("%s is no list and no object of names" % path, 'write {"file": "blob"}')
    return _key_first({str(key): str(value) for key, value in data.items()}, keys)


def _key_first(data: Dict[str, str], keys: List[str]) -> Dict[str, str]:
    known = set(keys) | {key + ".npy" for key in keys}
    if not known & set(data) and known & set(data.values()):
        return {value: key for key, value in data.items()}
    return data


def is_capture(path: str) -> bool:
    """Whether a directory is a capture."""
    return os.path.isfile(os.path.join(path, HEADER))
