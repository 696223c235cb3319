"""PyTorch modules as reference: hooks on every module, in-place work, reuse, several outputs, metadata."""

import re
import textwrap

import numpy as np
import pytest

from c2step.blob import TENSOR, Blob
from c2step.errors import ReferenceFailed
from c2step.references import Match, Reference, make_onnxruntime, make_torch, match_modules, open_capture
from reference_support import PYTHON, quick

MODEL = """
import torch
from torch import nn

class Pair(nn.Module):
    def forward(self, x):
        return {"low": x - 1, "high": (x + 1, x * 2)}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.act = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5)
        self.pair = Pair()
        self.tail = nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=1))

    def forward(self, x, scale):
        x = self.act(self.fc(x))
        x = self.drop(self.act(self.fc(x) - 0.1))
        both = self.pair(x)
        return self.tail(both["high"][1] * scale)

def net():
    torch.manual_seed(3)
    print("making the net")
    return Net().train()

def swapped():
    return net(), {"inputs": ["x", "scale"], "preprocessing": "none at all"}

def no_module():
    return 3

def packaged():
    import no_such_package

class Late(nn.Module):
    def forward(self, x, scale):
        import no_such_package

def late():
    return Late()

def broken():
    raise ValueError("no weights here")
"""


@pytest.fixture
def inputs():
    return {"x": np.random.RandomState(0).randn(3, 4).astype(np.float32), "scale": np.float32([[2.0]])}


@pytest.fixture
def make(monkeypatch, tmp_path):
    """Make golden values without starting a process."""
    quick(monkeypatch)
    return lambda spec, inputs: make_torch(spec, inputs, str(tmp_path / "v"), PYTHON)


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "model.py").write_text(textwrap.dedent(MODEL))
    return lambda factory: "%s:%s" % (tmp_path / "model.py", factory)


def truth(tmp_path, inputs):
    """The values that PyTorch gives step by step, without hooks."""
    torch = pytest.importorskip("torch")
    space = {}
    exec(compile(MODEL, "model", "exec"), space)
    net = space["net"]().eval()
    x, scale = (torch.from_numpy(inputs[name]) for name in ("x", "scale"))
    with torch.no_grad():
        first = net.fc(x)
        second = net.fc(first.clamp(min=0)) - 0.1
        pair = second.clamp(min=0)
        tail = net.tail[0](pair * 2 * scale)
    values = {
        "fc": first,
        "act": first.clamp(min=0),
        "fc#2": second + 0.1,
        "act#2": pair,
        "drop": pair,
        "pair.low": pair - 1,
        "pair.high.0": pair + 1,
        "pair.high.1": pair * 2,
        "tail.0": tail,
        "tail.1": tail.softmax(1),
        "tail": tail.softmax(1),
        "<root>": tail.softmax(1),
    }
    return {name: value.numpy() for name, value in values.items()}


def test_every_module_has_its_outputs(spec, inputs, tmp_path):
    printed = []
    reference = make_torch(spec("net"), inputs, str(tmp_path / "v"), PYTHON, shown=printed.append)
    wanted = truth(tmp_path, inputs)
    assert [name for name in reference.names() if name not in inputs] == list(wanted)
    for name, value in wanted.items():
        assert np.allclose(reference.get(name), value, atol=1e-6), name
    assert printed == ["making the net"]


def test_the_metadata_says_what_was_fed_and_who_ran_it(make, spec, inputs, tmp_path):
    reference = make(spec("swapped"), dict(reversed(list(inputs.items()))))
    torch = pytest.importorskip("torch")
    assert reference.meta["versions"]["torch"] == torch.__version__
    assert reference.meta["preprocessing"] == "none at all"
    assert [(entry["name"], entry["shape"], entry["dtype"]) for entry in reference.meta["inputs"]] == [
        ("scale", [1, 1], "float32"),
        ("x", [3, 4], "float32"),
    ]
    assert np.allclose(reference.get("<root>"), truth(tmp_path, inputs)["<root>"], atol=1e-6)


@pytest.mark.parametrize(
    "factory, message",
    [
        ("no_module", "gave int, not a module"),
        ("broken", r"broken of .* raised ValueError: no weights here\n.*model.py:\d+: raise ValueError"),
        ("absent", r"has no function absent\n.*net"),
    ],
)
def test_a_factory_that_gives_no_module_is_named(factory, message, make, spec, inputs):
    with pytest.raises(ReferenceFailed) as caught:
        make(spec(factory), inputs)

    assert re.search(message, str(caught.value), re.S)


@pytest.mark.parametrize("factory, what", [("packaged", r"packaged of \S+model.py"), ("late", "the module")])
def test_a_package_that_the_interpreter_lacks_is_named_with_the_option(factory, what, make, spec, inputs):
    with pytest.raises(ReferenceFailed) as caught:
        make(spec(factory), inputs)
    wanted = what + r" asks for what \S+ does not have: No module named 'no_such_package' \(model.py:\d+: import"
    assert re.match(wanted, str(caught.value)) and "--engine-runtime python:PATH" in caught.value.hint


def test_inputs_that_do_not_fit_are_told_with_their_shapes(make, spec, inputs):
    with pytest.raises(ReferenceFailed, match=r"it was given x \(3, 3\)"):
        make(spec("net"), dict(inputs, x=np.zeros((3, 3), np.float32)))


def test_a_spec_without_a_file(tmp_path, inputs):
    with pytest.raises(ReferenceFailed, match="is not FILE.py:factory"):
        make_torch("model.py", inputs, str(tmp_path / "v"), PYTHON)


def test_a_module_that_ends_the_process_is_named_and_the_others_are_kept(inputs, tmp_path):
    (tmp_path / "dying.py").write_text(
        "import os, signal, torch\n"
        "class Dies(torch.nn.Module):\n"
        "    def forward(self, x):\n        os.kill(os.getpid(), signal.SIGSEGV)\n"
        "def net():\n    return torch.nn.Sequential(torch.nn.ReLU(), Dies())\n"
    )
    with pytest.raises(ReferenceFailed, match="ended by SIGSEGV at module 1 Dies"):
        make_torch("%s:net" % (tmp_path / "dying.py"), {"x": inputs["x"]}, str(tmp_path / "v"), PYTHON)
    assert np.array_equal(open_capture(str(tmp_path / "v")).get("0"), np.maximum(inputs["x"], 0))


def reference_of(values):
    """A reference with values in order."""
    made = Reference("test")
    for name, value in values:
        made.add(name, 1, lambda n=name, v=value: Blob(n, TENSOR, np.asarray(v, np.float32)))
    return made


def noise(seed, *shape):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def test_equal_names_match_by_name():
    a = noise(1, 2, 3)
    assert match_modules(reference_of([("conv", a)]), [("conv", a + 1)]) == [Match("conv", "conv", "name", True)]


def test_the_names_of_newer_exporters_lead_to_the_module():
    a, b = noise(1, 2, 3), noise(2, 2, 3)
    names = ["/layer1/layer1.0/conv/Conv_output_0", "/fc/MatMul_output_0", "/fc/Add_output_0"]
    blobs = list(zip(names, [0 * a, b + 5, 0 * b]))
    found = match_modules(reference_of([("layer1.0.conv", a), ("fc", b)]), blobs)
    assert [(m.module, m.blob, m.how) for m in found] == [
        ("layer1.0.conv", "/layer1/layer1.0/conv/Conv_output_0", "name"),
        ("fc", "/fc/Add_output_0", "name"),
    ]


def test_a_name_holds_for_a_changed_shape_too():
    (found,) = match_modules(reference_of([("conv", noise(1, 2, 28))]), [("/conv/Conv_output_0", noise(1, 2, 24))])
    assert found == Match("conv", "/conv/Conv_output_0", "name", True)


def test_a_second_call_has_its_own_name():
    a, b = noise(1, 2, 3), noise(2, 2, 3)
    blobs = [("/relu/Relu_output_0", a + 9), ("/Sub_output_0", a), ("/relu_1/Relu_output_0", b + 9)]
    found = match_modules(reference_of([("relu", a), ("relu#2", b)]), blobs)
    assert [(m.module, m.blob, m.how) for m in found] == [
        ("relu", "/relu/Relu_output_0", "name"),
        ("relu#2", "/relu_1/Relu_output_0", "name"),
    ]


def test_the_model_as_a_whole_is_its_outputs_and_so_are_its_last_modules():
    a, b = noise(1, 2, 3), noise(2, 2, 3)
    reference = reference_of([("seq.0", a), ("seq.1", b), ("seq", b), ("<root>", b)])
    found = match_modules(reference, [("10", a + 9), ("11", a + 5), ("12", b + 9)], outputs=["12"])
    assert [(m.module, m.blob, m.how) for m in found] == [
        ("seq.1", "12", "the same value as its inner module"),
        ("seq", "12", "the same value as its inner module"),
        ("<root>", "12", "the model's output"),
    ]


def test_content_in_order_settles_equal_shapes():
    values = [noise(seed, 2, 3) for seed in range(4)]
    blobs = [("10", values[0]), ("11", noise(9, 2, 3)), ("12", values[1] * (1 + 1e-6)), ("13", values[2])]
    found = match_modules(reference_of([("a", values[0]), ("b", values[1]), ("c", values[2])]), blobs)
    assert [(m.module, m.blob) for m in found] == [("a", "10"), ("b", "12"), ("c", "13")]
    assert {(m.how, m.sure) for m in found} == {("content in order", True)}


def test_a_container_shares_the_blob_of_its_last_module():
    a = noise(1, 2, 3)
    found = match_modules(reference_of([("seq.0", a), ("seq", a)]), [("10", a)])
    assert [(m.module, m.blob) for m in found] == [("seq.0", "10"), ("seq", "10")]
    assert found[1].how == "content, the blob of another module too"


def test_after_a_difference_shape_between_matches_is_a_guess_and_says_so():
    a, b, c = noise(1, 2, 3), noise(2, 4), noise(3, 2, 3)
    blobs = [("10", a), ("11", b + 1), ("12", c)]
    found = match_modules(reference_of([("a", a), ("b", b), ("c", c)]), blobs)
    assert found[1] == Match("b", "11", "shape, the only one between two matches", False)


def test_several_of_one_shape_are_called_ambiguous():
    a, wrong = noise(1, 2, 3), noise(2, 2, 3)
    blobs = [("10", a), ("11", wrong), ("12", wrong + 1)]
    found = match_modules(reference_of([("a", a), ("b", a + 1), ("c", a + 2)]), blobs)
    assert [(m.blob, m.how, m.sure) for m in found[1:]] == [
        ("11", "shape in order, ambiguous", False),
        ("12", "shape in order, ambiguous", False),
    ]


def test_shapes_of_unequal_number_are_not_matched():
    a, wrong = noise(1, 2, 3), noise(2, 2, 3)
    blobs = [("10", a), ("11", wrong), ("12", wrong + 1), ("13", wrong + 2)]
    assert [m.module for m in match_modules(reference_of([("a", a), ("b", a + 1)]), blobs)] == ["a"]


def test_a_changed_shape_between_two_matches_is_found_by_position():
    a, c = noise(1, 2, 3), noise(3, 2, 3)
    found = match_modules(
        reference_of([("a", a), ("conv", noise(2, 4, 28)), ("c", c)]), [("10", a), ("11", noise(2, 4, 24)), ("12", c)]
    )
    assert found[1] == Match("conv", "11", "position, the only one between two matches", False)


def test_nan_and_infinity_must_be_in_the_same_places():
    a = np.float32([1, np.nan, np.inf])
    assert match_modules(reference_of([("a", a)]), [("10", a)])[0].how == "content in order"
    (guess,) = match_modules(reference_of([("a", a)]), [("10", np.float32([1, np.inf, np.nan]))])
    assert not guess.sure


def test_an_export_of_the_module_matches_its_hooks(monkeypatch, spec, inputs, tmp_path):
    """The same module exported and run by onnxruntime node by node: every hook but the wrapped ones finds its value."""
    torch = pytest.importorskip("torch")
    quick(monkeypatch)
    space = {}
    exec(compile(MODEL, "model", "exec"), space)
    path = str(tmp_path / "net.onnx")
    arguments = tuple(torch.from_numpy(inputs[name]) for name in ("x", "scale"))
    torch.onnx.export(space["net"]().eval(), arguments, path, input_names=["x", "scale"], opset_version=11)
    golden = make_torch(spec("net"), inputs, str(tmp_path / "t"), PYTHON)
    run = make_onnxruntime(path, inputs, str(tmp_path / "o"), PYTHON)
    modules = golden.renamed({name: name for name in golden.names() if name not in inputs})
    found = match_modules(modules, [(name, run.get(name)) for name in run.names() if name not in inputs])
    matched = {m.module: m for m in found}
    assert set(golden.names()) - set(inputs) - set(matched) <= {"pair.low", "pair.high.0"}
    assert {m.sure for m in found if m.how == "content in order"} == {True}
    for m in found:
        assert np.allclose(golden.get(m.module), run.get(m.blob), atol=1e-5)
