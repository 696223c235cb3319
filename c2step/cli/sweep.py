"""Blame, or statistics, over many inputs: each operator's errors, labels that depend on the input, the worst inputs.

c2step sweep model.onnx --inputs images/ --preprocess size=224 --against onnxruntime -o sweep/
c2step sweep model.onnx --inputs digits.npz --against onnxruntime --jobs 2
c2step sweep model.onnx --inputs list.txt --dask tcp://head:8786 --against torch:model.py:make -o sweep/
c2step sweep model.onnx --inputs captures/ --against archive/        golden values by the inputs' names

--inputs is a folder (a file for each input, or a folder with NAME.npy for each of the model's inputs), a list with a
path on each line, or one .npy or .npz with many inputs along its first axis. Run again with the same -o, it does what
is missing. One row of JSON for each input is in rows.jsonl there; no blob is kept.
"""

import argparse
import json
import os
import sys
import time
from typing import Optional

from ..errors import UsageError, WorkerDied
from ..importer.inputs import parse_dims
from ..render import quote
from ..sweeping.folder import kept_rows
from ..sweeping.plan import Plan
from ..sweeping.running import run_sweep
from ..sweeping.text import sweep_lines
from .against import add_tolerances
from .options import add_model, say

__all__ = ["add_arguments", "run"]

_EVERY = 10.0  # seconds between lines of progress that go to a file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step sweep`."""
    add_model(parser)
    inputs = parser.add_argument_group("inputs")
    inputs.add_argument("--inputs", required=True, metavar="DIR|LIST|FILE", help="the data set; see above")
    inputs.add_argument("--batch", type=int, metavar="N",
                        help="entries of the first axis that make an input, where the model does not say")  # fmt: skip
    inputs.add_argument("--random-inputs", type=int, metavar="SEED", help="draw inputs that the data set lacks")
    inputs.add_argument("--as-float32", action="store_true", help="cast float64 inputs to float32")
    inputs.add_argument("--preprocess", metavar="WORDS", help="how images become tensors, as `c2step blame` takes it")
    add_tolerances(parser)
    group = parser.add_argument_group("sweep")
    group.add_argument("--against", default="", metavar="REFERENCE",
                       help="as `c2step blame` takes it, or a folder with golden values for each input by its name; "
                       "without it statistics of every blob are taken")  # fmt: skip
    group.add_argument("--channels", action="store_true",
                       help="without a reference: which channels are dead or weak over all inputs")  # fmt: skip
    group.add_argument("--names", metavar="FILE.json", help="the blob that each file of a folder or .npz holds")
    group.add_argument("--engine-runtime", metavar="python:PATH", help="the interpreter that makes the reference")
    group.add_argument("--continue-from-reference", action="store_true",
                       help="go on past an operator that fails, with golden values")  # fmt: skip
    group.add_argument("--jobs", type=int, metavar="N",
                       help="processes (default: one a core, at most 4); with --dask, inputs at once")  # fmt: skip
    group.add_argument("--threads", type=int, default=1, metavar="N",
                       help="threads of Caffe2 in each (default 1: no result depends on the machine)")  # fmt: skip
    group.add_argument("--dask", metavar="ADDRESS", help="run on the workers of this Dask scheduler, tcp://HOST:8786")
    group.add_argument("-o", "--output", metavar="DIR", help="keep the rows here, to go on with or to look at")
    group.add_argument("--json", action="store_true", help="print one JSON object instead of the tables")
    group.add_argument("--csv", metavar="FILE", help="write the table of operators as CSV too")
    group.add_argument("--inputs-csv", metavar="FILE", help="write a table of the inputs as CSV too")


def run(options: argparse.Namespace) -> int:
    """Run what is missing, and report."""
    progress = _Progress()
    try:
        found = run_sweep(_plan(options), options.inputs, options.output, options.jobs, options.dask, options.batch,
                          progress.tell, progress.show)  # fmt: skip
    except (KeyboardInterrupt, WorkerDied) as error:
        progress.end()
        if isinstance(error, KeyboardInterrupt) or error.by_user:
            say(_kept(options.output))
        raise
    progress.end()
    for path, what in ((options.csv, "operators"), (options.inputs_csv, "inputs")):
        if path:
            found.write_csv(path, what)
            say("wrote %s" % path)
    print(json.dumps(found.to_json(), indent=1) if options.json else "\n".join(sweep_lines(found.to_json())))
    return int(found.status)


def _kept(directory: Optional[str]) -> str:
    """What is left of a sweep that was interrupted."""
    if not directory:
        return "no row is kept: with -o DIR they are, and the same command goes on"
    count = kept_rows(directory)
    rows = "%d row%s kept" % (count, " is" if count == 1 else "s are")
    return "%s in %s; the same command goes on with the others" % (rows, quote(directory))


def _plan(options: argparse.Namespace) -> Plan:
    if options.threads < 1:
        raise UsageError("--threads %d is none" % options.threads, "--threads 1")
    plan = Plan(
        model=options.model,
        init_net=options.init_net,
        predict_net=options.predict_net,
        importing=options.importing,
        backend=options.backend,
        dims=parse_dims(options.dim),
        partial=options.partial,
        seed=options.random_inputs,
        as_float32=options.as_float32,
        preprocess=options.preprocess,
        runtime=options.runtime,
        timeout=options.timeout,
        max_memory=options.max_memory,
        against=options.against,
        names=options.names,
        engine_runtime=options.engine_runtime,
        go_on=options.continue_from_reference,
        rules=tuple(options.tolerance),
        rtol=options.rtol,
        atol=options.atol,
        threads=options.threads,
        channels=options.channels,
    )
    return plan.checked()


class _Progress:
    """How many inputs are done, how fast: on a terminal in place, else a line now and then."""

    def __init__(self) -> None:
        self.done: Optional[int] = None
        self._tty = sys.stderr.isatty()
        self._began = self._shown = time.monotonic()
        self._first = 0

    def show(self, done: int, of: int) -> None:
        """Show it if it is time."""
        now = time.monotonic()
        if self.done is None:
            self._began, self._first = now, done
        self.done = done
        if now - self._shown > (0.5 if self._tty else _EVERY) or (self._tty and done == of):
            self._shown = now
            self._line("sweep: %d of %d inputs%s" % (done, of, self._rate(done, of, now)))

    def _rate(self, done: int, of: int, now: float) -> str:
        count, seconds = done - self._first, now - self._began
        if not count or seconds <= 0:
            return ""
        return ", %.3g a second, %d s to go" % (count / seconds, round((of - done) * seconds / count))

    def _line(self, text: str) -> None:
        if self._tty:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            print("\r" + text[: width - 1].ljust(width - 1), end="", file=sys.stderr, flush=True)
        else:
            say(text)

    def tell(self, text: str) -> None:
        """A line that stays."""
        self.end()
        say("sweep: " + text)

    def end(self) -> None:
        """Take what is shown in place away."""
        if self._tty:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
