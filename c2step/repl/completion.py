"""Tab completion, from the same grammar that parses.

`complete` is plain Python; only `prompt_completer` knows prompt_toolkit, and loads it when called.
"""

from typing import TYPE_CHECKING, Iterable, Iterator, List, NamedTuple, Tuple

from ..errors import UsageError
from .interpreter import Interpreter
from .lexer import Token, last_command, tokenize
from .registry import Slots
from .types import Candidate

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer

__all__ = ["Completion", "complete", "prompt_completer"]


class Completion(NamedTuple):
    """A text that may replace the last `length` characters of the line."""

    text: str
    length: int


def complete(line: str, interpreter: Interpreter) -> List[Completion]:
    """What may stand at the end of a line: those that begin as typed, else those that contain it."""
    text = last_command(line)
    if text.startswith("!"):
        return []
    words, typed, start = _split(text)
    try:
        candidates = list(_candidates(words, typed, text, interpreter))
    except UsageError:
        return []  # the words before it make no sense
    fitting = [c for c in candidates if c.value.startswith(typed.text)]
    fitting = fitting or [c for c in candidates if typed.text.lower() in c.value.lower()]
    return [Completion(c.insert, len(text) - start) for c in fitting]


def _split(text: str) -> Tuple[List[Token], Token, int]:
    """The finished words, the one that is being typed, and where that begins."""
    tokens = tokenize(text, unfinished=True)
    if tokens and tokens[-1].end == len(text) and (tokens[-1].open_quote or not text[-1:].isspace()):
        return tokens[:-1], tokens[-1], tokens[-1].start
    return tokens, Token("", len(text), len(text)), len(text)


def _candidates(words: List[Token], typed: Token, text: str, interpreter: Interpreter) -> Iterable[Candidate]:
    if not words:
        return [Candidate(name, name + " ") for name in interpreter.table.names()]
    slots = Slots(interpreter.table.find(words[0].text).parameters)
    for word in words[1:]:
        slots.take(word)
    if typed.text.startswith("-") and not typed.quoted and slots.options:
        return [Candidate(option, option) for option in slots.options]
    parameter = slots.expected()
    return parameter.type.candidates(typed.text, interpreter.context) if parameter else ()


def prompt_completer(interpreter: Interpreter) -> "Completer":
    """`complete` as prompt_toolkit wants it."""
    from prompt_toolkit import completion
    from prompt_toolkit.document import Document

    class CommandCompleter(completion.Completer):
        """Completes command lines."""

        def get_completions(
            self, document: Document, complete_event: completion.CompleteEvent
        ) -> Iterator[completion.Completion]:
            for found in complete(document.text_before_cursor, interpreter):
                yield completion.Completion(found.text, start_position=-found.length)

    return CommandCompleter()
