"""Honest rounding passes, small faults are found, and the tolerance that was asked for is the one that holds."""

import numpy as np
import pytest

from c2step.compare import Tolerance, Tolerances, Verdict, measure
from c2step.compare.tolerance import DEFAULTS, EXACT, epsilon
from c2step.errors import UsageError

PASS, FAIL, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal random numbers in float32."""
    return np.random.RandomState(seed).standard_normal(shape).astype("float32")


def in_turn(products: np.ndarray) -> np.ndarray:
    """The sums along the last axis, added one after the other in float32: the worst honest rounding."""
    return np.cumsum(products, axis=-1, dtype="float32")[..., -1]


# ---- honest rounding -------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [64, 4608, 25088])
def test_long_dot_products_added_in_turn(length: int) -> None:
    x, w = normal(4, 1, length), normal(1, 50, length, seed=1)
    found = measure(in_turn(x * w), (x.astype("float64") * w).sum(-1).astype("float32"))
    assert found.verdict is PASS, found.line()


@pytest.mark.parametrize("scale", [1e-12, 1e-4, 1.0, 1e5, 1e20])
def test_rounding_passes_at_any_scale(scale: float) -> None:
    b = normal(300, 300) * np.float32(scale)
    a = b + normal(300, 300, seed=1) * np.float32(scale * 1e-6)
    assert measure(a, b).verdict is PASS


@pytest.mark.parametrize("noise", [1e-7, 1e-6, 1e-5, 1e-4])
def test_rounding_that_has_grown_through_many_layers(noise: float) -> None:
    b = normal(1, 64, 56, 56)
    a = b + normal(*b.shape, seed=1) * np.float32(noise)
    found = measure(a, b)
    assert found.verdict is PASS, found.line()
    assert measure(np.maximum(a, 0), np.maximum(b, 0)).verdict is PASS


def test_channels_of_very_different_size() -> None:
    sizes = np.geomspace(1e-8, 1e2, 32, dtype="float32")[None, :, None, None]
    b = normal(1, 32, 28, 28) * sizes
    assert measure(b + normal(*b.shape, seed=1) * sizes * np.float32(1e-6), b).verdict is PASS


def test_dead_channels_beside_live_ones() -> None:
    sizes = np.where(np.arange(64) < 40, 1e-12, 5.0).astype("float32")[None, :, None, None]
    b = normal(1, 64, 28, 28) * sizes
    assert measure(b + normal(*b.shape, seed=1) * sizes * np.float32(1e-6), b).verdict is PASS


def test_boxes_in_pixels_beside_scores() -> None:
    sizes = np.r_[np.full(4, 300.0), np.full(81, 1e-3)].astype("float32")
    b = normal(1, 2520, 85) * sizes
    assert measure(b + normal(*b.shape, seed=1) * sizes * np.float32(1e-6), b).verdict is PASS


def test_a_cold_flush_of_denormals() -> None:
    b = np.array([1e-40, 0.5, 0.25, 0.25], "float32")
    a = b.copy()
    a[0] = 0
    assert measure(a, b).verdict is PASS


def test_mean_over_a_million_added_in_turn() -> None:
    x = np.random.RandomState(0).rand(1000000).astype("float32")
    assert measure(in_turn(x), x.astype("float64").sum()).verdict is PASS


# ---- small faults ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, 1e-3, 3e-4])
def test_one_wrong_element_near_zero(value: float) -> None:
    b = normal(1, 64, 56, 56)
    a = b + normal(*b.shape, seed=1) * np.float32(1e-6)
    b[0, 5, 7, 9], a[0, 5, 7, 9] = 1e-5, 1e-5 + value
    assert measure(a, b).verdict is (FAIL if value else PASS)


def test_one_wrong_channel_of_small_values() -> None:
    sizes = np.ones(64, "float32")
    sizes[17] = 1e-3
    b = normal(1, 64, 28, 28) * sizes[None, :, None, None]
    a = b + normal(*b.shape, seed=1) * np.float32(1e-6) * sizes[None, :, None, None]
    assert measure(a, b).verdict is PASS
    a[:, 17] = b[:, 18] * np.float32(1e-3)
    found = measure(a, b)
    assert found.verdict is FAIL and found.worst[1] == 17
    a[:, 17] = 0
    assert measure(a, b).verdict is FAIL


@pytest.mark.parametrize("mask", [-1e4, -1e9, -3e38, -np.inf])
def test_a_large_mask_hides_nothing(mask: float) -> None:
    triangle = np.triu(np.ones((64, 64), bool), 1)
    scores = normal(8, 64, 64)
    b = np.where(triangle, np.float32(mask), scores)
    rounded = np.where(triangle, np.float32(mask), scores + normal(8, 64, 64, seed=1) * np.float32(1e-6))
    assert measure(rounded, b).verdict is PASS
    assert measure(np.where(triangle, np.float32(mask), scores + np.float32(0.1)), b).verdict is FAIL
    assert measure(np.where(triangle, np.float32(mask), scores * np.float32(1.01)), b).verdict is FAIL
    one = rounded.copy()
    one[3, 60, 2] += 0.01
    assert measure(one, b).verdict is FAIL


def test_boxes_in_pixels_hide_no_wrong_scores() -> None:
    sizes = np.r_[np.full(4, 300.0), np.full(81, 1e-3)].astype("float32")
    b = normal(1, 2520, 85) * sizes
    a = b + normal(*b.shape, seed=1) * sizes * np.float32(1e-6)
    wrong = a.copy()
    wrong[..., 4:] *= 1.01
    assert measure(wrong, b).verdict is FAIL
    wrong = a.copy()
    wrong[:, 100, 4:] *= 10
    assert measure(wrong, b).verdict is FAIL


def test_a_softmax_over_many_classes_on_the_wrong_axis() -> None:
    x = normal(30, 20000).astype("float64")
    rows, columns = (np.exp(x) / np.exp(x).sum(axis, keepdims=True) for axis in (1, 0))
    assert measure((columns / 1000).astype("float32"), (rows / 1).astype("float32")).verdict is FAIL


@pytest.mark.parametrize("offset", [1e-3, 1e-2, 1.0])
def test_a_bias_that_was_left_out(offset: float) -> None:
    b = normal(1, 16, 20, 20)
    assert measure(b + np.float32(offset), b).verdict is FAIL


def test_a_wrong_factor() -> None:
    b = normal(1000)
    assert measure(b * np.float32(1.002), b).verdict is FAIL
    assert measure(b * np.float32(1.0005), b).verdict is PASS
    assert measure(b * np.float32(1.0005), b).borderline


def test_a_pass_by_a_wide_margin_is_not_borderline() -> None:
    b = normal(1, 64, 28, 28)
    assert not measure(b + b * normal(*b.shape, seed=1) * np.float32(1e-7), b).borderline
    assert not measure(b, b.copy()).borderline
    assert not measure(b + normal(*b.shape, seed=1) * np.float32(5e-7), b).borderline


def test_one_element_near_its_limit_that_stands_out_is_borderline() -> None:
    b = normal(1, 64, 28, 28)
    b[0, 3, 3, 3] = 1
    a = b + normal(*b.shape, seed=1) * np.float32(1e-7)
    a[0, 3, 3, 3] = 1.0008
    assert measure(a, b).verdict is PASS and measure(a, b).borderline


# ---- values below the absolute tolerance -----------------------------------------------------------


def test_tiny_values_do_not_pass_unseen() -> None:
    b = normal(1000) * np.float32(1e-9)
    found = measure(3 * b, b)
    assert found.verdict is INCONCLUSIVE and "absolute tolerance" in found.reason
    assert measure(b * np.float32(1.0001), b).verdict is PASS
    assert measure(b, np.zeros_like(b)).verdict is PASS
    assert measure(3 * b, b, Tolerance(1e-3, 1e-6)).verdict is PASS
    assert measure(3 * b, b, Tolerance(1e-3, 1e-12)).verdict is FAIL


# ---- by dtype ----------------------------------------------------------------------------------------


def test_float64_that_was_float32_passes_with_a_finding() -> None:
    b = np.array([1 / 3, 1 + 1e-9])
    found = measure(b.astype("float32").astype("float64"), b)
    assert found.verdict is PASS and found.borderline
    assert found.notes == ("all values are the reference's rounded to float32",)
    assert measure(b + [0, 1e-5], b).verdict is FAIL
    assert measure(b * (1 + 1e-15), b).notes == ()


def test_float64_beyond_float32_fails() -> None:
    found = measure(np.array([np.inf, -2.0]), np.array([1e300, -2.0]))
    assert found.verdict is FAIL and (found.inf, found.reference_inf, found.bad) == (1, 0, 1)
    assert found.max_abs == 0


def test_float16_has_room_for_its_rounding() -> None:
    b = normal(10000)
    assert measure(b.astype("float16"), b).verdict is PASS
    assert measure((b * 1.05).astype("float16"), b.astype("float16")).verdict is FAIL


def test_the_coarser_type_of_both_sides_decides() -> None:
    tolerances = Tolerances()
    assert tolerances.find(dtypes=("float64", "float32")) == DEFAULTS["float32"]
    assert tolerances.find(dtypes=(np.dtype(">f8"), np.dtype("f2"))) == DEFAULTS["float16"]
    assert tolerances.find(dtypes=("int64", "bool")) == EXACT
    assert tolerances.find(dtypes=("bfloat16", "float32")) == DEFAULTS["bfloat16"]
    assert tolerances.find(dtypes=("complex128",)) == DEFAULTS["float64"]
    assert tolerances.find(dtypes=(np.dtype("U3"), np.dtype(object))) == EXACT
    assert epsilon("int32") == 0 and epsilon("float32", "float64") == np.finfo("float32").eps


# ---- what was asked for --------------------------------------------------------------------------------


def test_from_weak_to_strong() -> None:
    tolerances = Tolerances.parse("conv*=1e-2,1e-4", "type:Softmax=1e-1", "conv2*=,5", rtol=1e-6)
    assert tolerances.find("x") == Tolerance(1e-6, 1e-6, "--rtol, --atol")
    assert tolerances.find("x", dtypes=("int32",)) == EXACT
    assert tolerances.find("x", "Softmax").rtol == 0.1
    first, second = tolerances.find("conv1", "Softmax"), tolerances.find("conv2_1", "Conv")
    assert (first.rtol, first.atol, first.source) == (1e-2, 1e-4, "conv*=0.01,0.0001")
    assert (second.rtol, second.atol, second.source) == (1e-2, 5, "conv2*=,5")
    assert not second.default and Tolerances().find("x").default


def test_integers_may_be_given_room_by_name() -> None:
    tolerance = Tolerances.parse("image=0,1").find("image", dtypes=("uint8",))
    b = np.array([0, 255, 7], "uint8")
    assert measure(b + np.array([1, 0, 0], "uint8"), b, tolerance).verdict is PASS
    assert measure(b + np.array([2, 0, 0], "uint8"), b, tolerance).bad == 1


def test_an_exact_tolerance_for_floats() -> None:
    b = normal(100)
    assert measure(b, b.copy(), EXACT).verdict is PASS
    assert measure(np.nextafter(b, np.float32(9)), b, EXACT).bad == 100
    assert measure(np.array([1e-45], "float32"), np.zeros(1, "float32"), EXACT).bad == 1


def test_int8_scales() -> None:
    tolerance = Tolerances().find("q", "Int8Relu", ("uint8", "float32"), [0.02, None])
    assert tolerance.atol == pytest.approx(0.01, rel=1e-4) and "quantum" in tolerance.source
    assert Tolerances.parse("q=0,1").find("q", scales=[0.02]).atol == 1


def test_names_with_brackets_and_equals() -> None:
    tolerances = Tolerances.parse("a=b/*=1e-2", "w[[]0]=0.5")
    assert tolerances.find("a=b/c").rtol == 1e-2
    assert tolerances.find("w[0]").rtol == 0.5


@pytest.mark.parametrize("text", ["conv*", "=1e-3", "x=a", "x=1,2,3", "x=-1", "x=nan", "x=inf", ""])
def test_bad_texts(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Tolerances.parse(text)
    assert caught.value.hint


def test_bad_numbers() -> None:
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError):
            Tolerances.parse(rtol=bad)
        with pytest.raises(UsageError):
            Tolerance(0.0, bad)


def test_a_rule_that_fits_nothing_is_named() -> None:
    tolerances = Tolerances.parse("conv*=1e-2", "type:Sofmax=1e-1")
    with pytest.raises(UsageError, match="Sofmax") as caught:
        tolerances.check(["conv1"], ["Softmax"])
    assert "Softmax" in caught.value.hint
    Tolerances.parse("conv*=1e-2").check(["conv1"], [])
