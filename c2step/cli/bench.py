"""Time every operator of a model in Caffe2: min, median, spread, share of the whole, FLOP where they are known.

c2step bench model.onnx --input all.npz
c2step bench model.onnx --random-inputs 0 --runs 100 --json

The last line compares the sum with a run of the whole net and with Caffe2's own BenchmarkNet.
"""

import argparse
import json
from typing import List, Optional

from ..analyses.bench import Bench, Timing, bench
from ..errors import ExitStatus
from ..render import quote, table
from ..stepper import Keep
from .options import add_session, opened, warn_unfed

__all__ = ["add_arguments", "run"]

_APART = 1.5  # how many times one figure may be another before they disagree


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step bench`."""
    add_session(parser)
    group = parser.add_argument_group("bench")
    group.add_argument("--runs", type=_count, default=20, metavar="N", help="how often each operator is timed")
    group.add_argument("--warmup", type=_count, default=3, metavar="N", help="runs before that are not timed")
    group.add_argument("--json", action="store_true", help="one JSON object instead of the table")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("%s is no count, 1 or more" % text)
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Time and print, the net's order kept."""
    with opened(options, Keep(level="stats")) as session:
        warn_unfed(session)
        found = bench(session, options.warmup, options.runs)
    print(json.dumps(found.to_json(), indent=1) if options.json else "\n".join(_lines(found)))
    return ExitStatus.OK


def _lines(found: Bench) -> List[str]:
    head = ["index", "type", "blob", "min", "median", "spread", "share", "FLOP", "GFLOP/s"]
    rows = [head] + [_row(timing) for timing in found.operators]
    lines = table(rows, right=(0, 3, 4, 5, 6, 7, 8)) + [
        "",
        "operators %s, the whole net %s, BenchmarkNet %s (%d runs)"
        % (_seconds(found.sum), _seconds(found.total), _seconds(found.caffe2), found.runs),
    ]
    if found.apart > _APART:
        lines.append(
            "these disagree by %.1fx: something else ran, or operators are too short to be timed; "
            "more --runs on an idle machine, or go by min" % found.apart
        )
    return lines


def _row(timing: Timing) -> List[str]:
    op, flop = timing.operator, timing.flop
    rate: Optional[float] = flop / timing.median / 1e9 if flop and timing.median else None
    return [str(op.index), op.type, ",".join(map(quote, op.outputs)) or "-", _seconds(timing.minimum),
            _seconds(timing.median), _seconds(timing.spread), "%.1f%%" % (100 * timing.share),
            "-" if flop is None else "{:,}".format(flop), "-" if rate is None else "%.3g" % rate]  # fmt: skip


def _seconds(value: float) -> str:
    unit, size = ("s", 1.0) if value >= 1 else ("ms", 1e3) if value >= 1e-3 else ("us", 1e6)
    return "%.3g %s" % (value * size, unit)
