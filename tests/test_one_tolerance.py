"""Stops, `compare`, conditions and blame agree on what is close, and on how far off it is; numpy is the oracle."""

import io
import os
import re
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest

import c2step
from c2step.cli import main
from c2step.compare import Verdict
from c2step.compare.blame import blame
from c2step.errors import ExitStatus
from c2step.references import open_npz
from small_nets import run_prefix, written

X = np.random.RandomState(0).standard_normal((4, 50)).astype(np.float32)
NET = [("Relu", ["x"], ["r"], {}), ("Softmax", ["r"], ["p"], {"axis": 1})]


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", x=X)
    truth = run_prefix(NET, {"x": X}, 2)
    np.savez("golden.npz", r=truth["r"], p=truth["p"] + np.float32(2e-5))
    np.savez("far.npz", r=truth["r"] + np.float32(0.1), p=truth["p"])
    written(NET, ["x"], tmp_path)
    return truth


def run(*words):
    """What the command line prints, and how it ends."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(["--predict-net", "predict_net.pb", "--input", "x.npz", *words])
    return out.getvalue(), err.getvalue(), status


def relative(actual, golden):
    """As numpy.testing.assert_allclose says it."""
    try:
        np.testing.assert_allclose(actual, golden, rtol=0, atol=0)
    except AssertionError as error:
        return float(re.search(r"Max relative difference[^:]*: *(\S+)", str(error)).group(1))
    return 0.0


@pytest.mark.parametrize("options", [[], ["--rtol", "1e-9", "--atol", "0"], ["--tolerance", "type:Softmax=1e-2"]])
def test_all_agree(made, options):
    commands = "break p if fail; continue; compare p; where; delete; blame"
    said, _, _ = run("--against", "golden.npz", *options, "-c", commands)
    at_stop = "FAIL" in said.split("(c2step) compare")[0]
    compared = "p against golden.npz: FAIL" in said
    conditioned = "breakpoint 1: " in said
    blamed = "ORIGIN: operator 1 Softmax" in said
    assert {at_stop, compared, conditioned, blamed} == {"type:Softmax=1e-2" not in options}


def test_a_comparison_without_a_reference_has_the_sessions_tolerance_too(made):
    assert "FAIL" in run("-c", "run; compare p golden.npz")[0]
    assert "PASS" in run("--atol", "1e-4", "-c", "run; compare p golden.npz")[0]
    assert "PASS" in run("-c", "run; compare p golden.npz --atol 1e-4")[0]


@pytest.mark.parametrize("name, blob", [("golden.npz", "p"), ("far.npz", "r")])
def test_the_largest_relative_difference_is_numpys_everywhere(made, name, blob):
    expected = relative(made[blob], np.load(name)[blob])
    commands = "break if max_rel > %r; break if max_rel > %r; run; compare %s" % (
        0.99 * expected,
        1.01 * expected,
        blob,
    )
    said, _, _ = run("--against", name, "-c", commands)
    assert "breakpoint 1: %s: max_rel is" % blob in said and "breakpoint 2: " not in said
    at_stop, compared = [float(word) for word in re.findall(r"max rel +(\S+)", said)]
    assert at_stop == pytest.approx(expected, rel=1e-2)
    assert compared == pytest.approx(expected, rel=1e-5)


def test_the_definition_is_told(made):
    said, _, _ = run("-c", "help compare")
    assert "|difference| / |reference| where the reference is not 0" in said


def test_a_shape_that_differs_is_as_bad_as_can_be(made):
    np.savez("shape.npz", r=np.zeros((4, 7), np.float32), p=made["p"])
    for condition in ("bad > 27", "ulp > 3", "fail", "cos < 0.5", "max_rel > 1"):
        said, _, _ = run("--against", "shape.npz", "-c", "break if %s; continue; where" % condition)
        assert "1 of 2 operators done" in said, condition


@pytest.mark.parametrize("rule", ["conv*=1e-2", "type:Sofmax=1e-1"])
def test_a_tolerance_that_fits_nothing_is_named(made, rule):
    said, error, status = run("--tolerance", rule, "-c", "step")
    assert status == ExitStatus.USAGE and "fits no" in error
    assert "(c2step) step" not in said
    if rule.startswith("type"):
        assert "did you mean Softmax?" in error


def test_files_and_captures_are_asked_too(made):
    run("-c", "run; save all one; save all two")
    both = ["compare", "one", "two", "--tolerance"]
    assert main(both + ["p=1"]) == main(both + ["type:Relu=1"]) == ExitStatus.OK
    for rule in ("q=1", "type:Conv=1"):
        assert main(both + [rule]) == ExitStatus.USAGE
    assert main(["compare", "golden.npz", "far.npz", "--tolerance", "r=1", "--tolerance", "p=1"]) == ExitStatus.OK
    assert main(["compare", "golden.npz", "far.npz", "--tolerance", "nosuch=1"]) == ExitStatus.USAGE


@pytest.mark.parametrize("off, verdict", [(0.0, Verdict.PASS), (0.03, Verdict.FAIL)])
def test_what_reads_int8_is_as_coarse_as_that(shared, tmp_path, off, verdict):
    folder = os.path.join(shared, "cases", "49_int8_blob")
    inputs = dict(np.load(os.path.join(folder, "inputs.npz")))
    real = np.maximum(np.clip(np.round(inputs["x"] / 0.02) + 128, 0, 255) * 0.02 - 2.56, 0)  # q * 0.02, relu
    golden = {"q": inputs["x"], "r": np.maximum(inputs["x"], 0), "y": np.maximum(inputs["x"], 0)}
    assert np.abs(golden["y"] - real).max() > 0.002  # which no tolerance of floats lets pass
    golden["y"] = golden["y"] + np.float32(off)  # a quantum is 0.02
    np.savez(str(tmp_path / "golden.npz"), **golden)
    net = os.path.join(folder, "predict_net.pb")
    with c2step.open(predict_net=net, inputs=inputs, in_process=True) as session:
        found = blame(session, open_npz(str(tmp_path / "golden.npz")))
    assert found.verdict is verdict
    assert [judged.operator.type for judged in found.origins] == ["Int8Dequantize"] * (off > 0)
