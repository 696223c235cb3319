"""Tables, screens and JSON by golden text."""

import json
import re

import numpy as np
import pytest

from c2step.blob import INT8, MISSING, OTHER, STRING, TENSOR, UNINITIALISED, Blob, BlobSummary
from c2step.net import Net, OnnxNode, Operator
from c2step.render import (
    as_json,
    blame_lines,
    blob_rows,
    colourise,
    first_line,
    listing,
    number,
    operator_line,
    quote,
    shape_text,
    stats_rows,
    summary_line,
    summary_lines,
    table,
    values_text,
)


@pytest.mark.parametrize(
    "name, shown",
    [
        ("conv1", "conv1"),
        ("res4/conv1:0", "res4/conv1:0"),
        ("卷积", "卷积"),
        ("a[0", "a[0"),
        ("a b", '"a b"'),
        ("line\nbreak", '"line\\nbreak"'),
        ("it's", '"it\'s"'),
        ('say "x"', '"say \\"x\\""'),
        ("", '""'),
        ("a\\b", '"a\\\\b"'),
        ("\x07", '"\\x07"'),
        ("\u200b", '"\\u200b"'),
        ("#1", '"#1"'),
        ("--save", '"--save"'),
        ("a;b", '"a;b"'),
        ("conv1@2", '"conv1@2"'),
        ("x[0]", '"x[0]"'),
        ("!x", '"!x"'),
        (" ", '" "'),
    ],
)
def test_names_as_the_prompt_takes_them(name, shown):
    assert quote(name) == shown


@pytest.mark.parametrize(
    "value, text",
    [
        (None, "-"),
        (0.1234567, "0.123457"),
        (3, "3"),
        (float("nan"), "nan"),
        (1e30, "1e+30"),
        (np.float32(2.5), "2.5"),
        (True, "True"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


def test_shapes_and_first_lines():
    assert [shape_text(s) for s in ((), (3,), [1, np.int64(8)])] == ["()", "(3,)", "(1, 8)"]
    assert first_line("\n  reason \nstack") == "reason"
    assert first_line("") == ""


def test_tables_align_and_cut_nothing():
    rows = [
        ["a", "1", "x"],
        ["bbb", "22", "y"],
        ["卷积", "333", "z"],
        ["n" * 60, "4", "w"],
        ["c", "spans the rest of it"],
    ]
    assert table(rows, right=[1]) == [
        "a" + " " * 47 + "    1  x",
        "bbb" + " " * 45 + "   22  y",
        "卷积" + " " * 44 + "  333  z",
        "n" * 60 + "    4  w",
        "c" + " " * 47 + "  spans the rest of it",
    ]
    assert table([]) == []


def summary(values, **more):
    return Blob("x", TENSOR, np.asarray(values), **more).summary()


BLOBS = [
    ("data", 0, summary(np.arange(6, dtype=np.float32).reshape(2, 3))),
    ("odd", 2, summary(np.array([np.nan, np.inf, 0, 1], np.float32))),
    ("a b", 1, summary(np.zeros((0, 3), np.float32))),
    ("line\nbreak", 1, summary(np.array([True, False]))),
    ("mask", 1, BlobSummary(UNINITIALISED, text="never written")),
    ("lock", 1, BlobSummary(OTHER, text="mutex,\n a C++ native class")),
    ("gone", 0, BlobSummary(MISSING)),
    ("text", 1, Blob("text", STRING, np.array([b"a", b"b"], dtype=object)).summary()),
    ("q", 1, Blob("q", INT8, np.array([0, 3, 5], np.uint8), 0.5, 3).summary()),
]


def test_blob_rows():
    assert (
        "\n".join(blob_rows(BLOBS))
        == """\
data@0           float32             (2, 3)
odd@2            float32             (4,)
"a b"@1          float32             (0, 3)
"line\\nbreak"@1  bool                (2,)
mask@1           not a tensor: never written
lock@1           not a tensor (mutex, a C++ native class)
gone@0           not in the workspace
text@1           string              (2,)
q@1              int8 blob of uint8  (3,)"""
    )


def test_stats_rows():
    assert (
        "\n".join(stats_rows(BLOBS[:5]))
        == """\
blob             dtype    shape   min  max  mean      std  zeros  NaN  Inf
data@0           float32  (2, 3)    0    5   2.5  1.70783      1    0    0
odd@2            float32  (4,)      0    1   0.5      0.5      1    1    1
"a b"@1          float32  (0, 3)    -    -     -        -      0    0    0
"line\\nbreak"@1  bool     (2,)      0    1   0.5      0.5      1    0    0
mask@1           not a tensor: never written"""
    )


def test_summaries_on_one_line():
    assert [summary_line(s) for _, _, s in BLOBS] == [
        "float32 (2, 3)  min 0 max 5 mean 2.5 std 1.70783",
        "float32 (4,)  min 0 max 1 mean 0.5 std 0.5 NaN 1 Inf 1",
        "float32 (0, 3)  empty",
        "bool (2,)  min 0 max 1 mean 0.5 std 0.5",
        "not a tensor: never written",
        "not a tensor (mutex, a C++ native class)",
        "not in the workspace",
        "string (2,)",
        "int8 blob of uint8 (3,)  scale 0.5 zero point 3 min -1.5 max 1 mean -0.166667 std 1.0274",
    ]


def test_a_summary_as_a_table():
    assert (
        "\n".join(summary_lines(BLOBS[1][2]))
        == """\
dtype  float32
shape  (4,)  4 values
min    0
max    1
mean   0.5
std    0.5
zeros  1  (25%)
NaN    1  (25%)
Inf    1  (25%)"""
    )
    assert (
        "\n".join(summary_lines(BLOBS[8][2]))
        == """\
dtype  int8 blob of uint8
shape  (3,)  3 values
scale  0.5  zero point 3
min    -1.5
max    1
mean   -0.166667
std    1.0274
zeros  1  (33.3%)
NaN    0
Inf    0"""
    )
    assert summary_lines(BLOBS[4][2]) == ["not a tensor: never written"]


def test_values():
    assert (
        values_text(Blob("x", TENSOR, np.array([[1, -0.5], [1e-7, 123456.789]])))
        == """\
[[     1   -0.5]
 [ 1e-07 123457]]"""
    )
    assert values_text(Blob("x", TENSOR, np.arange(100))) == "[ 0  1  2 ... 97 98 99]"
    assert len(values_text(Blob("x", TENSOR, np.arange(100)), everything=True).split()) == 101
    assert values_text(Blob("x", TENSOR, np.float32(2.5) * np.ones(()))) == "2.5"
    assert values_text(Blob("x", TENSOR, np.zeros((0, 2)))) == "[]"
    assert values_text(Blob("x", STRING, np.array([b"a\n", "b"], dtype=object))) == "['a\\n'   'b']"
    assert values_text(Blob("x", UNINITIALISED)) == ""


def test_int8_values_are_shown_as_what_they_stand_for_and_as_stored():
    assert (
        values_text(Blob("q", INT8, np.array([0, 3, 5], np.uint8), 0.5, 3))
        == """\
real values
[-1.5    0    1]
stored integers
[0 3 5]"""
    )


def test_a_large_tensor_fits_a_screen():
    shown = values_text(Blob("x", TENSOR, np.zeros((64, 64, 56, 56), np.float32)))
    assert len(shown.splitlines()) < 30


def net():
    node = OnnxNode(7, "Conv_7", "Conv")
    return Net(
        "n",
        (
            Operator(0, "Conv", "", ("data", "w"), ("conv1",), node=node),
            Operator(1, "Relu", "", ("conv1",), ("conv1",)),
            Operator(2, "Dropout", "drop", ("conv1",), ("a b", "mask")),
        ),
    )


def test_operators_on_one_line():
    assert [operator_line(op) for op in net().operators] == [
        "0 Conv Conv_7  (data, w) -> (conv1)",
        "1 Relu  (conv1) -> (conv1)",
        '2 Dropout drop  (conv1) -> ("a b", mask)',
    ]


def test_listing():
    assert (
        listing(net(), "oF.".__getitem__, 1, 0, 3)
        == """\
     o  0  Conv     Conv_7  (data, w) -> (conv1)
-->  F  1  Relu     -       (conv1) -> (conv1)
     .  2  Dropout  drop    (conv1) -> ("a b", mask)  ~random
status: . not run   o ok   F failed   D died   S skipped   ? output not written"""
    )
    assert (
        listing(net(), "ooo".__getitem__, 3, 2, 12, marks=[2])
        == """\
     o  b  2  Dropout  drop  (conv1) -> ("a b", mask)  ~random
-->  end of the net
status: . not run   o ok   F failed   D died   S skipped   ? output not written"""
    )


def test_colour_adds_nothing_but_colour():
    text = "F  1  Relu  no\n--> 2 Conv  (a) -> (b)\nerror: no blob x\n{a} [red] \\1"
    painted = colourise(text)
    assert painted != text
    assert re.sub("\033\\[\\d+m", "", painted) == text


def test_json_is_strict():
    value = {
        "s": summary(np.array([1.0, np.nan])),
        "n": None,
        1: (np.float32(0.5), np.arange(2), float("-inf"), b"a\xff"),
    }
    back = json.loads(as_json(value), parse_constant=lambda c: pytest.fail(c))
    assert back["1"] == [0.5, [0, 1], "-inf", "a\\xff"]
    assert back["s"]["nan"] == 1
    assert back["s"]["min"] == 1.0
    assert "\n" in as_json(value, indent=1)


@pytest.mark.parametrize("inside, status, lines", [(20, "ok", 21), (21, "ok", 2), (21, "failed", 22)])
def test_many_operators_inside_one_onnx_node_are_one_line(inside, status, lines):
    def row(index, label, reason):
        side = {"status": status, "error": None, "comparison": None}
        told = {"label": label, "reason": reason, "hints": [], "run": side, "alone": side}
        return {"index": index, "type": "Mul", "outputs": ["v%d" % index], **told}

    rows = [row(i, "UNCOMPARED", "judged with operator %d" % inside) for i in range(inside)] + [row(inside, "OK", "")]
    counts = {"compared": 1, "failed": 0, "skipped": 0, "missing": 0, "aside": inside, "reasons": [], "outputs": {}}
    found = blame_lines({"operators": rows, "origins": [], "verdict": "FAIL", **counts})
    table = found[1 : found.index("")]
    assert len(table) == lines
    if lines == 2:
        assert table[0].split() == ["0-20", "21", "operators", "-", "-", "-", "-", "UNCOMPARED", "judged", "with",
                                    "operator", "21;", "--json", "has", "each"]  # fmt: skip
