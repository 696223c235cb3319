"""`> FILE`, `>> FILE` and `| COMMAND` behind a command."""

import os
import subprocess
from typing import List, NamedTuple, Optional, Tuple

from ..errors import UsageError
from ..render import quote
from .environment import Environment
from .lexer import next_word, tokenize

__all__ = ["Output", "send", "split_output"]


class Output(NamedTuple):
    """Where the text of a command goes: `>` and `>>` to a file, `|` to a command of the shell."""

    sign: str
    target: str


def split_output(words: str) -> Tuple[str, Optional[Output]]:
    """The words of a command, and where its text goes; a sign begins a word and stands in no quotes."""
    for token in tokenize(words):
        sign = next((s for s in (">>", ">", "|") if token.text.startswith(s) and not token.quoted), "")
        if sign:
            return words[: token.start], _output(sign, words[token.start + len(sign) :].strip())
    return words, None


def _output(sign: str, target: str) -> Output:
    if not target:
        raise UsageError("nothing stands behind %s" % sign, "a command of the shell" if sign == "|" else "a file")
    if sign == "|":
        return Output(sign, target)
    word = next_word(target, 0)
    if target[word.end :].strip():
        raise UsageError("%s is one word too many behind %s" % (target[word.end :].strip(), sign))
    return Output(sign, os.path.expanduser(word.text))


def send(texts: List[str], output: Output, environment: Environment, logged: bool = False) -> str:
    """Send what a command said where it should go; returns what is left to show, and to log if that is wanted."""
    text = "".join(each + "\n" for each in texts if each)
    if output.sign == "|":
        return _piped(text, output.target, environment.is_tty and not logged)
    try:
        with open(output.target, "w" if output.sign == ">" else "a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError("cannot write %s: %s" % (quote(output.target), error.strerror or error)) from None
    return ""


def _piped(text: str, command: str, writes: bool) -> str:
    """The command's output; on a terminal it `writes` itself, as a pager does, unless what it says is logged."""
    out = None if writes else subprocess.PIPE
    done = subprocess.run(command, shell=True, input=text.encode("utf-8"), stdout=out)
    return (done.stdout or b"").decode("utf-8", "backslashreplace").rstrip("\n")
