"""Commands: one function each, whose annotations are its grammar.

    @command(aliases=("s",), repeats=True)
    def step(context: Context, count: Count = ONCE) -> Result:
        \"\"\"Run the next N operators.\"\"\"

Parameters before `*` are positional, those after it are options (`--rtol FLOAT`, a `bool` is a flag).
`Optional[X]` or a default makes one optional, `List[X]` at the end takes one or more words.  The
docstring is the help.  Anything else in a signature fails when the command is made.
"""

import inspect
from enum import Enum
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Type,
    Union,
    get_type_hints,
)

from ..errors import ExitStatus, UsageError, near
from .context import Context
from .lexer import Token, next_word, rest_of
from .types import ArgumentType

__all__ = ["Command", "CommandTable", "Kind", "Parameter", "Result", "command"]


class Result(NamedTuple):
    """What a command says; `stop` ends the prompt, `status` is how the operators that it ran ended.

    `hits` are the breakpoints at which they stopped, `compared` is what comparing with golden values stands for.
    """

    text: str
    stop: bool = False
    status: Optional[ExitStatus] = None
    hits: Tuple[int, ...] = ()
    compared: Optional[ExitStatus] = None


Outcome = Union[str, Result, Iterable[Result]]


class Kind(Enum):
    """How a parameter is given."""

    POSITIONAL = "positional"
    MANY = "many"
    OPTION = "option"
    FLAG = "flag"


class Parameter(NamedTuple):
    """One parameter of a command."""

    name: str
    type: Type[ArgumentType]
    kind: Kind
    required: bool
    default: Any

    @property
    def option(self) -> str:
        """How it is written when it is an option."""
        return "--" + self.name.replace("_", "-")

    @property
    def usage(self) -> str:
        """How it stands in the usage line."""
        if self.kind is Kind.FLAG:
            return "[%s]" % self.option
        if self.kind is Kind.OPTION:
            return ("%s %s" if self.required else "[%s %s]") % (self.option, self.type.label)
        label = self.type.label + ("..." if self.kind is Kind.MANY else "")
        return label if self.required else "[%s]" % label


class Command:
    """A command of the prompt: its name, its function and the grammar read from its signature."""

    def __init__(self, function: Callable[..., Outcome], name: str, aliases: Tuple[str, ...], repeats: bool) -> None:
        self.function = function
        self.name = name
        self.aliases = aliases
        self.repeats = repeats  # an empty line runs it again
        self.parameters = _parameters(function)
        # whether it takes a part of its line as it stands, signs such as > and | too
        self.raw = any(parameter.type.raw for parameter in self.parameters)
        self.help = inspect.getdoc(function) or ""
        if not self.help:
            raise TypeError("command %s has no docstring, which is its help" % name)

    @property
    def summary(self) -> str:
        """The first sentence of its help."""
        return self.help.split("\n\n")[0].replace("\n", " ")

    @property
    def usage(self) -> str:
        """Its usage line."""
        return " ".join([self.name] + [p.usage for p in self.parameters])

    def call(self, words: str, context: Context) -> Outcome:
        """Run it on the words that follow its name."""
        try:
            arguments = self._bind(words, context)
        except UsageError as error:
            raise type(error)("%s: %s" % (self.name, error.message), error.hint or "usage: " + self.usage) from None
        return self.function(context, **arguments)

    def _bind(self, words: str, context: Context) -> Dict[str, Any]:
        slots, at = Slots(self.parameters), 0
        while words[at:].strip():
            token = rest_of(words, at) if slots.wants_rest(words[at:]) else next_word(words, at)
            slots.take(token)
            at = token.end
        return slots.values(context)


class Slots:
    """Gives each word of a command its parameter; shared by parsing and completion."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._positional = [p for p in parameters if p.kind in (Kind.POSITIONAL, Kind.MANY)]
        self._options = {p.option: p for p in parameters if p.kind in (Kind.OPTION, Kind.FLAG)}
        self._taken: List[Tuple[Parameter, Optional[Token]]] = []
        self._parameters = parameters
        self._pending: Optional[Parameter] = None
        self._only_words = False

    def wants_rest(self, text: str) -> bool:
        """Whether the parameter that comes next takes the rest of the line as it stands."""
        parameter = self.expected()
        return parameter is not None and parameter.type.raw and not (self.options and text.lstrip().startswith("--"))

    def take(self, token: Token) -> None:
        """Give one word its parameter."""
        if self._pending is not None:
            self._taken.append((self._pending, token))
            self._pending = None
        elif token.text == "--" and not token.quoted:
            self._only_words = True
        elif self._is_option(token) and not self._only_words:
            self._take_option(token)
        else:
            self._take_word(token)

    def _is_option(self, token: Token) -> bool:
        """Whether a word is `--name`, or `-n` where an option begins with that letter."""
        short = len(token.text) == 2 and token.text[0] == "-" and not token.quoted
        return token.is_option or short and any(option.startswith("-" + token.text) for option in self._options)

    def _take_option(self, token: Token) -> None:
        name, equals, value = token.text.partition("=")
        name = name if name.startswith("--") else "-" + name
        parameter = self._option(name)
        if parameter.kind is Kind.FLAG:
            if equals:
                raise UsageError("%s takes no value" % parameter.option)
            self._taken.append((parameter, None))
        elif equals:
            self._taken.append((parameter, Token(value, token.start + len(name) + 1, token.end)))
        else:
            self._pending = parameter

    def _option(self, name: str) -> Parameter:
        found = [option for option in self._options if option.startswith(name)]
        if name not in self._options and len(found) != 1:
            raise UsageError("no option %s" % name, near(name, self._options))
        return self._options[name if name in self._options else found[0]]

    def _take_word(self, token: Token) -> None:
        parameter = self._next(token)
        if parameter is None:
            raise UsageError("%s is one word too many" % token.text)
        if parameter.kind is Kind.POSITIONAL:
            self._positional = self._positional[self._positional.index(parameter) + 1 :]
        self._taken.append((parameter, token))

    def _next(self, token: Token) -> Optional[Parameter]:
        for parameter in self._positional:
            if parameter.required or parameter.type.accepts(token):
                return parameter
        return None

    def expected(self) -> Optional[Parameter]:
        """The parameter that the next word will be for."""
        return self._pending or (self._positional[0] if self._positional else None)

    @property
    def options(self) -> List[str]:
        """The options that may stand here."""
        return [] if self._pending or self._only_words else list(self._options)

    def values(self, context: Context) -> Dict[str, Any]:
        """The value of every parameter."""
        if self._pending is not None:
            raise UsageError("%s needs a value" % self._pending.option)
        values: Dict[str, Any] = {}
        for parameter, token in self._taken:
            value = True if token is None else parameter.type.parse(token, context)
            if parameter.kind is Kind.MANY:
                values.setdefault(parameter.name, []).append(value)
            else:
                values[parameter.name] = value
        for parameter in self._parameters:
            if parameter.required and parameter.name not in values:
                missing = parameter.option if parameter.kind is Kind.OPTION else parameter.type.label
                raise UsageError("%s is missing" % missing)
            values.setdefault(parameter.name, parameter.default)
        return values


def _parameters(function: Callable[..., Outcome]) -> Tuple[Parameter, ...]:
    hints = get_type_hints(function)
    listed = list(inspect.signature(function).parameters.values())
    if not listed or hints.get(listed[0].name) is not Context:
        raise TypeError("command %s must take a Context first" % function.__name__)
    found = tuple(_parameter(function.__name__, p, hints.get(p.name)) for p in listed[1:])
    words = [parameter for parameter in found if parameter.kind in (Kind.POSITIONAL, Kind.MANY)]
    for parameter in words[:-1]:
        if parameter.kind is Kind.MANY or parameter.type.raw:
            raise TypeError("command %s: only the last word may be %s" % (function.__name__, parameter.name))
    return found


def _parameter(command_name: str, parameter: inspect.Parameter, hint: Any) -> Parameter:
    optional = parameter.default is not parameter.empty
    hint = _without_none(hint)
    default = parameter.default if optional else None
    if parameter.kind is parameter.KEYWORD_ONLY:
        if hint is bool:
            return Parameter(parameter.name, ArgumentType, Kind.FLAG, False, bool(default))
        type_ = _argument_type(command_name, parameter, hint)
        return Parameter(parameter.name, type_, Kind.OPTION, not optional, default)
    if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
        raise TypeError("command %s: parameter %s is of no known kind" % (command_name, parameter.name))
    kind = Kind.MANY if _is_list(hint) else Kind.POSITIONAL
    inner = hint.__args__[0] if kind is Kind.MANY else hint
    return Parameter(parameter.name, _argument_type(command_name, parameter, inner), kind, not optional, default)


def _is_list(hint: Any) -> bool:
    return getattr(hint, "__origin__", None) in (list, List)


def _without_none(hint: Any) -> Any:
    """X of Optional[X]."""
    if getattr(hint, "__origin__", None) is not Union:
        return hint
    members = [member for member in hint.__args__ if member is not type(None)]
    return members[0] if len(members) == 1 else hint


def _argument_type(command_name: str, parameter: inspect.Parameter, hint: Any) -> Type[ArgumentType]:
    if not (isinstance(hint, type) and issubclass(hint, ArgumentType)):
        raise TypeError("command %s: parameter %s has the unknown type %r" % (command_name, parameter.name, hint))
    return hint


def command(
    name: str = "", aliases: Tuple[str, ...] = (), repeats: bool = False
) -> Callable[[Callable[..., Outcome]], Command]:
    """Make a command of a function; its name is the function's unless given."""

    def make(function: Callable[..., Outcome]) -> Command:
        return Command(function, name or function.__name__.strip("_").replace("_", "-"), aliases, repeats)

    return make


class CommandTable:
    """The commands that a prompt knows; names and aliases are exact, prefixes must be unambiguous."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self.commands: List[Command] = list(commands)
        self._by_name: Dict[str, Command] = {}
        for item in self.commands:
            for name in (item.name,) + item.aliases:
                if name in self._by_name:
                    raise TypeError("%s means both %s and %s" % (name, self._by_name[name].name, item.name))
                self._by_name[name] = item

    def names(self) -> List[str]:
        """The names of all commands, without aliases."""
        return [item.name for item in self.commands]

    def words(self) -> List[str]:
        """Every name and alias."""
        return list(self._by_name)

    def find(self, word: str) -> Command:
        """The command that a word stands for."""
        if word in self._by_name:
            return self._by_name[word]
        found = [name for name in self.names() if word and name.startswith(word)]
        if len(found) > 1:
            raise UsageError("%s is %s" % (word, " or ".join(found)), "type more of it")
        if not found:
            raise UsageError("no command %s" % word, near(word, self._by_name) or "`help` lists the commands")
        return self._by_name[found[0]]
