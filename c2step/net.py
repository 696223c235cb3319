"""Nets, operators and blob versions as plain data: no protobuf, no Caffe2.

An operator is addressed by its index in predict_net, since its `name` is often empty.  A blob that
is written several times has versions, counted as `caffe2.python.core.get_ssa` counts them: version
0 is the value that was there before the net ran, `conv1@2` is the second write of `conv1`.
"""

from dataclasses import dataclass
from itertools import chain
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from .sizes import counted

__all__ = [
    "Argument",
    "BlobVersion",
    "Net",
    "OnnxNode",
    "Operator",
    "depends_on_others",
    "is_random",
    "is_stateful",
    "operator_from_json",
]


class BlobVersion(NamedTuple):
    """One value of a blob: `conv1@2` is what the second write left."""

    name: str
    version: int

    def __str__(self) -> str:
        return "%s@%d" % self


@dataclass(frozen=True)
class Argument:
    """One argument of an operator; long lists keep their first values and their true `size`."""

    name: str
    value: Any
    size: int = 1
    kind: str = "i"  # i, f, s, ints, floats, strings, net, tensor

    def __str__(self) -> str:
        if self.kind == "net":
            return "%s=<net of %s>" % (self.name, counted(self.size, "operator"))
        if not isinstance(self.value, tuple):
            return "%s=%s" % (self.name, self.value)
        more = ", ... %d values" % self.size if self.size > len(self.value) else ""
        return "%s=[%s%s]" % (self.name, ", ".join(str(v) for v in self.value), more)


@dataclass(frozen=True)
class OnnxNode:
    """The ONNX node that an operator came from; `blobs` hold its outputs, where those have other names."""

    index: int
    name: str
    op_type: str
    domain: str = ""
    inputs: Tuple[str, ...] = ()
    outputs: Tuple[str, ...] = ()
    blobs: Tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What to call it: its name, or its position where it has none."""
        return self.name or "%s_%d" % (self.op_type, self.index)

    def value_in(self, blob: str) -> str:
        """The output that a blob holds after the node, empty for other blobs."""
        return dict(zip(self.blobs or self.outputs, self.outputs)).get(blob, "")


@dataclass(frozen=True)
class Operator:
    """One operator of a net; `inner` are the operators of the nets inside it, however deep.

    `unnamed` are blobs of the workspace that those may write without its naming them, `unnamed_inputs` those that
    they may read so.
    """

    index: int
    type: str
    name: str
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    arguments: Tuple[Argument, ...] = ()
    engine: str = ""
    device: str = ""
    node: Optional[OnnxNode] = None
    unnamed: Tuple[str, ...] = ()
    inner: Tuple["Operator", ...] = ()
    unnamed_inputs: Tuple[str, ...] = ()

    @property
    def reads(self) -> Tuple[str, ...]:
        """The blobs that it names as inputs, and those that the nets inside it may read beside."""
        return self.inputs + self.unnamed_inputs

    @property
    def writes(self) -> Tuple[str, ...]:
        """The blobs that it names as outputs, and those that the nets inside it may write beside."""
        return self.outputs + self.unnamed

    @property
    def in_place(self) -> Tuple[str, ...]:
        """The blobs that it reads and overwrites."""
        return tuple(name for name in self.outputs if name in self.inputs)

    def argument(self, name: str, default: Any = None) -> Any:
        """The value of one argument, or `default` where it is not set."""
        for arg in self.arguments:
            if arg.name == name:
                return arg.value
        return default

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON values; `operator_from_json` is the inverse."""
        arguments = tuple(dict(argument.__dict__) for argument in self.arguments)
        return dict(self.__dict__, arguments=arguments, node=dict(self.node.__dict__) if self.node else None)

    def __str__(self) -> str:
        label = self.outputs[0] if self.outputs else self.name
        return "operator %d %s%s" % (self.index, self.type, ' "%s"' % label if label else "")


@dataclass(frozen=True)
class Net:
    """A NetDef: operators in order, and the blobs it says it takes and gives."""

    name: str
    operators: Tuple[Operator, ...]
    external_input: Tuple[str, ...] = ()
    external_output: Tuple[str, ...] = ()
    device: str = ""

    def __len__(self) -> int:
        return len(self.operators)

    def ssa(self) -> List[Tuple[List[BlobVersion], List[BlobVersion]]]:
        """For each operator the versions it reads and the versions it writes, as core.get_ssa."""
        versions: Dict[str, int] = {}
        result = []
        for op in self.operators:
            reads = [BlobVersion(name, versions.get(name, 0)) for name in op.inputs]
            for name in op.outputs:
                versions[name] = versions.get(name, 0) + 1
            result.append((reads, [BlobVersion(name, versions[name]) for name in op.outputs]))
        return result

    def onnx_values(self) -> Dict[Tuple[int, int], str]:
        """The ONNX value in an operator's output, by operator and slot; none where several nodes write it."""
        last: Dict[str, Tuple[int, int]] = {}
        writers: Dict[str, Set[int]] = {}
        for op in self.operators:
            for slot, blob in enumerate(op.outputs):
                value = op.node.value_in(blob) if op.node else ""
                if op.node and value:
                    last[value] = (op.index, slot)
                    writers.setdefault(value, set()).add(op.node.index)
        return {place: value for value, place in last.items() if len(writers[value]) == 1}

    def producers(self, blob: str) -> List[Operator]:
        """The operators that write `blob`, or may write it by the nets inside them, in order."""
        return [op for op in self.operators if blob in op.writes]

    def consumers(self, blob: str) -> List[Operator]:
        """The operators that read `blob`, or may read it by the nets inside them, in order."""
        return [op for op in self.operators if blob in op.reads]

    def free_inputs(self) -> List[str]:
        """The blobs that are read before any operator writes them, declared or not, in order."""
        written: Dict[str, bool] = {}
        free: Dict[str, bool] = {}
        for op in self.operators:
            for name in op.inputs:
                if name and name not in written:
                    free[name] = True
            written.update((name, True) for name in op.outputs)
        return list(free)

    def blobs(self) -> List[str]:
        """Every blob name in the net, in order of appearance."""
        names = dict.fromkeys(chain.from_iterable(side for op in self.operators for side in (op.inputs, op.writes)))
        names.pop("", None)
        return list(names)

    def _repr_html_(self) -> str:
        """The operators as a table, for notebooks."""
        from .html import html_table

        head = ["#", "type", "inputs", "outputs", "ONNX node", "arguments"]
        rows = [[op.index, op.type, ", ".join(op.inputs), ", ".join(op.outputs), op.node.label if op.node else "",
                 " ".join(map(str, op.arguments))] for op in self.operators]  # fmt: skip
        return html_table("%s: %d operators" % (self.name or "net", len(self)), head, rows)

    def to_json(self) -> Dict[str, Any]:
        """As plain JSON values; `from_json` is the inverse."""
        return dict(self.__dict__, operators=[_as_json(op) for op in self.operators])

    @classmethod
    def from_json(cls, data: Dict[str, Any]) -> "Net":
        """The net that `to_json` wrote."""
        return cls(
            data["name"],
            tuple(operator_from_json(op) for op in data["operators"]),
            tuple(data["external_input"]),
            tuple(data["external_output"]),
            data["device"],
        )


def _as_json(op: Operator) -> Dict[str, Any]:
    arguments = [dict(arg.__dict__) for arg in op.arguments]
    found = dict(op.__dict__, arguments=arguments, node=dict(op.node.__dict__) if op.node else None)
    if not op.inner:
        del found["inner"], found["unnamed"], found["unnamed_inputs"]
        return found
    return dict(found, inner=[_as_json(inner) for inner in op.inner])


def operator_from_json(data: Dict[str, Any]) -> Operator:
    """An operator of a net's `to_json`."""
    node = data.get("node")
    if node:
        names = (tuple(node.get(key, ())) for key in ("inputs", "outputs", "blobs"))
        node = OnnxNode(node["index"], node["name"], node["op_type"], node["domain"], *names)
    return Operator(
        data["index"],
        data["type"],
        data["name"],
        tuple(data["inputs"]),
        tuple(data["outputs"]),
        tuple(_argument(arg) for arg in data["arguments"]),
        data["engine"],
        data["device"],
        node or None,
        tuple(data.get("unnamed", ())),
        tuple(operator_from_json(inner) for inner in data.get("inner", ())),
        tuple(data.get("unnamed_inputs", ())),
    )


def _argument(data: Dict[str, Any]) -> Argument:
    value = tuple(data["value"]) if isinstance(data["value"], list) else data["value"]
    return Argument(data["name"], value, data["size"], data["kind"])


_RANDOM = ("Random", "Dropout", "Bernoulli", "Multinomial")
_RANDOM_FILLS = {
    "XavierFill",
    "MSRAFill",
    "GaussianFill",
    "UniformFill",
    "UniformIntFill",
    "UniqueUniformFill",
    "GaussianIntFill",
    "RandomNormal",
    "RandomUniform",
}
_STATEFUL = {
    "Iter",
    "AtomicIter",
    "Counter",
    "CountUp",
    "CountDown",
    "CreateCounter",
    "CreateDB",
    "TensorProtosDBInput",
    "ImageInput",
    "ReadNextBatch",
    "ReadRandomBatch",
    "Load",
    "DequeueBlobs",
    "EnqueueBlobs",
    "LearningRate",
}


_SHARED = {"DequeueBlobs", "EnqueueBlobs", "ImageInput", "ReadRandomBatch"}


def is_random(op: Operator) -> bool:
    """Whether it, or one inside it, draws random numbers, so that running it again may give other values."""
    if op.inner and any(is_random(inner) for inner in op.inner):
        return True
    if op.type == "Dropout":
        return not op.argument("is_test", 0)
    return op.type in _RANDOM_FILLS or op.type.startswith(_RANDOM[:1] + _RANDOM[2:])


def depends_on_others(op: Operator) -> bool:
    """Whether what it reads is not this net's alone, so that running everything again may give other values."""
    return op.type in _SHARED or any(depends_on_others(inner) for inner in op.inner)


def is_stateful(op: Operator) -> bool:
    """Whether it, or one inside it, changes state outside its outputs, or reads what another run left."""
    if op.inner and any(is_stateful(inner) for inner in op.inner):
        return True
    if op.type == "SpatialBN":
        return not op.argument("is_test", 0)
    return op.type in _STATEFUL
