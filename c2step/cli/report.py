"""Write one HTML file about a capture or a blame: graph, errors along the net, a page for every operator.

c2step blame model.onnx --input all.npz --against onnxruntime --keep kept/
c2step report kept/ -o report.html
c2step report blame.json -o report.html

The file needs no network and no other file.  What `blame --json` prints is enough for the graph and the
errors; pictures of values are there where --keep kept them.
"""

import argparse

from ..errors import ExitStatus
from ..report import open_source, write_report
from .options import bytes_text, parse_bytes

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step report`."""
    parser.add_argument("source", metavar="CAPTURE|BLAME.json", help="a capture's folder, or the JSON of a blame")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.html")
    parser.add_argument("--size", type=parse_bytes, default=16 << 20, metavar="N",
                        help="room for pictures and histograms (default 16M); wrong operators come first")  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Write it and say how large it is."""
    size = write_report(open_source(options.source), options.output, options.size)
    print("%s: %s" % (options.output, bytes_text(size)))
    return ExitStatus.OK
