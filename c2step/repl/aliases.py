"""Names of the user's own for commands, from the file `aliases` of the configuration folder.

One a line: `ll = list all`; a line that begins with `#` is a comment.  What follows an alias on the line goes
to its last command.
"""

import os
import re
from typing import Dict, Iterable, List, Tuple

from ..errors import UsageError
from ..render import quote
from .lexer import next_word, split_commands

__all__ = ["Aliases"]

_FIRST = re.compile(r"\S+")
_LINE = re.compile(r"\s*([^\s=;#!]+)\s*=\s*(.*?)\s*$")


def _unquoted(text: str) -> str:
    """What stands in quotes, where all of it does: `'step; where'`, so that a `;` ends no command."""
    if text[:1] not in ("'", '"') or not text:
        return text
    word = next_word(text, 0)
    return word.text if word.end == len(text) and word.quoted == len(word.text) else text


class Aliases:
    """The aliases of a prompt; commands keep their names."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.all: Dict[str, str] = {}
        self._taken = frozenset(taken)

    def define(self, text: str) -> str:
        """Take in `NAME = COMMANDS`, nothing behind the `=` takes an alias away; returns the name."""
        match = _LINE.match(text)
        if not match:
            raise UsageError("%s is no alias" % quote(text), "write NAME = COMMAND")
        name, commands = match.groups()
        if name in self._taken:
            raise UsageError("%s is a command" % name, "choose another name")
        commands = _unquoted(commands)
        if not commands:
            if self.all.pop(name, None) is None:
                raise UsageError("%s is no alias" % name)
            return name
        before = self.all.get(name)
        self.all[name] = commands
        if self._goes_round(name):
            self.all.pop(name)
            self.all.update({} if before is None else {name: before})
            raise UsageError("%s would stand for itself" % name, "write NAME = COMMAND")
        return name

    def _goes_round(self, name: str) -> bool:
        """Whether what a name stands for begins with an alias that leads back."""
        firsts = [_FIRST.match(command) for command in self.expand(name)]
        return any(first is not None and first.group() in self.all for first in firsts)

    def read(self, folder: str) -> None:
        """Take in the file of the configuration folder, if there is one; UsageError names the lines that are wrong.

        The others are taken in all the same.
        """
        path = os.path.join(folder, "aliases")
        try:
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError):
            return
        wrong: List[Tuple[int, UsageError]] = []
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.lstrip().startswith("#"):
                try:
                    self.define(line)
                except UsageError as error:
                    wrong.append((number, error))
        if wrong:
            words = "; ".join("line %d: %s" % (number, error.message) for number, error in wrong)
            raise UsageError("%s %s" % (path, words), wrong[0][1].hint)

    def expand(self, command: str) -> List[str]:
        """The commands that a command stands for, itself where its first word is no alias."""
        return self._expand(command, frozenset())

    def _expand(self, command: str, seen: "frozenset[str]") -> List[str]:
        match = _FIRST.match(command)
        name = match.group() if match else ""
        if name not in self.all or name in seen:
            return [command]
        parts = split_commands(self.all[name] + command[len(name) :])
        return [text for part in parts for text in self._expand(part, seen | {name})]
