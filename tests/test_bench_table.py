"""The code behind scripts/bench: medians, sides that take turns, verdicts, the table.  No clock: seconds are given."""

import json
import os
import sys

import pytest

from shared_material import CHECKOUT

sys.path.append(os.path.join(CHECKOUT, "scripts"))

from benchmarks import table, timing
from benchmarks.table import Row, all_hold, markdown, other_verdicts, to_json, within_markers
from benchmarks.timing import Figure, added, alternate, figure, quotient

MACHINE = {"torch": "1.10.2", "cores": 2}


def row(unit="x", bar=1.3, median=1.2, what="stepping", **more):
    measured = None if median is None else Figure(median, median - 0.1, median + 0.1)
    return Row("key", what, "RunNet", unit, bar, measured, **more)


@pytest.mark.parametrize(
    "values,expected",
    [
        ([3.0], (3, 3, 3)),
        ([1.0, 2.0], (1.5, 1.25, 1.75)),
        ([5.0, 1.0, 3.0, 2.0, 4.0], (3, 2, 4)),
        ([1.0, 1.0, 1.0, 100.0], (1, 1, 25.75)),
    ],
)
def test_median_and_quartiles(values, expected):
    assert figure(values) == expected


def test_quotients_and_differences_are_taken_round_by_round():
    # The machine slows down fourfold in mid-run: both sides do, and the figures do not
    ours, theirs = [2.0, 2.0, 8.0], [1.0, 1.0, 4.0]
    assert quotient(ours, theirs) == (2, 2, 2)
    assert added([3.0, 5.0, 4.0], [1.0, 1.0, 1.0], each=2) == (1.5, 1.25, 1.75)


def test_sides_take_turns_and_the_order_turns_round():
    order = []

    def side(name, seconds):
        return lambda: order.append(name) or seconds

    seconds = alternate({"a": side("a", 1.0), "b": side("b", 2.0)}, rounds=3, warmup=1)
    assert order == ["b", "a", "a", "b", "b", "a", "a", "b"]
    assert seconds == {"a": [1.0] * 3, "b": [2.0] * 3}


def test_three_rounds_even_without_patience():
    seconds = alternate({"a": lambda: 1.0}, rounds=50, warmup=2, patience=-1.0)
    assert len(seconds["a"]) == timing.LEAST


@pytest.mark.parametrize(
    "unit,bar,median,verdict",
    [
        ("x", 1.3, 1.29, "reached"),
        ("x", 1.3, 1.3, "reached"),
        ("x", 1.3, 1.31, "**not reached**"),
        ("us", 20, 19.0, "reached"),
        ("faster", 8, 8.1, "reached"),
        ("faster", 8, 7.9, "**not reached**"),
        ("x", None, 170.0, "no bar"),
        ("x", 1.3, None, "not measured"),
        ("x", None, None, "not measured"),
    ],
)
def test_verdict(unit, bar, median, verdict):
    assert row(unit, bar, median).verdict == verdict


def test_all_hold_only_where_nothing_is_missed_and_nothing_left_out():
    assert all_hold([row(), row(bar=None, median=170.0)])
    assert not all_hold([row(), row(median=1.4)])
    assert not all_hold([row(), row(median=None)])
    assert all_hold([row(), row(median=None, optional=True)])


def test_markdown():
    text = markdown([row(), row("faster", 5.0, None, note="no Polygraphy")], MACHINE)
    assert text == (
        "| what | against | bar | measured | quartiles |  |\n"
        "|---|---|---|---|---|---|\n"
        "| stepping | RunNet | at most 1.30x | 1.20x | 1.10x to 1.30x | reached |\n"
        "| stepping | RunNet | at least 5.0x faster | - | - | not measured |\n"
        "\n"
        "Measured on torch 1.10.2, cores 2. stepping: no Polygraphy.\n"
    )


def test_json_has_everything():
    found = json.loads(to_json([row(), row(median=1.4), row(median=None, optional=True)], MACHINE))
    assert found["machine"] == MACHINE and found["all_hold"] is False
    assert [r["verdict"] for r in found["rows"]] == ["reached", "not reached", "not measured"]
    assert found["rows"][0]["measured"] == {"median": 1.2, "low": pytest.approx(1.1), "high": pytest.approx(1.3)}
    assert found["rows"][2]["measured"] is None


def test_verdicts_of_two_runs():
    before = to_json([row(), row(what="dump", bar=None), row(what="gone")], MACHINE)
    assert other_verdicts([row(median=1.25), row(what="dump", bar=None), row(what="new")], before) == []
    assert other_verdicts([row(median=1.4)], before) == ["stepping: not reached, was reached"]


def test_the_table_replaces_the_one_between_the_markers():
    text = "before\n%s\nold\n%s\nafter\n" % (table.BEGIN, table.END)
    once = within_markers(text, "new\n")
    assert once == "before\n%s\nnew\n%s\nafter\n" % (table.BEGIN, table.END)
    assert within_markers(once, "new\n") == once


@pytest.mark.parametrize("text", ["", table.BEGIN, table.END + table.BEGIN, 2 * (table.BEGIN + table.END)])
def test_markers_that_do_not_fit(text):
    with pytest.raises(ValueError):
        within_markers(text, "new\n")
