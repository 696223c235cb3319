"""Options that several commands share, and the session that they describe."""

import argparse
import sys
from typing import Any, Dict, Iterable, Optional

from ..budget import memory_lines
from ..errors import UsageError
from ..importer.inputs import Preprocess, parse_dims
from ..launch import fed_spec, input_words, make_workspace, model_spec, open_on, read_fed
from ..model import BACKENDS
from ..progress import Progress, watched
from ..sizes import parse_size
from ..sizes import size_text as bytes_text
from ..stepper import Keep, Session
from ..workspace import Workspace

__all__ = [
    "add_inputs",
    "add_model",
    "add_session",
    "bytes_text",
    "fed_spec_of",
    "opened",
    "parse_bytes",
    "progress_of",
    "quietly_opened",
    "say",
    "spec_of",
    "warn_unfed",
]

_SHOWN_FINDINGS = 5
_FOREVER = 1e9  # seconds; the operating system's timers go little further


def add_model(parser: argparse.ArgumentParser) -> None:
    """The model, and how it is opened."""
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help=".onnx file, predict_net (.pb, .pbtxt), or a folder or zip holding a model",
    )
    group = parser.add_argument_group("model")
    group.add_argument("--init-net", metavar="FILE", help="init_net, .pb or .pbtxt")
    group.add_argument("--predict-net", metavar="FILE", help="predict_net, .pb or .pbtxt")
    group.add_argument(
        "--import",
        dest="importing",
        choices=("faithful", "repaired"),
        default="faithful",
        help="faithful (default): the nets that Caffe2's own backend gives; repaired: also rewrite what it gets wrong",
    )
    group.add_argument(
        "--backend",
        choices=BACKENDS,
        default=BACKENDS[0],
        help="the importer of ONNX models: caffe2 (default), or onnx_caffe2, the package that it was before it came "
        "with Caffe2, where the runtime has it",
    )
    group.add_argument(
        "--partial", action="store_true", help="leave out nodes that the backend refuses, instead of refusing the model"
    )
    group.add_argument("--dim", action="append", default=[], metavar="NAME=N", help="fix a symbolic dimension")
    group.add_argument(
        "--runtime",
        metavar="RUNTIME",
        help="where Caffe2 is: a version that scripts/make-runtime made (1.2.0), docker:IMAGE or docker:1.2.0, or "
        "python:PATH; c2step runtimes lists them (default: this interpreter, else the pinned one)",
    )
    group.add_argument(
        "--max-memory",
        type=parse_bytes,
        metavar="N",
        help="let the worker hold at most so much memory (2G); an operator that needs more fails",
    )
    group.add_argument("--timeout", type=parse_seconds, metavar="SECONDS", help="stop an operator that takes longer")


def add_session(parser: argparse.ArgumentParser) -> None:
    """The model and its inputs."""
    add_model(parser)
    add_inputs(parser)


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """What the model is fed."""
    group = parser.add_argument_group("inputs")
    group.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help=".npy, .npz, ONNX TensorProto .pb or an image; FILE.npz feeds by names; may be repeated",
    )
    group.add_argument(
        "--random-inputs", type=int, metavar="SEED", help="draw the inputs that are not given from declared shapes"
    )
    group.add_argument("--as-float32", action="store_true", help="cast float64 inputs to float32")
    group.add_argument(
        "--preprocess",
        type=Preprocess.parse,
        metavar="WORDS",
        help="how images become tensors: size=256,crop=224,RGB|BGR,NCHW|NHWC,scale=1/255,mean=R:G:B,std=R:G:B",
    )


def opened(options: argparse.Namespace, keep: Optional[Keep] = None) -> Session:
    """Open the session that the options describe; what the importer changed and what is missing goes to stderr."""
    session = quietly_opened(options, options.runtime, keep)
    for note in list(session.model.notes) + session.notes:
        say("note: %s" % note)
    if getattr(options, "max_memory", None):
        for line in memory_lines(session, options.max_memory):
            say(line)
    say_findings(session.model.findings, options.importing)
    return session


def quietly_opened(options: argparse.Namespace, runtime: Optional[str], keep: Optional[Keep] = None) -> Session:
    """Open the session that the options describe on this runtime, and say nothing about it."""
    words, dims = input_words(getattr(options, "input", [])), parse_dims(options.dim)  # what is wrong there, first
    workspace = make_workspace(
        runtime,
        timeout=options.timeout,
        on_output=show_output,
        max_memory=getattr(options, "max_memory", None),
        directory=keep.directory if keep else None,
        spare=getattr(options, "spare", None),
        yielding=getattr(options, "yielding", False),
    )
    workspace.watch = watched()
    return open_on(
        workspace,
        options.model,
        words,
        options.init_net,
        options.predict_net,
        options.importing,
        dims,
        getattr(options, "random_inputs", None),
        getattr(options, "as_float32", False),
        getattr(options, "preprocess", None),
        options.partial,
        keep,
        options.backend,
    )


def spec_of(options: argparse.Namespace) -> Dict[str, Any]:
    """What a workspace is told to open, for commands that open no session."""
    paths = options.model, options.init_net, options.predict_net
    return model_spec(*paths, options.importing, parse_dims(options.dim), options.partial, options.backend)


def fed_spec_of(workspace: Workspace, spec: Dict[str, Any], options: argparse.Namespace) -> Dict[str, Any]:
    """What the inputs that the options name add to `spec`, for commands that open no session."""
    words, dims = input_words(options.input), parse_dims(options.dim)
    if not words and not dims and options.random_inputs is None:
        return {}
    more = dims, options.random_inputs, options.as_float32, options.preprocess
    return fed_spec(read_fed(workspace, workspace.declare(spec), words, *more))


def progress_of(session: Session) -> Progress:
    """What a session shows while it waits for its worker: one line, whoever has something to say."""
    return session.workspace.watch or Progress()


def say_findings(found: Iterable[Dict[str, Any]], importing: str) -> None:
    """Lint's short form: what is known beforehand and was not repaired, at most a few lines."""
    left = [finding for finding in found if importing == "faithful" or not finding["repair"]]
    findings = [finding for finding in left if finding["effect"] != "note"]
    for finding in findings[:_SHOWN_FINDINGS]:
        say("lint: %s at %s %s: %s" % (finding["effect"], finding["op_type"], finding["node"], finding["message"]))
    if len(findings) > _SHOWN_FINDINGS:
        say("lint: %d more; c2step lint lists them" % (len(findings) - _SHOWN_FINDINGS))


def show_output(text: str) -> None:
    """Show what Caffe2 or user code printed as its own."""
    for line in text.rstrip("\n").split("\n"):
        say("caffe2| %s" % line)


def warn_unfed(session: Session) -> None:
    """Say which inputs have no value, with the names that look like them."""
    from ..errors import near

    left = {name: row for row in session.model.refused for name in row.get("outputs", ())}
    for name in session.unfed():
        if name in left:
            say("warning: %s has no value: node %s %s was left out; feed it, or --input %s=FILE"
                % (name, left[name]["op_type"], left[name]["label"], name))  # fmt: skip
            continue
        declared = next((d for d in session.model.inputs if d.name == name), None)
        hint = near(name, session.history.initial)
        say(
            "warning: input %s has no value%s"
            % (
                declared or name,
                "; " + hint if hint else "; feed it, or --input %s=FILE, or --random-inputs SEED" % name,
            )
        )


def say(text: str) -> None:
    """One line to stderr."""
    print(text, file=sys.stderr, flush=True)


def parse_bytes(text: str) -> int:
    """A number of bytes: 1000, 64k, 200M, 2G."""
    try:
        return parse_size(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError("%s; %s" % (error.message, error.hint)) from None


def parse_seconds(text: str) -> float:
    """A length of time: 0.5, 30."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < _FOREVER:
        raise argparse.ArgumentTypeError("%s is no length of time; seconds above 0 are wanted, such as 30" % text)
    return found
