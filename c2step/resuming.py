"""A session that outlives its front: what is needed to stand again where a killed one stood.

The capture has the bytes and the journal, written as the session goes.  Beside them `session.json` holds the
rest, as of the last command: the model and the inputs, the position, values put in, patches, edits, breakpoints,
wraps.  What the journal has beyond that is taken from there.
"""

import json
import os
import tempfile
import time
from contextlib import contextmanager, suppress
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from .blob import STRING, TENSOR, Blob, BlobSummary
from .capture import HEADER, JOURNAL, STATE, file_name, read_blob, summary_of, write_blob
from .errors import C2StepError, CaptureError
from .history import Kept, Output, Step
from .leftovers import runs
from .net import BlobVersion, Operator
from .observing import Observer
from .patching import Patch
from .recording import TEMPORARY
from .stepper import Session

__all__ = ["Checkpoints", "Saved", "last_left", "read_saved", "resume"]

_FORWARD = ("step", "next", "until", "cont")  # after these the journal alone tells where the session stands
_SECONDS = 0.5
_ANEW = "open the model anew; the values are still in the capture"
_KEYS = (
    "opened",
    "spec",
    "inputs",
    "drawn",
    "journal",
    "position",
    "iteration",
    "letters",
    "feeds",
    "put_in",
    "fed",
    "patches",
    "changes",
    "breakpoints",
    "catching",
    "wraps",
)
Rows = List[Dict[str, Any]]


class Checkpoints(Observer):
    """Writes `session.json` of a session, after whatever a user did."""

    def __init__(self, session: Session, opened: Dict[str, Any], prompt: Optional[Dict[str, Any]] = None) -> None:
        """`opened` are words of the caller's own that `read_saved` gives back: how the session was opened.

        `prompt` is what the prompt had beside it, where it is resumed.
        """
        self._session = session
        self._opened = opened
        self._files: Dict[int, Tuple[Any, Dict[str, Any]]] = {}  # id of a value -> the value, kept alive, and its file
        self._written = self._folder = self._said = ""
        self._when = 0.0
        self.prompt: Dict[str, Any] = prompt or {}
        self._settings: Any = None

    def did(self, verb: str, arguments: Tuple[Any, ...], options: Dict[str, Any], result: Any) -> None:
        """Write it after each verb; what the journal says as well need not be written at once."""
        if verb not in _FORWARD or time.monotonic() - self._when > _SECONDS:
            self._try()

    def set(self, name: str, value: Any) -> None:
        """Write it after each change."""
        self._try()

    def _try(self) -> None:
        """Write it; where that fails the verb has been done all the same, and `remember` says so."""
        with suppress(CaptureError):
            self.write()

    def remember(self, prompt: Dict[str, Any]) -> None:
        """Write it after a command, with what the prompt has beside the session; `Saved.prompt` gives it back."""
        session = self._session
        settings = ([_point(point) for point in session.breakpoints], sorted(session.catching))
        if prompt != self.prompt or settings != self._settings or not self._written:
            self.prompt, self._settings = prompt, settings
            try:
                self.write()
            except CaptureError as error:  # said once
                said, self._said = self._said, error.message
                if said != error.message:
                    raise

    def write(self) -> None:
        """Write the state, if it is another one than before; a disk that is full is said by the session itself."""
        session = self._session
        folder = session.capture_directory
        if folder != self._folder:  # the session has begun another capture
            self._files, self._written, self._folder = {}, "", folder
        self._when = time.monotonic()
        opened = dict(self._opened, max_bytes=session.max_bytes, on_full=session.on_full, max_memory=session.max_memory)
        text = json.dumps(dict(state_of(session, self._value), opened=opened, prompt=self.prompt, pid=os.getpid()))
        if text == self._written:
            return
        target, self._written = os.path.join(folder, STATE), ""
        try:
            with open(target + ".new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(target + ".new", target)
        except OSError as error:
            raise CaptureError("cannot write %s: %s" % (target, error.strerror or error)) from error
        self._written, self._said = text, ""

    def _value(self, name: str, array: np.ndarray) -> Dict[str, Any]:
        """A file with a value that no step wrote, made when it is first seen."""
        known = self._files.get(id(array))
        if known is None:
            kind = STRING if array.dtype.kind in "OSU" else TENSOR
            file = file_name(len(self._files), "kept", name, kind)
            write_blob(os.path.join(self._session.capture_directory, file), Blob(name, kind, array))
            known = (array, {"file": file, "kind": kind})
            self._files[id(array)] = known
        return known[1]


def state_of(session: Session, value: Any) -> Dict[str, Any]:
    """Everything about a session that its journal does not say, as JSON; `value(name, array)` makes a file's row."""
    history, changes = session.history, session.changes
    folder = session.capture_directory
    return {
        "spec": session.spec,
        "inputs": {name: value(name, array) for name, array in session.inputs.items()},
        "drawn": {name: value(name, array) for name, array in session.drawn.items()},
        "journal": os.path.getsize(os.path.join(session.capture_directory, JOURNAL)),
        "position": session.position,
        "iteration": session.iteration,
        "letters": {str(index): letter for index, letter in session.letters.items() if letter in "SFD"},
        "feeds": [list(feed) for feed in history.feeds],
        "put_in": [[name, version, count] for (name, version), count in history.put_in.items()],
        "fed": [
            [v.name, v.version, _inside(folder, kept.file), kept.kind, kept.summary.to_json()]
            for v, kept in [(v, history.kept[v]) for v in sorted(history.outside) if v in history.kept]
        ],
        "patches": [
            {
                "name": p.name,
                "index": p.index,
                "source": p.source,
                "part": None if p.part is None else [_part_words(part) for part in p.part],
                "value": value(p.name, np.asarray(p.blob.array)),
            }
            for p in changes.patches
        ],
        "changes": changes.state(),
        "breakpoints": [_point(point) for point in session.breakpoints],
        "catching": sorted(session.catching),
        "wraps": [
            {
                "pattern": pattern,
                "directory": directory,
                "calls": "calls" in session.wrap_effects.get(pattern, ""),
                "check": session.checks(pattern),
            }
            for pattern, directory in session.wraps.items()
        ],
    }


def _inside(folder: str, path: str) -> str:
    """A file's name in the capture, which may be moved; where it lies elsewhere its whole path."""
    return os.path.basename(path) if os.path.dirname(path) == folder else path


def _point(point: Any) -> Dict[str, Any]:
    fields = ("number", "where", "temporary", "enabled", "hits", "watch", "ignore", "commands")
    return dict(
        {field: getattr(point, field) for field in fields}, condition=str(point.condition) if point.condition else ""
    )


# -- coming back ------------------------------------------------------------------------------


class Saved(NamedTuple):
    """A session that was left: its capture and header, its state, what it was fed and what its init_net drew."""

    directory: str
    header: Dict[str, Any]
    state: Dict[str, Any]
    inputs: Dict[str, np.ndarray]
    drawn: Dict[str, np.ndarray]

    @property
    def opened(self) -> Dict[str, Any]:
        """How the session was opened, as `Checkpoints` was told."""
        found: Dict[str, Any] = self.state["opened"]
        return found

    @property
    def prompt(self) -> Dict[str, Any]:
        """What the prompt had beside the session: displays, operators that were entered, the reference."""
        found: Dict[str, Any] = self.state.get("prompt") or {}
        return found

    @property
    def when(self) -> str:
        """When something was done with it last."""
        names = [os.path.join(self.directory, name) for name in (STATE, JOURNAL)]
        last = max(os.path.getmtime(name) for name in names if os.path.exists(name))
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(last))

    def left_behind(self, reference: bool = True) -> str:
        """What cannot be taken over and how to get it back, in words; `reference`: that, too, if there was one."""
        inside, spec = self.prompt.get("inside"), self.prompt.get("reference")
        words = ["the place inside %s (step enters it)" % " inside ".join(reversed(inside))] if inside else []
        words += ["the reference %s (reference %s)" % (spec, spec)] if spec and reference else []
        return "not taken over: %s" % ", ".join(words) if words else ""


def last_left() -> str:
    """The capture of your last session that was left without one of its own to keep; CaptureError if there is none."""
    folder = tempfile.gettempdir()
    found = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name, STATE)
        if name.startswith(TEMPORARY) and _is_mine(path) and _was_left(path):
            found.append((os.path.getmtime(path), os.path.join(folder, name)))
    if not found:
        raise CaptureError("no session was left in %s" % folder, "name its capture: --resume CAPTURE")
    return max(found)[1]


def _was_left(path: str) -> bool:
    """Whether no process has that session any more; one whose state is damaged is passed over."""
    try:
        pid = _json_of(path).get("pid")
    except CaptureError:
        return False
    return isinstance(pid, int) and not runs(pid)


def _is_mine(path: str) -> bool:
    try:
        return os.stat(path).st_uid == os.getuid()
    except OSError:
        return False


def read_saved(directory: str) -> Saved:
    """Read what a session left in its capture; CaptureError where it left nothing, or its front still runs."""
    state, header = _json_of(os.path.join(directory, STATE)), _json_of(os.path.join(directory, HEADER))
    if not isinstance(state.get("pid"), int):
        raise CaptureError("%s is damaged: it does not say which process it was" % os.path.join(directory, STATE))
    missing = [key for key in _KEYS if key not in state]
    if missing:
        raise CaptureError("%s is damaged: it has no %s" % (os.path.join(directory, STATE), missing[0]), _ANEW)
    if state["pid"] != os.getpid() and runs(state["pid"]):
        raise CaptureError("the session in %s still runs, as process %d" % (directory, state["pid"]), "quit it there")
    with _damage(os.path.join(directory, STATE)):
        return Saved(directory, header, state, _arrays(directory, state["inputs"]), _arrays(directory, state["drawn"]))


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """What is not as we write it is said to be damaged."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise CaptureError("%s is damaged: %s: %s" % (path, type(error).__name__, error), _ANEW) from error


def _json_of(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if not isinstance(found, dict):
            raise ValueError("no object")
        return found
    except (OSError, ValueError) as error:
        raise CaptureError(
            "%s holds no session to resume: %s cannot be read (%s)"
            % (os.path.dirname(path), os.path.basename(path), error),
            "the prompt leaves one in its capture: c2step MODEL --keep DIR",
        ) from error


def _arrays(directory: str, rows: Dict[str, Any]) -> Dict[str, np.ndarray]:
    return {name: np.asarray(_stored(directory, name, row).array) for name, row in rows.items()}


def _stored(directory: str, name: str, row: Dict[str, Any]) -> Blob:
    return read_blob(os.path.join(directory, os.path.basename(row["file"])), name, row["kind"])


def resume(session: Session, saved: Saved) -> List[str]:
    """Put a session that was just opened on the same model and inputs where the saved one stood.

    Its capture must be the saved one, opened with `Keep(resume=True)`.  Returns what must be said.
    """
    if saved.header.get("sha256") != session.model.sha256:
        raise CaptureError("%s is not the file that it was when this session was left" % session.model.path)
    with _damage(os.path.join(saved.directory, STATE)):
        for index, changes in saved.state["changes"]["edits"]:
            session.edit(str(index), *[(kind, name, value) for kind, name, value in changes])
        _Rebuilt(session, saved).take_over()
    note = session.catch_up(saved.drawn)
    with _damage(os.path.join(saved.directory, STATE)):
        return ([note] if note else []) + _set_stops(session, saved.state)


class _Rebuilt:
    """The history of a session, read back."""

    def __init__(self, session: Session, saved: Saved) -> None:
        self._session = session
        self._folder = saved.directory
        self._state = saved.state
        self._read_lines = 0

    def take_over(self) -> None:
        """Fill the session's history and changes, and set its position."""
        session, state = self._session, self._state
        self._read(self._rows(0, state["journal"]))
        history = session.history
        history.feeds = [(at, name, version) for at, name, version in state["feeds"]]
        history.put_in = {BlobVersion(name, version): count for name, version, count in state["put_in"]}
        for name, version, file, kind, summary in state["fed"]:
            path = os.path.join(self._folder, file)
            history.keep(name, version, Kept(path, kind, BlobSummary.from_json(summary)))
        history.refresh()
        session.changes.resume(state["changes"], self._patches())
        letters = {int(index): letter for index, letter in state["letters"].items()}
        session.stand_at(state["position"], state["iteration"], letters)
        self._read_on(self._rows(state["journal"], None))

    def _rows(self, first: int, last: Optional[int]) -> Rows:
        """The journal's whole lines between two places of the file."""
        path = os.path.join(self._folder, JOURNAL)
        try:
            with open(path, "rb") as file:
                file.seek(first)
                data = file.read() if last is None else file.read(last - first)
        except OSError as error:
            raise CaptureError("%s cannot be read: %s" % (path, error.strerror or error), _ANEW) from error
        if last is not None and len(data) < last - first:
            raise CaptureError("%s is cut short: %d of %d bytes are there" % (path, len(data), last - first), _ANEW)
        return [self._row(path, line) for line in data.split(b"\n")[:-1]]

    def _row(self, path: str, line: bytes) -> Dict[str, Any]:
        """One line of the journal; CaptureError where it is no row of ours."""
        self._read_lines += 1
        try:
            row = json.loads(line.decode("utf-8"))
            if "event" not in row:
                if not 0 <= row["index"] < self._session.net_size:
                    raise ValueError("the net has no operator %s" % row["index"])
                _check(row)
            return dict(row)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
            raise CaptureError("%s line %d is damaged: %r" % (path, self._read_lines, error), _ANEW) from error

    def _read(self, rows: Iterable[Dict[str, Any]]) -> None:
        """Steps and how they were taken back, up to the last command that was ended."""
        stand: Rows = []
        for row in rows:
            kind = row.get("event")
            if kind == "back":
                del stand[int(row["to"]) :]
            elif kind == "restart":
                del stand[:]
            elif kind is None and row["status"] == "ok":
                stand.append(row)
        for row in stand:
            self._session.history.add(self._step(row), self._folder)

    def _read_on(self, rows: Rows) -> None:
        """What the command did in which the front ended."""
        session = self._session
        for row in _without_values(rows):
            kind = row.get("event")
            if kind == "feed":
                self._feed(row)
            elif kind == "back":
                session.history.undo(len(session.steps) - int(row["to"]))
                session.changes.went_back()
            elif kind == "restart":
                session.history.undo(len(session.steps))
            elif kind is None and row["status"] == "ok":
                step = self._step(row)
                session.history.add(step, self._folder)
                session.changes.took(step)
                kept = session.letters if step.iteration == session.iteration else {}
                session.stand_at(step.index + 1, step.iteration, {i: a for i, a in kept.items() if a in "SFD"})
            elif kind is None and row["iteration"] == session.iteration:
                session.letters[row["index"]] = "D" if row["status"] == "died" else "F"

    def _feed(self, row: Dict[str, Any]) -> None:
        session, path = self._session, os.path.join(self._folder, os.path.basename(row["file"]))
        kind = row.get("holds", TENSOR)
        if not os.path.exists(path):
            return
        blob = read_blob(path, row["name"], kind, row.get("scale"), row.get("zero_point"))
        session.history.keep(row["name"], row["version"], Kept(path, kind, blob.summary()))
        session.history.add_feed(row["name"], row["version"])
        session.changes.laid(row["name"], row["version"])

    def _step(self, row: Dict[str, Any]) -> Step:
        return Step(
            row["tick"],
            row["iteration"],
            row["index"],
            self._operator(row),
            row["status"],
            row["error"],
            tuple(BlobVersion(entry["name"], entry["version"]) for entry in row["inputs"]),
            tuple(self._output(entry) for entry in row["outputs"]),
            row["seconds"],
            tuple(self._output(entry) for entry in row.get("touched", ())),
            tuple((name, other) for name, other in row.get("shares", ())),
        )

    def _output(self, entry: Dict[str, Any]) -> Output:
        summary = summary_of(self._folder, entry)
        return Output(entry["name"], entry["version"], entry["kind"], summary, entry["file"])

    def _operator(self, row: Dict[str, Any]) -> Operator:
        operator: Operator = self._session.model.predict_net.operators[row["index"]]
        return operator

    def _patches(self) -> List[Patch]:
        found = []
        for row in self._state["patches"]:
            blob = _stored(self._folder, row["name"], row["value"])
            words = row.get("part")
            part = None if words is None else tuple(_part_of(word) for word in words)
            found.append(Patch(row["name"], row["index"], blob, row["source"], part))
        return found


def _check(row: Dict[str, Any]) -> None:
    """KeyError or TypeError where a step's row lacks something."""
    for key in ("tick", "iteration", "status", "error", "seconds"):
        row[key]
    for entry in row["inputs"] + row["outputs"] + row.get("touched", []):
        entry["name"], entry["version"]
    for entry in row["outputs"] + row.get("touched", []):
        entry["kind"], entry["file"]


def _part_words(part: Any) -> Any:
    """One part of an index as JSON: a number, [start, stop, step], "..." or null."""
    return [part.start, part.stop, part.step] if isinstance(part, slice) else "..." if part is Ellipsis else part


def _part_of(words: Any) -> Any:
    return slice(*words) if isinstance(words, list) else Ellipsis if words == "..." else words


def _without_values(rows: Rows) -> Rows:
    """The rows; those of steps that were taken back later have lost their values."""
    found: Rows = []
    for row in rows:
        if row.get("event") in ("back", "restart"):
            to = int(row.get("to", 0))
            found = [_emptied(r) if "event" not in r and r["tick"] >= to else r for r in found]
        found.append(row)
    return found


def _emptied(row: Dict[str, Any]) -> Dict[str, Any]:
    parts = {key: [dict(out, file=None) for out in row[key]] for key in ("outputs", "touched") if key in row}
    return dict(row, **parts)


def _set_stops(session: Session, state: Dict[str, Any]) -> List[str]:
    """Breakpoints and wraps; those that cannot be set again are named."""
    notes = []
    session.catching = set(state["catching"])
    for row in state["breakpoints"]:
        try:
            if row["watch"]:
                point = session.watch(row["where"], row["condition"])
            else:
                point = session.set_break(row["where"], temporary=row["temporary"], condition=row["condition"])
        except C2StepError as error:
            notes.append("breakpoint %d at %s is gone: %s" % (row["number"], row["where"], error.message))
            continue
        for field in ("number", "enabled", "hits", "ignore", "commands"):
            setattr(point, field, row[field])
    for row in state["wraps"]:
        notes += _wrap(session, row)
    return notes


def _wrap(session: Session, row: Dict[str, Any]) -> List[str]:
    """Wrap again; the breakpoints of its checks are there already, the user's function is not."""
    check, points = row.get("check") or ("", [])
    try:
        if row["directory"] or check:
            session.resume_wrap(row["pattern"], row["directory"], check, list(points))
    except C2StepError as error:
        return ["the wrap of %s is gone: %s" % (row["pattern"], error.message)]
    return ["the function of the wrap of %s is gone: wrap again" % row["pattern"]] if row["calls"] else []
