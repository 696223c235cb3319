"""Summaries against numpy in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from c2step.blob import CHUNK, INT8, TENSOR, UNINITIALISED, Blob, BlobSummary, summarize


def truth(array):
    real = array.astype(np.float64)
    finite = real[np.isfinite(real)]
    figures = {"zeros": int((real == 0).sum()), "nan": int(np.isnan(real).sum()), "inf": int(np.isinf(real).sum())}
    if finite.size:
        figures.update(min=finite.min(), max=finite.max(), mean=finite.mean(), std=finite.std())
    return figures


def check(array, rtol=1e-6):
    found = summarize(Blob("b", TENSOR, array))
    assert found.shape == array.shape and found.dtype == str(array.dtype)
    scale = np.abs(array[np.isfinite(array)].astype(np.float64)).max(initial=0) if array.size else 0
    for name, value in truth(array).items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=rtol, atol=rtol * scale, err_msg=name)
    assert BlobSummary.from_json(found.to_json()) == found


SIZES = [1, 2, 1023, 1024, 1025, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool"])
def test_sizes_and_dtypes(size, dtype):
    values = np.random.RandomState(size).randn(size) * 40
    check(values.astype(dtype))


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e3, 1e6])
def test_a_small_spread_about_a_large_mean(mean):
    check((np.random.RandomState(0).randn(100000) * 1e-2 + mean).astype(np.float32))


@pytest.mark.parametrize("size", [1000, 5000, CHUNK + 1])
@pytest.mark.parametrize("scale", [1e-13, 3e-15, 3e-19, 3e-23, 1e-38, 1e-44])
def test_numbers_whose_squares_float32_cannot_hold(size, scale):
    check((np.random.RandomState(0).randn(size) * scale).astype(np.float32))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(width=32), max_size=40), st.integers(0, 2 * CHUNK))
def test_any_floats_among_many(values, at):
    array = np.random.RandomState(1).randn(2 * CHUNK + 40).astype(np.float32)
    array[at : at + len(values)] = values
    check(array, 1e-5)
    check(np.array(values, np.float32).reshape(-1))


def test_empty_strings_and_no_value():
    empty = summarize(Blob("e", TENSOR, np.zeros((0, 3), np.float32)))
    assert (empty.shape, empty.min, empty.zeros, empty.nan) == ((0, 3), None, 0, 0)
    words = summarize(Blob("s", "string", np.array([b"a", b"b"], dtype=object)))
    assert (words.dtype, words.shape, words.min) == ("string", (2,), None)
    assert summarize(Blob("u", UNINITIALISED, text="never written")).text == "never written"


def test_int8_figures_are_of_the_real_values():
    stored = np.array([0, 128, 255], np.uint8)
    found = summarize(Blob("q", INT8, stored, 0.5, 128))
    assert (found.min, found.max, found.zeros, found.scale, found.zero_point) == (-64.0, 63.5, 1, 0.5, 128)
    real = (stored.astype(np.float64) - 128) * 0.5
    np.testing.assert_allclose([found.mean, found.std], [real.mean(), real.std()])


@pytest.mark.parametrize("size", [2000, 70000, CHUNK + 9])
@pytest.mark.parametrize("sign", ["below", "above", "both", "not below", "with -0.0", "only -0.0 and above"])
def test_ends_and_zeros_of_either_sign(size, sign):
    values = np.random.RandomState(size).rand(size).astype(np.float32) + np.float32(0.5)
    values[::3] *= 7
    if sign in ("below", "both", "with -0.0"):
        values *= -1
    if sign in ("both", "not below", "with -0.0"):
        values[:5] = 0
    if sign == "both":
        values[5:9] = 3
    if sign in ("with -0.0", "only -0.0 and above"):
        values[9:12] = -0.0
    found = Blob("b", TENSOR, values).summary()
    assert (found.min, found.max, found.zeros) == (values.min(), values.max(), (values == 0).sum())
    wide = values.astype(np.float64)
    np.testing.assert_allclose([found.mean, found.std], [wide.mean(), wide.std()], rtol=1e-6)
