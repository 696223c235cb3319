"""A capture: a directory with every blob of a run, written as it goes, readable by anything.

    capture.json    what was run: model and its hash, the net, versions, inputs, preprocessing, notes
    journal.jsonl   one JSON object per executed operator, in order
    *.npy           one file per blob version; tensors of strings are .json
    blobs.pack      small ones of a capture that goes away with its session, one .npy after another: "blobs.pack#160"
                    begins at byte 160; their summaries are not in the journal, since their bytes are at hand

File names are made from a running number, so that no blob name can leave the directory or meet
another one; the journal holds the true names.  A capture is complete up to the last line of its
journal, however the run ended.
"""

import contextlib
import errno
import functools
import io
import json
import os
import re
import zipfile
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple, cast

import numpy as np

from .blob import INT8, MISSING, OTHER, STRING, TENSOR, Blob, BlobSummary
from .errors import CaptureError, near
from .leftovers import runs
from .npy import npy_header, read_npy, why_unreadable, write_new, write_npy

__all__ = [
    "NPY_HEADER",
    "PACK",
    "STATE",
    "Capture",
    "CaptureWriter",
    "Pack",
    "StoredBlob",
    "file_name",
    "read_blob",
    "write_blob",
]

HEADER = "capture.json"
JOURNAL = "journal.jsonl"
PACK = "blobs.pack"
STATE = "session.json"  # what a session that can be resumed leaves here, see `resuming`
_BESIDE = re.compile(r"\d{6}-(?:before|kept|fed|shared).*\.(?:npy|json)")  # values that no journal row need name
_PACKED = re.compile(r"(.*\b%s)#(\d+)" % re.escape(PACK), re.DOTALL)
_MAKERS = ("c2step", "engine", "source")  # what a header of ours says of its maker, beside its kind
_SLUG = re.compile(r"[^A-Za-z0-9._-]+")


NPY_HEADER = 128  # bytes of a .npy file beside its values


def file_name(tick: int, slot: str, name: str, kind: str = TENSOR) -> str:
    """A safe, unique file name: the running number and slot make it unique, the rest is for people."""
    slug = _SLUG.sub("_", name)[:48].strip("._") or "blob"
    return "%06d-%s-%s%s" % (tick, slot, slug, ".json" if kind == STRING else ".npy")


def write_blob(path: str, blob: Blob) -> int:
    """Write a blob's array and return the bytes written; nothing is left behind if the disk fills up.

    Raises CaptureError naming the file where the disk is full or the folder cannot be written.
    """
    assert blob.array is not None
    try:
        if blob.kind == STRING:
            return write_new(path, _strings_as_json(blob.array))
        return write_npy(path, blob.array)
    except OSError as error:
        _remove_quietly(path)
        raise disk_error(error, path) from error


class Pack:
    """Small blobs in one file of a capture; `flush` after `add`, before anyone reads."""

    def __init__(self, folder: str) -> None:
        """Go on at the end of the file, if there is one."""
        self._path = os.path.join(folder, PACK)
        try:
            self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise disk_error(error, self._path) from error
        self._end = self._file.seek(0, os.SEEK_END)
        self._waiting: List[bytes] = []
        self._headers: Dict[Tuple[str, Tuple[int, ...]], bytes] = {}

    def add(self, dtype: str, shape: Tuple[int, ...], data: bytes) -> str:
        """Take a tensor's bytes; returns the file name by which `read_blob` finds them."""
        header = self._headers.get((dtype, shape))
        if header is None:
            header = self._headers[dtype, shape] = npy_header(np.dtype(dtype), shape)
            assert len(header) == NPY_HEADER, "the shape of a small tensor has few digits"
        name = "%s#%d" % (PACK, self._end)
        self._waiting += (header, data)
        self._end += len(header) + len(data)
        return name

    def flush(self) -> None:
        """Write what was taken; CaptureError where the disk is full, and all of it waits for the next time then."""
        if not self._waiting:
            return
        data = b"".join(self._waiting)
        try:
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, "no space left")
        except OSError as error:
            self._file.truncate(self._end - len(data))
            raise disk_error(error, self._path) from error
        self._waiting = []

    def cut(self, end: int) -> None:
        """Take away what was added from this place on."""
        data = b"".join(self._waiting)
        written = self._end - len(data)
        self._waiting = [data[: end - written]] if end > written else []
        self._end = end
        self._file.truncate(min(end, written))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def disk_error(error: OSError, path: str, begun: bool = True) -> CaptureError:
    """The CaptureError for a failed write; `begun` says whether the capture holds anything yet."""
    where = os.path.dirname(path) or "."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        if not begun:
            return CaptureError("the disk is full: %s could not be written" % path, "free space beside %s" % where)
        return CaptureError(
            "the disk is full: %s could not be written" % path,
            "the capture is complete up to the operator before; free space beside %s, "
            "or use --level stats, --type or --match" % where,
        )
    return CaptureError("cannot write %s: %s" % (path, error.strerror or error))


def _remove_quietly(path: str) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)


def _strings_as_json(array: np.ndarray) -> bytes:
    values = [(v if isinstance(v, bytes) else str(v).encode()).decode("latin-1") for v in array.reshape(-1).tolist()]
    return json.dumps({"shape": list(array.shape), "encoding": "latin-1", "strings": values}).encode()


_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile)


def read_blob(
    path: str,
    name: str,
    kind: str = TENSOR,
    scale: Optional[float] = None,
    zero_point: Optional[int] = None,
    mapped: bool = False,
) -> Blob:
    """Read what `write_blob` wrote; `mapped` gives a read-only view of the file instead of a copy."""
    try:
        if kind == STRING:
            with open(path, "rb") as file:
                data = json.loads(file.read().decode())
            array = np.array([v.encode("latin-1") for v in data["strings"]], dtype=object).reshape(data["shape"])
        else:
            array = _load(path, mapped)
    except _UNREADABLE as error:
        reason = str(error) if kind == STRING or _PACKED.fullmatch(path) else why_unreadable(path, error)
        raise CaptureError("cannot read blob %s from %s: %s" % (name, path, reason)) from error
    return Blob(name, kind, array, scale, zero_point)


@functools.lru_cache(maxsize=256)
def _read_header(header: bytes) -> Tuple[Any, Tuple[int, ...], int]:
    """Of a tensor in a pack: dtype, shape, and how many bytes its values have."""
    file, layout = io.BytesIO(header), cast(Any, np.lib.format)
    layout.read_magic(file)
    shape, columns_first, dtype = layout.read_array_header_1_0(file)
    if columns_first or dtype.hasobject:
        raise ValueError("not as write_npy writes it")
    return dtype, shape, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _load(path: str, mapped: bool) -> np.ndarray:
    packed = _PACKED.fullmatch(path)
    if packed:
        with open(packed.group(1), "rb") as file:
            file.seek(int(packed.group(2)))
            dtype, shape, size = _read_header(file.read(NPY_HEADER))
            return np.frombuffer(file.read(size), dtype).reshape(shape)
    return read_npy(path, mapped)


@dataclass(frozen=True)
class StoredBlob:
    """One blob version in a capture; `file` is None where only its summary was kept."""

    name: str
    version: int
    kind: str
    summary: BlobSummary
    file: Optional[str]
    index: Optional[int]
    slot: int
    type: str = ""


class CaptureWriter:
    """Writes one capture; `begin` once, then `add` after every operator."""

    def __init__(self, path: str) -> None:
        """Make the directory, which must be new, empty or a capture to be replaced."""
        self.path = os.path.abspath(path)
        self._file: Optional[Any] = None

    def begin(self, header: Dict[str, Any]) -> None:
        """Write capture.json and an empty journal, taking away the files of an older capture here."""
        if os.path.exists(self.path) and not os.path.isdir(self.path):
            raise CaptureError("%s is no folder" % self.path, "name a new folder")
        try:
            os.makedirs(self.path, exist_ok=True)
            _check_free(self.path)
            _clear(self.path)
            self.write_header(header)
            self._file = open(os.path.join(self.path, JOURNAL), "ab", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise disk_error(error, os.path.join(self.path, HEADER), begun=False) from error

    def resume(self) -> None:
        """Go on with the capture that is there; a last line that was cut short goes away."""
        path = os.path.join(self.path, JOURNAL)
        try:
            with open(path, "rb+") as file:
                file.truncate(file.read().rfind(b"\n") + 1)
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise CaptureError("cannot go on with %s: %s" % (path, error.strerror or error)) from error

    def write_header(self, header: Dict[str, Any]) -> None:
        """Write or replace capture.json, which says that it is ours."""
        from . import __version__

        target = os.path.join(self.path, HEADER)
        try:
            with open(target + ".new", "w", encoding="utf-8") as file:
                file.write(_header_text(dict({"c2step": __version__}, **header)))
            os.replace(target + ".new", target)
        except OSError as error:
            _remove_quietly(target + ".new")
            raise disk_error(error, target, begun=self._file is not None) from error

    def add(self, row: Dict[str, Any]) -> None:
        """Append one operator to the journal: a whole line, or none where the disk is full."""
        self.add_lines(json.dumps(row) + "\n")

    def add_lines(self, lines: str) -> None:
        """Append rows as text: all of them, or none where the disk is full."""
        assert self._file is not None
        line = lines.encode("utf-8")
        written = 0
        try:
            written = self._file.write(line)
            if written != len(line):
                raise OSError(errno.ENOSPC, "no space left")
        except OSError as error:
            self._file.truncate(self._file.seek(0, os.SEEK_END) - written)
            raise disk_error(error, os.path.join(self.path, JOURNAL)) from error

    def close(self) -> None:
        """Close the journal."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _header_text(header: Dict[str, Any]) -> str:
    """JSON for people to read, with the net, which may be long, on one line at the end."""
    net = header.pop("net", None)
    text = json.dumps(header, indent=1)
    return text + "\n" if net is None else '%s,\n "net": %s\n}\n' % (text[: text.rindex("\n")], json.dumps(net))


def _clear(path: str) -> None:
    """Take the files of an older capture away; CaptureError where the folder holds anything else."""
    entries = os.listdir(path)
    if not entries:
        return
    if HEADER not in entries or not _is_ours(_header_of(path)):
        raise CaptureError(
            "%s is not empty and is no capture" % path, "name a new folder, so that nothing of yours is overwritten"
        )
    for _, row in _lines(path):
        for blob in _entries(row):
            if blob.get("file"):
                _remove_quietly(os.path.join(path, os.path.basename(str(blob["file"])).partition("#")[0]))
    for name in entries:
        if name in (JOURNAL, STATE, PACK) or _BESIDE.fullmatch(name):
            _remove_quietly(os.path.join(path, name))


def _check_free(path: str) -> None:
    """CaptureError where a session of another process still writes this capture."""
    try:
        with open(os.path.join(path, STATE), encoding="utf-8") as file:
            pid = json.load(file)["pid"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return
    if isinstance(pid, int) and pid > 0 and pid != os.getpid() and runs(pid):
        raise CaptureError(
            "the session in %s still runs, as process %d" % (path, pid), "quit it there, or name another folder"
        )


def _header_of(path: str) -> Any:
    try:
        with open(os.path.join(path, HEADER), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise CaptureError("%s is no capture: %s cannot be read (%s)" % (path, HEADER, error), _MAKE) from error


_MAKE = "c2step dump MODEL --input FILE -o DIR makes one"


def _is_ours(header: Any) -> bool:
    return (
        isinstance(header, dict) and isinstance(header.get("kind"), str) and any(maker in header for maker in _MAKERS)
    )


def _lines(path: str) -> Iterator[Tuple[int, Any]]:
    """The journal's whole lines with their numbers, None for one that is no JSON; a last line cut short is left out."""
    journal = os.path.join(path, JOURNAL)
    if not os.path.exists(journal):
        return
    with open(journal, "rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                try:
                    yield number, json.loads(line.decode("utf-8"))
                except (ValueError, RecursionError):
                    yield number, None


def _entries(row: Any) -> List[Dict[str, Any]]:
    """The blobs that a journal row names, as far as it is one."""
    lists = [row.get(key) for key in ("inputs", "outputs", "touched")] if isinstance(row, dict) else []
    return [blob for found in lists if isinstance(found, list) for blob in found if isinstance(blob, dict)]


def _is_row(row: Any) -> bool:
    """Whether a journal's line tells of an operator, with everything that is read of one."""
    return (
        isinstance(row, dict)
        and isinstance(row.get("type"), str)
        and isinstance(row.get("index"), (int, type(None)))
        and isinstance(row.get("outputs", []), list)
        and all(_is_output(out) for out in row.get("outputs", ()))
    )


def _is_output(out: Any) -> bool:
    if not isinstance(out, dict) or not isinstance(out.get("name"), str) or not isinstance(out.get("kind"), str):
        return False
    file = out.get("file")
    inside = file is None or (isinstance(file, str) and file not in ("", ".", "..") and os.path.basename(file) == file)
    return inside and isinstance(out.get("version", 1), int)


def summary_of(folder: str, out: Dict[str, Any]) -> BlobSummary:
    """The summary of a blob in a journal row: the one that is there, else that of its bytes in the pack."""
    if out.get("summary"):
        return BlobSummary.from_json(out["summary"])
    packed = _PACKED.fullmatch(out.get("file") or "")
    if not packed or os.path.islink(os.path.join(folder, packed.group(1))):
        return BlobSummary(out["kind"])
    return read_blob(os.path.join(folder, out["file"]), out["name"], out["kind"]).summary()


def _standing(lines: Iterable[Tuple[int, Any]]) -> List[Tuple[int, Any]]:
    """The rows that were not taken back later, with their numbers; those of other events are left out."""
    found: List[Tuple[int, Any]] = []
    for number, row in lines:
        event = row.get("event") if isinstance(row, dict) else None
        if event in ("back", "restart"):
            to = int(row.get("to", 0))
            found = [(n, r) for n, r in found if not isinstance(r, dict) or r.get("tick", -1) < to]
        elif event is None:
            found.append((number, row))
    return found


class Capture:
    """A capture opened for reading: `rows` in order, `blobs()`, and `load(name, version)`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.header: Dict[str, Any] = _header_of(path)
        if not _is_ours(self.header):
            raise CaptureError("%s is no capture: its %s is not one of c2step's" % (path, HEADER), _MAKE)
        self.rows: List[Dict[str, Any]] = []
        self._blobs: Dict[Tuple[str, int], StoredBlob] = {}
        self._latest: Dict[str, int] = {}
        try:
            for number, row in _standing(_lines(path)):
                self._take(number, row)
        except OSError as error:
            raise CaptureError("cannot read %s: %s" % (os.path.join(path, JOURNAL), error.strerror)) from error

    def _take(self, number: int, row: Any) -> None:
        damage = CaptureError(
            "%s line %d tells of no operator: the capture is damaged" % (os.path.join(self.path, JOURNAL), number),
            "make it again, or take the line away",
        )
        if not _is_row(row):
            raise damage
        try:
            self._index(row)
        except (TypeError, ValueError, AttributeError) as error:  # a summary of another form
            raise damage from error
        self.rows.append(row)

    def _index(self, row: Dict[str, Any]) -> None:
        for slot, out in enumerate([*row.get("outputs", ()), *row.get("touched", ())]):
            summary = summary_of(self.path, out)
            out.setdefault("summary", summary.to_json())
            stored = StoredBlob(
                out["name"],
                out.get("version", 1),
                out["kind"],
                summary,
                out.get("file"),
                row.get("index"),
                slot,
                row.get("type", ""),
            )
            if (stored.name, stored.version) not in self._blobs:
                self._latest[stored.name] = stored.version
            self._blobs[(stored.name, stored.version)] = stored

    def blobs(self) -> List[StoredBlob]:
        """Every blob version, in the order in which it was written."""
        return list(self._blobs.values())

    def _repr_html_(self) -> str:
        """Every blob version with its figures, for notebooks."""
        from .html import figure, html_table

        keys = ("kind", "dtype", "shape", "min", "max", "mean", "std", "zeros", "nan", "inf")
        types = {row.get("index"): row["type"] for row in self.rows}
        rows = [
            [figure(stored.index), types.get(stored.index, ""), "%s@%d" % (stored.name, stored.version)]
            + [figure(getattr(stored.summary, key)) for key in keys]
            for stored in self.blobs()
        ]
        title = "capture %s: %d operators, %d blobs" % (
            self.header.get("model") or self.path,
            len(self.rows),
            len(rows),
        )
        return html_table(title, ("index", "type", "blob") + keys, rows)

    def names(self) -> List[str]:
        """Every blob name, in order of its first write."""
        return list(self._latest)

    def find(self, name: str, version: Optional[int] = None) -> StoredBlob:
        """One version of a blob, the last one unless told; CaptureError names the near ones."""
        found = self._blobs.get((name, self._latest.get(name, 1) if version is None else version))
        if found is None:
            wanted = name if version is None else "%s@%d" % (name, version)
            raise CaptureError("%s holds no blob %s" % (self.path, wanted), near(name, self.names()))
        return found

    def load(self, name: str, version: Optional[int] = None, mapped: bool = False) -> Blob:
        """The value of one blob version."""
        stored = self.find(name, version)
        if stored.file is None:
            return Blob(name, stored.kind if stored.kind != TENSOR else MISSING, text=stored.summary.text)
        return read_blob(
            os.path.join(self.path, stored.file),
            name,
            stored.kind,
            stored.summary.scale,
            stored.summary.zero_point,
            mapped,
        )

    def has_value(self, stored: StoredBlob) -> bool:
        """Whether the bytes of this version were kept."""
        return stored.file is not None and stored.kind in (TENSOR, INT8, STRING) and stored.kind != OTHER
