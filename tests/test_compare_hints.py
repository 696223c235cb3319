"""Seeded mismatches are named; a hint is told only where all elements confirm it, and changes no verdict."""

import ast
import re
import tracemalloc
from typing import Any, Callable, List, Tuple

import numpy as np
import pytest

from c2step.compare import Verdict, measure
from c2step.compare.hints import explain


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal random numbers in float32."""
    return np.random.RandomState(seed).standard_normal(shape).astype("float32")


def softmax(x: np.ndarray, axis: Any) -> np.ndarray:
    """Softmax over one axis or several."""
    e = np.exp(x.astype("float64"))
    return (e / e.sum(axis, keepdims=True)).astype("float32")


IMAGE = normal(2, 6, 8, 10) + np.float32(0.25)
SHIFTED = np.roll(IMAGE, (1, 1), (2, 3))
MATRIX = normal(12, 30)
Change = Callable[[np.ndarray], np.ndarray]

CASES: List[Tuple[str, np.ndarray, Change, str]] = [
    ("NCHW to NHWC", IMAGE, lambda b: b.transpose(0, 2, 3, 1), "(0, 3, 1, 2) matches the reference: actual is NHWC"),
    ("NHWC to NCHW", IMAGE, lambda b: b.transpose(0, 3, 1, 2), "actual is NCHW, the reference NHWC"),
    ("transposed square", normal(9, 9), lambda b: b.T, "transposed by (1, 0)"),
    ("hidden states", normal(4, 2, 2, 3), lambda b: b.transpose(0, 3, 1, 2), "transposed by (0, 2, 3, 1)"),
    ("dimensions of one", normal(64), lambda b: b.reshape(1, 64, 1, 1), "only dimensions of 1 differ"),
    ("reshaped", IMAGE, lambda b: b.reshape(2, 48, 10), "same order, only the shape differs"),
    ("transposed and flattened", normal(4, 6, 5), lambda b: b.transpose(2, 0, 1).reshape(5, 24), "transposed by"),
    ("flattened from NHWC", normal(3, 5, 4, 4), lambda b: b.transpose(0, 2, 3, 1).reshape(3, 80), "transposed by"),
    (
        "flattened from NHWC, both flat",
        normal(3, 80),
        lambda b: b.reshape(3, 5, 16).swapaxes(1, 2).reshape(3, 80),
        "holds 16 x 5 values, in the reference 5 x 16",
    ),
    (
        "reshaped in place of transposed",
        normal(4, 2, 3, 5),
        lambda b: b.transpose(0, 2, 1, 3).reshape(4, 2, 3, 5),
        "actual is the reference transposed by (0, 2, 1, 3), read as shape (4, 2, 3, 5)",
    ),
    (
        "directions laid out otherwise",
        normal(4, 2, 3, 5),
        lambda b: b.transpose(0, 2, 1, 3).reshape(4, 3, 5, 2).transpose(0, 2, 1, 3),
        "actual is the reference transposed by (",
    ),
    ("BGR", normal(1, 3, 8, 9), lambda b: b[:, ::-1], "reversed along axis 1: channels are RGB"),
    ("BGRA", normal(8, 9, 4), lambda b: b[..., [2, 1, 0, 3]], "RGBA on one side, BGRA"),
    ("halves swapped", MATRIX, lambda b: np.roll(b, 6, 0), "its halves are swapped"),
    ("rolled", MATRIX, lambda b: np.roll(b, -1, 1), "rolled along axis 1: reference[i] is actual[i-1]"),
    ("channels shuffled", IMAGE, lambda b: b[:, [3, 1, 0, 2, 5, 4]], "slices of axis 1 are in another order"),
    ("times 255", IMAGE, lambda b: b * np.float32(255), "actual is 255 * reference"),
    ("by 255", IMAGE, lambda b: b / np.float32(255), "actual is 1/255 * reference"),
    ("another factor", IMAGE, lambda b: b * np.float32(0.37), "actual is 0.37 * reference"),
    ("sign", IMAGE, lambda b: -b, "sign is flipped"),
    ("offset", IMAGE, lambda b: b - np.float32(0.5), "actual is the reference - 0.5"),
    ("affine", IMAGE, lambda b: b * np.float32(2) + np.float32(3), "actual is 2 * reference + 3"),
    ("bias", IMAGE, lambda b: b + normal(6, 1, 1, seed=3), "constant in each slice of axis 1, as a bias"),
    ("factor by channel", IMAGE, lambda b: b * (2 + normal(6, 1, 1, seed=3) ** 2), "scaled by a factor in each slice"),
    ("batch norm", IMAGE, lambda b: b * (2 + normal(6, 1, 1, seed=3)) + normal(6, 1, 1, seed=4), "its own factor"),
    ("bias of a matrix", MATRIX, lambda b: b + normal(30, seed=3), "constant in each slice of axis 1"),
    ("row shift", IMAGE[:, :, 1:], lambda b: IMAGE[:, :, :-1], "shifted by one along axis 2: actual[i+1]"),
    ("column shift", IMAGE[..., :-1], lambda b: IMAGE[..., 1:], "actual[i-1] equals reference[i]"),
    ("diagonal shift", IMAGE[..., 1:, 1:], lambda b: IMAGE[..., :-1, :-1], "shifted by one along axis 2 and 3"),
    ("ceil_mode", IMAGE, lambda b: b[:, :, :-1, :-1], "actual equals reference[:, :, 0:7, 0:9]: the end differs"),
    (
        "padding",
        IMAGE,
        lambda b: np.pad(b, ((0, 0), (0, 0), (2, 2), (2, 2)), "constant"),
        "reference equals actual[:, :, 2:10, 2:12]: a border differs",
    ),
    ("not broadcast", np.repeat(normal(1, 8), 5, 0), lambda b: b[:1], "actual"),
    ("softmax axis", softmax(IMAGE, 1), lambda b: softmax(IMAGE, 3), "along axis 3, the reference's along axis 1"),
    ("flattening softmax", softmax(IMAGE, 3), lambda b: softmax(IMAGE, (1, 2, 3)), "along axes (1, 2, 3)"),
    (
        "log softmax",
        np.log(softmax(IMAGE, 1)),
        lambda b: np.log(softmax(IMAGE, 2)),
        "exponentials sum to one along axis 2",
    ),
    ("sorted along an axis", MATRIX, lambda b: np.sort(b, axis=1), "along axis 1 the values are the same in another"),
    (
        "sorted over all",
        MATRIX,
        lambda b: np.sort(b.reshape(-1)).reshape(b.shape),
        "the values are the same in another",
    ),
    ("rectified", IMAGE, lambda b: np.maximum(b, 0), "clipped to [0, inf]"),
    ("not rectified", np.maximum(IMAGE, 0), lambda b: IMAGE, "the reference is actual clipped to [0, inf]"),
    ("six", 9 * IMAGE, lambda b: np.clip(b, 0, 6), "clipped to [0, 6]"),
    (
        "bfloat16",
        IMAGE,
        lambda b: (b.view("uint32") + np.uint32(0x8000) & np.uint32(0xFFFF0000)).view("float32"),
        "rounded to bfloat16",
    ),
    ("whole numbers", 5 * IMAGE, np.rint, "the nearest whole number"),
    ("truncated", 5 * IMAGE, np.trunc, "towards zero"),
    ("never written", IMAGE, np.zeros_like, "actual is 0 everywhere"),
    ("NaN", IMAGE, lambda b: np.where(b > 2, np.float32(np.nan), b), "only NaN or Inf differ"),
    (
        "one channel",
        IMAGE,
        lambda b: np.where(np.arange(6)[:, None, None] == 4, np.sin(9 * b), b),
        "all bad elements are in 1 of 6 slices of axis 1: 4",
    ),
    ("last row", IMAGE, lambda b: np.where(np.arange(8)[:, None] == 7, np.sin(9 * b), b), "1 of 8 slices of axis 2: 7"),
    (
        "border",
        IMAGE,
        lambda b: np.pad(b[:, :, 1:-1, 1:-1], ((0, 0), (0, 0), (1, 1), (1, 1)), "edge"),
        "border of 1, axes 2 and 3",
    ),
    (
        "last row and column",
        IMAGE,
        lambda b: np.pad(b[:, :, :-1, :-1], ((0, 0), (0, 0), (0, 1), (0, 1)), "edge"),
        "the last 1 of rows and columns, axes 2 and 3",
    ),
]


@pytest.mark.parametrize("b, change, expected", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_seeded_mismatch_is_named(b: np.ndarray, change: Change, expected: str) -> None:
    a = change(b)
    before = measure(a, b)
    hints = explain(a, b)
    assert any(expected in hint for hint in hints), hints
    assert before.verdict is Verdict.FAIL and repr(measure(a, b)) == repr(before)


@pytest.mark.parametrize("b, change, expected", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_honest_rounding_does_not_hide_it(b: np.ndarray, change: Change, expected: str) -> None:
    if "rounded" in expected or "whole" in expected or "towards" in expected or "everywhere" in expected:
        return  # these are told only where they are exact
    a = change(b)
    noisy = a * (1 + np.random.RandomState(9).standard_normal(a.shape).astype("float32") * np.float32(1e-7))
    assert any(expected in hint for hint in explain(noisy.astype("float32"), b)), explain(noisy, b)


def test_nothing_to_explain() -> None:
    assert explain(IMAGE, IMAGE.copy()) == []
    assert explain(np.ones(()), np.ones(1)) == ["the values are the same, only dimensions of 1 differ"]
    assert explain(np.zeros((0, 3)), np.zeros((3, 0))) == []
    assert explain(np.array(["a"]), np.array(["b"])) == []
    assert explain(np.float32(1), np.float32(2)) in ([], ["actual is 1/2 * reference"])


def test_what_is_only_wrong_is_not_explained() -> None:
    other = normal(*IMAGE.shape, seed=5)
    assert explain(other, IMAGE) == []
    assert explain(other[:, :3], IMAGE) == []
    assert explain(normal(7, 11), IMAGE) == []


def test_a_permutation_that_fits_but_does_not_match_is_not_told() -> None:
    b = normal(4, 4, 4)
    a = b.transpose(1, 0, 2).copy()
    assert any("(1, 0, 2)" in hint for hint in explain(a, b))
    a[0, 1, 2] += 1
    assert not any("transposed" in hint for hint in explain(a, b))


def test_all_permutations_that_match_are_told() -> None:
    x = normal(5)
    b = x[:, None, None] * np.ones((5, 5, 5), "float32")
    a = b.transpose(2, 1, 0)
    told = [hint for hint in explain(a, b) if "transposed" in hint]
    matching = {
        axes for axes in ((2, 1, 0), (1, 2, 0), (2, 0, 1), (1, 0, 2), (0, 2, 1)) if np.array_equal(a.transpose(axes), b)
    }
    assert len(told) == len(matching) and all(any(str(axes) in hint for hint in told) for axes in matching)


def test_what_is_read_in_between_is_right() -> None:
    b = normal(4, 2, 3, 5)
    a = b.transpose(0, 2, 1, 3).reshape(4, 3, 5, 2).transpose(0, 2, 1, 3)
    (hint,) = explain(a, b)
    first, shape, second = (ast.literal_eval(text) for text in re.findall(r"\([\d, ]+\)", hint))
    assert np.array_equal(b.transpose(first).reshape(shape).transpose(second), a)


def test_sparse_blobs() -> None:
    b = np.where(normal(2, 8, 12, 12) > 1.5, normal(2, 8, 12, 12, seed=1), 0).astype("float32")
    assert any("(0, 1, 3, 2)" in hint for hint in explain(b.transpose(0, 1, 3, 2), b))


def test_nearly_a_line_says_so() -> None:
    b = normal(1000)
    a = (2 * b + 1 + 0.01 * normal(1000, seed=1)).astype("float32")
    assert any(hint.startswith("nearly actual is") and "R^2 0.9999" in hint for hint in explain(a, b))


def test_integers_and_booleans() -> None:
    b = np.arange(24, dtype="int64").reshape(4, 6) ** 2
    assert any("transposed" in hint for hint in explain(b.T, b))
    assert any("3 * reference" in hint for hint in explain(3 * b, b))
    flags = normal(9, 9) > 0
    assert any("transposed" in hint for hint in explain(flags.T, flags))


def test_special_values_everywhere() -> None:
    b = IMAGE.copy()
    b[0, 0, 0, :3] = [np.nan, np.inf, -np.inf]
    assert any("(0, 3, 1, 2)" in hint for hint in explain(b.transpose(0, 2, 3, 1), b))
    assert any("2 * reference" in hint for hint in explain(2 * b, b))
    assert explain(np.full_like(b, np.nan), b) == ["no element is finite on both sides"]


def test_large_blobs_take_little_time_and_memory() -> None:
    a, b = normal(4, 64, 100, 100, seed=1), normal(4, 64, 100, 100)
    for ours in (a, b.swapaxes(2, 3), b * 3):
        tracemalloc.start()
        explain(ours, b)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 25e6
