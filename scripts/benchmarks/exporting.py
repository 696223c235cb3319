"""Exports the models: `python exporting.py FOLDER NAME...`, with an interpreter that has torch and torchvision.

Weights are seeded.  Each model becomes `NAME-op9.onnx`, with its input beside it in `NAME.npz`.
"""

import os
import sys

import torch
import torch.nn as nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "conformance"))
import exports

OPSET = 9  # the one that Caffe2's own backend knows
STEPS, WIDTH = 100, 64


class Unrolled(nn.Module):
    """An LSTM whose time steps are operators of the net one by one, not the inside of one operator."""

    def __init__(self):
        super().__init__()
        self.ours, self.theirs = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x):
        state = cell = x[0] * 0
        for step in range(STEPS):
            i, f, g, o = (self.ours(x[step]) + self.theirs(state)).chunk(4, 1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            state = torch.sigmoid(o) * torch.tanh(cell)
        return state


exports.SMALL["lstm%d" % STEPS] = (Unrolled, lambda: (torch.randn(STEPS, 1, WIDTH),))

if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[2:]:
        exports.export(name, OPSET, sys.argv[1])
