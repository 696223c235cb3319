"""Step a model one operator at a time at a prompt; `help` there lists the commands.

c2step model.onnx --input x=photo.npy
c2step --init-net init_net.pb --predict-net predict_net.pb --input all.npz
c2step model.onnx --input all.npz -c "step 3; inspect conv1; compare conv1 reference.npy"
"""

import argparse

from ..errors import ExitStatus
from ..launch import default_keep
from ..repl.environment import Environment
from ..repl.loop import interact, run_commands, run_file
from ..stepper import Session
from .options import add_session, opened, parse_bytes, warn_unfed

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step debug`."""
    add_session(parser)
    group = parser.add_argument_group("prompt")
    group.add_argument("-c", dest="commands", metavar="COMMANDS", help="run these commands, separated by ; and end")
    group.add_argument(
        "-x", dest="file", metavar="FILE", help="run the commands of a file and end; - reads standard input"
    )
    group.add_argument("--keep", metavar="DIR", help="keep the session's capture in this directory")
    group.add_argument(
        "--max-bytes", type=parse_bytes, metavar="N", help="keep at most so many bytes of blobs (64k, 200M, 2G)"
    )


def run(options: argparse.Namespace) -> int:
    """Open the model and hand it to the prompt."""
    keep = default_keep(options.keep)
    if options.max_bytes is not None:
        keep = keep.__class__(options.keep, max_bytes=options.max_bytes)
    environment = Environment.from_process()
    with opened(options, keep) as session:
        if not (options.commands or options.file):
            environment.show(_banner(session))
        warn_unfed(session)
        return _run(session, options, environment)


def _run(session: Session, options: argparse.Namespace, environment: Environment) -> int:
    if options.commands is not None:
        return run_commands(session, options.commands, environment)
    if options.file is not None:
        return run_file(session, options.file, environment)
    return int(interact(session, environment) or ExitStatus.OK)


def _banner(session: Session) -> str:
    versions = session.versions_of_runtime
    return "c2step: %s, %d operators, on Caffe2 of torch %s (Python %s); help lists the commands" % (
        session.model.name,
        session.net_size,
        versions.get("torch"),
        versions.get("python"),
    )
