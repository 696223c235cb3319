"""The outside world in one small object: streams, whether a person is there, folders.

Passed in everywhere, so that tests hand over their own and nothing needs patching.
"""

import os
import sys
from typing import Mapping, NamedTuple, TextIO

from ..render import colourise

__all__ = ["Environment"]


class Environment(NamedTuple):
    """Where input comes from, where text goes, and where the prompt keeps its files."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    is_tty: bool = False
    colour: bool = False
    config_dir: str = ""
    state_dir: str = ""

    @classmethod
    def from_process(cls, variables: Mapping[str, str] = os.environ) -> "Environment":
        """The environment of this process, by the XDG and NO_COLOR conventions."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a name that the terminal cannot show must not end the session
                stream.reconfigure(errors="backslashreplace")
        tty = sys.stdin.isatty() and sys.stdout.isatty()
        return cls(
            sys.stdin,
            sys.stdout,
            sys.stderr,
            tty,
            _wants_colour(variables, sys.stdout.isatty()),
            _folder(variables, "XDG_CONFIG_HOME", ".config"),
            _folder(variables, "XDG_STATE_HOME", os.path.join(".local", "state")),
        )

    def show(self, text: str) -> None:
        """Print what a command says; nothing for an empty text."""
        self._write(self.stdout, text)

    def complain(self, text: str) -> None:
        """Print an error."""
        self._write(self.stderr, "error: " + text)

    def _write(self, stream: TextIO, text: str) -> None:
        if text:
            stream.write((colourise(text) if self.colour else text) + "\n")
            stream.flush()

    @property
    def history_file(self) -> str:
        """The file with the lines typed in earlier sessions."""
        return os.path.join(self.state_dir, "history")


def _wants_colour(variables: Mapping[str, str], tty: bool) -> bool:
    return tty and not variables.get("NO_COLOR") and variables.get("TERM", "") not in ("", "dumb")


def _folder(variables: Mapping[str, str], name: str, default: str) -> str:
    root = variables.get(name, "")
    if not os.path.isabs(root):  # the XDG rule: a relative path is ignored
        root = os.path.join(os.path.expanduser("~"), default)
    return os.path.join(root, "c2step")
