"""A command's annotations are its grammar."""

from typing import Dict, List, Optional

import pytest

from c2step.errors import UsageError
from c2step.repl.context import Context
from c2step.repl.registry import CommandTable, Result, Slots, command
from c2step.repl.types import ONCE, BlobPattern, Choice, Count, FilePath, Number, Rest


class Colour(Choice):
    choices = ("red", "green", "grey")
    label = "COLOUR"

    @classmethod
    def accepts(cls, token):
        return token.text in cls.choices


@command("paint", aliases=("pt",), repeats=True)
def paint(
    context: Context,
    colour: Optional[Colour] = None,
    names: Optional[List[BlobPattern]] = None,
    *,
    times: Count = ONCE,
    save: Optional[FilePath] = None,
    dry_run: bool = False,
) -> str:
    """Paint things.

    More of it.
    """
    return repr((colour, names, times, save, dry_run))


@command()
def say(context: Context, count: Count, text: Rest) -> Result:
    """Say a text."""
    return Result("%d %s" % (count, text))


@pytest.mark.parametrize(
    "words, values",
    [
        ("", (None, None, 1, None, False)),
        ("red a b", ("red", ["a", "b"], 1, None, False)),
        ("a b", (None, ["a", "b"], 1, None, False)),
        ("red --times 3 a --dry-run", ("red", ["a"], 3, None, True)),
        ("--times=3 --save 'x y' red", ("red", None, 3, "x y", False)),
        ("--ti 3 a", (None, ["a"], 3, None, False)),
        ("red -- --times", ("red", ["--times"], 1, None, False)),
        ("red '--times'", ("red", ["--times"], 1, None, False)),
    ],
)
def test_words_become_values(words, values):
    assert paint.call(words, None) == repr(values)


@pytest.mark.parametrize(
    "words, message",
    [
        ("--times", "--times needs a value"),
        ("--times no", "no is not a count"),
        ("--times 0", "0 is not a count"),
        ("--tims 3", "no option --tims"),
        ("--dry-run=1", "takes no value"),
        ("'open", "not closed"),
    ],
)
def test_what_does_not_fit_is_said_with_the_usage(words, message):
    with pytest.raises(UsageError, match=message) as caught:
        paint.call(words, None)
    assert str(caught.value).startswith("paint: ")
    assert caught.value.hint


def test_the_rest_of_the_line_stands_as_it_is():
    assert say.call("2  it's 'quoted'  [0, 1]", None).text == "2 it's 'quoted'  [0, 1]"
    with pytest.raises(UsageError, match="TEXT is missing"):
        say.call("2", None)


def test_usage_and_help_come_from_the_signature():
    assert paint.usage == "paint [COLOUR] [PATTERN...] [--times N] [--save FILE] [--dry-run]"
    assert say.usage == "say N TEXT"
    assert paint.summary == "Paint things."


def test_the_parameter_being_typed_is_known():
    slots = Slots(paint.parameters)
    assert slots.expected().name == "colour"
    assert slots.options == ["--times", "--save", "--dry-run"]


def unknown_type(context: Context, what: Dict) -> str:
    """Of an unknown type."""
    return ""


def no_annotation(context: Context, what) -> str:
    """Without an annotation."""
    return ""


def no_context(count: Count) -> str:
    """Without a context."""
    return ""


def no_docstring(context: Context) -> str:
    return ""


def many_first(context: Context, names: List[BlobPattern], count: Count) -> str:
    """Many words, then one."""
    return ""


def spread(context: Context, *names: BlobPattern) -> str:
    """Of a kind that is not taken."""
    return ""


@pytest.mark.parametrize(
    "function, message",
    [
        (unknown_type, "unknown type"),
        (no_annotation, "unknown type"),
        (no_context, "Context first"),
        (no_docstring, "no docstring"),
        (many_first, "only the last word"),
        (spread, "no known kind"),
    ],
)
def test_a_wrong_signature_fails_when_registered(function, message):
    with pytest.raises(TypeError, match=message):
        command()(function)


def test_names_aliases_and_prefixes():
    table = CommandTable([paint, say])
    assert table.find("paint") is table.find("pt") is table.find("pai") is paint
    for word, message in (("", "no command"), ("x", "no command"), ("painting", "no command painting")):
        with pytest.raises(UsageError, match=message):
            table.find(word)


def test_an_ambiguous_prefix_names_what_it_may_be():
    @command("pair")
    def pair(context: Context) -> str:
        """Pair."""
        return ""

    with pytest.raises(UsageError, match="pai is paint or pair"):
        CommandTable([paint, pair]).find("pai")


def test_two_commands_cannot_share_a_name():
    with pytest.raises(TypeError, match="means both"):
        CommandTable([paint, paint])


@pytest.mark.parametrize("text, value", [("1e-3", 1e-3), ("0", 0.0), ("2", 2.0)])
def test_numbers(text, value):
    @command()
    def take(context: Context, number: Number) -> str:
        """Take a number."""
        return repr(float(number))

    assert take.call(text, None) == repr(value)
    for wrong in ("-1", "x", "nan"):
        with pytest.raises(UsageError, match="not a number"):
            take.call(wrong, None)
