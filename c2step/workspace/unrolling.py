"""The nets inside an operator as one plain net that can be stepped: branches, loops, time steps.  Worker side only.

What an operator would do with its nets is written out, operator by operator, for the values that the
workspace holds now.  The plain net runs in a workspace of its own on copies of these values.  Where the
operator copies, shares or slices by itself, a Copy, Slice or Concat stands in the net.
"""

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np
from caffe2.proto import caffe2_pb2

from ..blob import INT8, OTHER, STRING, TENSOR, Blob
from ..errors import UsageError
from ..importer.inner import inner_nets
from .instrument import mentioned

__all__ = ["Runner", "Unrolled", "unroll"]

Read = Callable[[str], Blob]
LONGEST = 1000  # iterations of a loop that are written out


class Runner:
    """Runs nets on values in a scratch workspace; `unroll` needs it to see how often a loop goes round."""

    def feed(self, values: Dict[str, np.ndarray], scopes: Sequence[str]) -> None:
        """Begin anew with these blobs."""
        raise NotImplementedError

    def run(self, net: Any) -> None:
        """Run a net once."""
        raise NotImplementedError

    def fetch(self, name: str) -> np.ndarray:
        """A blob's value."""
        raise NotImplementedError


@dataclass
class Unrolled:
    """A plain net, the values to feed it, and which of its blobs are the outputs of the operator.

    `spans` are labelled ranges of its operators (label, first, behind the last).
    """

    net: Any
    values: Dict[str, np.ndarray] = field(default_factory=dict)
    results: Dict[str, str] = field(default_factory=dict)
    spans: List[Tuple[str, int, int]] = field(default_factory=list)

    def add(self, kind: str, inputs: Iterable[str], outputs: Iterable[str], **arguments: Any) -> None:
        """Add an operator of ours."""
        op = self.net.op.add(type=kind, input=inputs, output=outputs)
        for name, value in arguments.items():
            arg = op.arg.add(name=name)
            if isinstance(value, int):
                arg.i = value
            else:
                arg.ints.extend(value)

    def span(self, label: str, first: int) -> None:
        """Label the operators from `first` on."""
        self.spans.append((label, first, len(self.net.op)))


def unroll(op: Any, read: Read, runner: Runner) -> Unrolled:
    """What an operator does with the nets inside it; UsageError where it cannot be entered, with the reason."""
    nets = dict(inner_nets(op))
    make = _KINDS.get(op.type)
    if not nets:
        raise UsageError("%s has no net inside" % op.type)
    if make is None:
        raise UsageError(
            "%s cannot be entered: %s" % (op.type, _WHY_NOT.get(op.type, "how it runs its nets is not known here")),
            "list WHERE --inside shows its nets; next runs it",
        )
    for name, net in nets.items():
        _check_declared(name, net)
    return make(op, nets, read, runner)


def _check_declared(argument: str, net: Any) -> None:
    """What Caffe2 asks of a net that lists its external inputs: nothing else may be read before it is written."""
    known = set(net.external_input)
    for op in net.op if known else ():
        for name in op.input:
            if name not in known:
                raise UsageError(
                    "it cannot be entered: its %s reads %s, which the net does not list as external_input"
                    % (argument, name)
                )
        known.update(op.output)


_WHY_NOT = {
    "RecurrentNetworkGradient": "it runs its step nets backwards, over workspaces that the forward operator kept"
}


# -- values -----------------------------------------------------------------------------------


def _take(made: Unrolled, names: Iterable[str], read: Read) -> None:
    """Copy blobs that the nets mention; scopes are made anew."""
    scopes = []
    for name in names:
        if name in made.values:
            continue
        blob = read(name)
        if blob.kind in (TENSOR, STRING) and blob.array is not None:
            made.values[name] = np.array(blob.array)
        elif "WorkspaceStack" in blob.text:
            scopes.append(name)
        elif blob.kind in (INT8, OTHER):
            raise UsageError("it cannot be entered: %s cannot be copied (%s)" % (name, blob.text or blob.kind))
    for name in scopes:
        made.add("CreateScope", [], [name])


def _value(name: str, read: Read) -> np.ndarray:
    array = read(name).array
    if array is None:
        raise UsageError("it cannot be entered: its input %s has no value" % name)
    return np.asarray(array)


def _arguments(op: Any) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for arg in op.arg:
        if arg.HasField("i"):
            found[arg.name] = int(arg.i)
        elif arg.HasField("s"):
            found[arg.name] = arg.s.decode("utf-8", "replace")
        else:
            found[arg.name] = list(arg.ints) or [text.decode("utf-8") for text in arg.strings]
    return found


def _empty(op: Any, inner: Any) -> Unrolled:
    net = caffe2_pb2.NetDef(name="%s_%s" % (inner.name or op.type, "inside"), type="simple")
    option = inner if inner.HasField("device_option") else op
    if option.HasField("device_option"):
        net.device_option.CopyFrom(option.device_option)
    return Unrolled(net)


def _finish(made: Unrolled, op: Any, written: Dict[str, bool]) -> Unrolled:
    """Outputs of the operator that its nets write under the same name."""
    made.results.update((name, name) for name in op.output if written.get(name))
    return made


# -- branches and loops -----------------------------------------------------------------------


def _branch(op: Any, nets: Dict[str, Any], read: Read, runner: Runner) -> Unrolled:
    condition = _value(op.input[0], read)
    name = "then_net" if condition.reshape(-1)[:1].any() else "else_net"
    if name not in nets:
        raise UsageError("there is nothing to enter: the condition %s is false and there is no else_net" % op.input[0])
    made = _empty(op, nets[name])
    names = mentioned(nets[name])
    _take(made, names, read)
    made.net.op.extend(nets[name].op)
    made.span(name, 0)
    return _finish(made, op, names)


def _scope(op: Any, nets: Dict[str, Any], read: Read, runner: Runner) -> Unrolled:
    """Do: the net runs in a workspace of its own, where outer blobs go by inner names."""
    args = _arguments(op)
    outer = list(op.input[:-1]) + list(op.output[:-1])
    made = _empty(op, nets["net"])
    bound = {inner: outer[index] for inner, index in zip(args.get("inner_blobs", []), args.get("outer_blobs_idx", []))}
    names = mentioned(nets["net"])
    _take(made, [name for name in names if name in bound], lambda name: _renamed(read(bound[name]), name))
    made.net.op.extend(nets["net"].op)
    made.span("net", 0)
    made.results = {bound[name]: name for name in bound if names.get(name) and bound[name] in op.output}
    return made


def _renamed(blob: Blob, name: str) -> Blob:
    return Blob(name, blob.kind, blob.array, blob.scale, blob.zero_point, blob.text)


def _while(op: Any, nets: Dict[str, Any], read: Read, runner: Runner) -> Unrolled:
    body, test = nets["loop_net"], nets.get("cond_net")
    names = mentioned(body)
    if test is not None:
        names.update((name, written or names.get(name, False)) for name, written in mentioned(test).items())
    made = _empty(op, body)
    _take(made, [op.input[0]] + list(names), read)
    runner.feed(made.values, [name for scope in made.net.op for name in scope.output])
    for count in range(LONGEST + 1):
        first = len(made.net.op) if count else 0
        if test is not None:
            runner.run(test)
            made.net.op.extend(test.op)
        if not runner.fetch(op.input[0]).reshape(-1)[:1].any():
            made.span("condition after %d times" % count, first)
            return _finish(made, op, names)
        runner.run(body)
        made.net.op.extend(body.op)
        made.span("iteration %d" % count, first)
    raise _too_long(op)


def _too_long(op: Any) -> UsageError:
    return UsageError("%s cannot be entered: it goes round more than %d times" % (op.type, LONGEST))


def _onnx_while(op: Any, nets: Dict[str, Any], read: Read, runner: Runner) -> Unrolled:
    """The body takes iteration, condition and carried values, and gives condition, carried values and scans."""
    args, body = _arguments(op), nets["body"]
    count = int(args.get("num_loop_carried_deps", len(op.input) - 2))
    number, test, carried = body.external_input[0], body.external_input[1], list(body.external_input[2 : 2 + count])
    test_out, carried_out = body.external_output[0], list(body.external_output[1 : 1 + count])
    made = _empty(op, body)
    first = _value(op.input[1], read)
    made.values = {name: np.array(_value(outer, read)) for name, outer in zip(carried, op.input[2:])}
    made.values[test] = np.array(first).reshape(1)
    if args.get("disable_scopes"):  # else the body sees nothing of the outer net
        _take(made, [name for name in mentioned(body) if name != number], read)
    runner.feed(made.values, [name for scope in made.net.op for name in scope.output])
    limit = int(_value(op.input[0], read).reshape(-1)[0]) if args.get("has_trip_count") else None
    on = bool(first.reshape(-1)[:1].any())
    for turn in range(LONGEST + 1):
        if (limit is not None and turn >= limit) or (args.get("has_cond") and not on):
            made.results = dict(zip(op.output, carried))
            return made
        part = _turn(made, turn, number, body, list(zip([test_out] + carried_out, [test] + carried)))
        runner.run(part)
        on = bool(runner.fetch(test_out).reshape(-1)[:1].any())
    raise _too_long(op)


def _turn(made: Unrolled, turn: int, number: str, body: Any, moves: Sequence[Tuple[str, str]]) -> Any:
    """Write out one iteration, and return it as a net."""
    first = len(made.net.op)
    made.add("GivenTensorInt64Fill", [], [number], values=[turn])
    made.net.op.extend(body.op)
    for source, target in moves:
        if source != target:
            made.add("Copy", [source], [target])
    made.span("iteration %d" % turn, first)
    part = caffe2_pb2.NetDef(name="turn")
    part.op.extend(made.net.op[first:])
    return part


# -- recurrent networks -----------------------------------------------------------------------


@dataclass
class _State:
    """A recurrent state: the blob of all its time steps, here a blob for each, and how many it begins with."""

    name: str
    begins: np.ndarray

    def slot(self, number: int) -> str:
        return "%s[%d]" % (self.name, number)


@dataclass
class _Link:
    internal: str
    external: str
    offset: int
    window: int


def _recurrent(op: Any, nets: Dict[str, Any], read: Read, runner: Runner) -> Unrolled:
    args, step = _arguments(op), nets["step_net"]
    sequence = _value(op.input[0], read)
    steps, batch = sequence.shape[:2]
    states = {
        name: _State(name, _beginning(_value(op.input[which], read), batch))
        for name, which in zip(args["recurrent_states"], args["initial_recurrent_state_ids"])
    }
    links = _links(args)
    reads, writes = _directions(step, links, states)
    made = _empty(op, step)
    for state in states.values():
        made.values.update((state.slot(k), value[None].copy()) for k, value in enumerate(state.begins))
    inner = {link.internal for link in links} | {args.get("timestep", "timestep")}
    written = {name for inner_op in step.op for name in inner_op.output}
    external = [link.external for link in links if link.external not in states]
    _take(made, [n for n in list(mentioned(step)) + external if n not in inner and n not in written], read)
    for t in range(steps):
        _time_step(made, t, step, args.get("timestep", "timestep"), reads, writes, states)
    _close(made, op, args, steps, states)
    return made


def _beginning(value: np.ndarray, batch: int) -> np.ndarray:
    """What a state begins with, as (how many, batch, size): one vector may stand for the whole batch."""
    if value.ndim == 1:
        value = np.repeat(value[None], batch, axis=0)
    return value if value.ndim == 3 else value[None]


def _links(args: Dict[str, Any]) -> List[_Link]:
    windows = args.get("link_window") or [1] * len(args["link_internal"])
    return [_Link(*parts) for parts in zip(args["link_internal"], args["link_external"], args["link_offset"], windows)]


def _directions(step: Any, links: List[_Link], states: Dict[str, _State]) -> Tuple[List[_Link], List[_Link]]:
    """Which links the step net reads first, and which it writes."""
    reads, writes = [], []
    for link in links:
        first = next((op for op in step.op if link.internal in list(op.input) + list(op.output)), None)
        if first is not None and link.internal in first.input:
            reads.append(link)
        if any(link.internal in op.output for op in step.op):
            if link.external not in states or link.window != 1:
                raise UsageError(
                    "it cannot be entered: its step net writes %s into %s, which is no state that can be cut into steps"
                    % (link.internal, link.external)
                )
            writes.append(link)
    return reads, writes


def _time_step(
    made: Unrolled, t: int, step: Any, timestep: str, reads: List[_Link], writes: List[_Link], states: Dict[str, _State]
) -> None:
    first = len(made.net.op)
    made.add("GivenTensorIntFill", [], [timestep], shape=[1], values=[t])
    for link in reads:
        _read_link(made, link, t, states.get(link.external))
    made.net.op.extend(step.op)
    for link in writes:
        made.add("Copy", [link.internal], [states[link.external].slot(t + link.offset)])
    made.span("time step %d" % t, first)


def _read_link(made: Unrolled, link: _Link, t: int, state: Optional[_State]) -> None:
    at = t + link.offset
    if state is None:
        dims = made.values[link.external].ndim - 1
        made.add(
            "Slice", [link.external], [link.internal], starts=[at] + [0] * dims, ends=[at + link.window] + [-1] * dims
        )
    elif link.window == 1:
        made.add("Copy", [state.slot(at)], [link.internal])
    else:
        slots = [state.slot(at + k) for k in range(link.window)]
        made.add("Concat", slots, [link.internal, link.internal + "_split"], axis=0)


def _close(made: Unrolled, op: Any, args: Dict[str, Any], steps: int, states: Dict[str, _State]) -> None:
    """Put the states together, and take the outputs from them."""
    first = len(made.net.op)
    for state in states.values():
        slots = [state.slot(k) for k in range(steps + len(state.begins))]
        made.add("Concat", slots, [state.name, state.name + "_split"], axis=0)
    for source, target, offset in zip(args["alias_src"], args["alias_dst"], args["alias_offset"]):
        if source not in states:
            raise UsageError("it cannot be entered: its output %s comes from %s, which is no state" % (target, source))
        start = offset if offset >= 0 else steps + len(states[source].begins) + offset
        made.add("Slice", [source], [target], starts=[start, 0, 0], ends=[-1, -1, -1])
        made.results[target] = target
    made.span("outputs", first)


_KINDS: Dict[str, Callable[[Any, Dict[str, Any], Read, Runner], Unrolled]] = {
    "If": _branch,
    "ONNXIf": _branch,
    "Do": _scope,
    "While": _while,
    "ONNXWhile": _onnx_while,
    "RecurrentNetwork": _recurrent,
}
