"""Write captures as TensorBoard runs: curves along the net, histograms, images, the graph.

c2step tensorboard kept/ -o logs/
c2step tensorboard faithful/ repaired/ -o logs/

Then `tensorboard --logdir logs/`.  Needs tensorboardX: pip install 'c2step[tensorboard]'.
"""

import argparse
import os
from typing import List

from ..errors import ExitStatus
from ..export.tensorboard import run_names, write_run
from ..report import open_source
from .options import say

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step tensorboard`."""
    parser.add_argument("sources", nargs="+", metavar="CAPTURE", help="captures' folders; each becomes a run")
    parser.add_argument("-o", "--output", required=True, metavar="LOGDIR")


def run(options: argparse.Namespace) -> int:
    """Write each run and say what it holds."""
    sources = [open_source(path) for path in options.sources]
    for name, source in zip(run_names(sources), sources):
        unread: List[str] = []
        shown = write_run(source, os.path.join(options.output, name), unread)
        for words in unread:
            say("note: the value of %s cannot be read" % words)
        print("%s: %d operators, %d blobs" % (os.path.join(options.output, name), len(source.operators), shown))
    return ExitStatus.OK
