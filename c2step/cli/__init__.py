"""The command line.  `main` finds the command, and maps every error of the user to an exit status."""

import argparse
import contextlib
import importlib
import os
import signal
import sys
import threading
from typing import Any, Dict, Iterator, List, Optional, Sequence

from ..errors import C2StepError, ExitStatus, UsageError, WorkerDied, near
from .streams import flushed, prepare, silence

__all__ = ["main"]

COMMANDS: Dict[str, str] = {
    "debug": "step a model at a prompt, or with -c and -x from a script (the default)",
    "dump": "run a model and keep every output blob in a directory",
    "show": "list a net's operators, or a capture's blobs, one line each",
    "blame": "name the first wrong operator, against a reference",
    "sweep": "blame or statistics over many inputs, on several processes or a cluster",
    "lint": "list what Caffe2 will refuse, fail at, die of or get wrong, before anything runs",
    "compare": "compare two captures or files of arrays",
    "reference": "make golden values once, for use later or elsewhere",
    "expose": "write an ONNX file whose inner values are outputs too",
    "report": "write one HTML file about a capture or a blame",
    "serve": "serve a capture, or a model to step, to a browser on this machine",
    "annotate": "write an ONNX file whose nodes say what was found, for Netron",
    "tensorboard": "write captures as TensorBoard runs",
    "archive": "keep golden values with inputs, versions and hashes, or check them",
    "export-torch": "write a PyTorch module as ONNX, inner modules' outputs among its outputs",
    "quant": "compare a quantised run with a float one",
    "channels": "list dead and weak channels over one capture or many",
    "bench": "time every operator of a model",
    "repro": "cut an operator out so that it runs on its own, and run it",
    "convert": "write init_net.pb and predict_net.pb",
    "matrix": "run a model on several versions of Caffe2, and say where they differ",
    "runtimes": "list every Caffe2 that is at hand, and how to get the others",
}

# Those that open a session, as `options.opened` does.
_OPENING = ("bench", "blame", "debug", "dump", "reference", "repro", "serve")

_EPILOG = """c2step MODEL is short for c2step debug MODEL; c2step COMMAND --help says more.

exit status: 0 good, 1 differs, 2 usage or input, 3 model, 4 an operator failed, 5 a process died,
6 no runtime, 7 capture or disk, 8 inconclusive, 9 no reference, 130 interrupted"""


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run one command line and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _end)
    try:
        prepare()
        return flushed(_dispatch, words)
    except C2StepError as error:
        if isinstance(error, WorkerDied) and error.by_user:
            return _interrupted()
        with contextlib.suppress(OSError):  # standard error may be what is full
            print("error: %s" % error, file=sys.stderr)
        return int(error.status)
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:  # `| head` has seen enough
        silence()
        return int(ExitStatus.OK)


def _interrupted() -> int:
    with contextlib.suppress(OSError):
        print("interrupted", file=sys.stderr)
    return int(ExitStatus.INTERRUPTED)


def _end(number: int, frame: Any) -> None:
    """Asked to end from outside: leave through every `with`, so that nothing temporary stays."""
    sys.exit(128 + number)


def _dispatch(words: List[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return ExitStatus.OK if words else ExitStatus.USAGE
    if words[0] == "--version":
        from .. import __version__

        print("c2step %s" % __version__)
        return ExitStatus.OK
    name, rest = (words[0], words[1:]) if words[0] in COMMANDS else ("debug", words)
    if name == "debug" and words[0] != "debug":
        _refuse_misspelt(words[0])
    with _worker_ahead(name, rest) as spare:
        return _run(name, rest, spare)


@contextlib.contextmanager
def _worker_ahead(name: str, words: List[str]) -> Iterator[Any]:
    """A worker that loads Caffe2 while this process loads what the command needs; it ends here if nobody took it."""
    if name not in _OPENING:
        yield None
        return
    from ..workspace.spawning import spare_for

    spare = spare_for(words, name == "blame")
    try:
        yield spare
    finally:
        if spare is not None:
            spare.close()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits: numpy says of an import that is interrupted that the installation is broken."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(name: str, words: List[str], spare: Any) -> int:
    with _uninterrupted():
        module = importlib.import_module("." + name.replace("-", "_"), __name__)
    parser = argparse.ArgumentParser(
        "c2step " + name,
        description=module.__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(words, argparse.Namespace(spare=spare))))


def _refuse_misspelt(word: str) -> None:
    if not word.startswith("-") and not os.path.exists(word) and not os.path.splitext(word)[1]:
        raise UsageError(
            "%s is neither a command nor a file" % word, near(word, COMMANDS) or "c2step --help lists the commands"
        )


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = ["usage: c2step MODEL [options]", "       c2step COMMAND ...", "", "The stepping debugger for Caffe2.", ""]
    lines += ["  %-*s  %s" % (width, name, text) for name, text in COMMANDS.items()]
    return "\n".join(lines + ["", _EPILOG])
