"""Step a model one operator at a time at a prompt; `help` there lists the commands.

c2step model.onnx --input x=photo.npy
c2step --init-net init_net.pb --predict-net predict_net.pb --input all.npz
c2step model.onnx --input all.npz -c "step 3; inspect conv1; compare conv1 reference.npy"
"""

import argparse
import tempfile
from dataclasses import replace
from typing import Optional

from ..budget import estimate
from ..compare.against import Against
from ..errors import ExitStatus
from ..launch import default_keep
from ..repl.environment import Environment
from ..repl.loop import interact, run_commands, run_file
from ..stepper import Session
from .against import add_tolerances, reference_for, said, tolerances
from .options import add_session, bytes_text, opened, parse_bytes, say, warn_unfed

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step debug`."""
    add_session(parser)
    group = parser.add_argument_group("prompt")
    group.add_argument("-c", dest="commands", metavar="COMMANDS", help="run these commands, separated by ; and end")
    group.add_argument(
        "-x", dest="file", metavar="FILE", help="run the commands of a file and end; - reads standard input"
    )
    group.add_argument(
        "--against",
        metavar="REFERENCE",
        help="load golden values, as `reference` does at the prompt: onnxruntime, torch:FILE.py:factory, python:PATH, "
        "a capture, an .npz or a folder of .npy files",
    )
    group.add_argument("--names", metavar="FILE.json", help="the blob that each file of a folder or .npz holds")
    group.add_argument("--engine-runtime", metavar="python:PATH", help="the interpreter that makes the reference")
    group.add_argument("--keep", metavar="DIR", help="keep the session's capture in this directory")
    group.add_argument(
        "--max-bytes", type=parse_bytes, metavar="N", help="keep at most so many bytes of blobs (64k, 200M, 2G)"
    )
    add_tolerances(parser)


def run(options: argparse.Namespace) -> int:
    """Open the model and hand it to the prompt."""
    keep = replace(default_keep(options.keep), on_full="stop")
    if options.max_bytes is not None:
        keep = replace(keep, max_bytes=options.max_bytes)
    environment = Environment.from_process()
    with opened(options, keep) as session, tempfile.TemporaryDirectory(prefix="c2step-reference-") as folder:
        if options.max_bytes is not None:
            _say_disk(session, options.max_bytes)
        if not (options.commands or options.file):
            environment.show(_banner(session))
        warn_unfed(session)
        return _run(session, options, environment, _against(session, options, folder))


def _against(session: Session, options: argparse.Namespace, folder: str) -> Optional[Against]:
    if not options.against:
        return None
    made = reference_for(session, options.against, folder, options.names, options.engine_runtime, options.timeout)
    said(made)
    return Against(session, made, tolerances(options))


def _say_disk(session: Session, limit: int) -> None:
    need = estimate(session)
    if need.known:
        known = "%d of %d blobs have inferred shapes" % (need.known, need.outputs)
        say("disk: one run writes about %s (%s), at most %s are kept" % (
            bytes_text(need.nbytes), known, bytes_text(limit)))  # fmt: skip


def _run(session: Session, options: argparse.Namespace, environment: Environment, against: Optional[Against]) -> int:
    if options.commands is not None:
        return run_commands(session, options.commands, environment, against=against)
    if options.file is not None:
        return run_file(session, options.file, environment, against)
    return int(interact(session, environment, against=against) or ExitStatus.OK)


def _banner(session: Session) -> str:
    versions = session.versions_of_runtime
    return "c2step: %s, %d operators, on Caffe2 of torch %s (Python %s); help lists the commands" % (
        session.model.name,
        session.net_size,
        versions.get("torch"),
        versions.get("python"),
    )
