"""Step a model one operator at a time at a prompt; `help` there lists the commands.

c2step model.onnx --input x=photo.npy
c2step --init-net init_net.pb --predict-net predict_net.pb --input all.npz
c2step model.onnx --input all.npz -c "step 3; inspect conv1; compare conv1 reference.npy"
"""

import argparse
import os
import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Optional

from ..budget import estimate
from ..compare.against import Against
from ..compare.loading import load_against
from ..compare.tolerance import Tolerances
from ..errors import ExitStatus, UsageError
from ..importer.inputs import parse_dims
from ..launch import default_keep, resume_session
from ..leftovers import scratch_folder
from ..model import BACKENDS
from ..observing import Observer, observed
from ..progress import watched
from ..repl.environment import Environment
from ..repl.loop import interact, load_ahead, run_commands, run_file
from ..resuming import Checkpoints, last_left, read_saved
from ..scripting import ScriptWriter, opening
from ..sizes import counted
from ..stepper import Session
from .against import add_tolerances, said, tolerances_of
from .options import add_session, bytes_text, opened, parse_bytes, progress_of, say, show_output, warn_unfed

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
        "backend:onnx_caffe2, a capture, an .npz or a folder of .npy files",
    )
    group.add_argument("--names", metavar="FILE.json", help="the blob that each file of a folder or .npz holds")
    group.add_argument("--engine-runtime", metavar="python:PATH", help="the interpreter that makes the reference")
    group.add_argument("--keep", metavar="DIR", help="keep the session's capture in this directory")
    group.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="CAPTURE",
        help="go on where the session in this capture was left or killed; without CAPTURE the last one that was",
    )
    group.add_argument("--gen-script", metavar="FILE.py", help="write the session as a Python script over the library")
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
    if options.commands is None and options.file is None:
        load_ahead(environment)
    plain = _resumed(options) if options.resume is not None else opened(options, keep)
    with plain, _scratch() as folder, _told(plain, options) as session:
        if options.max_bytes is not None:
            _say_disk(session, options.max_bytes)
        if not (options.commands or options.file):
            environment.show(_banner(session))
        warn_unfed(session)
        rules = tolerances_of(session, options)
        against = _against(session, options, folder, rules)
        status = _run(session, options, environment, against, rules)
        if session.can_be_resumed:
            say("note: the session can be resumed again: --resume %s" % session.capture_directory)
        return status


def _resumed(options: argparse.Namespace) -> Session:
    """The session that was left in a capture; what could not be taken over goes to stderr."""
    if options.model or options.predict_net or options.input:
        raise UsageError("--resume opens what the session had opened", "leave out the model and the inputs")
    if options.keep:
        raise UsageError("--resume goes on with the capture that it names", "leave out --keep")
    saved = read_saved(options.resume or last_left())
    options.resume, options.prompt = saved.directory, saved.prompt
    session = resume_session(
        saved.directory, options.runtime, timeout=options.timeout, on_output=show_output, max_memory=options.max_memory
    )
    session.workspace.watch = watched()
    where = str(session.next_operator() or "the end of the net")
    words = (saved.directory, session.model.path, saved.when, session.iteration, where)
    behind = saved.left_behind(not options.against)
    notes = ["resumed from %s: %s, left at %s in iteration %d before %s" % words, *session.notes]
    for note in notes + ([behind] if behind else []):
        say("note: %s" % note)
    return session


@contextmanager
def _scratch() -> Iterator[str]:
    """A folder that goes away at the end."""
    folder = scratch_folder("reference")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _told(session: Session, options: argparse.Namespace) -> Iterator[Session]:
    """The session as the prompt gets it: it leaves what is needed to resume it, and a script if one is wanted."""
    runtime = str(getattr(session.workspace, "runtime", ""))
    how = {"runtime": runtime if ":" in runtime else None, "timeout": options.timeout}
    checkpoints = options.checkpoints = Checkpoints(session, how, getattr(options, "prompt", None))
    checkpoints.write()
    observers: List[Observer] = [checkpoints]
    script = ScriptWriter(options.gen_script, _opening(options)) if options.gen_script else None
    if script is not None:
        observers.append(script)
    try:
        yield observed(session, observers)
    finally:
        if script is not None:
            script.close()


def _opening(options: argparse.Namespace) -> str:
    """The call of the library that opens the same session."""
    if options.resume is not None:
        return "c2step.resume(%r)" % os.path.abspath(options.resume)
    paths = {name: getattr(options, name) for name in ("model", "init_net", "predict_net")}
    given: Dict[str, Any] = {name: os.path.abspath(path) for name, path in paths.items() if path}
    given.update(inputs=[_absolute(word) for word in options.input], runtime=options.runtime, timeout=options.timeout)
    given.update(dims=parse_dims(options.dim), as_float32=options.as_float32, partial=options.partial)
    given.update(max_memory=options.max_memory, max_bytes=options.max_bytes)
    if options.importing != "faithful":
        given["importing"] = options.importing
    if options.backend != BACKENDS[0]:
        given["backend"] = options.backend
    if options.random_inputs is not None:
        given["seed"] = options.random_inputs
    if options.preprocess is not None:
        given["preprocess"] = options.preprocess
    return opening(given)


def _absolute(word: str) -> str:
    """A word of --input with an absolute path."""
    if os.path.exists(word):
        return os.path.abspath(word)
    name, _, path = word.partition("=")
    return "%s=%s" % (name, os.path.abspath(path))


def _against(session: Session, options: argparse.Namespace, folder: str, rules: Tolerances) -> Optional[Against]:
    if not options.against:
        return None
    progress = progress_of(session)
    with progress.over():
        found = load_against(
            session,
            options.against,
            folder,
            options.names,
            options.engine_runtime,
            options.timeout,
            rules,
            progress.node,
            show_output,
        )
    said(found.reference)
    return found


def _say_disk(session: Session, limit: int) -> None:
    need = estimate(session)
    if need.known:
        known = "%d of %d blobs have inferred shapes" % (need.known, need.outputs)
        say("disk: one run writes about %s (%s), at most %s are kept" % (
            bytes_text(need.nbytes), known, bytes_text(limit)))  # fmt: skip


def _run(session: Session, options: argparse.Namespace, environment: Environment, against: Optional[Against],
         rules: Tolerances) -> int:  # fmt: skip
    if options.commands is not None:
        return run_commands(session, options.commands, environment, "-c", against, rules, options.checkpoints)
    if options.file is not None:
        return run_file(session, options.file, environment, against, rules, options.checkpoints)
    status = interact(session, environment, None, against, rules, options.checkpoints)
    if environment.is_tty:  # a person has ended it
        session.end()
    return int(status or ExitStatus.OK)


def _banner(session: Session) -> str:
    versions = session.versions_of_runtime
    return "c2step: %s, %s, on Caffe2 of torch %s (Python %s); help lists the commands" % (
        session.model.name,
        counted(session.net_size, "operator"),
        versions.get("torch"),
        versions.get("python"),
    )
