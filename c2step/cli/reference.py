"""Make golden values once, for use later or elsewhere: `--against DIR` then takes them.

c2step reference onnxruntime model.onnx --input all.npz -o golden/
c2step reference torch:model.py:make model.onnx --input all.npz -o golden/
c2step reference python:/old/bin/python model.onnx --input all.npz -o golden/
"""

import argparse
import os

from ..errors import ExitStatus, UsageError
from .against import reference_for, said
from .options import add_session, opened

__all__ = ["add_arguments", "run"]

_ENGINES = (
    "onnxruntime, torch:FILE.py:factory, openvino[:FILE], keras:FILE or keras:FILE.py:factory, keras-nchw:..., "
    "or python:PATH (another Caffe2)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step reference`."""
    parser.add_argument("engine", metavar="ENGINE", help=_ENGINES)
    add_session(parser)
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the capture that is written")
    parser.add_argument("--engine-runtime", metavar="python:PATH", help="the interpreter that has the engine")


def run(options: argparse.Namespace) -> int:
    """Make them and say what is there and what is missing."""
    if os.path.exists(options.engine):
        raise UsageError("%s is a file, not an engine" % options.engine, _ENGINES)
    with opened(options) as session:
        output = os.path.abspath(options.output)
        reference = reference_for(
            session, options.engine, output, None, options.engine_runtime, options.timeout, match=False
        )
        said(reference)
    for name, reason in reference.missing.items():
        print("no value for %s: %s" % (name, reason))
    print("%d values in %s" % (len(reference.names()), options.output))
    return ExitStatus.OK if reference.names() else ExitStatus.REFERENCE
