"""Rewriting one ONNX graph node by node into nodes that Caffe2's backend converts rightly.

A rule looks at one node, says what stock Caffe2 would do with it (`found`), and emits other nodes in
its place.  It can emit Caffe2 operators, as nodes of the domain `caffe2` that the importer turns into
OperatorDefs one to one, or ONNX nodes again, which go through the rules themselves; so Softplus may be
written as Relu + Log + Exp whatever the dtype.  Value names of the model never change.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import onnx

from c2step.importer.leftout import left_out, shortened
from c2step.importer.ranks import ranks_forward
from c2step.importer.values import Shape, Values

__all__ = ["Applied", "CAFFE2", "NOT_REPAIRED", "OPEN", "Finding", "Node", "NotFixed", "NotKnown", "Rewriter", "Rule",
           "Unrepairable"]  # fmt: skip

CAFFE2 = "caffe2"  # the domain of nodes that are Caffe2 operators already
NOT_REPAIRED = "; not repaired: "  # between what is found and why no rule mends it
OPEN = "give the input, or --dim"  # the end of a reason that goes away once the inputs' sizes are known
_LASTING = ("maxpool-nan", "reduce-nan", "sign-nan", "random")  # codes of notes that stay true after any repair
_INNER_OPSET = 13  # the ONNX nodes that rules emit are written for this opset


class Finding(NamedTuple):
    """What Caffe2 will do with a node; `repair` says what --import repaired makes of it, or is empty."""

    code: str
    node: str
    op_type: str
    effect: str  # refuse (conversion), fail (run), wrong (silently), die (the process), note
    repair: str
    message: str
    index: int = -1  # type: ignore[assignment]  # hides tuple.index, which nobody wants here


class Applied(NamedTuple):
    """One repair that was applied."""

    code: str
    node: str
    message: str


class Unrepairable(Exception):
    """A node that no Caffe2 operators can express, and why."""


class NotKnown(Unrepairable):
    """Nor can it be told how, since a shape is not known at import."""


class NotFixed(Unrepairable):
    """Nor can it be told how, since a value that Caffe2 wants fixed is not known at import."""


class Node:
    """One ONNX node with its attributes as Python values."""

    def __init__(self, proto: Any, opset: int, index: int = -1) -> None:
        self.proto = proto
        self.op = proto.op_type
        self.domain = "" if proto.domain == "ai.onnx" else proto.domain
        self.opset = opset
        self.index = index
        self.inputs: List[str] = list(proto.input)
        self.outputs: List[str] = list(proto.output)
        self.attrs: Dict[str, Any] = {a.name: _value(a) for a in proto.attribute}

    @property
    def label(self) -> str:
        """Its name, or its type and position where it has none."""
        return self.proto.name or "%s_%d" % (self.op, self.index)

    @property
    def out(self) -> str:
        """The first output."""
        return self.outputs[0]

    def input(self, position: int) -> str:
        """The name of one input, empty where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else ""

    def output(self, position: int) -> str:
        """The name of one output, empty where it is left out."""
        return self.outputs[position] if position < len(self.outputs) else ""

    def attr(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, `default` where it is not set."""
        return self.attrs.get(name, default)


def _value(attribute: Any) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if attribute.type == onnx.AttributeProto.STRINGS:
        return [v.decode("utf-8", "replace") for v in value]
    return list(value) if attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS) else value


Rule = Callable[[Node, "Rewriter"], Optional[str]]


class Rewriter:
    """Emits nodes in place of others and keeps account of types, origins, findings and repairs."""

    def __init__(
        self,
        values: Values,
        rules: Dict[str, Rule],
        names: Sequence[str],
        inputs: Sequence[str],
        outputs: Sequence[str],
        functions: Optional[Dict[Any, Any]] = None,
    ) -> None:
        self.functions = functions or {}
        self.values = values
        self._graph_outputs = set(outputs)
        self._graph_inputs = set(inputs)
        self.sequences: Dict[str, List[str]] = {}  # what a sequence value holds, where that is known
        self.nodes: List[Any] = []
        self.origins: List[int] = []
        self.added: Dict[str, np.ndarray] = {}
        self.findings: List[Finding] = []
        self.applied: List[Applied] = []
        self._rules = rules
        self._taken = set(names)
        self._fresh: Dict[str, int] = {}
        self._node = Node(onnx.NodeProto(), 0)
        self._found: List[Tuple[str, str, str]] = []
        self._depth = 0
        self._start = 0  # where the nodes that stand for the present node of the model begin
        self._made: Set[str] = set()
        self._aliases: Dict[str, str] = {}

    # --- what rules ask ---------------------------------------------------------------------------

    def dtype(self, name: str) -> str:
        """numpy's name of the element type of a value, empty where unknown."""
        return self.values.dtype(name)

    def shape(self, name: str) -> Optional[Shape]:
        """The shape of a value, None for what is unknown."""
        return self.values.shape(name)

    def known(self, name: str) -> Tuple[int, ...]:
        """The shape of a value; NotKnown where it is not wholly known."""
        shape = self.shape(name)
        if shape is None or None in shape:
            raise NotKnown("the shape of %s is not known" % name)
        return tuple(d for d in shape if d is not None)

    def spatial(self, name: str) -> Tuple[int, ...]:
        """The dimensions after batch and channels; NotKnown where one of them is not known."""
        shape = self.shape(name)
        if shape is None or None in shape[2:]:
            raise NotKnown("height and width of %s are not known" % name)
        return tuple(d for d in shape[2:] if d is not None)

    def rank(self, name: str) -> int:
        """The number of dimensions of a value; NotKnown where it is not known."""
        shape = self.shape(name)
        if shape is None:
            raise NotKnown("the rank of %s is not known" % name)
        return len(shape)

    def value(self, name: str) -> Optional[np.ndarray]:
        """The value of a constant, None for anything else."""
        return self.values.constant(name)

    def given(self, name: str) -> Optional[np.ndarray]:
        """The value of a constant, or of a small input as it was fed; None for anything else."""
        value = self.value(name)
        return self.values.assumed(name) if value is None else value

    def need(self, name: str, what: str) -> np.ndarray:
        """The value of a constant; Unrepairable where `what` is computed at run time."""
        value = self.given(name)
        if value is None and name in self._graph_inputs and self.dtype(name) in ("int32", "int64"):
            raise Unrepairable("%s is an input of the model, Caffe2 wants it fixed: %s" % (what, OPEN))
        if value is None:
            raise NotFixed("%s is computed at run time, Caffe2 wants it fixed" % what)
        return value

    @property
    def inner(self) -> bool:
        """Whether the present node is one that a rule emitted, not one of the model."""
        return self._depth > 1

    @property
    def reports(self) -> List[Tuple[str, str, str]]:
        """What was found for the present node so far."""
        return self._found

    # --- what rules say ---------------------------------------------------------------------------

    def found(self, code: str, effect: str, message: str) -> None:
        """What stock Caffe2 does with the present node."""
        if self._depth == 1:
            self._found.append((code, effect, message))

    # --- emitting ---------------------------------------------------------------------------------

    def fresh(self, hint: str = "") -> str:
        """A blob name that nothing else uses."""
        base = hint or (self._node.outputs[0] if self._node.outputs else "") or "value"
        while True:
            self._fresh[base] = self._fresh.get(base, 0) + 1
            name = "%s__%d" % (base, self._fresh[base])
            if name not in self._taken:
                self._taken.add(name)
                self._made.add(name)
                return name

    def const(self, value: Any, dtype: str = "", name: str = "") -> str:
        """A blob with a fixed value, fed like a weight."""
        array = np.asarray(value, dtype=dtype or None)
        name = name or self.fresh()
        self.added[name] = array
        self.values.set_constant(name, array)
        return name

    def emit(
        self,
        op: str,
        inputs: Sequence[str],
        result_dtype: str,
        result_shape: Optional[Sequence[Optional[int]]],
        out: str = "",
        **args: Any,
    ) -> str:
        """One Caffe2 operator with one output; `args` are its arguments."""
        return self.emit_many(op, inputs, [(result_dtype, result_shape, out)], **args)[0]

    def emit_many(
        self,
        op: str,
        inputs: Sequence[str],
        results: Sequence[Tuple[str, Optional[Sequence[Optional[int]]], str]],
        **args: Any,
    ) -> List[str]:
        """One Caffe2 operator with outputs (dtype, shape, name or empty)."""
        names = []
        for dtype, shape, name in results:
            fresh = name or self.fresh()
            self.values.learn(fresh, dtype, shape)
            names.append(fresh)
        node = onnx.helper.make_node(op, self._renamed(inputs), names, domain=CAFFE2)
        node.attribute.extend(make_argument(key, value) for key, value in args.items())
        self._append(node)
        return names

    def onnx(self, op: str, *inputs: str, **attrs: Any) -> str:
        """One ONNX node, itself subject to the rules; `out` names its output."""
        out = attrs.pop("out", "") or self.fresh()
        node = onnx.helper.make_node(op, self._renamed(inputs), [out], **attrs)
        self.process(Node(node, _INNER_OPSET, self._node.index))
        return out

    def call(self, x: str, out: str) -> bool:
        """Give the value that this rule made as `x` the name `out`; False where `x` is not this rule's own."""
        made = [node for node in self.nodes[self._start :] if x in node.output]
        if not made or x not in self._made or out in self._graph_inputs:
            return False
        for node in self.nodes[self._start :]:
            for names in (node.input, node.output):
                for i, name in enumerate(names):
                    if name == x:
                        names[i] = out
        self._aliases[x] = out
        self.values.learn(out, self.dtype(x), self.shape(x))
        return True

    def keep(self, proto: Any) -> None:
        """An ONNX node as it is, for the backend to convert; without empty names at its end."""
        self._append(shortened(proto) or proto)

    def is_output(self, name: str) -> bool:
        """Whether the model gives this value."""
        return name in self._graph_outputs

    def settled(self, name: str) -> str:
        """What a value that this rule made is called by now."""
        return self._aliases.get(name, name)

    def _renamed(self, inputs: Sequence[str]) -> List[str]:
        return [self._aliases.get(name, name) for name in inputs]

    def _append(self, proto: Any) -> None:
        self.nodes.append(proto)
        self.origins.append(self._node.index)

    # --- the walk ---------------------------------------------------------------------------------

    def process(self, node: Node) -> None:
        """Put `node`, or what its rule makes of it, into the result."""
        self.values.add_node(node.proto, node.opset)
        ranks_forward(self.values, node.proto)
        outer, self._node = self._node, node
        self._depth += 1
        try:
            if self._depth == 1:
                self._original(node)
            elif self._all_fixed(node):
                self._fix(node)
            elif self._rule(node) is None:
                self.keep(node.proto)
        finally:
            self._depth -= 1
            self._node = outer

    def inline(self, node: Node) -> None:
        """Process a node that stands in the place of the present one, such as one of a function's body."""
        self.process(node)

    def _rule(self, node: Node) -> Optional[str]:
        fallback = self._rules["domain" if node.domain else "operator"]
        return self._rules.get(node.op, fallback)(node, self) if not node.domain else fallback(node, self)

    def _original(self, node: Node) -> None:
        """The rule's answer for a node of the model, or its value where that is fixed, or the node itself."""
        self._found = []
        self._start = len(self.nodes)
        self._aliases = {}
        mark = len(self.nodes), dict(self.added)
        message, reason = None, ""
        try:
            message = self._rule(node)
        except Unrepairable as error:
            reason = self._with_remedy(error)
        if any(effect != "note" for _, effect, _ in self._found) and self._all_fixed(node):
            message = "its value is fixed by the model and the input shapes, so it is computed at import"
            self._roll_back(*mark)
            self._fix(node)
        elif message is None:
            self._roll_back(*mark)
            message = self._keep_original(node, reason)
        self._report(node, message or "", reason)

    def _with_remedy(self, error: Unrepairable) -> str:
        """Why, and what the user can do about what is not known at import."""
        shapes = [self.shape(name) for name in self._graph_inputs]
        if any(shape is None or None in shape for shape in shapes) and isinstance(error, (NotKnown, NotFixed)):
            return "%s: %s" % (error, OPEN)
        return "%s: it depends on the data" % error if isinstance(error, NotKnown) else str(error)

    def _keep_original(self, node: Node, reason: str) -> Optional[str]:
        self.keep(node.proto)
        if reason or node.domain or shortened(node.proto) is None:
            return None
        self.found(*left_out(node.proto))
        return "without the empty names at its end"

    def _roll_back(self, length: int, added: Dict[str, np.ndarray]) -> None:
        del self.nodes[length:], self.origins[length:]
        self.added = added

    def _all_fixed(self, node: Node) -> bool:
        return all(not name or self.value(name) is not None for name in node.outputs)

    def _fix(self, node: Node) -> None:
        for name in filter(None, node.outputs):
            value = self.need(name, name)
            if name in self._graph_outputs:  # a net must produce what it declares as output
                self.emit("Copy", [self.const(value)], value.dtype.name, value.shape, out=name)
            else:
                self.const(value, name=name)

    def _report(self, node: Node, message: str, reason: str) -> None:
        for code, effect, text in self._found:
            more = NOT_REPAIRED + reason if reason and not message else ""
            # A note beside graver findings, or of what no rule mends, is not what the repair is for.
            graver = any(found[1] != "note" for found in self._found)
            others = effect == "note" and (graver or code in _LASTING)
            repair = "" if others else message
            self.findings.append(Finding(code, node.label, node.op, effect, repair, text + more, node.index))
        if message:
            self.applied.append(Applied(self._found[0][0] if self._found else "form", node.label, message))


def make_argument(name: str, value: Any) -> Any:
    """The attribute that stands for a Caffe2 argument, empty lists included."""
    if isinstance(value, (bool, np.bool_, np.integer)):
        value = int(value)
    if isinstance(value, np.floating):
        value = float(value)
    if isinstance(value, (list, tuple)) and not value:
        return onnx.AttributeProto(name=name, type=onnx.AttributeProto.INTS)
    if isinstance(value, (list, tuple)):
        value = [v if isinstance(v, (float, str)) else int(v) for v in value]
    return onnx.helper.make_attribute(name, value)
