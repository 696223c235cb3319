"""The folder of a sweep: what it was made with, and one row of JSON for each input that is done.

    sweep.json    the options, and the model, versions and reference that every row was made with
    rows.jsonl    a line for each input, in the order in which they were done
    drawn.npz     what init_net drew at random, if it does

A line is written whole or not at all; one that a crash cut short is taken away, and its input run again.
"""

import errno
import fcntl
import json
import os
from typing import Any, Dict, Iterable, Iterator, Mapping, Optional

from ..capture import disk_error
from ..errors import CaptureError, UsageError

__all__ = ["SweepFolder", "kept_rows"]

HEADER, ROWS, DRAWN = "sweep.json", "rows.jsonl", "drawn.npz"
_KIND = "sweep"
_NEW = "name a new folder with -o, or give what it was made with"
_SHOWN = 3


def kept_rows(path: str) -> int:
    """How many inputs are done in the folder of a sweep that has ended; 0 where none is there."""
    if not os.path.exists(os.path.join(path, HEADER)):
        return 0
    try:
        with open(os.path.join(path, ROWS), "rb") as file:
            return sum(line.endswith(b"\n") for line in file)
    except OSError:
        return 0


class SweepFolder:
    """A sweep on disk; one process at a time may write to it."""

    def __init__(self, path: str) -> None:
        """Make the folder, or take up the sweep that is there; CaptureError where it holds anything else."""
        self.path = os.path.abspath(path)
        try:
            os.makedirs(self.path, exist_ok=True)
            self.header = self._read_header()
            self._file = open(os.path.join(self.path, ROWS), "ab+", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise disk_error(error, os.path.join(self.path, ROWS), begun=False) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise CaptureError(
                "another sweep is writing to %s" % path, "wait for it, or name another folder"
            ) from error
        self._mend()

    def _read_header(self) -> Optional[Dict[str, Any]]:
        names = set(os.listdir(self.path))
        if HEADER not in names:
            if names - {ROWS, DRAWN}:
                raise CaptureError("%s is not empty and is no sweep" % self.path, "name a new folder")
            return None
        try:
            with open(os.path.join(self.path, HEADER), encoding="utf-8") as file:
                header = json.load(file)
        except (OSError, ValueError) as error:
            raise CaptureError("cannot read %s in %s: %s" % (HEADER, self.path, error), "name a new folder") from error
        if not isinstance(header, dict) or header.get("kind") != _KIND:
            raise CaptureError(
                "%s is no sweep: its %s is not one of c2step's" % (self.path, HEADER), "name a new folder"
            )
        return header

    def _mend(self) -> None:
        """Take away a last line that was cut short, and the rows of a sweep that never got to its header."""
        if self.header is None:
            self._file.truncate(0)
            if self.has_drawn:
                os.remove(self.drawn)
            return
        size = end = self._file.seek(0, os.SEEK_END)
        while end:
            start = max(end - (1 << 16), 0)
            self._file.seek(start)
            found = self._file.read(end - start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        if end < size:
            self._file.truncate(end)

    @property
    def drawn(self) -> str:
        """Where what init_net drew at random is kept."""
        return os.path.join(self.path, DRAWN)

    @property
    def has_drawn(self) -> bool:
        """Whether something was drawn."""
        return os.path.exists(self.drawn)

    def check(self, part: str, now: Mapping[str, Any]) -> None:
        """UsageError where the sweep in this folder was made with something else: its `options`, or its `facts`."""
        if self.header is None:
            return
        was = self.header.get(part, {})
        differ = list(differences(was, json.loads(json.dumps(now))))
        if differ:
            more = ", and %d more differences" % (len(differ) - _SHOWN) if len(differ) > _SHOWN else ""
            raise UsageError("%s was made otherwise: %s%s" % (self.path, "; ".join(differ[:_SHOWN]), more), _NEW)

    def begin(self, options: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Write what the rows are made with, or compare it with what is there."""
        if self.header is not None:
            self.check("options", options)
            self.check("facts", facts)
            return
        target = os.path.join(self.path, HEADER)
        header = {"kind": _KIND, "options": dict(options), "facts": dict(facts)}
        try:
            with open(target + ".new", "w", encoding="utf-8") as file:
                json.dump(header, file, indent=1)
                file.write("\n")
            os.replace(target + ".new", target)
        except OSError as error:
            raise disk_error(error, target, begun=False) from error
        self.header = json.loads(json.dumps(header))

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row: a whole line, or none where the disk is full."""
        line = json.dumps(row).encode() + b"\n"
        start = self._file.seek(0, os.SEEK_END)
        try:
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, "no space left")
        except OSError as error:
            self._file.truncate(start)
            raise disk_error(error, os.path.join(self.path, ROWS)) from error

    def index(self) -> Dict[str, int]:
        """Where the row of each input is, by its id; the last one counts, and what is no row is passed over."""
        found: Dict[str, int] = {}
        with open(os.path.join(self.path, ROWS), "rb") as file:
            place = 0
            for line in file:
                row = _row(line)
                if row is not None:
                    found[row["input"]] = place
                place += len(line)
        return found

    @staticmethod
    def read(path: str, places: Iterable[int]) -> Iterator[Dict[str, Any]]:
        """The rows at these places of a sweep's folder."""
        with open(os.path.join(path, ROWS), "rb") as file:
            for place in places:
                file.seek(place)
                row: Dict[str, Any] = json.loads(file.readline().decode("utf-8"))
                yield row

    def close(self) -> None:
        """Let another process write."""
        self._file.close()


def _row(line: bytes) -> Optional[Dict[str, Any]]:
    try:
        row = json.loads(line.decode("utf-8"))
    except ValueError:
        return None
    good = isinstance(row, dict) and isinstance(row.get("input"), str) and isinstance(row.get("status"), str)
    return row if good else None


def differences(was: Any, now: Any, name: str = "") -> Iterator[str]:
    """What differs between two JSON values, by its dotted name: `versions.torch 1.10.2, now 1.2.0`."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in list(dict.fromkeys([*was, *now])):
            yield from differences(was.get(key), now.get(key), "%s.%s" % (name, key) if name else key)
    elif was != now:
        yield "%s %s, now %s" % (name, _text(was), _text(now))


def _text(value: Any) -> str:
    if isinstance(value, str) and len(value) == 64:  # a digest
        return value[:12]
    return "not given" if value in (None, "", [], {}) else str(value)
