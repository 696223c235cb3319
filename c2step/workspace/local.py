"""Caffe2 in this process: the only user of caffe2.python.workspace besides `reader`.

Every operator lives in a net of its own, created when it first runs and then run by name.  So it
keeps its state (seeded random numbers, counters) from run to run exactly as inside `RunNet`, and
the net-level device option is given to it by CreateNet itself.
"""

import contextlib
import os
import sys
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace

from ..blob import OTHER, STRING, TENSOR, UNREADABLE, Blob, BlobSummary, summarize
from ..capture import read_blob
from ..errors import CaptureError, InputError, OperatorError
from ..handlers import CtrlC
from ..importer import netdef
from ..importer.cutting import onnx_values, write_cut, write_onnx_test
from ..importer.editing import Change, edited
from ..importer.opening import Loaded, Opened, lint_model, load_model, open_model
from ..importer.operators import known_arguments
from ..importer.writing import write_net, write_nets
from . import Event, LargeEvent, SmallEvent, StepEvent, Workspace, reader
from .failing import outspoken, reason_of, says_nothing
from .judging import Judging
from .nesting import describe_inside, write_inside
from .recorder import Recorder
from .status import CONVERT, FEED, FETCH, IDLE, INIT, RUN, Status
from .storage import Sharing
from .unimported import thread_numbers, version_of
from .unnamed import changed, names_in, unnamed_in

__all__ = ["LocalWorkspace", "quiet"]

C: Any = workspace.C


class _Operator(NamedTuple):
    """An OperatorDef, and what is read of it at every step, which protobuf would make anew each time."""

    proto: Any
    type: str
    input: Tuple[str, ...]
    output: Tuple[str, ...]
    unnamed: Tuple[str, ...]  # what the nets inside it may write beside
    seen: Tuple[str, ...]  # the blobs that must have been looked at before it runs
    only: str  # its output, where it has a single one and nothing can happen to others; else empty


def quiet() -> None:
    """Let Caffe2 log errors only; for a process of our own.

    GlobalInit would also set one thread where a bare script has all, and matrix products then differ
    in their last bits, so it is told the number that is set.
    """
    numbers = "--caffe2_omp_num_threads=%d --caffe2_mkl_num_threads=%d" % thread_numbers()
    flags = ["--caffe2_log_level=3", *numbers.split()]
    core.GlobalInit(["c2step"] + flags)


class LocalWorkspace(Workspace):
    """A Caffe2 workspace of its own in this process; the current one of the caller stays as it is."""

    def __init__(self, status: Optional[Status] = None) -> None:
        self._status = status or Status()
        self._here = status is None  # in the user's own process
        self._name = "c2step-%d-%d" % (os.getpid(), id(self))
        self._loaded: Optional[Loaded] = None
        self._opened: Optional[Opened] = None
        self._operators: Dict[int, _Operator] = {}
        self._recurrent: List[int] = []
        self._created: Dict[int, str] = {}
        self._original: Dict[int, Any] = {}  # the OperatorDefs of edited operators as they were
        self._watching = _Watching({})
        self._sharing = Sharing(_view)
        self._fresh: Dict[str, Dict[str, Any]] = {}  # what `peek` says of initializers that were just fed

    # -- opening ------------------------------------------------------------------------------

    def versions(self) -> Dict[str, Any]:
        """Versions of what runs the operators."""
        found: Dict[str, Any] = {
            "python": "%d.%d.%d" % sys.version_info[:3],
            "torch": version_of("torch"),
            "numpy": np.__version__,
            "executable": sys.executable,
            "operators": len(workspace.RegisteredOperators()),
        }
        versions = {name: version_of(name) for name in ("onnx", "onnxruntime", "onnx_caffe2")}
        found.update((name, version) for name, version in versions.items() if version)
        return found

    def declare(self, spec: Dict[str, Any]) -> Dict[str, Any]:
        """Read the model's files and say what it takes and gives."""
        self._status.enter(CONVERT, -1, str(spec.get("model") or spec.get("predict_net")))
        self._loaded = load_model(spec)
        self._status.enter(IDLE)
        return self._loaded.declared()

    def open(self, spec: Dict[str, Any]) -> Dict[str, Any]:
        """Convert the model; nothing runs yet."""
        if self._loaded is None:
            self.declare(spec)
        loaded, self._loaded = self._loaded, None
        assert loaded
        with self._current():
            self._forget(list(self._created))
            self._status.enter(CONVERT, -1, "")
            self._opened = open_model(loaded, spec, lambda index, label: self._status.enter(CONVERT, index, label))
        self._created, self._original, self._operators = {}, {}, {}
        self._recurrent = _recurrent(self._opened.predict_net)
        for index, changes in spec.get("edits") or ():
            self.edit(index, changes)
        self._status.enter(IDLE)
        return self._opened.to_json()

    def _model(self) -> Opened:
        if self._opened is None:
            raise RuntimeError("no model is open")
        return self._opened

    def lint(self, spec: Dict[str, Any]) -> List[Dict[str, Any]]:
        """What is known beforehand about the model."""
        self.declare(spec)
        assert self._loaded
        with self._current():
            self._status.enter(CONVERT, -1, "")
            findings = lint_model(self._loaded, spec)
            self._status.enter(IDLE)
            return findings

    @staticmethod
    def read_net(path: str) -> Dict[str, Any]:
        """One net file as JSON, whichever of the two nets it is."""
        return netdef.to_net(netdef.load_net(path)).to_json()

    def init(self) -> None:
        """Empty the workspace, feed the initializers, run init_net one operator at a time."""
        opened = self._model()
        with self._current():
            self._forget(list(self._created))
            workspace.ResetWorkspace()
            self._sharing = Sharing(_view)
            self._status.enter(FEED, -1, "initializers")
            fresh: Dict[str, Dict[str, Any]] = {}
            for name, array in opened.initializers():
                reader.feed(name, array)
                fresh[name] = reader.row(reader.of_array(name, array))
            for index, op in enumerate(opened.init_net.op):
                self._status.enter(INIT, index)
                self._run_init(index, op, opened.init_net)
                for name in tuple(op.output) + unnamed_in(opened.init_net, op):
                    fresh.pop(name, None)
            self._fresh = fresh
            self._status.enter(IDLE)

    def _run_init(self, index: int, op: Any, init_net: Any) -> None:
        net = self._alone(op, init_net, "c2step/init/%d" % index)
        try:
            C.run_net_once(net.SerializeToString())
        except RuntimeError as error:
            label = ' "%s"' % op.output[0] if op.output else ""
            raise OperatorError(
                "init_net operator %d %s%s: %s" % (index, op.type, label, reason_of(error)),
                "predict_net is not run on missing weights; mend init_net",
            ) from error

    @staticmethod
    def _alone(op: Any, net: Any, name: str) -> Any:
        """A net of this one operator; CreateNet then merges the net's device option as in the whole net."""
        alone = caffe2_pb2.NetDef(name=name, type="simple")
        if net.HasField("device_option"):
            alone.device_option.CopyFrom(net.device_option)
        alone.op.add().CopyFrom(op)
        alone.external_input.extend(dict.fromkeys(op.input))
        return alone

    # -- running ------------------------------------------------------------------------------

    def feed(self, name: str, array: np.ndarray) -> BlobSummary:
        """Feed one blob, fetch it back, and make sure that the bytes are the same."""
        with self._current():
            self._status.enter(FEED, -1, name)
            kind = STRING if array.dtype.kind in "OSU" else TENSOR
            self._part([name])
            self._let_go(name)
            try:
                reader.feed(name, array, kind)
            except RuntimeError as error:
                raise InputError(
                    "cannot feed %s with dtype %s: %s" % (name, array.dtype, reason_of(error)),
                    "Caffe2 takes float16 to float64, int8 to int64, uint8, uint16 and bool",
                ) from error
            blob = reader.read(name)
            if kind == TENSOR and (blob.array is None or blob.array.tobytes() != reader.native(array).tobytes()):
                raise InputError("feeding %s changed its value (dtype %s)" % (name, array.dtype))
            return summarize(blob)

    def run(self, request: Dict[str, Any], on_events: Callable[[List[Event]], None]) -> str:
        """Run a range of operators; see `Workspace.run`."""
        if not self._here:
            return self._run(request, on_events)
        with CtrlC(self._pressed):
            return self._run(request, on_events)

    def _pressed(self, again: bool) -> None:
        self.interrupt()
        if again:
            raise KeyboardInterrupt

    def _run(self, request: Dict[str, Any], on_events: Callable[[List[Event]], None]) -> str:
        self._fresh = {}
        if request["plan"] is not self._watching.plan:
            self._watching = _Watching(request["plan"])
        watching, tick, status = self._watching, request["tick"], self._status
        watching.recorder.begin(request["left"])
        with self._current():
            for index in range(request["first"], request["last"]):
                if status.stop_asked():
                    return self._done("stopped")
                op = self._operators.get(index) or self._operator(index)
                event = self._step(index, op, tick, watching)
                on_events([event])
                if isinstance(event, dict):
                    if event["status"] != "ok":
                        return self._done("full" if event["status"] == "full" else "failed")
                    if "disk" in event:
                        return self._done("stopped")
                if watching.replacing:
                    self._replace(watching.replacing.get(str(index), ()))
                if watching.judging.any and watching.judging.hit(index, op, event):
                    return self._done("hit")
                tick += 1
        return self._done("done")

    def _replace(self, values: Sequence[Dict[str, Any]]) -> None:
        """Let blobs hold what is in files, once the operator has run that wrote them."""
        left = [value for value in values if not self._overwritten(value)]
        if left:
            self._part([value["name"] for value in left])
            self._put(left)

    def _done(self, reason: str) -> str:
        self._status.ask_stop(False)
        self._status.enter(IDLE)
        return reason

    def _operator(self, index: int) -> _Operator:
        found = self._operators.get(index)
        if found is None:
            net = self._model().predict_net
            op = net.op[index]
            type_, read, written, unnamed = op.type, tuple(op.input), tuple(op.output), unnamed_in(net, op)
            only = written[0] if len(written) == 1 and type_ != "Alias" and not unnamed else ""
            found = self._operators[index] = _Operator(op, type_, read, written, unnamed, read + unnamed, only)
        return found

    def _step(self, index: int, op: _Operator, tick: int, watching: "_Watching") -> Event:
        recorder = watching.recorder
        found = self._saved_before(index, op, tick, recorder) if recorder.looks_before else {}
        self._sharing.see_inputs(op.seen)
        if watching.judging.any:
            watching.judging.see_inputs(index, op)
        held = [reader.read(name) for name in op.unnamed] if op.unnamed else []
        error: Optional[RuntimeError] = None
        self._status.enter(RUN, index)
        start = time.perf_counter()
        try:
            C.run_net(self._created.get(index) or self._net_of(index, op), 1, False)
        except RuntimeError as raised:
            error = raised
        seconds = time.perf_counter() - start
        if op.only and error is None and not found:
            plain = self._plain(index, op, seconds, tick, recorder)
            if plain is not None:
                self._status.finished()
                return plain
        event: StepEvent = {"index": index, "status": "ok", "outputs": [], "seconds": seconds, **found}
        if error is not None:
            event.update(status="failed", error=self._reason(op, error), full_error=str(error)[:20000])
        else:
            self._status.enter(FETCH, index)
            self._outputs(op, tick, recorder, event, held)
        self._status.finished()
        return event

    def _saved_before(self, index: int, op: _Operator, tick: int, recorder: Recorder) -> StepEvent:
        """What an event says of blobs that are saved before the operator runs."""
        found: StepEvent = {}
        wrapped = recorder.wraps(op)
        if wrapped:
            self._status.enter(FETCH, index)
            found["wrapped"] = {"inputs": recorder.save_all(wrapped, tick, "in", op.input), "directories": wrapped}
        before = recorder.before(op)
        if before:
            found["before"] = recorder.save_all([recorder.directory], tick, "before", before)
        return found

    def _plain(self, index: int, op: _Operator, seconds: float, tick: int, recorder: Recorder) -> Optional[Event]:
        """The event, if the only output is a tensor that shares storage with no other."""
        view = reader.view(C.Workspace.current, op.only)
        if view is None:
            return None
        dtype, shape, array, start = view
        size = array.nbytes
        if (size > reader.SMALL and dtype[0] != "f") or not self._sharing.settled(op.only, start, start + size):
            return None
        if size > reader.SMALL:
            self._status.enter(FETCH, index)
            found = recorder.record_only(op, tick, array)
            return None if found is None else LargeEvent(index, seconds, *found)
        pack = recorder.packs(op, op.only, size)
        return None if pack is None else SmallEvent(index, seconds, dtype, shape, array.tobytes(), pack)

    def _outputs(
        self, op: _Operator, tick: int, recorder: Recorder, event: StepEvent, held: Sequence[Blob] = ()
    ) -> None:
        blobs = [reader.read(name, view=True) for name in op.output]
        blobs += changed(op.unnamed, held)
        unreadable = [b for b in blobs if b.kind == UNREADABLE]
        if unreadable:
            event.update(status="failed", error="%s has %s" % (unreadable[0].name, unreadable[0].text))
            return
        pairs, others = self._sharing.see_outputs(blobs, op.input[0] if op.type == "Alias" else "")
        try:
            rows = recorder.record(op, tick, blobs)
        except CaptureError as error:
            event.update(disk={"message": error.message, "hint": error.hint})
            rows = recorder.describe(blobs)
        event["outputs"] = rows and rows[: len(op.output)]
        touched = [dict(row, new=False, inside=True) for row in (rows or [])[len(op.output) :]]
        if pairs:
            event["shares"] = pairs
            touched += [dict(row, new=others[row["name"]]) for row in recorder.shared(tick, list(others))]
        if touched:
            event["touched"] = touched
        if rows is None:
            event["status"] = "full"
        elif "wrapped" in event:
            event["wrapped"]["outputs"] = recorder.save_all(event["wrapped"]["directories"], tick, "out", op.output)

    def _reason(self, op: _Operator, error: RuntimeError) -> str:
        """What an operator's error says; where that is nothing, it runs apart once more, so that it speaks."""
        if not says_nothing(error):
            return reason_of(error)
        blobs = [reader.read(name) for name in names_in(op.proto)]
        net = self._alone(outspoken(op.proto), self._model().predict_net, "c2step/trial")
        with self._apart(blobs):
            try:
                C.run_net_once(net.SerializeToString())
            except RuntimeError as again:
                return reason_of(again)
        return "it failed and gave no reason"

    def _net_of(self, index: int, op: _Operator) -> str:
        name = self._created.get(index)
        if name is None:
            name = "c2step/%d" % index
            C.create_net(self._alone(op.proto, self._model().predict_net, name).SerializeToString(), True)
            self._created[index] = name
        return name

    # -- looking ------------------------------------------------------------------------------

    def peek(self, names: Optional[Sequence[str]] = None) -> List[Dict[str, Any]]:
        """Kind, dtype and shape of blobs; all of the workspace's unless named.  Initializers just fed need no look."""
        fresh, self._fresh = self._fresh, {}
        with self._current():
            self._status.enter(FETCH, -1, "all blobs")
            wanted = reader.names() if names is None else names
            return [fresh.get(name) or reader.peek(name) for name in wanted]

    def fetch(self, name: str) -> Blob:
        """The value of a blob, copied."""
        with self._current():
            self._status.enter(FETCH, -1, name)
            return reader.read(name)

    def summary(self, name: str) -> BlobSummary:
        """The summary of a blob, without copying its value."""
        with self._current():
            self._status.enter(FETCH, -1, name)
            return summarize(reader.read(name, view=True))

    def describe(self, index: int, init: bool = False) -> str:
        """An operator as text, long lists cut, and its ONNX node."""
        opened = self._model()
        net, node_of = (opened.init_net, opened.init_node_of) if init else (opened.predict_net, opened.node_of)
        text = _shortened(net.op[index])
        if opened.onnx_model is None or index >= len(node_of):
            return text
        from ..importer import backend

        return "%s\nfrom ONNX node %d:\n%s" % (
            text,
            node_of[index],
            backend.describe_node(opened.onnx_model, node_of[index]),
        )

    def infer_shapes(self) -> Dict[str, Any]:
        """Shapes and dtypes that Caffe2 infers for predict_net from the blobs in the workspace."""
        with self._current():
            self._status.enter(RUN, -1, "shape inference")
            shapes, types = workspace.InferShapesAndTypes([self._model().predict_net], nets_proto=True)
        return {name: [list(map(int, shape)), int(types.get(name, 0))] for name, shape in shapes.items()}

    # -- changing -----------------------------------------------------------------------------

    def restore(self, values: Sequence[Dict[str, Any]], remove: Sequence[str], reset: Sequence[int]) -> None:
        """Put blobs back from a capture's files, take others away, make some operators anew."""
        with self._current():
            self._part(list(remove) + [value["name"] for value in values])
            for name in remove:
                self._remove(name)
            self._forget(reset)
            self._put(values)
            self._status.enter(IDLE)

    def _put(self, values: Sequence[Dict[str, Any]]) -> None:
        """Let blobs hold what is in files."""
        for value in values:
            self._status.enter(FEED, -1, value["name"])
            blob = stored_blob(value)
            assert blob.array is not None
            self._let_go(blob.name)
            reader.feed(blob.name, np.asarray(blob.array), blob.kind, blob.scale, blob.zero_point)

    def _overwritten(self, value: Dict[str, Any]) -> bool:
        """Copy what is in a file into the tensor that is there, if that has its form and memory of its own."""
        here = reader.read(value["name"], view=True)
        if value["kind"] != TENSOR or here.kind != TENSOR or here.array is None:
            return False
        if not self._sharing.storage.holds(here.name, here.array):
            return False
        found = stored_blob(value).array
        assert found is not None
        if (found.dtype, found.shape) != (here.array.dtype, here.array.shape):
            return False
        self._status.enter(FEED, -1, here.name)
        here.array[...] = found
        return True

    def share(self, pairs: Sequence[Tuple[str, str]]) -> None:
        """Let the first blob of each pair have the storage of the second, as `Alias` does; it keeps its shape."""
        with self._current():
            for name, other in pairs:
                shape = reader.peek(name)["shape"]
                self._let_go(name)
                C.run_operator_once(core.CreateOperator("Alias", [other], [name]).SerializeToString())
                if shape != reader.peek(other)["shape"]:
                    reshape = core.CreateOperator("Reshape", [name], [name, "c2step/old_shape"], shape=shape)
                    C.run_operator_once(reshape.SerializeToString())
                    self._remove("c2step/old_shape")
                self._sharing.see_inputs([other])
                self._sharing.see_outputs([_view(name)], other)

    def _remove(self, name: str) -> None:
        self._let_go(name)
        if not C.has_blob(name):
            return
        if hasattr(C, "reset_blob"):
            C.reset_blob(name)
            return
        self._forget(self._users(name))  # they hold a pointer to the blob that goes away
        C.Workspace.current.remove_blob(name)

    def _part(self, names: Sequence[str]) -> None:
        """Give storage of their own to blobs that lie in the storage of blobs which are about to lose theirs.

        The outputs of RecurrentNetwork are parts of the states of all time steps, without a hold on them.
        """
        lost, found = set(names), set(names)
        for index in self._recurrent:
            op = self._operator(index)
            if not lost.isdisjoint(op.output + op.unnamed):
                found.update(op.output + op.unnamed)  # where Caffe2 does not tell where its tensors are
        for blob in [reader.read(name) for name in self._sharing.storage.reached(found) - lost]:
            if blob.array is not None:
                self._remove(blob.name)
                reader.feed(blob.name, np.asarray(blob.array), blob.kind, blob.scale, blob.zero_point)

    def _let_go(self, name: str) -> None:
        """A blob gets another value from outside: whoever keeps pointers into an object that it holds is made anew.

        RecurrentNetwork keeps operators of its own for every time step, in workspaces that one of its outputs holds.
        """
        self._sharing.forget(name)
        self._fresh.pop(name, None)
        if C.has_blob(name) and reader.peek(name)["kind"] == OTHER:
            self._forget(self._users(name))

    def _users(self, name: str) -> List[int]:
        """The operators that were made and have a blob, at whatever depth."""
        net = self._model().predict_net
        return [index for index in self._created if name in names_in(net.op[index])]

    def _forget(self, indices: Iterable[int]) -> None:
        for index in indices:
            name = self._created.pop(index, None)
            if name is not None:
                C.delete_net(name)

    def edit(self, index: int, changes: Sequence[Change]) -> Dict[str, Any]:
        """Change an operator of predict_net, from what it was at first, and return it as JSON; its state is lost."""
        net = self._model().predict_net
        original = self._original.setdefault(index, _copied(net.op[index]))
        net.op[index].CopyFrom(edited(original, changes))
        self._operators.pop(index, None)
        self._recurrent = _recurrent(net)
        with self._current():
            self._forget([index])
        return self._model().to_net().to_json()["operators"][index]  # type: ignore[no-any-return]

    def trial(
        self, index: int, changes: Sequence[Change], values: Sequence[Dict[str, Any]], directory: str
    ) -> Dict[str, Any]:
        """Run an operator once, changed, on given inputs, in a workspace of its own; see `Workspace.trial`."""
        op = edited(self._original.get(index) or self._model().predict_net.op[index], changes)
        given = {value["name"]: value for value in values}
        self._status.enter(FETCH, index)
        with self._current():
            blobs = [reader.read(name) for name in dict.fromkeys(op.input) if name not in given]
        blobs += [stored_blob(given[name]) for name in dict.fromkeys(op.input) if name in given]
        with self._apart(blobs):
            found = self._try(index, op, directory)
        self._status.enter(IDLE)
        return found

    @contextlib.contextmanager
    def _apart(self, blobs: Sequence[Blob]) -> Iterator[None]:
        """Inside, the current workspace is one with copies of these blobs; afterwards it is empty."""
        with _Switched(self._name + "-trial"):
            workspace.ResetWorkspace()
            for blob in blobs:
                if blob.array is not None:
                    reader.feed(blob.name, np.asarray(blob.array), blob.kind, blob.scale, blob.zero_point)
            try:
                yield
            finally:
                workspace.ResetWorkspace()

    def _try(self, index: int, op: Any, directory: str) -> Dict[str, Any]:
        self._status.enter(RUN, index)
        try:
            C.run_net_once(self._alone(op, self._model().predict_net, "c2step/trial").SerializeToString())
        except RuntimeError as error:
            return {"status": "failed", "error": reason_of(error), "outputs": []}
        self._status.enter(FETCH, index)
        return {"status": "ok", "error": None, "outputs": Recorder(None, ()).save_all([directory], 0, "try", op.output)}

    def arguments(self, op_type: str) -> List[str]:
        """The arguments that operators of a type are known to read."""
        return known_arguments(op_type)

    def write_net(self, path: str) -> None:
        """Write predict_net as it is now, as text where the name ends in .pbtxt."""
        write_net(self._model(), path)

    def inside(self, index: int) -> List[Dict[str, Any]]:
        """The nets inside an operator."""
        return describe_inside(self._model().predict_net.op[index])

    def enter(self, index: int, directory: str) -> Dict[str, Any]:
        """Write what an operator would do now with the nets inside it; see `Workspace.enter`."""
        self._status.enter(RUN, index)
        with self._current():
            op = self._model().predict_net.op[index]
            return write_inside(op, directory, lambda name: _Switched("%s-%s" % (self._name, name)))

    def cut(
        self, first: int, last: int, directory: str, values: Sequence[Dict[str, Any]], outputs: Sequence[Dict[str, Any]]
    ) -> Dict[str, Any]:
        """Write a range of operators on its own; see `Workspace.cut`."""
        blobs = [stored_blob(row) for row in values]
        unfilled = write_cut(self._model(), first, last, directory, blobs)
        known = onnx_values(self._model(), first, blobs)
        known.update(onnx_values(self._model(), last, [stored_blob(row) for row in outputs]))
        return {"unfilled": unfilled, "onnx": write_onnx_test(self._model(), first, last, directory, known)}

    def sibling(self) -> Workspace:
        """Another, empty workspace in this process."""
        return LocalWorkspace()

    def convert(self, directory: str, text: bool = False) -> List[str]:
        """Write the nets so that stock Caffe2 in a bare script runs them to the same result."""
        return write_nets(self._model(), directory, text)

    def forget_interrupt(self) -> None:
        """Take that back."""
        self._status.ask_stop(False)

    def interrupt(self) -> None:
        """Stop a running `run` before its next operator."""
        self._status.ask_stop()

    def close(self) -> None:
        """Let go of the Caffe2 workspace."""
        if self._opened is not None:
            with self._current():
                workspace.ResetWorkspace()
            self._opened = None

    def stay(self) -> None:
        """Let this be the current workspace for good, in a process of its own."""
        C.switch_workspace(self._name, True)

    def _current(self) -> "_Switched":
        return _Switched(self._name)


class _Watching:
    """What a plan of a run wants done at each operator, made once for all runs with this plan."""

    def __init__(self, plan: Dict[str, Any]) -> None:
        self.plan = plan
        self.recorder = Recorder(plan.get("record"), plan.get("wraps") or ())
        self.judging = Judging(plan.get("conditions") or (), plan.get("watched") or ())
        self.replacing: Dict[str, Any] = plan.get("replace") or {}


class _Switched:
    """Inside, a Caffe2 workspace is the current one; afterwards the former one is again."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._before = C.current_workspace()
        if self._before != self._name:
            C.switch_workspace(self._name, True)

    def __exit__(self, *_: Any) -> None:
        if self._before != self._name:
            C.switch_workspace(self._before, True)


def stored_blob(value: Dict[str, Any]) -> Blob:
    """A blob from a capture's file, mapped."""
    return read_blob(
        value["file"], value["name"], value["kind"], value.get("scale"), value.get("zero_point"), mapped=True
    )


def _view(name: str) -> Blob:
    return reader.read(name, view=True)


def _recurrent(net: Any) -> List[int]:
    return [index for index, op in enumerate(net.op) if op.type == "RecurrentNetwork"]


def _copied(op: Any) -> Any:
    copy = caffe2_pb2.OperatorDef()
    copy.CopyFrom(op)
    return copy


def _shortened(op: Any) -> str:
    copy = _copied(op)
    notes = []
    for arg in copy.arg:
        for field in ("floats", "ints", "strings"):
            values = getattr(arg, field)
            if len(values) > 16:
                notes.append("# argument %s has %d %s, the first 16 are shown" % (arg.name, len(values), field))
                del values[16:]
        if len(arg.s) > 400:
            notes.append("# argument %s has %d bytes, the first 400 are shown" % (arg.name, len(arg.s)))
            arg.s = arg.s[:400]
    return "\n".join([str(copy).rstrip()] + notes)
