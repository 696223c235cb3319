"""Write an ONNX file whose inner values are outputs too, for any other runtime.

c2step expose model.onnx -o exposed.onnx --type Conv,Gemm
"""

import argparse

from ..errors import ExitStatus
from ..references import expose
from ..workspace.runtime import find_runtime
from .options import show_output

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step expose`."""
    parser.add_argument("model", metavar="MODEL.onnx")
    parser.add_argument("-o", "--output", required=True, metavar="OUT.onnx")
    parser.add_argument(
        "--type", action="append", default=[], metavar="T[,T]", help="outputs of these ONNX operator types"
    )
    parser.add_argument("--match", metavar="REGEX", help="values whose name matches")
    parser.add_argument("--all", action="store_true", help="every value")
    parser.add_argument("--runtime", "--engine-runtime", metavar="python:PATH", help="an interpreter with onnx")


def run(options: argparse.Namespace) -> int:
    """Expose and say what was exposed."""
    types = [name for word in options.type for name in word.split(",") if name]
    done = expose(
        options.model,
        options.output,
        find_runtime(options.runtime).python,
        types or None,
        options.match,
        options.all,
        show_output,
    )
    print(done.text())
    return ExitStatus.OK
