"""A session over numpy instead of Caffe2: enough to test what the prompt says."""

import fnmatch
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import numpy as np

from c2step.blob import INT8, MISSING, TENSOR, UNINITIALISED, Blob, BlobSummary
from c2step.breakpoints import Breakpoint, find_operator
from c2step.capture import write_blob
from c2step.errors import UsageError
from c2step.history import Output, Step
from c2step.model import Declared
from c2step.net import BlobVersion, Net, OnnxNode, Operator
from c2step.snapshot import save_all
from c2step.stepper import Stop


def unwritten(*arrays: Any) -> List[Any]:
    """Dropout in test mode: its mask is never written."""
    return [arrays[0], None]


OPERATORS: Dict[str, Callable[..., List[Any]]] = {
    "Relu": lambda x: [np.maximum(x, 0)],
    "Add": lambda x, y: [x + y],
    "Copy": lambda x: [x.copy()],
    "Dropout": unwritten,
    "Quantize": lambda x: [Blob("", INT8, np.round(x / 0.5).astype(np.uint8), 0.5, 0)],
}
FAILURE = '[enforce fail at relu_op.cc:12] X.dim() == 2. 1 vs 2\nError from operator:\ninput: "x"\n  frame #0'


class FakeSession:
    """Steps a list of (type, inputs, outputs); `Fail` raises, `Die` ends the process that is not there."""

    def __init__(
        self,
        operators: List[Tuple[str, Tuple[str, ...], Tuple[str, ...]]],
        feeds: Dict[str, np.ndarray],
        outputs: Tuple[str, ...] = (),
    ) -> None:
        ops = tuple(
            Operator(i, type, "", ins, outs, node=OnnxNode(i, "%s_%d" % (type, i), type))
            for i, (type, ins, outs) in enumerate(operators)
        )
        net = Net("fake", ops, tuple(feeds), outputs or ops[-1].outputs)
        self.model = SimpleNamespace(
            init_net=Net("init", ()),
            predict_net=net,
            path="fake.onnx",
            notes=("a note",),
            inputs=tuple(Declared(n, str(a.dtype), a.shape) for n, a in feeds.items()),
            outputs=tuple(Declared(n, None, None) for n in net.external_output),
        )
        self.feeds = feeds
        self.notes = []  # type: List[str]
        self.breakpoints: List[Breakpoint] = []
        self.wraps: Dict[str, str] = {}
        self.wrap_effects: Dict[str, str] = {}
        self.changes = SimpleNamespace(laid_in=lambda first, last: [])
        self.calls: List[str] = []
        self.restart()

    max_bytes = max_memory = None

    def restart(self) -> Stop:
        self.position, self.iteration, self.steps = 0, 1, []  # type: int, int, List[Step]
        self._status: Dict[int, str] = {}
        self.history = SimpleNamespace(initial=set(self.feeds), quanta=lambda step: [])
        self._values: Dict[str, List[Blob]] = {n: [Blob(n, TENSOR, a)] for n, a in self.feeds.items()}
        return self._stop("start", [])

    def _stop(self, reason: str, steps: List[Step], detail: str = "") -> Stop:
        ops = self.model.predict_net.operators
        operator = ops[self.position] if self.position < len(ops) else None
        return Stop(reason, self.position, operator, tuple(steps), detail)

    def status(self, index: int) -> str:
        return self._status.get(index, ".")

    def _run_one(self) -> Step:
        op = self.model.predict_net.operators[self.position]
        reads = tuple(BlobVersion(n, self.version(n)) for n in op.inputs)
        if op.type in ("Fail", "Die"):
            status = "failed" if op.type == "Fail" else "died"
            self._status[op.index] = status[0].upper()
            error = FAILURE if op.type == "Fail" else "SIGFPE: operator %d ended its process with SIGFPE" % op.index
            return Step(len(self.steps), self.iteration, op.index, op, status, error, reads, ())
        values = OPERATORS[op.type](*(self._values[n][-1].array for n in op.inputs))
        outs = tuple(self._write(name, value) for name, value in zip(op.outputs, values))
        self._status[op.index] = "o"
        self.position += 1
        return Step(len(self.steps), self.iteration, op.index, op, "ok", None, reads, outs)

    def _write(self, name: str, value: Any) -> Output:
        blob = (
            Blob(name, UNINITIALISED, text="never written")
            if value is None
            else Blob(name, INT8, value.array, value.scale, value.zero_point)
            if isinstance(value, Blob)
            else Blob(name, TENSOR, value)
        )
        self._values.setdefault(name, [Blob(name, MISSING)]).append(blob)
        return Output(name, len(self._values[name]) - 1, blob.kind, blob.summary(), None)

    def _advance(self, until: Callable[[int], bool], reason: str) -> Stop:
        steps: List[Step] = []
        while self.position < len(self.model.predict_net):
            if steps and until(len(steps)):
                return self._stop(reason, steps)
            step = self._run_one()
            self.steps.append(step)
            steps.append(step)
            if step.status != "ok":
                return self._stop(step.status, steps)
        return self._stop("end", steps)

    def next_operator(self) -> Optional[Operator]:
        ops = self.model.predict_net.operators
        return ops[self.position] if self.position < len(ops) else None

    def step(self, n: int = 1) -> Stop:
        self.calls.append("step %d" % n)
        return self._advance(lambda done: done == n, "step")

    next = step

    def until(self, where: str) -> Stop:
        index = self.operator(where).index
        return self._advance(lambda done: self.position == index, "until")

    def cont(self) -> Stop:
        places = {self.operator(b.where).index for b in self.breakpoints}
        return self._advance(lambda done: self.position in places, "breakpoint")

    def run(self, n: int = 1) -> Stop:
        return self._advance(lambda done: False, "end")

    def back(self, n: int = 1) -> Stop:
        self.position = max(0, self.position - n)
        return self._stop("step", [])

    def skip(self, n: int = 1) -> Stop:
        for _ in range(n):
            self._status[self.position] = "S"
            self.position += 1
        return self._stop("step", [])

    def forget_interrupt(self) -> None:
        pass

    def interrupt(self) -> None:
        self.calls.append("interrupt")

    def kill(self) -> None:
        self.calls.append("kill")

    def feed(self, name: str, array: np.ndarray) -> BlobSummary:
        self._values[name] = [Blob(name, TENSOR, array)]
        return self.summary(name)

    def fetch(self, name: str, version: Optional[int] = None) -> Blob:
        values = self._values.get(name, [Blob(name, MISSING)])
        if version is not None and version >= len(values):
            raise UsageError("no version %d of %s" % (version, name))
        return values[-1 if version is None else version]

    def version(self, name: str) -> int:
        return len(self._values.get(name, [None])) - 1

    def versions(self, name: str) -> List[int]:
        return list(range(1, len(self._values.get(name, [None]))))

    def summary(self, name: str, version: Optional[int] = None) -> BlobSummary:
        return self.fetch(name, version).summary()

    def blobs(self, pattern: str = "") -> List[Tuple[str, int, BlobSummary]]:
        return [(n, self.version(n), self.summary(n)) for n in self._values if fnmatch.fnmatchcase(n, pattern or "*")]

    def operator(self, where: str) -> Operator:
        return find_operator(self.model.predict_net, where, self.position)

    def describe(self, index: int) -> str:
        op = self.model.predict_net.operators[index]
        return 'type: "%s"\n' % op.type

    def set_break(self, where: str, *, temporary: bool = False, condition: str = "") -> Breakpoint:
        self.operator(where)
        self.breakpoints.append(Breakpoint(len(self.breakpoints) + 1, where, temporary))
        return self.breakpoints[-1]

    def breakpoint(self, number: int) -> Breakpoint:
        return next(point for point in self.breakpoints if point.number == number)

    def delete_break(self, number: int) -> None:
        self.breakpoints = [b for b in self.breakpoints if b.number != number]

    def wrap(self, pattern: str, save: Optional[str] = None, check: str = "", call: Any = None) -> None:
        self.wraps[pattern] = save or ""

    def unwrap(self, pattern: str) -> None:
        del self.wraps[pattern]

    def save(self, name: str, path: str, version: Optional[int] = None, index: Any = None) -> str:
        blob = self.fetch(name, version)
        if blob.array is None:
            raise UsageError("%s has no value to save: %s" % (name, blob.text or blob.kind))
        write_blob(path, blob if index is None else blob.part(index))
        return path

    def save_all(self, folder: str) -> int:
        return save_all(self, folder)

    def dirty_blobs(self) -> Set[str]:
        return set()

    def header(self) -> Dict[str, Any]:
        return {"kind": "run", "model": self.model.path}

    def unfed(self) -> List[str]:
        return [name for name in self.model.predict_net.free_inputs() if name not in self._values]
