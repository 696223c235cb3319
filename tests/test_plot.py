"""`plot` at the prompt: text by value, files by their content."""

import io
import os
from types import SimpleNamespace

import numpy as np
import pytest

from c2step.blob import TENSOR, Blob
from c2step.errors import UsageError
from c2step.pictures.maps import difference_of
from c2step.pictures.text import histogram_text, inline_image, line_text, map_colours, map_text
from c2step.repl.environment import Environment
from c2step.repl.loop import make_interpreter
from fake_session import FakeSession

# matplotlib calls what its own dependencies have renamed since
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)


@pytest.fixture
def session():
    made = FakeSession([("Copy", ("x",), ("y",)), ("Relu", ("y",), ("z",))], {"x": X - 3})
    made.step(2)
    return made


def said(session, line):
    """What the prompt answers."""
    interpreter = make_interpreter(session, Environment(io.StringIO(), io.StringIO(), io.StringIO()))
    return "\n".join(result.text for result in interpreter.run(line))


def test_histogram_counts_every_value():
    lines = histogram_text(np.array([0.0, 0.0, 1.0, np.nan]), bins=2, plain=True).splitlines()
    assert [line.split()[-1] for line in lines[:2]] == ["2", "1"]
    assert lines[0].count("#") == 2 * lines[1].count("#")
    assert lines[-1] == "1 NaN or Inf left out"


def test_a_line_goes_from_its_lowest_to_its_highest():
    rows = line_text(np.arange(100.0), width=20, height=5, plain=True).splitlines()
    marks = [[i for i, c in enumerate(row[13:]) if c == "*"] for row in rows]
    assert marks[0][-1] == 19 and marks[-1][0] == 0
    assert rows[0].split()[0] == "99" and rows[-1].split()[0] == "0"


def test_a_map_shows_its_values_in_shades():
    lines = map_text(np.array([[0.0, 1.0], [np.nan, 0.5]]), plain=True).splitlines()
    assert lines[0] == "  @@" and lines[1][:2] == "!!" and lines[1][2] not in " @!"


def test_a_map_in_colours_has_the_palettes():
    from c2step.pictures.palettes import COLOURS, SEQUENTIAL

    text = map_colours(np.array([[0.0], [1.0]]), (0.0, 1.0), SEQUENTIAL)
    assert "38;2;%d;%d;%d;48;2;%d;%d;%dm" % (SEQUENTIAL[0] + SEQUENTIAL[COLOURS - 1]) in text


def test_terminals_that_show_pictures():
    assert inline_image(b"x" * 5000, {"TERM": "xterm-kitty"}).count("\033_G") == 2
    assert inline_image(b"x", {"TERM_PROGRAM": "WezTerm"}).startswith("\033]1337;File=")
    assert inline_image(b"x", {"TERM": "xterm-256color"}) == ""


def test_plot_at_the_prompt(session):
    assert said(session, "plot y hist").splitlines()[0] == "y  (1, 2, 3, 4)"
    assert "map [0, 0] of 2" in said(session, "plot y")
    assert said(session, "plot y[0, 1]").splitlines()[0] == "y[0, 1]  (3, 4)"
    assert "|difference|" in said(session, "plot z diff --against y")
    with pytest.raises(UsageError, match="diff needs something") as caught:
        said(session, "plot z diff")
    assert "CAPTURE" in caught.value.hint and "reference SPEC" in caught.value.hint


def test_a_difference_has_both_names_and_says_equal(session, tmp_path):
    assert said(session, "plot z diff --against y").splitlines()[0] == "z - y, the difference  (1, 2, 3, 4)"
    assert said(session, "plot y diff --against x").splitlines()[0].endswith("(1, 2, 3, 4)  equal")
    path = str(tmp_path / "y.png")
    assert said(session, "plot y diff -o %s --against x" % path) == "wrote %s: equal" % path
    odd = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert list(difference_of(odd, odd)) == [0, 0, 0, 0] and difference_of(odd, -odd)[1] == np.inf


def test_against_is_drawn_for_every_kind(session):
    for kind in ("hist", "map", "heat", "line"):
        one, both = said(session, "plot z " + kind), said(session, "plot z %s --against y" % kind)
        other = said(session, "plot y " + kind)
        assert both == one + "\n" + other


def test_diff_takes_the_golden_values_that_are_loaded(session):
    golden = {"z": np.maximum(X - 3, 0) + 2}
    interpreter = make_interpreter(session, Environment(io.StringIO(), io.StringIO(), io.StringIO()))
    interpreter.context.against = SimpleNamespace(
        label="onnxruntime", value=lambda name, version: Blob(name, TENSOR, golden[name])
    )
    (text,) = [result.text for result in interpreter.run("plot z[0, 0] diff")]
    assert text.splitlines()[0] == "z[0, 0] - onnxruntime, the difference  (3, 4)"
    assert text.splitlines()[-1].split()[-1] == "2"  # the largest |difference|


def test_pictures_name_their_axes_and_count_in_whole_numbers(monkeypatch, tmp_path):
    from c2step.pictures import plots

    made = []
    figure = plots._figure
    monkeypatch.setattr(plots, "_figure", lambda: made.append(figure()) or made[-1])
    other = X[0, 0] + 1
    for kind in ("line", "heat", "diff"):
        plots.save_plot(kind, X[0, 0], str(tmp_path / "x.png"), kind, other, ("a", "b"))
    line, heat, diff = made
    assert (line.axes[0].get_xlabel(), line.axes[0].get_ylabel()) == ("element", "value")
    assert [axes.get_title() for axes in heat.axes[:2]] == ["a", "b"]
    assert all(tick == int(tick) for axes in heat.axes[:2] for tick in axes.get_xticks())
    assert heat.axes[-1].get_ylabel() == "value" and diff.axes[-1].get_ylabel() == "difference"
    plots.save_plot("diff", X[0, 0, 0], str(tmp_path / "x.png"), "x", other[0], ("a", "b"))
    assert made[-1].axes[0].get_ylabel() == "difference"


@pytest.mark.parametrize("kind", ["hist", "map", "heat", "line", "diff"])
def test_every_kind_as_a_file(session, tmp_path, kind):
    from PIL import Image

    path = str(tmp_path / "y.png")
    assert said(session, "plot z %s -o %s --against y" % (kind, path)) == "wrote %s" % path
    picture = Image.open(path)
    assert min(picture.size) > 300 and len(picture.convert("RGB").getcolors(1 << 24)) > 10


def test_a_file_without_matplotlib(session, tmp_path, monkeypatch):
    import sys

    from c2step.pictures.plots import save_plot

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match="matplotlib") as caught:
        save_plot("hist", X, os.path.join(str(tmp_path), "x.png"), "x")
    assert "c2step[plot]" in caught.value.hint
