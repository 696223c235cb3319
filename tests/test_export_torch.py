"""Exports with more outputs, against PyTorch's own forward hooks."""

import os

import numpy as np
import pytest

from c2step.cli import main

# Warnings of the exporter about its own internals
pytestmark = pytest.mark.filterwarnings("ignore")

RESNET = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inside, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inside != out:
            self.downsample = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
        widths = (64, 64, 128, 256, 512)
        self.layers = nn.ModuleList(
            nn.Sequential(Block(a, b, 1 if i == 0 else 2), Block(b, b, 1))
            for i, (a, b) in enumerate(zip(widths, widths[1:])))
        self.fc = nn.Linear(512, 1000)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.stem(x), 3, 2, 1)
        for layer in self.layers:
            x = layer(x)
        return self.fc(x.mean((2, 3)))


def make():
    torch.manual_seed(0)
    return ResNet18()
"""

ODD = """
import torch
from torch import nn


class Pair(nn.Module):
    def forward(self, x):
        return x + 1, {"twice": x * 2}


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(4, 4)
        self.pair = Pair()
        self.act = nn.ReLU(inplace=True)

    def forward(self, a, b):
        x = self.shared(a)
        y = self.shared(torch.tanh(x) + b)      # the same module again, with functional calls in between
        one, other = self.pair(y)
        return self.act(one) - other["twice"]


def make():
    torch.manual_seed(1)
    return Odd(), {"inputs": ["a", "b"]}
"""


def space(path):
    scope = {}
    exec(path.read_text(), scope)
    made = scope["make"]()
    return (made[0] if isinstance(made, tuple) else made).eval()


def run(model, given):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, given)))


def test_resnet18_with_four_inner_outputs(tmp_path, capsys):
    import torch

    source, model = tmp_path / "resnet.py", tmp_path / "resnet.onnx"
    source.write_text(RESNET)
    x = np.random.RandomState(0).randn(1, 3, 64, 64).astype(np.float32)
    np.save(str(tmp_path / "x.npy"), x)
    wanted = ["stem.1", "layers.0.1.conv2", "layers.1.0.downsample", "layers.3"]  # stem.1 is overwritten in place
    words = ["export-torch", "%s:make" % source, "--input", "x=%s" % (tmp_path / "x.npy")]
    assert main([*words, "-o", str(model), "--outputs", ",".join(wanted)]) == 0
    assert "gives output, " + ", ".join(wanted) in capsys.readouterr().out
    module, seen = space(source), {}

    def keep(name):
        def hook(module, inputs, output):
            seen[name] = output.clone().numpy()

        return hook

    for name, inner in module.named_modules():
        inner.register_forward_hook(keep(name))
    with torch.no_grad():
        module(torch.from_numpy(x))
    found = run(model, {"x": x})
    assert list(found) == ["output", *wanted]
    for name in wanted:
        assert np.allclose(found[name], seen[name], rtol=1e-4, atol=1e-4 * np.abs(seen[name]).max()), name
    assert np.allclose(found["output"], seen[""], rtol=1e-3, atol=1e-4 * np.abs(seen[""]).max())


def test_shared_modules_tuples_and_functional_calls(tmp_path, capsys):
    import torch

    source, model = tmp_path / "odd.py", tmp_path / "odd.onnx"
    source.write_text(ODD)
    given = {name: np.random.RandomState(i).randn(2, 4).astype(np.float32) for i, name in enumerate("ab")}
    np.savez(str(tmp_path / "in.npz"), **given)
    words = ["export-torch", "%s:make" % source, "--input", str(tmp_path / "in.npz")]
    assert main([*words, "--list"]) == 0
    listed = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert listed[0] == ["shared", "Linear", "2x4"] and listed[1][0] == "shared#2"
    assert [row[0] for row in listed] == ["shared", "shared#2", "pair.0", "pair.1.twice", "act", "<root>"]
    wanted = ["shared", "shared#2", "pair.0", "pair.1.twice"]
    assert main([*words, "-o", str(model), "--outputs", ",".join(wanted), "--opset", "11"]) == 0
    module = space(source)
    with torch.no_grad():
        a, b = (torch.from_numpy(given[name]) for name in "ab")
        first = module.shared(a)
        second = module.shared(torch.tanh(first) + b)
        answers = {"shared": first, "shared#2": second, "pair.0": second + 1, "pair.1.twice": second * 2}
        answers["output"] = torch.relu(second + 1) - second * 2
    found = run(model, given)
    assert set(found) == set(answers)
    for name, value in answers.items():
        assert np.allclose(found[name], value.numpy(), rtol=1e-5, atol=1e-6), name


def test_mistakes(tmp_path, capsys):
    source = tmp_path / "odd.py"
    source.write_text(ODD)
    np.savez(str(tmp_path / "in.npz"), a=np.zeros((2, 4), np.float32), b=np.zeros((2, 4), np.float32))
    words = ["export-torch", "%s:make" % source, "--input", str(tmp_path / "in.npz")]
    assert main([*words, "-o", os.devnull, "--outputs", "sharde"]) == 2
    assert "did you mean shared" in capsys.readouterr().err
    assert main(words) == 2
    assert main(["export-torch", "%s:make" % source, "--list"]) == 2
    assert "no value for input a" in capsys.readouterr().err
