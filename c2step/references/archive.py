"""An archive: golden values with their inputs and versions in one folder, which is checked when it is opened.

    manifest.json     what made it, size and SHA-256 of every file, and the SHA-256 of what it says itself
    model/            the model's files, if they were given
    cases/NAME/       a capture each, inputs and preprocessing included

It is the accuracy data set that one keeps for every later upgrade: what it holds is either exactly what was
put in, or it is not opened.
"""

import hashlib
import json
import os
import shutil
import time
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from ..capture import HEADER, JOURNAL, Capture, disk_error
from ..digests import of_header
from ..errors import CaptureError, UsageError, near
from .reference import Reference, open_capture
from .whole import check_whole

__all__ = ["Archive", "archive_of", "make_archive", "open_archive"]

MANIFEST = "manifest.json"
FORMAT = 2
_READ = (1, 2)  # format 1 had no hash of its own
_OWN = "sha256"  # of the manifest without this entry


class Archive:
    """An archive whose files have been checked: `manifest`, `cases()`, and `reference(case)`."""

    def __init__(self, path: str, manifest: Mapping[str, Any]) -> None:
        self.path = path
        self.manifest = manifest

    def cases(self) -> List[str]:
        """The names of the cases."""
        return list(self.manifest["cases"])

    def check(self) -> None:
        """Look into every case too: CaptureError names a capture that was not whole when it was archived."""
        _check_model(self.manifest["cases"], {
            os.path.basename(name): told["sha256"] for name, told in self.manifest["files"].items()
            if name.startswith("model/")
        })  # fmt: skip
        for name in self.cases():
            check_whole(os.path.join(self.path, "cases", name))

    def reference(self, case: str = "") -> Reference:
        """The golden values of a case; the only one unless named."""
        names = self.cases()
        if not case and len(names) != 1:
            raise UsageError("%s has %d cases" % (self.path, len(names)), "name one: %s" % ", ".join(
                os.path.join(self.path, "cases", name) for name in names[:4]))  # fmt: skip
        if case and case not in names:
            raise UsageError(
                "%s has no case %s" % (self.path, case), near(case, names) or "it has %s" % ", ".join(names)
            )
        return open_capture(os.path.join(self.path, "cases", case or names[0]))


def make_archive(path: str, captures: Mapping[str, str], model_files: Sequence[str] = (), note: str = "") -> Archive:
    """Write a new folder with copies of captures (by case name) and of the model's files, and its manifest.

    Raises CaptureError where the folder is not new or empty, or a capture is not whole: then nothing is written.
    """
    if os.path.isdir(path) and os.listdir(path):
        raise CaptureError("%s is not empty" % path, "an archive is never written over; name a new folder")
    found = {name: check_whole(source) for name, source in captures.items()}
    for file in model_files:
        if not os.path.isfile(file):
            raise CaptureError("there is no file %s" % file, "give the model's files with --model")
    headers = {name: capture.header for name, (capture, _) in found.items()}
    _check_model(headers, {os.path.basename(file): _hash(file) for file in model_files})
    cases: Dict[str, Any] = {}
    try:
        for name, (capture, lost) in found.items():
            cases[name] = _copy_case(capture, lost, os.path.join(path, "cases", name))
        os.makedirs(os.path.join(path, "model"), exist_ok=True)
        for file in model_files:
            shutil.copy2(file, os.path.join(path, "model", os.path.basename(file)))
        manifest = {"format": FORMAT, "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "note": note,
                    "cases": cases, "files": dict(_files(path))}  # fmt: skip
        manifest[_OWN] = _own(manifest)
        with open(os.path.join(path, MANIFEST), "w", encoding="utf-8") as stream:
            json.dump(manifest, stream, indent=1, sort_keys=True)
            stream.write("\n")
    except OSError as error:
        raise disk_error(
            error, str(error.filename2 or error.filename or os.path.join(path, MANIFEST)), False
        ) from error
    return open_archive(path)


def _check_model(cases: Mapping[str, Mapping[str, Any]], files: Mapping[str, str]) -> None:
    """CaptureError where a case was made from another model than the files, digests by name, that go with it.

    Golden values of a framework's own file may lie beside the model that was exported from it.
    """
    for name, header in cases.items():
        made = of_header(header)
        told = header.get("sha256")
        forms = {_form(file) for file in (told if isinstance(told, dict) else [str(header.get("model"))])}
        alike = [file for file in files if _form(file) in forms]
        if made and alike and not made & {files[file] for file in alike}:
            raise CaptureError(
                "%s was made from another model than %s: from %s" % (name, ", ".join(alike), header.get("model")),
                "an archive keeps golden values with their own model; give that with --model",
            )


def _form(file: str) -> str:
    return os.path.splitext(file)[1]


def _copy_case(capture: Capture, lost: Mapping[str, str], target: str) -> Dict[str, Any]:
    os.makedirs(target)
    files = [HEADER, JOURNAL] + [blob.file for blob in capture.blobs() if blob.file]
    for file in files:
        shutil.copyfile(os.path.join(capture.path, file), os.path.join(target, file))
    header = capture.header
    keys = ("kind", "engine", "model", "sha256", "opset", "versions", "preprocessing", "inputs", "notes")
    told = {key: header[key] for key in keys if key in header}
    return dict(told, values=sum(1 for b in capture.blobs() if b.file), missing=dict(lost))


def _own(manifest: Mapping[str, Any]) -> str:
    """The SHA-256 of what a manifest says."""
    said = {key: value for key, value in manifest.items() if key != _OWN}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode("utf-8")).hexdigest()


def _files(path: str) -> Iterator[Tuple[str, Dict[str, Any]]]:
    for folder, _, names in sorted(os.walk(path)):
        for name in sorted(names):
            full = os.path.join(folder, name)
            yield (
                os.path.relpath(full, path).replace(os.sep, "/"),
                {"bytes": os.path.getsize(full), "sha256": _hash(full)},
            )


def _hash(path: str) -> str:
    total = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            total.update(block)
    return total.hexdigest()


def open_archive(path: str) -> Archive:
    """Open an archive after checking every file; CaptureError names what is missing, changed or too many."""
    manifest = _manifest(path)
    found = dict(_files(path))
    found.pop(MANIFEST, None)
    wanted = manifest["files"]
    for name, words in ((n, "is missing") for n in wanted if n not in found):
        raise CaptureError("%s: %s %s" % (path, name, words), "the archive is not whole; take a whole copy")
    for name in found:
        if name not in wanted:
            raise CaptureError("%s: %s is not in the manifest" % (path, name), "take it away, or make a new archive")
        if found[name] != wanted[name]:
            raise CaptureError("%s: %s has changed since it was archived" % (path, name), "take a whole copy")
    return Archive(path, manifest)


def _manifest(path: str) -> Dict[str, Any]:
    place = os.path.join(path, MANIFEST)
    try:
        with open(place, encoding="utf-8") as file:
            manifest = json.load(file)
    except (OSError, ValueError) as error:
        raise CaptureError(
            "%s is no archive: %s" % (path, error), "c2step archive CAPTURE -o FOLDER makes one"
        ) from error
    if not isinstance(manifest, dict) or not {"cases", "files"} <= set(manifest):
        raise CaptureError("%s is no archive: its manifest says nothing of cases and files" % path)
    if manifest.get("format") not in _READ:
        raise CaptureError("%s has format %s, this c2step reads %d" % (path, manifest.get("format"), FORMAT))
    if manifest["format"] > 1 and manifest.get(_OWN) != _own(manifest):
        raise CaptureError("%s: %s has changed since it was archived" % (path, MANIFEST), "take a whole copy")
    return manifest


def archive_of(path: str) -> Tuple[str, str]:
    """The archive that a path stands for and the case in it: the folder itself, or FOLDER/cases/NAME; else empty."""
    if os.path.isfile(os.path.join(path, MANIFEST)):
        return path, ""
    cases, name = os.path.split(os.path.abspath(path))
    root = os.path.dirname(cases)
    if os.path.basename(cases) == "cases" and os.path.isfile(os.path.join(root, MANIFEST)):
        return root, name
    return "", ""
