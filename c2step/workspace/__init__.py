"""Where operators run.

`Workspace` is the seam: the same verbs in this process (`local.LocalWorkspace`, which is the only
user of caffe2.python.workspace) and in a worker process that may die (`process.ProcessWorkspace`).
Values cross it as plain JSON, blobs as arrays or as files of a capture.
"""

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

if TYPE_CHECKING:  # workers are started from here before anything heavy is loaded
    import numpy as np

    from ..blob import Blob, BlobSummary
    from ..progress import Progress

__all__ = ["Change", "Event", "LargeEvent", "SmallEvent", "StepEvent", "Workspace", "changes_of"]

Change = Tuple[str, str, Any]
"""One change of an operator: ("arg", name, value or None), ("input", position, blob), ("type" or "engine", "", word).
"""


def changes_of(*changes: Union[Change, Mapping[str, Any]]) -> Tuple[Change, ...]:
    """Changes as they are, and those of arguments for each mapping."""
    found: List[Change] = []
    for change in changes:
        found += [("arg", name, value) for name, value in change.items()] if isinstance(change, Mapping) else [change]
    return tuple(found)


StepEvent = Dict[str, Any]
"""What running one operator gave: index, status, error, seconds, outputs (name, kind, dtype, shape, file, summary).

The status is ok, failed, or full where it ran and the limit on bytes leaves no room for what it wrote.
"""


class SmallEvent(NamedTuple):
    """What running one operator gave, if its only output is a small tensor that shares its memory with no other.

    `operator` is its index, `data` are the tensor's bytes, `pack` says whether they are to be kept.
    """

    operator: int
    seconds: float
    dtype: str
    shape: Tuple[int, ...]
    data: bytes
    pack: bool


class LargeEvent(NamedTuple):
    """What running one operator gave, if its only output is another tensor of floats that shares no memory.

    `file` is inside the capture, None where the bytes are not kept.
    """

    operator: int
    seconds: float
    summary: "BlobSummary"
    file: Optional[str]


Event = Union[StepEvent, SmallEvent, LargeEvent]


class Workspace:
    """Loads nets, feeds, runs operators one at a time, fetches.

    `on_lost` is called where what was opened is found to be gone, before the next request is made.
    `watch` shows how far long requests are, where somebody sees it.
    """

    watch: "Optional[Progress]" = None
    on_lost: Callable[[], Any] = staticmethod(lambda: None)  # type: ignore[assignment]

    def versions(self) -> Dict[str, Any]:
        """Versions of what runs the operators: python, torch, numpy, onnx, operators."""
        raise NotImplementedError

    def declare(self, spec: Dict[str, Any]) -> Dict[str, Any]:
        """Read a model's files, convert nothing: kind, inputs, outputs, other names that may be fed."""
        raise NotImplementedError

    def open(self, spec: Dict[str, Any]) -> Dict[str, Any]:
        """Load a model and return it as JSON: init_net, predict_net, inputs, outputs, notes."""
        raise NotImplementedError

    def init(self) -> None:
        """Empty the workspace, feed the initializers and run init_net."""
        raise NotImplementedError

    def feed(self, name: str, array: "np.ndarray") -> "BlobSummary":
        """Feed one blob and return what the workspace then holds."""
        raise NotImplementedError

    def run(self, request: Dict[str, Any], on_events: Callable[[List[Event]], None]) -> str:
        """Run the operators `first` to `last` (exclusive) until one fails or a stop is asked for.

        `request` also has `tick` (a running number for file names), `left` (how many bytes of blobs may still be
        kept, None for any number) and `plan`, which whoever asks again for the same gives as the same object:
        `record` (directory, level, types, match, packs, before, on_full; or None), `wraps`, `conditions` (operator
        indices, text) and `watched` (blobs), after which to stop, and `replace`: by an operator's index, values as
        `restore` takes them, which blobs hold as soon as it has run and what it wrote is recorded.  Returns "done",
        "hit", "stopped", "failed" or "full".
        """
        raise NotImplementedError

    def peek(self, names: Optional[Sequence[str]] = None) -> List[Dict[str, Any]]:
        """Kind, dtype and shape of blobs, without reading their values."""
        raise NotImplementedError

    def fetch(self, name: str) -> "Blob":
        """The value of a blob now."""
        raise NotImplementedError

    def summary(self, name: str) -> "BlobSummary":
        """The summary of a blob now, made where the bytes are."""
        raise NotImplementedError

    def restore(self, values: Sequence[Dict[str, Any]], remove: Sequence[str], reset: Sequence[int]) -> None:
        """Put blobs back from files (name, kind, file, scale, zero_point), take others away, and make
        the operators `reset` anew, so that their state is as before their first run."""
        raise NotImplementedError

    def share(self, pairs: Sequence[Tuple[str, str]]) -> None:
        """Let the first blob of each pair have the storage of the second."""
        raise NotImplementedError

    def edit(self, index: int, changes: Sequence[Change]) -> Dict[str, Any]:
        """Change an operator of predict_net, from what it was when it was opened; returns it as JSON.

        `open` takes such changes too, as `edits` of its spec: pairs of index and changes.
        """
        raise NotImplementedError

    def trial(
        self, index: int, changes: Sequence[Change], values: Sequence[Dict[str, Any]], directory: str
    ) -> Dict[str, Any]:
        """Run an operator once, changed, apart from the workspace: status, error, outputs (with files in `directory`).

        `values` are its inputs as `restore` takes them; one that is not among them has its value of now.
        """
        raise NotImplementedError

    def arguments(self, op_type: str) -> List[str]:
        """The arguments that this Caffe2 is known to read in operators of a type; none where nothing says."""
        raise NotImplementedError

    def write_net(self, path: str) -> None:
        """Write predict_net as it is now, as text where the name ends in .pbtxt."""
        raise NotImplementedError

    def inside(self, index: int) -> List[Dict[str, Any]]:
        """The nets inside an operator: `argument` and `net`, a Net as JSON."""
        raise NotImplementedError

    def enter(self, index: int, directory: str) -> Dict[str, Any]:
        """Write what an operator would do now with the nets inside it, as one plain net and the values it runs on.

        Returns `net` (its path), `values` (name, kind, file), `results` (output -> blob of the plain net) and
        `spans` (label, first operator, behind the last).  UsageError where it cannot be entered.
        """
        raise NotImplementedError

    def cut(
        self, first: int, last: int, directory: str, values: Sequence[Dict[str, Any]], outputs: Sequence[Dict[str, Any]]
    ) -> Dict[str, Any]:
        """Write operators `first` to `last` (exclusive) as nets of their own, and as an ONNX backend test.

        Values and outputs are rows of files.  Returns `unfilled` (values that init_net lacks), `onnx` (why there
        is no ONNX test).
        """
        raise NotImplementedError

    def sibling(self) -> "Workspace":
        """Another, empty workspace of the same kind: the same runtime, the same limits."""
        raise NotImplementedError

    def describe(self, index: int, init: bool = False) -> str:
        """An operator as OperatorDef text, and the ONNX node it came from."""
        raise NotImplementedError

    def convert(self, directory: str, text: bool = False) -> List[str]:
        """Write init_net.pb and predict_net.pb (and .pbtxt) and return the paths."""
        raise NotImplementedError

    def infer_shapes(self) -> Dict[str, Any]:
        """Shapes and dtypes of blobs that Caffe2 can infer from those in the workspace."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """Ask a running `run` to stop before its next operator; safe in a signal handler."""
        raise NotImplementedError

    def forget_interrupt(self) -> None:
        """Take that back, where nothing ran that it could stop."""
        raise NotImplementedError

    def give_up(self) -> None:
        """What was opened is not as it should be: where it can be let go of, the next request begins with `on_lost`."""

    def close(self) -> None:
        """Let go of everything."""
        raise NotImplementedError
