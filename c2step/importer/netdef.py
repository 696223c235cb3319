"""Caffe2 nets from files, and as plain data.  Worker side only: needs Caffe2's protobuf classes."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from caffe2.proto import caffe2_pb2
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from ..errors import ModelError
from ..net import Argument, Net, OnnxNode, Operator
from .files import ModelFiles, sniff
from .inner import inner_nets, operators_inside, unnamed_reads, unnamed_writes

__all__ = ["Pair", "load_pair", "map_to_cpu", "to_net"]

SHOWN_VALUES = 16
_NET_FIELDS = ("then_net", "else_net", "loop_net", "cond_net", "body", "step_net", "backward_step_net", "net")


class Pair(NamedTuple):
    """init_net and predict_net as loaded, and what had to be changed or noticed."""

    init_net: Any
    predict_net: Any
    notes: List[str]


def load_net(path: str) -> Any:
    """A NetDef from .pb or .pbtxt, told from content; ModelError where it is not one."""
    net = caffe2_pb2.NetDef()
    try:
        if sniff(path) == "text net":
            with open(path, encoding="utf-8-sig") as file:  # some editors put a mark in front
                text_format.Parse(file.read(), net)
        else:
            with open(path, "rb") as file:
                net.ParseFromString(file.read())
    except (text_format.ParseError, DecodeError, UnicodeDecodeError) as error:
        raise ModelError("%s is not a Caffe2 net: %s" % (path, str(error).split("\n")[0])) from error
    nameless = [i for i, op in enumerate(net.op) if not op.type]
    if nameless:
        raise ModelError("%s is not a Caffe2 net: its operator %d has no type" % (path, nameless[0]))
    return net


def load_pair(files: ModelFiles) -> Pair:
    """Load both nets and look for what usually goes wrong with them."""
    assert files.predict_net
    predict = load_net(files.predict_net)
    init = load_net(files.init_net) if files.init_net else caffe2_pb2.NetDef()
    if not predict.op:
        raise ModelError(
            "predict_net %s has no operators" % files.predict_net,
            "a cut or wrong file? c2step show %s lists what it has" % files.predict_net,
        )
    _refuse_swapped(files, init, predict)
    notes = _drop_repeated(init, predict)
    for role, net in (("init_net", init), ("predict_net", predict)):
        notes += map_to_cpu(net, role) + _engines(net, role)
    return Pair(init, predict, notes + _declarations(init, predict))


def _refuse_swapped(files: ModelFiles, init: Any, predict: Any) -> None:
    if files.init_net and not _unmade(predict) and _unmade(init) & {name for op in predict.op for name in op.output}:
        raise ModelError(
            "init_net and predict_net seem to be swapped: %s only fills blobs, %s computes"
            % (files.predict_net, files.init_net),
            "exchange --init-net and --predict-net",
        )


def _unmade(net: Any) -> Set[str]:
    """What a net reads and has not written before."""
    made: Set[str] = set()
    found: Set[str] = set()
    for op in net.op:
        found.update(name for name in op.input if name not in made)
        made.update(op.output)
    return found


def _key(op: Any) -> bytes:
    copy = caffe2_pb2.OperatorDef()
    copy.CopyFrom(op)
    copy.ClearField("name")
    return bytes(copy.SerializeToString(deterministic=True))


def _drop_repeated(init: Any, predict: Any) -> List[str]:
    """Take the copy of the network out of an init_net that Caffe2's backend wrote with onnx 1.9 or later.

    Such an operator stands in predict_net too and depends on a blob that init_net does not make.
    """
    repeated = {_key(op) for op in predict.op}
    made: set = set()
    kept, dropped = [], []
    for op in init.op:
        needs_input = any(name not in made for name in op.input)
        if needs_input and _key(op) in repeated:
            dropped.append(op.type)
        else:
            kept.append(op)
            made.update(op.output)
    if not dropped:
        return []
    del init.op[:]
    init.op.extend(kept)
    return [
        "init_net repeats the network: its %d operators that predict_net also has were left out (%s)"
        % (len(dropped), ", ".join(dropped[:6]) + (", ..." if len(dropped) > 6 else ""))
    ]


_COPIES = ("CopyCPUToGPU", "CopyGPUToCPU")  # registered where there is a GPU; on one device they copy


def map_to_cpu(net: Any, role: str) -> List[str]:
    """Point every device option of a net, and of the nets inside it, at the CPU; the seed stays."""
    counts: Dict[str, int] = {}
    _map_devices(net, counts)
    return (
        [
            "%s: %s mapped to CPU"
            % (role, "; ".join("%s (%d times)" % item if item[1] > 1 else item[0] for item in counts.items()))
        ]
        if counts
        else []
    )


def _map_devices(net: Any, counts: Dict[str, int]) -> None:
    if _map_option(net):
        counts["the net's device option"] = 1
    for op in net.op:
        kind = _map_option(op)
        if kind:
            key = "%s of an operator" % kind
            counts[key] = counts.get(key, 0) + 1
        if op.type in _COPIES:
            key = "%s, which only a GPU has, as Copy" % op.type
            counts[key] = counts.get(key, 0) + 1
            op.type = "Copy"
        for arg in op.arg:
            if arg.HasField("n"):
                _map_devices(arg.n, counts)
            for inner in arg.nets:
                _map_devices(inner, counts)


def _map_option(owner: Any) -> str:
    if not owner.HasField("device_option") or owner.device_option.device_type == 0:
        return ""
    option = owner.device_option
    kind = "device %s" % _device_name(option)
    option.device_type = 0
    for field in ("device_id", "cuda_gpu_id", "hip_gpu_id"):
        if field in option.DESCRIPTOR.fields_by_name:
            option.ClearField(field)
    return kind


def _engines(net: Any, role: str) -> List[str]:
    """What names an engine that only a GPU has; Caffe2 then runs the operator without it, and the field stays."""
    counts: Dict[str, int] = {}
    for op in net.op:
        if "CUDNN" in op.engine.split(","):
            counts[op.type] = counts.get(op.type, 0) + 1
    shown = ", ".join("%s (%d times)" % item if item[1] > 1 else item[0] for item in counts.items())
    return ["%s: engine CUDNN, which the CPU has not, is passed over: %s" % (role, shown)] if counts else []


def _device_name(option: Any) -> str:
    names = (
        {v.number: v.name for v in caffe2_pb2.DESCRIPTOR.enum_types_by_name["DeviceTypeProto"].values}
        if "DeviceTypeProto" in caffe2_pb2.DESCRIPTOR.enum_types_by_name
        else {}
    )
    return str(names.get(option.device_type, option.device_type)).replace("PROTO_", "")


def _declarations(init: Any, predict: Any) -> List[str]:
    notes = []
    net = to_net(predict)
    made = {name for op in init.op for name in op.output}
    undeclared = [n for n in net.free_inputs() if n not in predict.external_input]
    if undeclared:
        notes.append("external_input does not list %s, which operators read" % ", ".join(undeclared))
    written = {name for op in predict.op for name in op.output} | made | set(predict.external_input)
    unmade = [n for n in predict.external_output if n not in written]
    if unmade:
        notes.append(
            "external_output lists %s, which no operator writes: is the file cut short?" % ", ".join(map(repr, unmade))
        )
    if not predict.external_output:
        read = {name for op in predict.op for name in op.input}
        last = list(dict.fromkeys(name for op in predict.op for name in op.output if name not in read))
        predict.external_output.extend(last)
        notes.append(
            "external_output is empty, as in nets built by hand and files cut short; outputs are what nothing reads: %s"
            % ", ".join(last[:8])
        )
    return notes


def to_net(net: Any, node_of: Sequence[int] = (), nodes: Sequence[OnnxNode] = ()) -> Net:
    """A NetDef as plain data; `node_of[i]` is the ONNX node of operator i."""
    operators = []
    outer = {name for op in net.op for name in list(op.input) + list(op.output)}
    for index, op in enumerate(net.op):
        node = nodes[node_of[index]] if index < len(node_of) else None
        operators.append(
            Operator(
                index,
                op.type,
                op.name,
                tuple(op.input),
                tuple(op.output),
                tuple(_argument(arg) for arg in op.arg),
                op.engine,
                _device(op),
                node,
                unnamed_writes(op, outer),
                tuple(_inner(inner, net) for inner, net in operators_inside(op)),
                unnamed_reads(op, outer),
            )
        )
    return Net(
        net.name,
        tuple(operators),
        tuple(dict.fromkeys(net.external_input)),
        tuple(dict.fromkeys(net.external_output)),
        _device(net),
    )


def _inner(op: Any, net: Any) -> Operator:
    """An operator of a net inside an operator, without those that are inside itself."""
    arguments = tuple(_argument(arg) for arg in op.arg)
    return Operator(0, op.type, op.name, tuple(op.input), tuple(op.output), arguments, op.engine,
                    _device(op) or _device(net))  # fmt: skip


def _device(owner: Any) -> str:
    if not owner.HasField("device_option"):
        return ""
    option = owner.device_option
    seed = " seed %d" % option.random_seed if option.random_seed else ""
    return _device_name(option) + seed


def _argument(arg: Any) -> Argument:
    if arg.HasField("n"):
        return Argument(arg.name, "", len(arg.n.op), "net")
    if arg.HasField("f"):
        return Argument(arg.name, arg.f, 1, "f")
    if arg.HasField("i"):
        return Argument(arg.name, arg.i, 1, "i")
    if arg.HasField("s"):
        return Argument(arg.name, _text(arg.s[:200]), 1, "s")
    for field in ("floats", "ints", "strings", "nets"):
        values = getattr(arg, field)
        if len(values):
            return _list_argument(arg.name, field, values)
    return Argument(arg.name, (), 0, "ints")


def _list_argument(name: str, kind: str, values: Any) -> Argument:
    if kind == "nets":
        return Argument(name, "", sum(len(n.op) for n in values), "net")
    shown: Tuple[Any, ...] = tuple(values[:SHOWN_VALUES])
    if kind == "strings":
        shown = tuple(_text(v[:200]) for v in shown)
    return Argument(name, shown, len(values), kind)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def inputs_of(pair: Pair) -> List[Tuple[str, Optional[str], Optional[List[Any]]]]:
    """The blobs that must be fed: made by neither net, and read by predict_net or a net inside it."""
    made = {name for op in pair.init_net.op for name in op.output}
    names = dict.fromkeys(to_net(pair.predict_net).free_inputs())
    inside = read_inside(pair.predict_net)
    names.update((name, None) for name in pair.predict_net.external_input if name in inside)
    return [(name, None, None) for name in names if name not in made]


def read_inside(net: Any) -> Set[str]:
    """The blobs that nets inside operators read before they write them."""
    names: Set[str] = set()
    for op in net.op:
        for _, inner in inner_nets(op):
            written = set(op.input)
            for inner_op in inner.op:
                names |= set(inner_op.input) - written
                written |= set(inner_op.output)
            names |= read_inside(inner)
    return names
