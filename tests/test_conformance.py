"""The conformance run on some of onnx's backend tests: its table, its cache, and the bars that hold for all."""

import json
import os
import subprocess
import sys

import pytest

from conformance.cases import Case, backend_cases
from conformance.run import Result, classify, table


def conformance(checkout, *arguments):
    """Run scripts/conformance; its exit status and the rows of its table."""
    command = [sys.executable, "-W", "ignore", os.path.join(checkout, "scripts", "conformance"), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in done.stdout.splitlines()
        if line.startswith("| ")
    ]
    assert rows, done.stderr[-2000:]
    return done.returncode, {row[0]: dict(zip(rows[0], row)) for row in rows[1:]}


@pytest.mark.parametrize("match", ["_slice_", "reduce_l1_do", "constantofshape", "maxpool_2d_c"])
def test_nothing_is_wrong_without_lint(checkout, tmp_path, match):
    cache = str(tmp_path / "results.json")
    status, rows = conformance(checkout, "--match", match, "--cache", cache)
    assert status == 0
    for mode in ("faithful, backend", "repaired, backend"):
        assert rows[mode]["wrong and not linted"] == rows[mode]["failed, not linted"] == rows[mode]["died"] == "0"
    passed = [int(rows[mode]["pass"]) for mode in ("stock, backend", "faithful, backend", "repaired, backend")]
    assert passed == sorted(passed)


def test_all_of_onnx_backend_tests_are_there():
    assert len(backend_cases()) == 1422


def test_results_are_kept_and_used_again(checkout, tmp_path):
    cache = str(tmp_path / "results.json")
    conformance(checkout, "--match", "node/test_softmax_axis_1", "--cache", cache, "--modes", "repaired")
    with open(cache) as file:
        data = json.load(file)
    for row in data["results"]:
        if row[:2] == ["node/test_softmax_axis_1", "repaired"]:
            row[2:] = ["died", "run", "SIGSEGV in run"]
    with open(cache, "w") as file:
        json.dump(data, file)
    status, rows = conformance(checkout, "--match", "node/test_softmax_axis_1", "--cache", cache, "--modes", "repaired")
    assert status == 1 and rows["repaired, backend"]["died"] == "1"


LINT = Result(
    "a/b", "lint", "lint", "", [["c1", "n", "Op", "wrong", "a repair", "m"], ["c2", "n", "Op", "refuse", "", "m"]]
)


@pytest.mark.parametrize(
    "outcome, mode, findings, column",
    [
        ("pass", "repaired", [], "pass"),
        ("wrong", "faithful", LINT.detail, "wrong but linted"),
        ("wrong", "repaired", LINT.detail[:1], "wrong and not linted"),  # the repair claims to have mended it
        ("wrong", "repaired", LINT.detail, "wrong but linted"),
        ("wrong", "faithful", [["c", "n", "Op", "note", "", "m"]], "wrong and not linted"),
        ("error", "faithful", [], "failed, not linted"),
        ("error", "faithful", LINT.detail, "refused"),
        ("died", "stock", LINT.detail, "died"),
    ],
)
def test_columns(outcome, mode, findings, column):
    result = Result("a/b", mode, outcome, "run", "why")
    assert classify(result, LINT._replace(detail=findings))[0] == column


def test_table_names_what_is_not_plain():
    case = Case("a/b", "", "backend")
    results = {
        ("a/b", "lint"): LINT,
        ("a/b", "faithful"): Result("a/b", "faithful", "wrong", "compare", "y: other values"),
    }
    text = table([case], ["faithful"], results)
    assert "| faithful, backend | 1 | 0 | 0 | 1 |" in text
    assert "- faithful, a/b: wrong but linted (y: other values; c1, c2)" in text
