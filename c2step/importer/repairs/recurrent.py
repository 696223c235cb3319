"""RNN, GRU and LSTM in the forms that Caffe2's backend refuses or lays out wrongly.

Matches left-out inputs (bias, initial states), direction reverse, layout 1, other activations, clip, peepholes, and
bidirectional nets, whose first output comes out in another layout.  Each direction becomes a forward node of its
own, as the backend converts it, on an input reversed in time where needed; what Caffe2's cells cannot compute is
unrolled over a known number of steps.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import onnx

from ..rewriter import Node, Rewriter, Unrepairable
from .building import cast, concat, copy, expand_dims, fill, reshape, slice_axis, squeeze, take, transpose

__all__ = ["RULES"]

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_WITH_BETA = ("affine", "hardsigmoid", "scaledtanh")
_WITH_ALPHA = ("elu", "leakyrelu", "thresholdedrelu") + _WITH_BETA
_STEPS = 512  # beyond this many steps nothing is unrolled


class _Activation(NamedTuple):
    """One activation function, in lower case, and the values that it was given."""

    name: str
    given: Dict[str, float]


class _Side(NamedTuple):
    """One direction of a recurrent node; empty names for what is left out."""

    w: str
    r: str
    b: str
    h: str
    c: str
    p: str
    reverse: bool
    activations: List[_Activation]


def recurrent(node: Node, g: Rewriter) -> Optional[str]:
    """Each direction as a forward node, or unrolled."""
    _report(node, g)
    if not [r for r in g.reports if r[1] != "note"]:
        return None
    x = cast(g, node.input(0), "float32")
    if node.attr("layout", 0):
        x = transpose(g, x, [1, 0, 2])
    sides = _sides(node, g, x)
    results = [_one_side(node, g, x, side) for side in sides]
    _join(node, g, results)
    plain = all(_native(node, s) for s in sides)
    return "%s of %d direction%s" % ("forward nodes" if plain else "unrolled steps", len(sides), "s" * (len(sides) > 1))


def _report(node: Node, g: Rewriter) -> None:
    direction = node.attr("direction", "forward")
    wanted = 7 if node.op == "LSTM" else 6
    states = node.inputs[5:wanted]
    if len(node.inputs) < wanted or not node.input(3) or "" in states:
        g.found("rnn-inputs", "refuse", "Caffe2's backend wants bias and initial states of %s" % node.op)
    if node.input(7):
        g.found("rnn-peepholes", "refuse", "Caffe2's backend has no peepholes")
    if direction == "reverse":
        g.found("rnn-reverse", "refuse", "Caffe2's backend takes no direction=reverse")
    known = (
        {"hidden_size", "direction"}
        | ({"activations"} if node.op == "RNN" else set())
        | ({"linear_before_reset"} if node.op == "GRU" else set())
    )
    for name in sorted(set(node.attrs) - known):
        g.found("rnn-attribute", "refuse", "Caffe2's backend does not know %s of %s" % (name, node.op))
    if len(node.outputs) < (3 if node.op == "LSTM" else 2):
        g.found("rnn-outputs", "refuse", "Caffe2's backend wants every output of %s named" % node.op)
    _report_values(node, g, direction)


def _report_values(node: Node, g: Rewriter, direction: str) -> None:
    if direction == "bidirectional" and node.output(0) and node.attr("hidden_size") != 2:
        g.found("rnn-layout", "wrong", "Caffe2's backend lays the output of a bidirectional %s out otherwise" % node.op)
    names = [a.lower() for a in node.attr("activations") or []]
    if node.op == "RNN" and names:
        if set(names) - {"tanh", "relu"}:
            g.found("rnn-activation", "refuse", "Caffe2's BasicRNN knows tanh and relu")
        elif len(set(names)) > 1:
            g.found("rnn-activation", "wrong", "Caffe2's backend takes the first activation for both directions")
    if g.dtype(node.input(0)) not in ("", "float32"):
        g.found("dtype", "fail", "Caffe2's %s takes float32 only" % node.op)


# --- taking a node apart -------------------------------------------------------------------------


def _sides(node: Node, g: Rewriter, x: str) -> List[_Side]:
    direction = node.attr("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    per = len(_DEFAULTS[node.op])
    activations = _activations(node, count)
    batch = node.attr("layout", 0)
    sides = []
    for i in range(count):
        states = [_state(node, g, x, position, i, batch) for position in ((5, 6) if node.op == "LSTM" else (5,))]
        own = [_part(g, node.input(k), i, count) for k in (1, 2, 3)]
        own[2] = own[2] or g.const(np.zeros((1, 2 * _GATES[node.op] * _hidden(node)), np.float32))
        sides.append(
            _Side(
                own[0],
                own[1],
                own[2],
                states[0],
                states[1] if len(states) > 1 else "",
                _part(g, node.input(7), i, count),
                direction == "reverse" or i == 1,
                activations[i * per : (i + 1) * per],
            )
        )
    return sides


def _activations(node: Node, count: int) -> List[_Activation]:
    """The activations of every direction; alphas and betas go, in order, to those that take them."""
    alphas, betas = iter(node.attr("activation_alpha") or []), iter(node.attr("activation_beta") or [])
    result = []
    for name in node.attr("activations") or _DEFAULTS[node.op] * count:
        given = {}
        for values, key, takers in ((alphas, "alpha", _WITH_ALPHA), (betas, "beta", _WITH_BETA)):
            value = next(values, None) if name.lower() in takers else None
            if value is not None:
                given[key] = float(value)
        result.append(_Activation(name.lower(), given))
    return result


def _hidden(node: Node) -> int:
    return int(node.attr("hidden_size"))


def _part(g: Rewriter, name: str, i: int, count: int) -> str:
    """One direction of a weight, dimension kept; always a blob of its own, since the backend reshapes it in place."""
    if not name:
        return ""
    value = g.value(name)
    if value is not None:
        return g.const(np.ascontiguousarray(value[i : i + 1]), "float32")
    x = cast(g, name, "float32")
    return slice_axis(g, x, 0, i, i + 1) if count > 1 else copy(g, x)


def _state(node: Node, g: Rewriter, x: str, position: int, i: int, batch: int) -> str:
    name = node.input(position)
    if name:
        whole = cast(g, name, "float32")
        whole = transpose(g, whole, [1, 0, 2]) if batch else whole
        count = 2 if node.attr("direction", "forward") == "bidirectional" else 1
        return slice_axis(g, whole, 0, i, i + 1) if count > 1 else whole
    return fill(g, [1, g.known(x)[1], _hidden(node)], 0.0, "float32")


def _native(node: Node, side: _Side) -> bool:
    """Whether Caffe2's own cell computes this direction."""
    if side.p or node.attr("clip") is not None or node.attr("input_forget", 0):
        return False
    if node.op == "RNN":
        return side.activations[0].name in ("tanh", "relu")
    return [a.name for a in side.activations] == [a.lower() for a in _DEFAULTS[node.op]]


def _one_side(node: Node, g: Rewriter, x: str, side: _Side) -> List[str]:
    """Y as (steps, batch, hidden), then the last states as (batch, hidden)."""
    lengths = _lengths(node, g, x)
    if side.reverse:
        x = _reversed(g, x, lengths)
    results = _forward(node, g, x, side, lengths) if _native(node, side) else _unrolled(node, g, x, side, lengths)
    if side.reverse:
        results[0] = _reversed(g, results[0], lengths)
    return results


def _lengths(node: Node, g: Rewriter, x: str) -> str:
    """The sequence lengths, empty where all sequences are whole."""
    name = node.input(4)
    value = g.given(name) if name else None
    shape = g.shape(x)
    if value is not None and shape and shape[0] is not None and (value == shape[0]).all():
        return ""
    return name


def _reversed(g: Rewriter, x: str, lengths: str) -> str:
    if lengths:
        return g.emit("ReversePackedSegs", [x, cast(g, lengths, "int32")], "float32", g.shape(x))
    return take(g, x, np.arange(g.known(x)[0])[::-1], 0)


def _forward(node: Node, g: Rewriter, x: str, side: _Side, lengths: str) -> List[str]:
    hidden, shape = _hidden(node), g.shape(x) or (None, None, None)
    names = [g.fresh() for _ in range(3 if node.op == "LSTM" else 2)]
    inputs = [x, side.w, side.r, side.b, lengths, side.h] + ([side.c] if node.op == "LSTM" else [])
    attrs: Dict[str, Any] = {"hidden_size": hidden}
    if node.op == "RNN":
        attrs["activations"] = [a.name for a in side.activations]
    if node.op == "GRU":
        attrs["linear_before_reset"] = int(node.attr("linear_before_reset", 0))
    g.values.declare(names[0], "float32", [shape[0], 1, shape[1], hidden])
    for name in names[1:]:
        g.values.declare(name, "float32", [1, shape[1], hidden])
    g.keep(onnx.helper.make_node(node.op, inputs, names, **attrs))
    return [squeeze(g, names[0], [1])] + [squeeze(g, name, [0]) for name in names[1:]]


def _join(node: Node, g: Rewriter, results: Sequence[Sequence[str]]) -> None:
    batch = node.attr("layout", 0)
    dtype = g.dtype(node.input(0)) or "float32"
    if node.output(0):
        y = concat(g, [expand_dims(g, r[0], [1]) for r in results], 1)
        cast(g, transpose(g, y, [2, 0, 1, 3]) if batch else y, dtype, node.output(0))
    for position in range(1, len(results[0])):
        if node.output(position):
            last = concat(g, [expand_dims(g, r[position], [0]) for r in results], 0)
            cast(g, transpose(g, last, [1, 0, 2]) if batch else last, dtype, node.output(position))


# --- unrolling -----------------------------------------------------------------------------------


def _unrolled(node: Node, g: Rewriter, x: str, side: _Side, lengths: str) -> List[str]:
    steps, batch, _ = g.known(x)
    if steps > _STEPS:
        raise Unrepairable("%d steps are too many to be written out" % steps)
    hidden, gates = _hidden(node), _GATES[node.op]
    weights = _gate_weights(g, side, hidden, gates)
    states = [reshape(g, side.h, [batch, hidden])] + (
        [reshape(g, side.c, [batch, hidden])] if node.op == "LSTM" else []
    )
    mask = reshape(g, cast(g, lengths, "int64"), [batch, 1]) if lengths else ""
    outputs = []
    for t in range(steps):
        xt = squeeze(g, slice_axis(g, x, 0, t, t + 1), [0])
        new = _CELLS[node.op](node, g, xt, states, side, weights)
        if mask:
            alive = g.onnx("Greater", mask, g.const(t, "int64"))
            outputs.append(g.onnx("Where", alive, new[0], g.const(0.0, "float32")))
            new = [g.onnx("Where", alive, n, old) for n, old in zip(new, states)]
        else:
            outputs.append(new[0])
        states = new
    return [concat(g, [expand_dims(g, o, [0]) for o in outputs], 0)] + states


def _gate_weights(g: Rewriter, side: _Side, hidden: int, gates: int) -> Dict[str, List[str]]:
    """For each gate the transposed weights and the biases of input and state."""
    w, r, b = squeeze(g, side.w, [0]), squeeze(g, side.r, [0]), squeeze(g, side.b, [0])
    cut = [(i * hidden, (i + 1) * hidden) for i in range(gates)]
    return {
        "w": [transpose(g, slice_axis(g, w, 0, *c), [1, 0]) for c in cut],
        "r": [transpose(g, slice_axis(g, r, 0, *c), [1, 0]) for c in cut],
        "wb": [slice_axis(g, b, 0, *c) for c in cut],
        "rb": [slice_axis(g, b, 0, c[0] + gates * hidden, c[1] + gates * hidden) for c in cut],
        "p": [slice_axis(g, squeeze(g, side.p, [0]), 0, *c) for c in cut[:3]] if side.p else [],
    }


def _linear(g: Rewriter, x: str, w: str, b: str) -> str:
    return g.onnx("Add", g.onnx("MatMul", x, w), b)


_PLAIN = {
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "relu": "Relu",
    "elu": "Elu",
    "softsign": "Softsign",
    "softplus": "Softplus",
    "hardsigmoid": "HardSigmoid",
    "leakyrelu": "LeakyRelu",
    "thresholdedrelu": "ThresholdedRelu",
}


def _activation(node: Node, g: Rewriter, activation: _Activation, x: str) -> str:
    clip = node.attr("clip")
    if clip is not None:
        x = g.emit("Clip", [x], "float32", g.shape(x), min=-float(clip), max=float(clip))
    name, given = activation
    if name in _PLAIN:
        return g.onnx(_PLAIN[name], x, **given)
    if name not in ("affine", "scaledtanh") or set(given) != {"alpha", "beta"}:
        raise Unrepairable("activation %s is not rewritten, or has no alpha and beta" % name)
    alpha, beta = (g.const(given[key], "float32") for key in ("alpha", "beta"))
    if name == "affine":
        return g.onnx("Add", g.onnx("Mul", x, alpha), beta)
    return g.onnx("Mul", g.onnx("Tanh", g.onnx("Mul", x, beta)), alpha)


def _both(g: Rewriter, xt: str, h: str, k: Dict[str, List[str]], i: int) -> str:
    return g.onnx("Add", _linear(g, xt, k["w"][i], k["wb"][i]), _linear(g, h, k["r"][i], k["rb"][i]))


def _rnn_cell(node: Node, g: Rewriter, xt: str, states: List[str], side: _Side, k: Dict[str, List[str]]) -> List[str]:
    return [_activation(node, g, side.activations[0], _both(g, xt, states[0], k, 0))]


def _gru_cell(node: Node, g: Rewriter, xt: str, states: List[str], side: _Side, k: Dict[str, List[str]]) -> List[str]:
    h, (f, a) = states[0], side.activations[:2]
    z, r = (_activation(node, g, f, _both(g, xt, h, k, i)) for i in (0, 1))
    if node.attr("linear_before_reset", 0):
        inner = g.onnx("Mul", r, _linear(g, h, k["r"][2], k["rb"][2]))
    else:
        inner = _linear(g, g.onnx("Mul", r, h), k["r"][2], k["rb"][2])
    new = _activation(node, g, a, g.onnx("Add", _linear(g, xt, k["w"][2], k["wb"][2]), inner))
    return [g.onnx("Add", new, g.onnx("Mul", z, g.onnx("Sub", h, new)))]


def _lstm_cell(node: Node, g: Rewriter, xt: str, states: List[str], side: _Side, k: Dict[str, List[str]]) -> List[str]:
    h, c = states
    f, a, last = side.activations[:3]

    def gate(i: int, cell: str, peephole: int) -> str:
        total = _both(g, xt, h, k, i)
        if k["p"]:
            total = g.onnx("Add", total, g.onnx("Mul", k["p"][peephole], cell))
        return _activation(node, g, f, total)

    i = gate(0, c, 0)
    forget = g.onnx("Sub", g.const(1.0, "float32"), i) if node.attr("input_forget", 0) else gate(2, c, 2)
    new = g.onnx("Add", g.onnx("Mul", forget, c), g.onnx("Mul", i, _activation(node, g, a, _both(g, xt, h, k, 3))))
    o = gate(1, new, 1)
    return [g.onnx("Mul", o, _activation(node, g, last, new)), new]


_CELLS = {"RNN": _rnn_cell, "GRU": _gru_cell, "LSTM": _lstm_cell}

RULES = {"RNN": recurrent, "GRU": recurrent, "LSTM": recurrent}
