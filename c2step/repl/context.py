"""What commands, argument types and completion see of a running prompt."""

from typing import TYPE_CHECKING, Any, Dict, List, Optional

from ..net import Net
from .environment import Environment
from .frames import Frames

if TYPE_CHECKING:
    from ..stepper import Session
    from .interpreter import Interpreter

__all__ = ["USER_CODE", "Context"]

USER_CODE = "<prompt>"  # the file name of Python typed at the prompt


class Context:
    """The session, the world outside it, and the names that `!python` has made."""

    def __init__(self, session: "Session", environment: Environment) -> None:
        self.frames = Frames(session)
        self.environment = environment
        self.namespace: Dict[str, Any] = {}
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
