"""What commands, argument types and completion see of a running prompt."""

import shutil
from typing import TYPE_CHECKING, Any, Dict, List, Optional, TextIO

from ..errors import UsageError
from ..leftovers import scratch_folder
from ..net import Net
from ..render import quote
from .displays import Displays
from .environment import Environment
from .frames import Frames

if TYPE_CHECKING:
    from ..compare.against import Against
    from ..compare.tolerance import Tolerances
    from ..resuming import Checkpoints
    from ..stepper import Session
    from .interpreter import Interpreter

__all__ = ["USER_CODE", "Context"]

USER_CODE = "<prompt>"  # the file name of Python typed at the prompt


class Context:
    """The session, the world outside it, golden values, displays, and the names that `!python` has made."""

    def __init__(self, session: "Session", environment: Environment) -> None:
        self.frames = Frames(session)
        self.environment = environment
        self.namespace: Dict[str, Any] = {}
        self.against: Optional["Against"] = None
        self.tolerances: Optional["Tolerances"] = None
        self.displays = Displays()
        self.checkpoints: Optional["Checkpoints"] = None
        self.log_path = ""
        self._log: Optional[TextIO] = None
        self._scratch: List[str] = []
        self._interpreter: Optional["Interpreter"] = None

    @property
    def session(self) -> "Session":
        """The session that commands look at: that of the frame that is selected."""
        return self.frames.selected

    @property
    def interpreter(self) -> "Interpreter":
        """What runs command lines, and knows the command table."""
        assert self._interpreter is not None, "an Interpreter announces itself when it is made"
        return self._interpreter

    @interpreter.setter
    def interpreter(self, interpreter: "Interpreter") -> None:
        self._interpreter = interpreter

    def remember(self) -> None:
        """Keep what there is beside the session, for the case that it must be resumed."""
        if self.checkpoints is not None:
            displays = [str(ref) for _, ref in self.displays.all]
            inside = [str(inside.operator) for inside in self.frames.entered]
            reference = self.against.label if self.against else ""
            self.checkpoints.remember({"displays": displays, "inside": inside, "reference": reference})

    def typed(self, command: str) -> None:
        """Tell those who observe the session that a command has been run."""
        tell = getattr(self.frames.outermost, "typed", None)
        if tell is not None:
            tell(command)

    # -- golden values ------------------------------------------------------------------------

    def load(self, against: Optional["Against"]) -> None:
        """Compare with these golden values from now on, or with none."""
        if against is None and self.against is not None:
            self.session.compared = None
        if against is not None:
            self.tolerances = against.tolerances
        self.against = against

    def loaded(self) -> "Against":
        """The golden values that are loaded; UsageError where there are none."""
        if self.against is None:
            raise UsageError("no reference is loaded", "load one: reference SPEC")
        return self.against

    def scratch(self, name: str) -> str:
        """A new folder that goes away with the prompt."""
        self._scratch.append(scratch_folder(name))
        return self._scratch[-1]

    # -- what is said -------------------------------------------------------------------------

    def log_to(self, path: Optional[str]) -> None:
        """Append all that is said to a file; None ends that."""
        log = None
        if path is not None:
            try:
                log = open(path, "a", encoding="utf-8")  # noqa: SIM115
            except OSError as error:
                raise UsageError("cannot write %s: %s" % (quote(path), error.strerror or error)) from None
        if self._log is not None:
            self._log.close()
        self._log, self.log_path = log, path or ""

    def show(self, text: str) -> None:
        """Print what a command says, into the log too."""
        self.environment.show(text)
        self.note(text)

    def complain(self, text: str) -> None:
        """Print an error, into the log too."""
        self.environment.complain(text)
        self.note("error: " + text)

    def ask(self, question: str) -> str:
        """What a person at a terminal answers, in small letters; nothing where nobody is there."""
        if not self.environment.is_tty:
            return ""
        self.environment.stdout.write(question)
        self.environment.stdout.flush()
        answer = self.environment.stdin.readline().strip().lower()
        self.note(question + answer)
        return answer

    def note(self, text: str) -> None:
        """Write into the log alone, such as what was typed."""
        if self._log is not None and text:
            self._log.write(text + "\n")
            self._log.flush()

    def close(self) -> None:
        """End inner sessions and the log, take scratch folders away."""
        self.frames.close()
        self.log_to(None)
        for folder in self._scratch:
            shutil.rmtree(folder, ignore_errors=True)

    # -- names --------------------------------------------------------------------------------

    @property
    def net(self) -> Net:
        """The predict_net that is stepped."""
        return self.session.model.predict_net

    def blob_names(self) -> List[str]:
        """Every blob of predict_net in order of appearance, then what only init_net or a feed made."""
        return list(dict.fromkeys(self.net.blobs() + sorted(self.session.history.initial)))

    def operator_types(self) -> List[str]:
        """The operator types of predict_net, in order of appearance."""
        return list(dict.fromkeys(op.type for op in self.net.operators))

    def node_names(self) -> List[str]:
        """The names of the ONNX nodes that the operators came from."""
        return list(dict.fromkeys(op.node.label for op in self.net.operators if op.node))

    def labels(self) -> List[str]:
        """The names that the operators have themselves."""
        return list(dict.fromkeys(op.name for op in self.net.operators if op.name))
