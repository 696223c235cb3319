"""The worker process: Caffe2 behind a pipe.

Standard library, numpy, onnx and Caffe2 only; runs on Python 3.7 and up.  One request a line in,
one reply line out, both JSON, on pipes that nothing else can write to:
file descriptors 0 and 1 are taken away first, so what Caffe2 or user code prints goes to 2.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
import traceback
from typing import Any, Callable, Dict, List, Optional

from ..blob import Blob
from ..capture import write_blob
from ..errors import C2StepError, ConversionError
from . import Event
from .awake import Awake
from .eventlog import EventWriter, event_log
from .loading import without_gpu_words
from .memory import limit_memory, memory_held
from .status import IDLE, Status

__all__ = ["main"]

_read_json = json.JSONDecoder().raw_decode  # what json.loads does more takes as long again for a short line


def main(onnx: bool = False) -> None:
    """Load Caffe2, learn from the first line which session this is for, serve requests until the front closes the pipe.

    The first line has the path of the status page, and how many bytes of memory may be held.
    """
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.dup(1)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the front decides what Ctrl-C stops
    _load_ahead(onnx)
    first = requests.readline()
    if not first:
        os._exit(0)
    status_path, max_memory = json.loads(first.decode("utf-8"))
    server = _Server(status_path, replies, max_memory)
    awake = Awake(requests.fileno())
    while True:
        awake.look()
        line = requests.readline()
        awake.came()
        if not line:
            break
        server.answer(_read_json(line.decode("utf-8"))[0])
    os._exit(0)  # Caffe2's own teardown may die, and nothing is left to lose


def _load_ahead(onnx: bool) -> None:
    """Import what the first request will need; what is wrong with it is said in the reply to that."""
    with contextlib.suppress(Exception):
        from . import local  # noqa: F401

        if onnx:
            from ..importer import backend, lint  # noqa: F401


def _die_with_parent() -> None:
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG; Linux only


class _Server:
    def __init__(self, status_path: str, replies: int, max_memory: Optional[int]) -> None:
        self._status = Status(status_path)
        self._max_memory = max_memory
        self._replies = replies
        self._workspace: Any = None
        self._events = EventWriter(event_log(status_path))
        self._plan: Dict[str, Any] = {}  # of the last run
        self._flush = getattr(ctypes.CDLL(None), "fflush", None)

    def answer(self, request: Dict[str, Any]) -> None:
        """Do one request and write its reply."""
        reply: Dict[str, Any] = {}
        try:
            text = '{"ok": %s}' % json.dumps(self._method(request["do"])(**request["with"]))
        except C2StepError as error:
            reply = {"error": {"kind": type(error).__name__, "message": error.message, "hint": error.hint}}
            if isinstance(error, ConversionError):
                reply["error"]["nodes"] = error.nodes
        except ImportError as error:
            reply = {
                "error": {
                    "kind": "RuntimeMissing",
                    "message": "%s has no usable Caffe2: %s" % (sys.executable, error),
                    "hint": "",
                }
            }
        except MemoryError:
            reply = {
                "error": {
                    "kind": "C2StepError",
                    "message": "out of memory in the worker",
                    "hint": "fewer or smaller blobs at a time",
                }
            }
        except Exception:
            reply = {"bug": traceback.format_exc()}
        if reply and request["do"] == "run":  # an operator may have run of which the front has heard nothing
            reply["lost"] = True
        self._status.enter(IDLE)
        self._send(json.dumps(reply) if reply else text)

    def _method(self, name: str) -> Callable[..., Any]:
        return getattr(self, "do_" + name)  # type: ignore[no-any-return]

    def _send(self, message: str) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        if self._flush:
            self._flush(None)
        data = (message + "\n").encode("utf-8")
        while data:
            data = data[os.write(self._replies, data) :]

    def _log(self, events: List[Event]) -> None:
        for event in events:
            self._events.write(event)

    def _caffe2(self) -> Any:
        if self._workspace is None:
            with without_gpu_words():
                from .local import LocalWorkspace, quiet

            quiet()
            limit_memory(self._max_memory)  # Caffe2 itself is loaded by now
            self._workspace = LocalWorkspace(self._status)
            self._workspace.stay()
        return self._workspace

    def do_memory(self) -> int:
        self._caffe2()
        return memory_held()

    def do_limit(self, memory: Optional[int]) -> None:
        self._caffe2()
        limit_memory(memory)

    def do_versions(self) -> Any:
        return self._caffe2().versions()

    def do_declare(self, spec: Dict[str, Any]) -> Any:
        return self._caffe2().declare(spec)

    def do_open(self, spec: Dict[str, Any]) -> Any:
        return self._caffe2().open(spec)

    def do_init(self) -> None:
        self._caffe2().init()

    def do_feed(self, name: str, file: str, kind: str) -> Any:
        from ..capture import read_blob

        array = read_blob(file, name, kind).array
        return self._caffe2().feed(name, array).to_json()

    def do_run(self, **request: Any) -> Any:
        """Where no plan is said it is that of the last run."""
        if request["plan"] is None:
            request["plan"] = self._plan
        self._plan = request["plan"]
        return self._caffe2().run(request, self._log)

    def do_peek(self, names: Any = None) -> Any:
        return self._caffe2().peek(names)

    def do_fetch(self, name: str, file: str) -> Dict[str, Any]:
        blob: Blob = self._caffe2().fetch(name)
        if blob.array is not None:
            write_blob(file, blob)
        return {
            "kind": blob.kind,
            "scale": blob.scale,
            "zero_point": blob.zero_point,
            "text": blob.text,
            "file": blob.array is not None,
        }

    def do_summary(self, name: str) -> Any:
        return self._caffe2().summary(name).to_json()

    def do_restore(self, values: Any, remove: Any, reset: Any) -> None:
        self._caffe2().restore(values, remove, reset)

    def do_share(self, pairs: Any) -> None:
        self._caffe2().share(pairs)

    def do_edit(self, index: int, changes: Any) -> Any:
        return self._caffe2().edit(index, changes)

    def do_trial(self, index: int, changes: Any, values: Any, directory: str) -> Any:
        return self._caffe2().trial(index, changes, values, directory)

    def do_arguments(self, op_type: str) -> Any:
        return self._caffe2().arguments(op_type)

    def do_write_net(self, path: str) -> None:
        self._caffe2().write_net(path)

    def do_inside(self, index: int) -> Any:
        return self._caffe2().inside(index)

    def do_enter(self, index: int, directory: str) -> Any:
        return self._caffe2().enter(index, directory)

    def do_cut(self, first: int, last: int, directory: str, values: Any, outputs: Any) -> Any:
        return self._caffe2().cut(first, last, directory, values, outputs)

    def do_describe(self, index: int, init: bool = False) -> str:
        return str(self._caffe2().describe(index, init))

    def do_convert(self, directory: str, text: bool = False) -> Any:
        return self._caffe2().convert(directory, text)

    def do_bench(self, warmup: int, runs: int) -> Any:
        from .benching import bench

        return bench(self._caffe2(), warmup, runs)

    def do_infer_shapes(self) -> Any:
        return self._caffe2().infer_shapes()

    def do_lint(self, spec: Dict[str, Any]) -> Any:
        return self._caffe2().lint(spec)

    def do_read_net(self, path: str) -> Any:
        return self._caffe2().read_net(path)

    def do_read_tensor(self, path: str, file: str) -> Dict[str, Any]:
        """Decode an ONNX TensorProto file, which the front has no library for."""
        from ..importer.tensors import read_tensor

        name, blob = read_tensor(path)
        write_blob(file, blob)
        return {"name": name, "kind": blob.kind}
