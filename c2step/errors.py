"""Everything that can go wrong, as one tree.

    C2StepError                 the user's to mend: one line what and where, one line what to do
      UsageError                a command or option that does not fit
        InputError              a fed value that does not fit: name, shape, dtype, byte order
      ModelError                a file that is no model, or not the one it should be
        ConversionError         Caffe2's backend refuses the model, or a node of it
      OperatorError             an operator raised; the session stands before it
      WorkerDied                the process that runs operators ended by a signal
        WorkerTimeout           ... or was stopped because it took too long
      RuntimeMissing            no interpreter with Caffe2, or not the one asked for
      CaptureError              a capture that cannot be written or read
      ReferenceFailed           the golden values cannot be made

Each class carries the exit status that the command line ends with.  Any other exception is a
bug of ours and shows its traceback.
"""

from enum import IntEnum
from typing import Dict, Iterable, List, Optional

__all__ = [
    "ELSEWHERE",
    "C2StepError",
    "CaptureError",
    "ConversionError",
    "ExitStatus",
    "InputError",
    "ModelError",
    "OperatorError",
    "ReferenceFailed",
    "RuntimeMissing",
    "UsageError",
    "WorkerDied",
    "WorkerTimeout",
    "near",
]


ELSEWHERE = "install it there, or name an interpreter that has it: --engine-runtime python:PATH"
"""What to do where the interpreter of an engine lacks a package."""


class ExitStatus(IntEnum):
    """How the command line ends."""

    OK = 0
    DIFFERS = 1
    USAGE = 2
    MODEL = 3
    OPERATOR = 4
    DIED = 5
    RUNTIME = 6
    CAPTURE = 7
    INCONCLUSIVE = 8
    REFERENCE = 9
    INTERRUPTED = 130


class C2StepError(Exception):
    """What went wrong and where (`message`), and what to do about it (`hint`, may be empty)."""

    status = ExitStatus.USAGE

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message + ("\n  " + self.hint if self.hint else "")


class UsageError(C2StepError):
    """A command or option that does not fit."""


class InputError(UsageError):
    """A fed value that does not fit: its name, shape, dtype or byte order."""


class ModelError(C2StepError):
    """A file that is no model, or not the one it should be."""

    status = ExitStatus.MODEL


class ConversionError(ModelError):
    """Caffe2's ONNX backend refuses the model; `nodes` names each refused node and why."""

    def __init__(self, message: str, hint: str = "", nodes: Iterable[str] = ()) -> None:
        super().__init__(message, hint)
        self.nodes: List[str] = list(nodes)


class OperatorError(C2StepError):
    """An operator raised; the session stands before it."""

    status = ExitStatus.OPERATOR


class WorkerDied(C2StepError):
    """The process that runs operators ended.

    `signal` names how, `index` the operator it was at (None: none), `idle` that it was doing nothing,
    `by_user` that Ctrl-C ended it.
    """

    status = ExitStatus.DIED

    def __init__(
        self,
        message: str,
        hint: str = "",
        signal: str = "",
        index: Optional[int] = None,
        idle: bool = False,
        by_user: bool = False,
    ) -> None:
        super().__init__(message, hint)
        self.signal = signal
        self.index = index
        self.idle = idle
        self.by_user = by_user


class WorkerTimeout(WorkerDied):
    """The process that runs operators was stopped because one of them took too long."""


class RuntimeMissing(C2StepError):
    """No interpreter with Caffe2, or not the one asked for."""

    status = ExitStatus.RUNTIME


class CaptureError(C2StepError):
    """A capture that cannot be written or read."""

    status = ExitStatus.CAPTURE


class ReferenceFailed(C2StepError):
    """The golden values cannot be made."""

    status = ExitStatus.REFERENCE


def near(name: str, names: Iterable[str], limit: int = 3) -> str:
    """A hint with the names that look like `name`, or an empty string: "did you mean conv1?"."""
    import difflib

    known = list(names)
    folded: Dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.lower(), candidate)
    close = difflib.get_close_matches(name.lower(), list(folded), n=limit, cutoff=0.6)
    return "did you mean %s?" % " or ".join(folded[c] for c in close) if close else ""
