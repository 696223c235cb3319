"""Serve the report's pages to a browser on this machine: a capture with any slice on demand, or a model to step.

c2step serve kept/
c2step serve model.onnx --input all.npz

It prints an address with a token and listens on the loopback alone, unless --host names another address; 0.0.0.0 lets
every machine in that has the token and asks by this machine's name or address.  On a model, lines typed here and the
page's buttons step one session.  Ctrl-D or quit ends it; where no terminal is, Ctrl-C or SIGTERM.
"""

import argparse
import contextlib
import os
import sys
import threading

from ..capture import HEADER
from ..errors import ExitStatus, UsageError
from ..launch import default_keep
from ..repl.environment import Environment
from ..repl.loop import beside_prompt, prompt_reader
from ..serve.desk import Desk
from ..serve.pages import Pages
from ..serve.server import Server
from ..stepper import Session
from .options import add_session, opened, say, warn_unfed

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step serve`."""
    add_session(parser)
    group = parser.add_argument_group("serve")
    group.add_argument("--port", type=int, default=0, help="default: one that is free")
    group.add_argument(
        "--host", default="127.0.0.1", help="default 127.0.0.1; another one lets others in who have the token"
    )


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted, or until the prompt ends."""
    if not 0 <= options.port < 65536:
        raise UsageError("there is no port %d" % options.port)
    path = options.model or ""
    if path.endswith(".json") or os.path.exists(os.path.join(path, HEADER)):
        return _serve_capture(Pages(path), options)
    with opened(options, default_keep()) as session:
        warn_unfed(session)
        return _serve_session(session, options)


def _serve_capture(pages: Pages, options: argparse.Namespace) -> int:
    server = Server(pages.get, pages.post, options.host, options.port)
    print(server.url, flush=True)
    over = threading.Event()
    if sys.stdin.isatty():
        say("Ctrl-D or quit ends it")
        threading.Thread(target=_await_end, args=(over,), daemon=True).start()
    try:
        over.wait()
    finally:
        server.close()
    return ExitStatus.OK


def _await_end(over: threading.Event) -> None:
    """Set it when a person has said that this is all."""
    for line in sys.stdin:
        if line.strip() in ("quit", "q", "exit"):
            break
        if line.strip():
            say("there is nothing to step in a capture; Ctrl-D or quit ends it")
    over.set()


def _serve_session(session: Session, options: argparse.Namespace) -> int:
    prompts = Environment.from_process().is_tty
    with beside_prompt() if prompts else contextlib.nullcontext():
        desk = Desk(session, Environment.from_process())
        server = Server(desk.get, desk.post, options.host, options.port)
        print(server.url, flush=True)
        if sys.stdin.isatty():
            say("commands can be typed here too; Ctrl-D or quit ends it")
        threading.Thread(target=_prompt if prompts else _read, args=(desk,), daemon=True).start()
        try:
            desk.run()
        finally:
            server.close()
    return ExitStatus.OK


def _prompt(desk: Desk) -> None:
    """Prompt for lines until `quit` or Ctrl-D, as without a page."""
    read, going = prompt_reader(desk.interpreter), True
    while going:
        try:
            going = desk.typed(read())
        except KeyboardInterrupt:  # Ctrl-C clears the line
            continue
        except EOFError:
            break
    desk.end()


def _read(desk: Desk) -> None:
    """Hand on what comes on standard input; where nobody types, only `quit` and Ctrl-C end it."""
    for line in sys.stdin:
        if not desk.typed(line.rstrip("\n")):
            return
    if sys.stdin.isatty():
        desk.end()
