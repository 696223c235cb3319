"""LSTM, GRU and RNN in float64 with numpy, as ONNX states them: both directions, every option."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .float64 import Attributes, Kernel

__all__ = ["RECURRENT"]

Gate = Callable[[np.ndarray], np.ndarray]
State = Tuple[np.ndarray, ...]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.where(x >= 0, 1, np.exp(np.minimum(x, 0))) / (1 + np.exp(-np.abs(x))))


_DEFAULTS = {
    "leakyrelu": (0.01, 0.0),
    "thresholdedrelu": (1.0, 0.0),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, 0.0),
    "affine": (1.0, 0.0),
}

_GATES: Dict[str, Callable[[np.ndarray, float, float], np.ndarray]] = {
    "sigmoid": lambda x, a, b: _sigmoid(x),
    "tanh": lambda x, a, b: np.tanh(x),
    "relu": lambda x, a, b: np.maximum(x, 0),
    "affine": lambda x, a, b: a * x + b,
    "leakyrelu": lambda x, a, b: np.where(x >= 0, x, a * x),
    "thresholdedrelu": lambda x, a, b: np.where(x >= a, x, 0),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "hardsigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "elu": lambda x, a, b: np.where(x >= 0, x, a * (np.exp(np.minimum(x, 0)) - 1)),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "softplus": lambda x, a, b: np.logaddexp(x, 0),
}


def _activations(attributes: Attributes, default: Sequence[str], directions: int) -> List[List[Gate]]:
    """The activations of each direction, with their alpha and beta."""
    given = attributes.get("activations")
    names = [n.decode() if isinstance(n, bytes) else n for n in given] if given else list(default) * directions
    alphas, betas = list(attributes.get("activation_alpha") or ()), list(attributes.get("activation_beta") or ())
    gates: List[Gate] = []
    for i, name in enumerate(names):
        key = name.lower()
        alpha, beta = _DEFAULTS.get(key, (0.0, 0.0))
        gates.append(_bound(_GATES[key], alphas[i] if i < len(alphas) else alpha, betas[i] if i < len(betas) else beta))
    each = len(names) // directions
    return [gates[i * each : (i + 1) * each] for i in range(directions)]


def _bound(gate: Callable[[np.ndarray, float, float], np.ndarray], alpha: float, beta: float) -> Gate:
    return lambda x: gate(x, alpha, beta)


class _Cell:
    """One direction of one layer: weights, the step function, and the options common to all cells."""

    def __init__(
        self,
        attributes: Attributes,
        w: np.ndarray,
        r: np.ndarray,
        bias: Optional[np.ndarray],
        peephole: Optional[np.ndarray],
        gates: List[Gate],
    ) -> None:
        self.hidden = r.shape[1]
        self.w, self.r, self.gates = w, r, gates
        both = np.zeros(2 * w.shape[0]) if bias is None else bias
        self.wb, self.rb = both[: w.shape[0]], both[w.shape[0] :]
        self.peephole = np.zeros(3 * self.hidden) if peephole is None else peephole
        self.clip = attributes.get("clip")
        self.late_reset = bool(attributes.get("linear_before_reset", 0))
        self.couple = bool(attributes.get("input_forget", 0))

    def gate(self, which: int, x: np.ndarray) -> np.ndarray:
        return self.gates[which](x if self.clip is None else np.clip(x, -self.clip, self.clip))

    def rnn(self, x: np.ndarray, state: State) -> State:
        return (self.gate(0, x @ self.w.T + state[0] @ self.r.T + self.wb + self.rb),)

    def lstm(self, x: np.ndarray, state: State) -> State:
        h, c = state
        i, o, f, g = np.split(x @ self.w.T + h @ self.r.T + self.wb + self.rb, 4, axis=1)
        pi, po, pf = np.split(self.peephole, 3)
        i = self.gate(0, i + pi * c)
        f = 1 - i if self.couple else self.gate(0, f + pf * c)
        c = f * c + i * self.gate(1, g)
        o = self.gate(0, o + po * c)
        return o * self.gates[2](c), c

    def gru(self, x: np.ndarray, state: State) -> State:
        (h,) = state
        n = self.hidden
        xs, hs = x @ self.w.T + self.wb, h @ self.r.T + self.rb
        z = self.gate(0, xs[:, :n] + hs[:, :n])
        r = self.gate(0, xs[:, n : 2 * n] + hs[:, n : 2 * n])
        inner = r * hs[:, 2 * n :] if self.late_reset else (r * h) @ self.r[2 * n :].T + self.rb[2 * n :]
        return ((1 - z) * self.gate(1, xs[:, 2 * n :] + inner) + z * h,)


def _recurrent(step: str, activations: Sequence[str], states: int) -> Kernel:
    def run(attributes: Attributes, inputs: Sequence[Any], outputs: int) -> Optional[List[np.ndarray]]:
        x, w, r, bias, lengths, *rest = list(inputs) + [None] * (8 - len(inputs))
        batch_first = bool(attributes.get("layout", 0))
        starts = [None if s is None else (np.swapaxes(s, 0, 1) if batch_first else s) for s in rest[:states]]
        x = np.swapaxes(x, 0, 1) if batch_first else x
        gates = _activations(attributes, activations, w.shape[0])
        way = _word(attributes.get("direction", "forward"))
        ends, rows = [], []
        for d in range(w.shape[0]):
            peephole = rest[2] if step == "lstm" else None
            cell = _Cell(
                attributes,
                w[d],
                r[d],
                None if bias is None else bias[d],
                None if peephole is None else peephole[d],
                gates[d],
            )
            zero = np.zeros((x.shape[1], cell.hidden))
            begin = tuple(zero if s is None else s[d] for s in starts)
            row, end = _walk(getattr(cell, step), x, begin, lengths, way == "reverse" or d == 1)
            rows.append(row)
            ends.append(end)
        y = np.stack(rows, axis=1)
        last = [np.stack([end[s] for end in ends]) for s in range(states)]
        if batch_first:
            y, last = np.transpose(y, (2, 0, 1, 3)), [np.swapaxes(s, 0, 1) for s in last]
        return [y] + last

    return run


def _word(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _walk(
    step: Callable[[np.ndarray, State], State],
    x: np.ndarray,
    state: State,
    lengths: Optional[np.ndarray],
    backwards: bool,
) -> Tuple[np.ndarray, State]:
    """Every step's first state and the state at the end; rows shorter than the batch stay as they ended."""
    steps, batch = x.shape[0], x.shape[1]
    y = np.zeros((steps, batch, state[0].shape[1]))
    for t in range(steps - 1, -1, -1) if backwards else range(steps):
        new = step(x[t], state)
        if lengths is not None:
            alive = (t < lengths)[:, None]
            new = tuple(np.where(alive, n, s) for n, s in zip(new, state))
            y[t] = np.where(alive, new[0], 0)
        else:
            y[t] = new[0]
        state = new
    return y, state


RECURRENT: Dict[str, Kernel] = {
    "RNN": _recurrent("rnn", ("Tanh",), 1),
    "GRU": _recurrent("gru", ("Sigmoid", "Tanh"), 1),
    "LSTM": _recurrent("lstm", ("Sigmoid", "Tanh", "Tanh"), 2),
}
"""The recurrent operators; each gives Y and then its states."""
