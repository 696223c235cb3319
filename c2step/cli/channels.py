"""List what the channels of each blob do, over one capture or many: mean activation, dead and weak channels.

c2step channels out/
c2step channels image1/ image2/ image3/ --all
"""

import argparse
import json
from typing import List

from ..analyses.channels import Channels, channels
from ..capture import Capture
from ..errors import ExitStatus
from ..render import blob_label, number, table

__all__ = ["add_arguments", "run"]

_SHOWN = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step channels`."""
    parser.add_argument("captures", nargs="+", metavar="CAPTURE", help="captures of one model, an input each")
    parser.add_argument("--axis", type=int, default=1, help="the axis of the channels (default 1, as NCHW has it)")
    parser.add_argument("--weak", type=float, default=0.01, metavar="SHARE",
                        help="a weak channel never reaches this share of the median one (default 0.01)")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="a line for every channel")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")


def run(options: argparse.Namespace) -> int:
    """Look at every blob and print."""
    found = channels([Capture(path) for path in options.captures], options.weak, options.axis)
    if options.json:
        print(json.dumps([blob.to_json() for blob in found], indent=1))
    else:
        print("\n".join(_all(found) if options.all else _summary(found)))
    return ExitStatus.OK


def _summary(found: List[Channels]) -> List[str]:
    rows = [["blob", "type", "channels", "mean", "largest", "dead", "weak", "which"]]
    for blob in found:
        rows.append([blob_label(*blob.blob), blob.type, str(len(blob.mean)), number(sum(blob.mean) / len(blob.mean)),
                     number(max(blob.largest)), str(len(blob.dead)), str(len(blob.weak)), _which(blob)])  # fmt: skip
    return table(rows, right=(2, 3, 4, 5, 6))


def _which(blob: Channels) -> str:
    words = []
    for word, places in (("dead", blob.dead), ("weak", blob.weak)):
        if places:
            more = ", ... %d in all" % len(places) if len(places) > _SHOWN else ""
            words.append("%s %s%s" % (word, ", ".join(map(str, places[:_SHOWN])), more))
    return "; ".join(words)


def _all(found: List[Channels]) -> List[str]:
    rows = [["blob", "channel", "mean", "largest", "zeros", ""]]
    for blob in found:
        for i, (mean, largest, zeros) in enumerate(zip(blob.mean, blob.largest, blob.zeros)):
            word = "dead" if i in blob.dead else "weak" if i in blob.weak else ""
            rows.append([blob_label(*blob.blob), str(i), number(mean), number(largest), "%.1f%%" % (100 * zeros), word])
    return table(rows, right=(1, 2, 3, 4))
