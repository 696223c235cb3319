"""Export a PyTorch module to ONNX with chosen inner modules as named outputs, its code unchanged.

c2step export-torch model.py:make --input x=x.npy --list
c2step export-torch model.py:make --input x=x.npy -o model.onnx --outputs backbone.conv3,head.fc

A module's output is named by its path; #2 is a second call of the same module, .0 or .key one of several outputs.
"""

import argparse

from ..errors import ExitStatus, UsageError
from ..launch import input_words
from ..references.torch_exporting import export_torch, module_calls
from ..render import table
from ..workspace.runtime import find_runtime
from .options import show_output
from .quant import read_inputs

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step export-torch`."""
    parser.add_argument("module", metavar="FILE.py:factory", help="a function that gives an nn.Module")
    parser.add_argument("-o", "--output", metavar="MODEL.onnx")
    parser.add_argument("--outputs", action="append", default=[], metavar="PATH[,PATH]", help="modules, by their paths")
    parser.add_argument(
        "--list", action="store_true", help="list the modules with the shapes of their outputs, and end"
    )
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE.npy|FILE.npz", help="what it is traced on"
    )
    parser.add_argument("--opset", type=int, default=9, help="default 9, which Caffe2's backend was written for")
    parser.add_argument("--runtime", "--engine-runtime", metavar="python:PATH", help="an interpreter with PyTorch")


def run(options: argparse.Namespace) -> int:
    """List, or export and name the outputs."""
    inputs = read_inputs(input_words(options.input))
    python = find_runtime(options.runtime).python
    if options.list:
        calls = module_calls(options.module, inputs, python, show_output)
        rows = [
            [name, call["type"], "x".join(map(str, shape)) or "scalar"]
            for call in calls
            for name, shape in call["outputs"]
        ]
        print("\n".join(table([["output", "module", "shape"], *rows])))
        return ExitStatus.OK
    if not options.output:
        raise UsageError("where to?", "give -o MODEL.onnx, or --list")
    names = [name for word in options.outputs for name in word.split(",") if name]
    done = export_torch(options.module, options.output, names, inputs, python, options.opset, show_output)
    print("%s: takes %s, gives %s" % (done.path, ", ".join(done.inputs), ", ".join(done.outputs)))
    return ExitStatus.OK
