"""Run a model and keep every output blob: .npy files and a journal, written as the run goes.

  c2step dump model.onnx --input all.npz -o out/
  c2step dump model.onnx --random-inputs 0 --type Conv,FC --level stats -o out/

Whatever ends the run, the capture is complete up to the last operator that ran.
"""

import argparse
import re
import shutil
from typing import List, Tuple

from ..budget import estimate
from ..errors import C2StepError, ExitStatus, UsageError, near
from ..history import Step
from ..stepper import Keep, Session, Stop
from .options import add_session, bytes_text, opened, parse_bytes, progress_of, say, warn_unfed

__all__ = ["add_arguments", "run"]

_STATUS = {
    "end": ExitStatus.OK,
    "failed": ExitStatus.OPERATOR,
    "died": ExitStatus.DIED,
    "timeout": ExitStatus.DIED,
    "interrupted": ExitStatus.INTERRUPTED,
    "full": ExitStatus.CAPTURE,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step dump`."""
    add_session(parser)
    group = parser.add_argument_group("capture")
    group.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="the capture; new, empty, or one to replace"
    )
    group.add_argument(
        "--type", action="append", default=[], metavar="T[,T]", help="keep the blobs of these operator types only"
    )
    group.add_argument("--match", default="", metavar="REGEX", help="keep the blobs whose name matches only")
    group.add_argument(
        "--level", choices=("full", "stats"), default="full", help="stats keeps the summaries, not the values"
    )
    group.add_argument(
        "--max-bytes",
        type=parse_bytes,
        metavar="N",
        help="stop before more than so many bytes are written (64k, 200M, 2G)",
    )


def run(options: argparse.Namespace) -> int:
    """Run to the end and say what was kept."""
    types = tuple(t for word in options.type for t in word.split(",") if t)
    _check_regex(options.match)
    keep = Keep(options.output, options.level, options.max_bytes, types, options.match, on_full="stop")
    with opened(options, keep) as session:
        _check_types(session, types)
        warn_unfed(session)
        _say_size(session, session.capture_directory, keep)  # a folder that cannot be the capture is refused here
        progress = _Progress(session)
        try:
            stop = session.cont()
        except C2StepError:
            _report(session, progress, "stopped")
            raise
        session.finish(stop)
        _report(session, progress, stop.reason)
        _say_why(session, stop)
        return _STATUS[stop.reason]


def _check_regex(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError("--match %s is no regular expression: %s" % (pattern, error)) from error


def _check_types(session: Session, types: Tuple[str, ...]) -> None:
    known = {op.type for op in session.model.predict_net.operators}
    for name in types:
        if name not in known:
            raise UsageError(
                "--type %s: no operator has this type" % name,
                near(name, known) or "there are: %s" % ", ".join(sorted(known)),
            )


def _say_size(session: Session, directory: str, keep: Keep) -> None:
    """Say before the run how much it will write, as far as shapes can be inferred."""
    if keep.level != "full":
        return
    outputs, known, total = estimate(session, keep.types, keep.match)
    if not known:
        return
    free = shutil.disk_usage(directory).free
    say(
        "about %s to write (%d of %d blobs have inferred shapes); %s free"
        % (bytes_text(total), known, outputs, bytes_text(free))
    )
    if total > free:
        say("warning: that is more than is free; the run will stop cleanly when the disk is full")


class _Progress:
    """Counts what is kept and shows how far the run is."""

    def __init__(self, session: Session) -> None:
        self.bytes = 0
        self._kept: List[Tuple[int, int]] = []  # by each operator: how many files, and bytes in them
        self._size = session.net_size
        self._shown = progress_of(session)
        session.on_step = self.step

    def step(self, step: Step) -> None:
        sizes = [out.summary.nbytes for out in step.outputs if out.file]
        self._kept.append((len(sizes), sum(sizes)))
        self.bytes += sum(sizes)
        if self._shown.tty:
            self._shown.show("dump", step.index + 1, self._size, "operators, " + bytes_text(self.bytes))

    def written(self, journalled: int) -> Tuple[int, int, int]:
        """How many operators, blobs and bytes the capture has, of which the journal has so many steps."""
        found = self._kept[:journalled]
        return len(found), sum(files for files, _ in found), sum(size for _, size in found)


def _report(session: Session, progress: _Progress, reason: str) -> None:
    operators, kept, size = progress.written(session.journalled)
    print(
        "%d of %d operators, %d blobs, %s in %s"
        % (operators, session.net_size, kept, bytes_text(size), session.capture_directory)
    )


def _say_why(session: Session, stop: Stop) -> None:
    words: List[str] = {
        "failed": ["%s failed: %s" % (stop.operator, stop.detail)],
        "died": [stop.detail],
        "timeout": [stop.detail],
        "interrupted": ["interrupted before %s" % stop.operator],
        "full": ["--max-bytes is reached at %s; the capture is complete up to the operator before" % stop.operator],
    }.get(stop.reason, [])
    for line in words:
        say("error: " + line if stop.reason != "interrupted" else line)
