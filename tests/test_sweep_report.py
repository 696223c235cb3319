"""Rows on disk, and what they come to: against numpy, and whatever crashes leave behind."""

import json
import os

import numpy as np
import pytest

from c2step.errors import CaptureError, UsageError
from c2step.sweeping import columns
from c2step.sweeping.columns import Columns, spread
from c2step.sweeping.folder import ROWS, SweepFolder
from c2step.sweeping.report import Report
from c2step.sweeping.result import Sweep
from c2step.sweeping.text import sweep_lines


def side(max_abs=0.0, verdict="PASS", status="ok", **more):
    figures = {} if max_abs is None else {"max_abs": max_abs, "rel_l2": max_abs / 2, "ratio": 10 * max_abs}
    return dict(figures, status=status, verdict=verdict, **more)


def row(number, errors, labels, verdict="PASS", mean=0.0):
    operators = [
        {"index": i, "type": "Conv", "outputs": ["b%d" % i], "label": label, "run": run, "alone": side(0.0)}
        for i, (run, label) in enumerate(zip(errors, labels))
    ]
    fed = {"x": {"dtype": "float32", "shape": [1, 3], "min": -1.0, "max": 1.0, "mean": mean, "std": 1.0}}
    return {"input": "%d.npy" % number, "sha256": "", "status": "ok", "verdict": verdict, "outputs": {"y": verdict},
            "operators": operators, "fed": fed}  # fmt: skip


def report(rows):
    made = Report(len(rows), lambda position: rows[position]["input"])
    for position, one in enumerate(rows):
        made.add(position, one)
    return dict(made.to_json(), model="m.onnx", against="onnxruntime", notes=[])


@pytest.mark.parametrize("in_memory", [1 << 20, 0])
def test_spreads_are_numpys(monkeypatch, in_memory):
    monkeypatch.setattr(columns, "_IN_MEMORY", in_memory)
    numbers = np.random.RandomState(0).lognormal(size=(40, 2))
    rows = [row(i, [side(a), side(b)], ["OK", "OK"]) for i, (a, b) in enumerate(numbers)]
    for operator, column in zip(report(rows)["operators"], numbers.T):
        found = operator["run"]["max_abs"]
        assert found["worst"] == "%d.npy" % column.argmax() and found["count"] == 40
        assert [found["min"], found["max"]] == [column.min(), column.max()]
        assert [found["median"], found["p95"]] == pytest.approx(np.percentile(column, [50, 95]), rel=1e-15)
        assert operator["run"]["ratio"]["max"] == pytest.approx(10 * column.max())


def test_spreads_of_few_numbers_and_of_infinite_ones():
    column = Columns(5).new()
    assert spread(column) is None
    column[3] = 2.5
    assert spread(column) == {"count": 1, "min": 2.5, "median": 2.5, "p95": 2.5, "max": 2.5, "worst": 3}
    column[[1, 4]] = np.inf
    found = spread(column)
    assert (found["min"], found["median"], found["max"], found["worst"]) == (2.5, np.inf, np.inf, 1)


def test_labels_that_depend_on_the_input_and_what_tells_them():
    bad = {3, 4, 7, 9}
    rows = [row(i, [side(0.5 if i in bad else 0.0)], ["ORIGIN" if i in bad else "OK"], "FAIL" if i in bad else "PASS",
                5.0 + i if i in bad else i / 10) for i in range(12)]  # fmt: skip
    found = report(rows)
    (entry,) = found["depends"]
    assert (entry["label"], entry["count"], entry["of"], entry["usual"]) == ("ORIGIN", 4, 12, "OK")
    assert entry["inputs"] == ["%d.npy" % i for i in sorted(bad)]
    assert entry["where"] == "x.mean is 8 or more for these, 1.1 or less for the others"
    assert found["verdicts"] == {"PASS": 8, "FAIL": 4} and found["outputs"] == {"y": {"PASS": 8, "FAIL": 4}}
    text = "\n".join(sweep_lines(dict(found, verdict="FAIL")))
    assert "operator 0 Conv -> b0 is ORIGIN for 4 of 12 inputs, OK for most: 3.npy, 4.npy, 7.npy, 9.npy" in text
    assert "FAIL: 12 inputs, 8 PASS, 4 FAIL" in text
    rows[3]["fed"]["x"]["mean"] = 0.5  # it is among the others now
    assert report(rows)["depends"][0]["where"] is None


def test_the_worst_inputs_come_first_and_of_equals_the_first():
    errors = [0.1, 0.4, 0.4, None, 0.2]
    rows = [row(i, [side(e, "PASS" if e is not None else "FAIL")], ["OK"], "PASS" if e is not None else "FAIL")
            for i, e in enumerate(errors)]  # fmt: skip
    assert [entry["input"] for entry in report(rows)["worst"]] == ["3.npy", "1.npy", "2.npy", "4.npy", "0.npy"]


def test_the_report_does_not_depend_on_the_order_in_which_rows_were_written(tmp_path):
    rows = [row(i, [side(e)], ["OK"]) for i, e in enumerate(np.random.RandomState(1).rand(30))]
    found = []
    for name, order in (("a", range(30)), ("b", np.random.RandomState(2).permutation(30))):
        folder = SweepFolder(str(tmp_path / name))
        folder.begin({}, {})
        for number in order:
            folder.add(rows[number])
        index = folder.index()
        found.append(report(list(folder.read(folder.path, [index[one["input"]] for one in rows]))))
        folder.close()
    assert found[0] == found[1]


def test_failures_name_operator_and_input_and_are_counted():
    rows = [row(i, [side(None, status="died", error="SIGFPE: operator 0")], ["ORIGIN"], "FAIL") for i in range(25)]
    rows.append(
        {"input": "bad.npy", "sha256": "", "status": "error", "kind": "InputError", "error": "shape", "hint": ""}
    )
    rows.append({"input": "lost.npy", "sha256": "", "status": "lost", "error": "its process ended"})
    found = report(rows)
    assert found["troubles"] == {"died": 25, "error": 1, "lost": 1} and len(found["failures"]) == 20
    text = sweep_lines(dict(found, verdict="FAIL"))
    assert "0.npy: operator 0 Conv died: SIGFPE: operator 0" in text
    assert "and 7 more such; rows.jsonl has them" in text and text[-1].endswith("2 without a result")


def test_tables_of_operators_and_inputs(tmp_path):
    rows = [row(i, [side(0.1 * i)], ["OK"]) for i in range(3)]
    folder = SweepFolder(str(tmp_path))
    folder.begin({}, {})
    for one in rows:
        folder.add(one)
    found = Sweep(report(rows), folder.path, list(folder.index().values()), False)
    folder.close()
    (operator,) = found.table()
    assert operator["label_OK"] == 3 and operator["run_max_abs_max"] == pytest.approx(0.2)
    assert operator["run_max_abs_worst"] == "2.npy" and operator["alone_max_abs_max"] == 0
    assert [one["max_abs"] for one in found.table("inputs")] == pytest.approx([0, 0.1, 0.2])
    found.write_csv(str(tmp_path / "t.csv"), "inputs")
    assert (tmp_path / "t.csv").read_text().splitlines()[1].startswith("0.npy,ok,,PASS")


# -- the folder ------------------------------------------------------------------------------------


def made(tmp_path, *names):
    folder = SweepFolder(str(tmp_path))
    folder.begin({"rtol": None}, {"model": {"m.onnx": "a" * 64}})
    for name in names:
        folder.add({"input": name, "sha256": "", "status": "ok"})
    folder.close()
    return os.path.join(str(tmp_path), ROWS)


@pytest.mark.parametrize("tail", [b'{"input": "c", "st', b"x" * 200000, b"\x00" * 10])
def test_a_line_that_was_cut_short_goes_away(tmp_path, tail):
    path = made(tmp_path, "a", "b")
    with open(path, "ab") as file:
        file.write(tail)
    folder = SweepFolder(str(tmp_path))
    folder.add({"input": "d", "sha256": "", "status": "ok"})
    assert list(folder.index()) == ["a", "b", "d"]
    folder.close()
    with open(path, "rb") as file:
        assert [json.loads(line)["input"] for line in file] == ["a", "b", "d"]


def test_damage_within_costs_one_input_alone(tmp_path):
    path = made(tmp_path, "a", "b", "c")
    with open(path, "rb") as file:
        lines = file.read().splitlines(True)
    with open(path, "wb") as file:
        file.write(lines[0] + b"{{{\n" + lines[2])
    folder = SweepFolder(str(tmp_path))
    index = folder.index()
    assert list(index) == ["a", "c"]
    assert [found["input"] for found in folder.read(folder.path, index.values())] == ["a", "c"]
    folder.close()


def test_one_sweep_at_a_time_writes(tmp_path):
    folder = SweepFolder(str(tmp_path))
    with pytest.raises(CaptureError, match="another sweep"):
        SweepFolder(str(tmp_path))
    folder.close()
    SweepFolder(str(tmp_path)).close()


def test_other_options_or_another_model_are_refused_by_name(tmp_path):
    made(tmp_path, "a")
    folder = SweepFolder(str(tmp_path))
    folder.check("options", {"rtol": None})
    with pytest.raises(UsageError, match=r"made otherwise: rtol not given, now 0.1"):
        folder.check("options", {"rtol": 0.1})
    with pytest.raises(UsageError, match=r"model.m.onnx aaaaaaaaaaaa, now bbbbbbbbbbbb"):
        folder.begin({"rtol": None}, {"model": {"m.onnx": "b" * 64}})
    folder.close()


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(CaptureError, match="is no sweep"):
        SweepFolder(str(tmp_path))
    assert os.listdir(str(tmp_path)) == ["mine.txt"]
