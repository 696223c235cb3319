"""The client of a worker process: start it, talk to it, notice how it ends.

The worker may die at any request.  The front then says which operator it was at (from the shared
status page) and with which signal; `restart` gives a new worker, and the session puts it where the
dead one stood.
"""

import contextlib
import copy
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import numpy as np

from .. import errors
from ..blob import STRING, TENSOR, Blob, BlobSummary
from ..capture import read_blob, write_blob
from ..errors import C2StepError, RuntimeMissing, WorkerDied, WorkerTimeout
from ..handlers import CtrlC
from ..progress import Progress
from . import Change, Event, Workspace
from .awake import Awake
from .eventlog import EventReader, event_log
from .runtime import AnyRuntime
from .spawning import Spare, spawn
from .status import CONVERT, FETCH, IDLE, INIT, RUN, Doing, Status

__all__ = ["ProcessWorkspace"]

_FRESH = ("versions", "declare", "open", "lint", "read_net", "read_tensor")  # requests that need nothing opened
_PIPE = 1 << 16  # bytes that a pipe holds
_SHORTEST, _LONGEST = 0.005, 0.05  # seconds between two looks at what operators gave
_MANY = 16  # events at a look, so many that the next one comes soon: large operators want the cores for themselves
_read_json = json.JSONDecoder().raw_decode  # what json.loads does more takes as long again for a short line
_SCRATCH = re.compile(r"^c2step-(\d+)-")


class ProcessWorkspace(Workspace):
    """Caffe2 in a worker process; see `Workspace` for the verbs.

    `on_output` gets what Caffe2 or user code prints; `timeout` is in seconds for one operator (or
    any other request), `max_memory` in bytes for all that the worker holds; None for no limit.
    `requests` counts the round trips to workers; `spare` is a worker that may be taken instead of a new one.
    `yielding` is for one beside which other processes work, see `spawn`.
    """

    def __init__(
        self,
        runtime: AnyRuntime,
        on_output: Callable[[str], None] = lambda text: None,
        timeout: Optional[float] = None,
        max_memory: Optional[int] = None,
        spare: Optional[Spare] = None,
        yielding: bool = False,
    ) -> None:
        self.runtime = runtime
        self._spare = spare
        self._yielding = yielding
        self.timeout = timeout
        self.max_memory = max_memory
        self._on_output = on_output
        folder = _fast_folder()
        _sweep(folder or tempfile.gettempdir())
        self.scratch = tempfile.mkdtemp(prefix="c2step-%d-" % os.getpid(), dir=folder)
        runtime.share([self.scratch])
        self._status = Status(os.path.join(self.scratch, "status"))
        self._events = EventReader(event_log(os.path.join(self.scratch, "status")))
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._pending = b""
        self._printed = b""
        self._killed = ""
        self._waited = 0.0
        self._answered = False
        self._opened = False
        self._fetches = 0
        self._plan: Any = None  # of the last run; a worker that has it need not be told again
        self.requests = 0

    # -- the process --------------------------------------------------------------------------

    @property
    def pid(self) -> Optional[int]:
        """The worker's process id, None where there is none."""
        return self._process.pid if self._process else None

    def _start(self, arguments: Dict[str, Any]) -> "subprocess.Popen[bytes]":
        self.runtime.share(os.path.dirname(path) for path in _paths(arguments))
        self._killed, self._pending, self._printed, self._answered = "", b"", b"", False
        self._plan = None
        taken = self._spare.take(self.runtime, self._yielding) if self._spare else None
        onnx = any(path.endswith(".onnx") for path in _paths(arguments))
        self._process = taken or spawn(self.runtime, onnx, self._yielding)
        self._introduce(self._process)
        assert self._process.stdout and self._process.stderr
        self._replies, self._prints = self._process.stdout.fileno(), self._process.stderr.fileno()
        for descriptor in (self._replies, self._prints):
            os.set_blocking(descriptor, False)
        self._awake = Awake(self._replies, self._prints)
        return self._process

    def _introduce(self, process: "subprocess.Popen[bytes]") -> None:
        """Tell a new worker whose it is; one that does not get that far is noticed at the first reply."""
        assert process.stdin
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write((json.dumps([os.path.join(self.scratch, "status"), self.max_memory]) + "\n").encode())

    def request(self, do: str, take: Callable[[], int] = lambda: 0, **arguments: Any) -> Any:
        """Send one request and wait for its reply; WorkerDied where the worker ends before it.

        `take` is called again and again meanwhile, and says how many events it found.  A worker that had
        ended while it was idle is replaced unnoticed: what it held is put back first.
        """
        return self._request(do, take, arguments)

    def _request(self, do: str, take: Callable[[], int], arguments: Dict[str, Any]) -> Any:
        if self.watch is None:
            return self._ask(do, take, arguments)
        with self.watch.over():
            return self._ask(do, take, arguments)

    def _ask(self, do: str, take: Callable[[], int], arguments: Dict[str, Any]) -> Any:
        if not self._opened or do in _FRESH:
            return self._exchange(do, take, arguments)
        if self._process is None or (self._killed and not self.alive):
            self._let_go()
            self.on_lost()
        try:
            return self._exchange(do, take, arguments)
        except WorkerDied as death:
            if not death.idle:
                raise
        self.on_lost()
        return self._exchange(do, take, arguments)

    def _exchange(self, do: str, take: Callable[[], int], arguments: Dict[str, Any]) -> Any:
        process = self._process or self._start(arguments)
        self._events.clear()
        self.requests += 1
        text = self._run_text(arguments) if do == "run" else json.dumps(arguments)
        try:
            assert process.stdin
            process.stdin.write(('{"do": "%s", "with": %s}\n' % (do, text)).encode("utf-8"))
        except BrokenPipeError:
            raise self._death(do) from None
        with CtrlC(lambda again: self.kill() if again or do != "run" else self.interrupt()):
            return self._until_reply(do, take)

    def _until_reply(self, do: str, take: Callable[[], int]) -> Any:
        """Wait for the reply; what is printed before it is read before it."""
        limit = self._limit(do)
        moved = time.monotonic()
        pause = _SHORTEST if do == "run" else None
        longest = min(self.timeout or 0.2, 0.2) if self.timeout or self.watch is not None else None
        while True:
            ready = self._ready(pause or longest)
            if self.watch is not None:
                self._look(self.watch)
            if self._prints in ready:
                self._drain()
            if self._replies in ready:
                message = self._receive(do)
                if message is not None:
                    if message.get("lost"):
                        self.give_up()
                    return _result(message)
            found = take()
            if pause:
                soon = found > (0 if self._yielding else _MANY)
                pause = _SHORTEST if soon else min(2 * pause, _LONGEST)
            if ready or found:
                moved = time.monotonic()
            elif limit and time.monotonic() - moved > limit:
                self._waited = limit
                self._kill("timeout")

    def _ready(self, seconds: Optional[float]) -> Set[int]:
        """Wait until there is something to read; from which of the worker's descriptors."""
        found = self._awake.look() or self._awake.wait(-1 if seconds is None else seconds)
        self._awake.came()
        return {descriptor for descriptor, _ in found}

    def _look(self, watch: Progress) -> None:
        doing = self._status.doing()
        if doing.phase != IDLE:
            watch.look(doing.verb, doing.position, doing.label)

    def _limit(self, do: str) -> Optional[float]:
        """The limit is one operator's; what runs none, such as reading a model, has half a minute more."""
        return self.timeout and self.timeout + (0.0 if do in ("run", "init") else 30.0)

    def _receive(self, do: str) -> Optional[Dict[str, Any]]:
        """Read what is there: the reply, or None while it is not whole; raise at the end of the stream."""
        data = os.read(self._replies, _PIPE)
        if not data:
            raise self._death(do)
        self._pending += data
        if not self._pending.endswith(b"\n"):
            return None
        reply, self._pending = self._pending, b""
        self._answered = True
        return _read_json(reply.decode("utf-8"))[0]  # type: ignore[no-any-return]

    def _drain(self) -> None:
        if not self._process or not self._process.stderr:
            return
        while True:
            data = self._process.stderr.read(1 << 16)
            if not data:
                break
            self._printed = (self._printed + data)[-4000:]
            if self._answered:  # before that it is why the interpreter does not start, said in one line
                if self.watch is not None:
                    self.watch.wipe()
                self._on_output(data.decode("utf-8", "replace"))

    def _death(self, do: str) -> WorkerDied:
        process = self._process
        assert process
        self._drain()
        code = self.runtime.ending(process.wait())
        self._let_go()
        doing = self._status.doing()
        name = _signal_name(code)
        index = doing.position if doing.position >= 0 else None
        if self._killed == "timeout":
            words = "%s took longer than %g s and was stopped" % (_named(doing), self._waited)
            return WorkerTimeout(words, "--timeout SECONDS changes the limit", name, index)
        if self._killed:
            return WorkerDied("%s was stopped by %s" % (_named(doing), self._killed), "", name, index, by_user=True)
        if not self._answered and not name.startswith("SIG"):
            raise _no_start(self.runtime, name, self._printed.decode("utf-8", "replace"))
        words = "%s ended its process with %s" % (_named(doing), name)
        return WorkerDied(words, "", name, index, idle=doing.phase == IDLE)

    def memory(self) -> int:
        """The bytes that the worker holds."""
        return int(self.request("memory"))

    def limit_memory(self, limit: Optional[int]) -> None:
        """Let the worker, and those after it, hold at most so many bytes; None for no limit."""
        self.request("limit", memory=limit)
        self.max_memory = limit

    def doing(self) -> Doing:
        """What the worker is at; for progress."""
        return self._status.doing()

    def forget_interrupt(self) -> None:
        """Take that back."""
        self._status.ask_stop(False)

    def interrupt(self) -> None:
        """Stop a running `run` before its next operator."""
        self._status.ask_stop()

    def kill(self) -> None:
        """End the worker now, because the user asked for it."""
        self._kill("Ctrl-C")

    def _kill(self, why: str) -> None:
        if self._process:
            self._killed = why
            with contextlib.suppress(ProcessLookupError):
                self.runtime.kill(self._process.pid)

    def give_up(self) -> None:
        """End the worker, whose blobs are not those that the front knows of."""
        process = self._process
        if process:
            self._drain()
            self._events.leave()
            with contextlib.suppress(ProcessLookupError):
                self.runtime.kill(process.pid)
            process.wait()
            self._let_go()

    @property
    def alive(self) -> bool:
        """Whether a worker is running."""
        return self._process is not None and self._process.poll() is None

    def _let_go(self) -> None:
        process, self._process = self._process, None
        if process:
            for stream in (process.stdin, process.stdout, process.stderr):
                assert stream
                with contextlib.suppress(OSError):
                    stream.close()

    def close(self) -> None:
        """End the worker and take the scratch folder away."""
        process = self._process
        self._let_go()
        if process:
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                self.runtime.kill(process.pid)
                process.wait()
        self._events.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    # -- the verbs ----------------------------------------------------------------------------

    def versions(self) -> Dict[str, Any]:
        """Versions of what runs the operators."""
        return self.request("versions")  # type: ignore[no-any-return]

    def declare(self, spec: Dict[str, Any]) -> Dict[str, Any]:
        """Read the model's files in the worker."""
        return self.request("declare", spec=spec)  # type: ignore[no-any-return]

    def open(self, spec: Dict[str, Any]) -> Dict[str, Any]:
        """Load and convert the model in the worker."""
        found: Dict[str, Any] = self.request("open", spec=spec)
        self._opened = True
        return found

    def init(self) -> None:
        """Run init_net in the worker."""
        self.request("init")

    def feed(self, name: str, array: np.ndarray) -> BlobSummary:
        """Feed one blob through a file of the scratch folder."""
        kind = STRING if array.dtype.kind in "OSU" else TENSOR
        path = self._scratch_file()
        try:
            write_blob(path, Blob(name, kind, np.asarray(array)))
            return BlobSummary.from_json(self.request("feed", name=name, file=path, kind=kind))
        finally:
            _remove(path)

    def run(self, request: Dict[str, Any], on_events: Callable[[List[Event]], None]) -> str:
        """Run a range of operators in the worker; events come while it runs, and all of them before it ends.

        What `on_events` raises stops the run, and is raised when that has ended.
        """
        raised: List[BaseException] = []

        def take() -> int:
            events = self._events.read()
            try:
                if events and not raised:
                    on_events(events)
            except BaseException as error:
                raised.append(error)
                self.interrupt()
            return len(events)

        try:
            reason = str(self._request("run", take, request))
        finally:
            take()
            self._status.ask_stop(False)  # also where the last events asked for it
            if raised:
                raise raised[0]
        return reason

    def _run_text(self, request: Dict[str, Any]) -> str:
        """A run as JSON; the plan is said only to a worker whose last run had another one."""
        plan = "null" if request["plan"] is self._plan else json.dumps(request["plan"])
        self._plan = request["plan"]
        left = "null" if request["left"] is None else str(request["left"])
        numbers = (request["first"], request["last"], request["tick"], left, plan)
        return '{"first": %d, "last": %d, "tick": %d, "left": %s, "plan": %s}' % numbers

    def peek(self, names: Optional[Sequence[str]] = None) -> List[Dict[str, Any]]:
        """Kind, dtype and shape of blobs."""
        return self.request("peek", names=list(names) if names is not None else None)  # type: ignore[no-any-return]

    def fetch(self, name: str) -> Blob:
        """The value of a blob."""
        path = self._scratch_file()
        try:
            found = self.request("fetch", name=name, file=path)
            if not found["file"]:
                return Blob(name, found["kind"], text=found["text"])
            return read_blob(path, name, found["kind"], found["scale"], found["zero_point"])
        finally:
            _remove(path)

    def summary(self, name: str) -> BlobSummary:
        """The summary of a blob, made in the worker."""
        return BlobSummary.from_json(self.request("summary", name=name))

    def restore(self, values: Sequence[Dict[str, Any]], remove: Sequence[str], reset: Sequence[int]) -> None:
        """Put blobs back from files."""
        self.request("restore", values=list(values), remove=list(remove), reset=list(reset))

    def share(self, pairs: Sequence[Tuple[str, str]]) -> None:
        """Let blobs share storage."""
        self.request("share", pairs=list(pairs))

    def edit(self, index: int, changes: Sequence[Change]) -> Dict[str, Any]:
        """Change an operator in the worker."""
        return self.request("edit", index=index, changes=list(changes))  # type: ignore[no-any-return]

    def trial(
        self, index: int, changes: Sequence[Change], values: Sequence[Dict[str, Any]], directory: str
    ) -> Dict[str, Any]:
        """Run an operator once, changed, in the worker."""
        return self.request(  # type: ignore[no-any-return]
            "trial", index=index, changes=list(changes), values=list(values), directory=directory
        )

    def arguments(self, op_type: str) -> List[str]:
        """The arguments that operators of a type are known to read."""
        return self.request("arguments", op_type=op_type)  # type: ignore[no-any-return]

    def write_net(self, path: str) -> None:
        """Write predict_net as it is now."""
        self.request("write_net", path=os.path.abspath(path))

    def inside(self, index: int) -> List[Dict[str, Any]]:
        """The nets inside an operator."""
        return self.request("inside", index=index)  # type: ignore[no-any-return]

    def enter(self, index: int, directory: str) -> Dict[str, Any]:
        """Write what an operator would do now with the nets inside it."""
        return self.request("enter", index=index, directory=directory)  # type: ignore[no-any-return]

    def cut(
        self, first: int, last: int, directory: str, values: Sequence[Dict[str, Any]], outputs: Sequence[Dict[str, Any]]
    ) -> Dict[str, Any]:
        """Write a range of operators on its own."""
        return self.request(  # type: ignore[no-any-return]
            "cut", first=first, last=last, directory=directory, values=list(values), outputs=list(outputs)
        )

    def sibling(self) -> Workspace:
        """Another, empty worker of the same runtime."""
        other = ProcessWorkspace(copy.copy(self.runtime), self._on_output, self.timeout, self.max_memory)
        other.watch = self.watch
        return other

    def describe(self, index: int, init: bool = False) -> str:
        """An operator as text."""
        return str(self.request("describe", index=index, init=init))

    def convert(self, directory: str, text: bool = False) -> List[str]:
        """Write both nets."""
        return self.request("convert", directory=directory, text=text)  # type: ignore[no-any-return]

    def infer_shapes(self) -> Dict[str, Any]:
        """Shapes that Caffe2 infers."""
        return self.request("infer_shapes")  # type: ignore[no-any-return]

    def lint(self, spec: Dict[str, Any]) -> List[Dict[str, Any]]:
        """What is known beforehand about a model."""
        return self.request("lint", spec=spec)  # type: ignore[no-any-return]

    def read_net(self, path: str) -> Dict[str, Any]:
        """One net file as JSON."""
        return self.request("read_net", path=os.path.abspath(path))  # type: ignore[no-any-return]

    def read_tensor(self, path: str) -> Blob:
        """Decode an ONNX TensorProto file in the worker."""
        target = self._scratch_file()
        try:
            found = self.request("read_tensor", path=os.path.abspath(path), file=target)
            return read_blob(target, found["name"], found["kind"])
        finally:
            _remove(target)

    def _scratch_file(self) -> str:
        self._fetches += 1
        return os.path.join(self.scratch, "blob-%d" % self._fetches)


def _fast_folder() -> Optional[str]:
    """Memory where it is a folder (values pass through it), else the usual place for temporary files."""
    memory = "/dev/shm"
    if os.environ.get("TMPDIR") or not os.access(memory, os.W_OK):
        return None
    return memory if shutil.disk_usage(memory).free > 1 << 30 else None


def _sweep(folder: str) -> None:
    """Take away the scratch folders of fronts that were killed, which could not do it themselves."""
    for name in os.listdir(folder):
        match = _SCRATCH.match(name)
        path = os.path.join(folder, name)
        if match and not os.path.exists("/proc/%s" % match.group(1)) and os.path.exists(os.path.join(path, "status")):
            shutil.rmtree(path, ignore_errors=True)


def _result(message: Dict[str, Any]) -> Any:
    if "ok" in message:
        return message["ok"]
    if "bug" in message:
        raise RuntimeError("the worker failed:\n%s" % message["bug"])
    found = message["error"]
    kind = getattr(errors, found["kind"], C2StepError)
    if kind is errors.ConversionError:
        raise errors.ConversionError(found["message"], found["hint"], found.get("nodes", ()))
    raise kind(found["message"], found["hint"])


def _signal_name(code: int) -> str:
    if code >= 0:
        code = -(code - 128) if code > 128 else code  # a container reports 128 + signal
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return "signal %d" % -code
    return "exit status %d" % code


def _named(doing: Doing) -> str:
    if doing.phase == IDLE:
        return "the worker"
    if doing.phase == CONVERT:
        return (
            "converting ONNX node %d %s" % (doing.position, doing.label)
            if doing.position >= 0
            else "converting the model"
        )
    if doing.position >= 0 and doing.phase in (INIT, RUN, FETCH):
        return {INIT: "init_net operator %d", RUN: "operator %d", FETCH: "fetching the outputs of operator %d"}[
            doing.phase
        ] % doing.position
    return "%s %s" % (doing.verb, doing.label) if doing.label else "the worker"


def _no_start(runtime: AnyRuntime, signal_name: str, printed: str) -> RuntimeMissing:
    lines = [line for line in printed.splitlines() if line.strip() and not line.startswith("See '")]  # Docker's last
    last = lines[-1] if lines else signal_name
    return RuntimeMissing("%s does not start: %s" % (runtime, last), runtime.hint)


def _paths(value: Any) -> Iterator[str]:
    """Every absolute path in what a request says."""
    if isinstance(value, str) and os.path.isabs(value):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _paths(part)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.remove(path)
