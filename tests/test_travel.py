"""Forward, back, patched and unpatched in any order: what is not marked dirty is a fresh run, bit for bit."""

import tempfile

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import c2step
from oracle import same_bytes
from small_nets import run_prefix, tensors, written

NAMES = ("a", "b", "c", "d")
SETTINGS = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
X = np.array([[-1.5, 0.25, 2], [3, -0.5, 0.125]], np.float32)


@st.composite
def nets(draw, kinds=("Relu", "Sigmoid", "Negative", "Add", "Mul", "Copy")):
    """Operators over few names, so that blobs are overwritten, in place and by others, and branches meet again."""
    known, operators = ["x"], []
    for _ in range(draw(st.integers(3, 9))):
        kind = draw(st.sampled_from(kinds))
        reads = [draw(st.sampled_from(known)) for _ in range(2 if kind in ("Add", "Mul") else 1)]
        others = [name for name in NAMES + ("x",) if kind not in ("Copy", "Alias") or name not in reads]
        target = draw(st.sampled_from(others))
        operators.append((kind, tuple(reads), (target,), {}))
        known = list(dict.fromkeys(known + [target]))
    return operators


def moves(patching=True):
    """Verbs with a number that a position or a blob is made of."""
    verbs = ["step", "step", "back", "goto"] + (["patch", "unpatch"] if patching else [])
    return st.lists(st.tuples(st.sampled_from(verbs), st.integers(0, 30)), min_size=4, max_size=14)


class Model:
    """What a session should hold, kept without looking into it: a position and patches by the operator they follow."""

    def __init__(self, operators):
        self.operators, self.position, self.patches = operators, 0, {}

    def writer(self, name):
        made = [i for i, op in enumerate(self.operators[: self.position]) if name in op[2]]
        return made[-1] if made else None

    def expected(self):
        rows = [(index, name, value) for (name, index), value in self.patches.items()]
        return run_prefix(self.operators, {"x": X}, self.position, rows)


def act(session, model, verb, number):
    """One verb on both."""
    size = len(model.operators)
    if verb == "step":
        session.step(1 + number % 3)
        model.position = min(size, model.position + 1 + number % 3)
    elif verb == "back" and session.steps:
        count = 1 + number % 4
        session.back(count)
        model.position = max(0, model.position - count)
    elif verb == "goto":
        session.goto(str(number % size))
        model.position = number % size
    elif verb == "patch":
        names = sorted(model.expected())
        name = names[number % len(names)]
        value = np.full((2, 3), number + 0.5, np.float32)
        session.patch(name, value)
        model.patches[name, model.writer(name)] = value
    elif verb == "unpatch" and model.patches:
        name = sorted(model.patches, key=str)[number % len(model.patches)][0]
        session.unpatch(name)
        model.patches = {key: value for key, value in model.patches.items() if key[0] != name}


def check(session, model):
    """What is not dirty is as in a fresh run."""
    assert session.position == model.position
    found, expected = tensors(session), model.expected()
    assert set(found) == set(expected)
    dirty = session.dirty_blobs()
    for name in set(expected) - dirty:
        assert same_bytes(found[name], expected[name]), name
    return dirty


@SETTINGS
@given(nets(), moves())
def test_any_walk_is_a_fresh_run(operators, walk):
    with tempfile.TemporaryDirectory() as folder:
        path = written(operators, ["x"], folder)
        with c2step.open(predict_net=path, inputs={"x": X}, in_process=True) as session:
            model = Model(operators)
            for verb, number in walk:
                act(session, model, verb, number)
                dirty = check(session, model)
            dirty_operators = session.dirty_operators()
            assert bool(dirty) <= bool(dirty_operators)
            if dirty_operators:  # run again, nothing is dirty
                session.goto(str(min(dirty_operators)))
                session.step(model.position - session.position)
            assert not check(session, model) and not session.dirty_operators()


@SETTINGS
@given(nets(("Relu", "Negative", "Add", "Alias", "Alias", "Sigmoid")), moves(patching=False))
def test_storage_that_is_shared_stays_shared(operators, walk):
    with tempfile.TemporaryDirectory() as folder:
        path = written(operators, ["x"], folder)
        with c2step.open(predict_net=path, inputs={"x": X}, in_process=True) as session:
            model = Model(operators)
            for verb, number in walk:
                act(session, model, verb, number)
                assert not check(session, model)
