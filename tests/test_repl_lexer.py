"""Lines into commands and words; quoting and slices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from c2step.errors import UsageError
from c2step.render import quote
from c2step.repl.lexer import last_command, split_commands, tokenize
from c2step.repl.slices import parse_index, split_reference


@pytest.mark.parametrize(
    "line, commands",
    [
        ("step 3; inspect conv1", ["step 3", "inspect conv1"]),
        ("  ;; step ;", ["step"]),
        ("inspect 'a;b'; step", ["inspect 'a;b'", "step"]),
        ('inspect "a\\";b"', ['inspect "a\\";b"']),
        ("step # and more; of it", ["step"]),
        ("# nothing", []),
        ("inspect a#1", ["inspect a#1"]),
        ("inspect '#1'", ["inspect '#1'"]),
        ("step; !x = 1; print('#', x)", ["step", "!x = 1; print('#', x)"]),
        ("", []),
    ],
)
def test_commands(line, commands):
    assert split_commands(line) == commands


def test_command_being_typed():
    assert last_command("step 3;  insp") == "insp"
    assert last_command("step; ") == ""
    assert last_command("inspect 'a;b") == "inspect 'a;b"


@pytest.mark.parametrize(
    "text, words",
    [
        ("step 3", ["step", "3"]),
        ("x 'a b' \"c d\"", ["x", "a b", "c d"]),
        ("conv1@2[0, :5] y", ["conv1@2[0, :5]", "y"]),
        ("'a b'@2[0, ...]", ["a b@2[0, ...]"]),
        ("a[ b", ["a[", "b"]),
        ('"line\\nbreak"', ["line\nbreak"]),
        (r'"\x41\u5377\U0001F600\q"', ["A卷😀\\q"]),
        ("it\\n", ["it\\n"]),
    ],
)
def test_words(text, words):
    assert [token.text for token in tokenize(text)] == words


def test_an_open_quote_is_an_error_but_not_while_typing():
    with pytest.raises(UsageError, match="not closed"):
        tokenize("inspect 'conv")
    token = tokenize("inspect 'co nv", unfinished=True)[-1]
    assert (token.text, token.start, token.open_quote) == ("co nv", 8, "'")


@given(st.text(min_size=1))
def test_every_name_survives_quoting(name):
    for text in (quote(name), quote(name, force=True)):
        (token,) = tokenize(text)
        assert token.text == name
        assert not token.is_option
        assert split_commands("inspect " + text) == ["inspect " + text]
        assert text.isprintable()


@given(st.text(min_size=1), st.integers(0, 99))
def test_every_name_takes_a_version_and_a_slice(name, version):
    (token,) = tokenize("%s@%d[0, :5]" % (quote(name), version))
    assert split_reference(token.text, token.quoted, frozenset([name])) == (name, version, "[0, :5]")


KNOWN = frozenset(["x", "x@1", "x[0]", "a@b"])


@pytest.mark.parametrize(
    "text, reference",
    [
        ("x", ("x", None, "")),
        ("x@2", ("x", 2, "")),
        ("x[0, :5]", ("x", None, "[0, :5]")),
        ("x@2[1]", ("x", 2, "[1]")),
        ("x@1", ("x@1", None, "")),  # exact names win
        ("x[0]", ("x[0]", None, "")),
        ("x[0][1]", ("x[0]", None, "[1]")),
        ("x[0]@3[1]", ("x[0]", 3, "[1]")),
        ("x@1@1", ("x@1", 1, "")),
        ("a@b@4", ("a@b", 4, "")),
        ("nothing@2[0]", ("nothing", 2, "[0]")),
        ("@2", ("@2", None, "")),
    ],
)
def test_references(text, reference):
    assert split_reference(text, 0, KNOWN) == reference


def test_quotes_tell_a_name_from_a_version():
    (token,) = tokenize("'x'@1")
    assert split_reference(token.text, token.quoted, KNOWN) == ("x", 1, "")
    (token,) = tokenize("'y@1'")
    assert split_reference(token.text, token.quoted, KNOWN) == ("y@1", None, "")


@pytest.mark.parametrize(
    "text, index",
    [
        ("[0]", (0,)),
        ("[0, :5]", (0, slice(None, 5))),
        ("[..., -1]", (Ellipsis, -1)),
        ("[::2, None]", (slice(None, None, 2), None)),
        ("[1:2:3,]", (slice(1, 2, 3),)),
    ],
)
def test_slices(text, index):
    assert parse_index(text) == index


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "[a]",
        "[__import__('os')]",
        "[0, , 1]",
        "[1:2:3:4]",
        "[::0]",
        "[..., ...]",
        "[1.5]",
        "[1 2]",
        "[9999999999999999999999]",
    ],
)
def test_what_is_no_slice_is_refused(text):
    with pytest.raises(UsageError, match="slice"):
        parse_index(text)
