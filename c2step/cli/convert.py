"""Write init_net.pb and predict_net.pb, which stock Caffe2 in a bare script runs to the same result.

c2step convert model.onnx -o nets/ --text
c2step convert model.onnx -o nets/ --import repaired --input all.npz

Inputs, where given, say what the model leaves open, as --dim does: the sizes of dimensions, axes that it is fed.
"""

import argparse
import os

from ..errors import ExitStatus
from ..launch import unpack_folder
from ..render import quote
from ..workspace.process import ProcessWorkspace
from ..workspace.runtime import find_runtime
from .options import add_inputs, add_model, fed_spec_of, say, say_findings, show_output, spec_of

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step convert`."""
    add_model(parser)
    add_inputs(parser)
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="where the nets are written")
    parser.add_argument("--text", action="store_true", help="write .pbtxt too")


def run(options: argparse.Namespace) -> int:
    """Convert in a worker, so that a converter that dies is named."""
    workspace = ProcessWorkspace(find_runtime(options.runtime), show_output, options.timeout)
    try:
        spec = dict(spec_of(options), **unpack_folder(workspace, options.model))
        spec.update(fed_spec_of(workspace, spec, options))
        found = workspace.open(spec)
        for name, shape in spec.get("input_shapes", {}).items() if options.importing == "repaired" else ():
            say("note: input %s is taken to be %s: other sizes may need other repairs" % (quote(name), shape))
        for note in found["notes"]:
            say("note: %s" % note)
        say_findings(found["findings"], options.importing)
        for path in workspace.convert(os.path.abspath(options.output), options.text):
            print(path)
    finally:
        workspace.close()
    return ExitStatus.OK
