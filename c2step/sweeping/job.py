"""The near side of a job: a process that measures inputs, and another in its place when it ends.

Operators run in a worker of that process, so one that ends its process is named and the job goes on.  Where the
job's own process ended, the input is tried once more.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence

from .. import errors
from ..blob import STRING, TENSOR, Blob
from ..capture import write_blob
from ..errors import C2StepError, ConversionError
from ..workspace.spawning import boot
from .items import Item
from .plan import Plan
from .scratch import fast_folder, new_folder

__all__ = ["PATIENCE", "Answer", "Job", "peak_of"]

PATIENCE = 5  # seconds that a process has to clean up


class Answer(NamedTuple):
    """The row of an input; with the first one of a process, `facts` and what is `said` of the model."""

    row: Dict[str, Any]
    facts: Optional[Dict[str, Any]] = None
    said: Optional[Dict[str, Any]] = None


class _Ended(Exception):
    """The process ended before it answered."""


class Job:
    """One process that measures; `warn` gets what happened to it, `number` is what it is called there.

    `drawn` is where the first process writes what init_net drew at random.
    """

    def __init__(
        self, plan: Plan, number: int = 1, warn: Callable[[str], None] = lambda text: None, drawn: Optional[str] = None
    ) -> None:
        self.plan, self.number, self.warn = plan, number, warn
        self.peak = 0
        self._drawn = drawn
        self._folder = new_folder()
        self._fast = fast_folder() if plan.max_memory is None else ""
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._printed: Any = None
        self._declares: Dict[str, Any] = {}
        self.closed = False

    # -- asking -------------------------------------------------------------------------------

    def declares(self) -> Dict[str, Any]:
        """What the model takes; starts the process."""
        try:
            return self._opened()
        except _Ended:
            self._let_go()
        try:
            return self._opened()
        except _Ended as end:
            raise errors.WorkerDied("the process that reads the model ended by %s, twice" % end) from None

    def measure(self, item: Item) -> Answer:
        """The row of one input, whatever happens on the way."""
        digest = item.digest()
        answer = self._surely(item)
        return answer._replace(row=dict(input=item.id, sha256=digest, **answer.row))

    def _surely(self, item: Item) -> Answer:
        try:
            return self._measured(item)
        except _Ended as end:
            if self.closed:
                raise
            self.warn("job %d was ended by %s at %s; another one tries it once more" % (self.number, end, item.id))
            self._let_go()
        try:
            return self._measured(item)
        except _Ended as end:
            if self.closed:
                raise
            self._let_go()
            words = "its process ended by %s, and so did another one that tried it again" % end
            self.warn("%s: %s" % (item.id, words))
            return Answer({"status": "lost", "error": words})

    def _measured(self, item: Item) -> Answer:
        self._opened()
        arrays = self._written(item)
        found = self._ask({"do": "measure", "words": None if item.arrays is not None else list(item.words),
                           "arrays": arrays, "key": item.key, "drawn": self._drawn})  # fmt: skip
        for path, _ in arrays.values():
            os.remove(path)
        if self.plan.max_memory is not None:
            self.peak = max(self.peak, peak_of(found["pids"]))
        return Answer(found["row"], found.get("facts"), found.get("said"))

    def _written(self, item: Item) -> Dict[str, Any]:
        found = {}
        for number, (name, array) in enumerate((item.arrays or {}).items()):
            kind = STRING if array.dtype.kind in "OSU" else TENSOR
            path = os.path.join(self._folder, "fed%d" % number)
            write_blob(path, Blob(name, kind, array))
            found[name] = (path, kind)
        return found

    # -- the process --------------------------------------------------------------------------

    @property
    def pid(self) -> Optional[int]:
        """The process id, None where there is none."""
        return self._process.pid if self._process else None

    def _opened(self) -> Dict[str, Any]:
        """A process with the model open; what the model takes."""
        if self._process is None:
            self._start()
            request = {"do": "open", "plan": self.plan.to_json(), "folder": self._folder, "fast": self._fast}
            self._declares = self._ask(request)
        return self._declares

    def _start(self) -> None:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(self.plan.threads))
        environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", **threads)
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", boot("sweeping.serving")],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._printed,
                start_new_session=True, env=environment,
            )  # fmt: skip
        except OSError as error:
            raise errors.RuntimeMissing("cannot start %s: %s" % (sys.executable, error.strerror or error)) from error
        if self.closed:
            self._let_go()
            raise _Ended("nothing")

    def _ask(self, request: Dict[str, Any]) -> Any:
        process = self._process
        assert process is not None and process.stdin and process.stdout
        with contextlib.suppress(OSError):  # it ended before: reading says so
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            raise _Ended(self._how(process))
        return _result(json.loads(line.decode()))

    def _how(self, process: "subprocess.Popen[bytes]") -> str:
        code = process.wait()
        if code < 0:
            return signal.Signals(-code).name if -code in list(signal.Signals) else "signal %d" % -code
        self._printed.seek(0)
        said = [line for line in self._printed.read().decode(errors="replace").splitlines() if line.strip()]
        return "exit status %d%s" % (code, " (%s)" % said[-1].strip() if said else "")

    def interrupt(self) -> None:
        """Let the process end, and start no other one; `close` waits for it."""
        self.closed = True
        process = self._process
        if process is not None:
            with contextlib.suppress(OSError):
                process.terminate()

    def kill(self) -> None:
        """End the process at once."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process, in the middle of an input too, and take its files away."""
        self.closed = True
        self._let_go()
        for folder in filter(None, (self._folder, self._fast)):
            shutil.rmtree(folder, ignore_errors=True)

    def _let_go(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin and process.stdout
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        self._printed.close()
        self._empty()

    def _empty(self) -> None:
        """Take away what a killed process left, whose own processes may write for a moment until they end, too."""
        end = time.monotonic() + PATIENCE
        for folder in filter(None, (self._folder, self._fast)):
            while os.listdir(folder) and time.monotonic() < end:
                for path in [os.path.join(folder, name) for name in os.listdir(folder)]:
                    with contextlib.suppress(OSError):
                        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def _result(message: Dict[str, Any]) -> Any:
    if "ok" in message:
        return message["ok"]
    if "bug" in message:
        raise RuntimeError("a job failed:\n%s" % message["bug"])
    found = message["error"]
    kind = getattr(errors, found["kind"], C2StepError)
    if kind is ConversionError:
        raise ConversionError(found["message"], found["hint"], found["nodes"])
    raise kind(found["message"], found["hint"])


def peak_of(pids: Sequence[int]) -> int:
    """The most memory that processes have held, together; of none, this process's own."""
    return sum(map(_peak, pids or [os.getpid()]))


def _peak(pid: int) -> int:
    """The most memory that a process has held, 0 where that is not known."""
    with contextlib.suppress(OSError, ValueError), open("/proc/%d/status" % pid, errors="replace") as file:
        return next((int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:")), 0)
    return 0
