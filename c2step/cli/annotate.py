"""Write an ONNX file whose nodes say what was found, for Netron: label, error, shape and statistics.

c2step annotate model.onnx kept/ -o annotated.onnx

The texts are in each node's doc_string and metadata.  Nothing that is computed changes.
"""

import argparse

from ..errors import ExitStatus
from ..export.annotating import annotate
from ..report import open_source
from ..workspace.runtime import find_runtime
from .options import say, show_output

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step annotate`."""
    parser.add_argument("model", metavar="MODEL.onnx", help="the model that was run")
    parser.add_argument("source", metavar="CAPTURE|BLAME.json", help="a capture's folder, or the JSON of a blame")
    parser.add_argument("-o", "--output", required=True, metavar="OUT.onnx")
    parser.add_argument("--mark-names", action="store_true", help="put the label into the nodes' names too")
    parser.add_argument("--runtime", "--engine-runtime", metavar="python:PATH", help="an interpreter with onnx")


def run(options: argparse.Namespace) -> int:
    """Annotate and say how many nodes have a text now."""
    done = annotate(options.model, open_source(options.source), options.output, find_runtime(options.runtime).python,
                    options.mark_names, show_output)  # fmt: skip
    for name in done.unknown:
        say("note: no node gives %s" % name)
    print("%s: %d nodes annotated" % (done.path, done.nodes))
    return ExitStatus.OK
