"""The figures against exact arithmetic, and everything a blob can be instead of a tidy tensor."""

import json
import math
import sys
import tracemalloc
from fractions import Fraction
from typing import Any, List, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from c2step.blob import INT8, MISSING, STRING, TENSOR, UNINITIALISED, Blob
from c2step.compare import Comparison, Tolerance, Verdict, compare_blobs, measure
from c2step.compare.chunks import CHUNK

PASS, FAIL, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
FLOATS = ["float16", "float32", "float64"]


def noise(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Normal random numbers."""
    return np.random.RandomState(seed).standard_normal(shape).astype(dtype)


# ---- the figures ----------------------------------------------------------------------------------


def exact(a: np.ndarray, b: np.ndarray) -> dict:
    """The figures in rational arithmetic, over elements that are finite on both sides."""
    pairs = [
        (Fraction(x), Fraction(y))
        for x, y in zip(a.ravel().tolist(), b.ravel().tolist())
        if math.isfinite(x) and math.isfinite(y)
    ]
    differences = [x - y for x, y in pairs]
    aa, bb = sum(x * x for x, _ in pairs), sum(y * y for _, y in pairs)
    dd, ab = sum(d * d for d in differences), sum(x * y for x, y in pairs)
    return {
        "max_abs": max(abs(d) for d in differences),
        "max_rel": max([abs(d / y) for d, (_, y) in zip(differences, pairs) if y], default=None),
        "mean": sum(differences) / len(pairs),
        "mean_abs": sum(abs(d) for d in differences) / len(pairs),
        "rel_l2": root(dd / bb) if bb else None,
        "cosine": (1 if ab > 0 else -1) * root(ab * ab / (aa * bb)) if aa and bb else None,
    }


def root(value: Fraction) -> float:
    """The square root of a fraction that may be out of the range of floats, the largest float at most."""
    shift = max(value.numerator.bit_length() - value.denominator.bit_length(), -2000) // 2 * 2 if value else 0
    value = math.sqrt(float(value / Fraction(2) ** shift))
    return math.ldexp(value, shift // 2) if math.log2(value or 1) + shift // 2 < 1024 else sys.float_info.max


def ordered(dtype: str, value: float) -> int:
    """The place of a float among all floats of its type."""
    bits = int(np.array(value, dtype).view("i%d" % np.dtype(dtype).itemsize))
    return bits if bits >= 0 else -(bits & np.iinfo("i%d" % np.dtype(dtype).itemsize).max)


@st.composite
def two_arrays(draw: Any) -> Tuple[np.ndarray, np.ndarray]:
    """Two arrays of one float type and shape, sometimes close, with every special value."""
    dtype = draw(st.sampled_from(FLOATS))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, max_side=5))
    bits = 8 * np.dtype(dtype).itemsize
    b = draw(hnp.arrays(dtype, shape, elements=st.floats(width=bits)))
    if draw(st.booleans()):
        return draw(hnp.arrays(dtype, shape, elements=st.floats(width=bits))), b
    with np.errstate(all="ignore"):
        step = draw(st.sampled_from([0.0, 1e-7, 1e-3, 1.0]))
        return (b * np.asarray(1 + step, dtype)).astype(dtype), b


@given(two_arrays())
@settings(max_examples=100, deadline=None)
def test_figures_are_those_of_exact_arithmetic(arrays: Tuple[np.ndarray, np.ndarray]) -> None:
    a, b = arrays
    found = measure(a, b)
    finite = np.isfinite(a) & np.isfinite(b)
    if not finite.any():
        assert found.max_abs is None and found.rel_l2 is None and found.cosine is None
        return
    truth = exact(a, b)
    largest = truth["max_abs"]
    assert found.max_abs == pytest.approx(
        min(float(largest), 1.8e308) if largest < 1e308 else 1.7976931348623157e308, rel=1e-6
    )
    if truth["max_rel"] is None:
        assert found.max_rel == (math.inf if largest else 0.0)
    elif largest < 1e308 and truth["max_rel"] < 1e307:
        assert found.max_rel == pytest.approx(float(truth["max_rel"]), rel=1e-5, abs=1e-300)
    if largest < 1e300:
        assert found.mean_abs == pytest.approx(float(truth["mean_abs"]), rel=1e-5)
        assert found.mean == pytest.approx(float(truth["mean"]), abs=1e-5 * float(truth["mean_abs"]))
    if truth["rel_l2"] is None:
        assert found.rel_l2 == (math.inf if largest else 0.0)
    else:
        assert found.rel_l2 == pytest.approx(truth["rel_l2"], rel=1e-5, abs=1e-300)
    if truth["cosine"] is not None:
        assert found.cosine == pytest.approx(truth["cosine"], abs=1e-5)
    steps = [abs(ordered(a.dtype.name, x) - ordered(b.dtype.name, y)) for x, y in zip(a[finite], b[finite])]
    assert found.ulp == max(steps)


@given(two_arrays())
@settings(max_examples=60, deadline=None)
def test_special_values_are_counted_where_they_are(arrays: Tuple[np.ndarray, np.ndarray]) -> None:
    a, b = arrays
    found = measure(a, b)
    assert (found.nan, found.reference_nan) == (np.isnan(a).sum(), np.isnan(b).sum())
    assert (found.inf, found.reference_inf) == (np.isinf(a).sum(), np.isinf(b).sum())
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    assert found.disagree == np.sum(~same & ~finite)
    assert found.compared == a.size
    assert found.equal == (a.tobytes() == b.tobytes())
    if found.disagree:
        assert found.verdict is FAIL and found.bad >= found.disagree
        assert not (same | finite)[found.worst]


@given(two_arrays(), st.sampled_from([0.0, 1e-6, 1e-3]), st.sampled_from([0.0, 1e-6, 1.0]))
@settings(max_examples=100, deadline=None)
def test_verdict_lies_between_allclose_and_its_widest_slack(
    arrays: Tuple[np.ndarray, np.ndarray], rtol: float, atol: float
) -> None:
    a, b = (side.astype("float64") for side in arrays)
    dtype = arrays[0].dtype
    found = measure(*arrays, tolerance=Tolerance(rtol, atol))
    with np.errstate(all="ignore"):
        if np.allclose(a, b, rtol, atol, equal_nan=True):
            assert found.verdict is PASS
        finite = np.isfinite(a) & np.isfinite(b)
        large = np.sqrt(np.mean(np.square(b[finite] / 2.0**500))) * 2.0**500 if finite.any() else 0
        slack = max(rtol * large, min(64 * np.finfo(dtype).eps, rtol) * np.abs(b[finite]).max(initial=0))
        tiny = np.finfo(dtype).tiny if rtol or atol else 0
        limit = (atol + slack + rtol * np.abs(b[finite])) * (1 + 1e-5) + tiny
        if (np.abs(a[finite] - b[finite]) > limit).any():
            assert found.verdict is FAIL


@pytest.mark.parametrize("dtype", FLOATS + ["int32", "uint8", "bool", "int64"])
def test_chunks_leave_no_gap_and_no_overlap(dtype: str) -> None:
    chunk = CHUNK[4 if dtype in ("float16", "float32") else 8]
    for size in (1, chunk - 1, chunk, chunk + 1, 2 * chunk, 2 * chunk + 1):
        b = np.abs(noise(size, seed=1) * 3).astype(dtype)
        for place in {0, size // 2, chunk - 1, chunk, size - 1} & set(range(size)):
            a = b.copy()
            a[place] = not a[place] if dtype == "bool" else a[place] + 2
            found = measure(a, b)
            assert (found.verdict, found.bad, found.worst) == (FAIL, 1, (place,)), (size, place)
            assert found.worst_actual == a[place].item() and found.worst_reference == b[place].item()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_figures_of_many_chunks(dtype: str) -> None:
    b = noise(100003, seed=2, dtype=dtype)
    a = b + noise(100003, seed=3, dtype=dtype) * np.array(1e-4, dtype)
    found = measure(a, b)
    wide, base = a.astype("float64"), b.astype("float64")
    d = wide - base
    assert found.max_abs == pytest.approx(np.abs(d).max(), rel=1e-3)
    assert found.rel_l2 == pytest.approx(np.linalg.norm(d) / np.linalg.norm(base), rel=1e-4)
    assert found.mean == pytest.approx(d.mean(), abs=1e-4 * np.abs(d).mean())
    missing = 1 - float(wide @ base / (np.linalg.norm(wide) * np.linalg.norm(base)))
    assert 1 - found.cosine == pytest.approx(missing, rel=1e-3)


def test_cosine_of_opposite_and_scaled_and_zero() -> None:
    b = noise(1000)
    assert measure(-b, b).cosine == pytest.approx(-1)
    assert measure(b * np.float32(1e-6), b).cosine == pytest.approx(1)
    assert measure(np.zeros_like(b), b).cosine == 0
    assert measure(np.zeros_like(b), np.zeros_like(b)).cosine == 1


# ---- false verdicts that other tools were seen to give ----------------------------------------------


def test_missing_on_one_side_is_no_pass() -> None:
    there, gone = Blob("y", TENSOR, np.ones(3, "float32")), Blob("y", MISSING)
    assert compare_blobs(there, gone).verdict is INCONCLUSIVE
    assert compare_blobs(gone, there).verdict is INCONCLUSIVE
    assert compare_blobs(gone, gone).verdict is INCONCLUSIVE


def test_text_in_place_of_a_blob_is_never_a_value() -> None:
    text = "mask, a C++ native class of type nullptr (uninitialized)."
    found = compare_blobs(Blob("mask", UNINITIALISED, text=text), Blob("mask", TENSOR, np.ones(3, bool)))
    assert found.verdict is INCONCLUSIVE and "uninitialised" in found.reason and text in found.reason


def test_nan_on_one_side_is_flagged_however_the_rest_agrees() -> None:
    b = noise(1000)
    a = b.copy()
    a[7] = np.nan
    found = measure(a, b)
    assert found.verdict is FAIL and found.bad == 1 and found.worst == (7,) and found.max_abs == 0
    assert measure(b, a).verdict is FAIL
    everywhere = np.full(1000, np.nan, "float32")
    assert measure(everywhere, b).verdict is FAIL
    assert measure(everywhere, b).max_abs is None and measure(everywhere, b).cosine is None


def test_nan_is_not_taken_as_zero() -> None:
    b = np.array([0, 1, 2], "float32")
    a = np.array([np.nan, 1, 2], "float32")
    assert measure(a, b).verdict is FAIL
    assert measure(a, a.copy()).verdict is PASS


def test_inf_of_the_same_sign_is_equal_and_of_the_other_is_not() -> None:
    a = np.array([np.inf, -np.inf, np.nan, 1])
    found = measure(a, a.copy())
    assert found.verdict is PASS and found.equal and (found.inf, found.nan) == (2, 1)
    assert measure(np.array([np.inf]), np.array([-np.inf])).verdict is FAIL
    assert measure(np.array([np.inf]), np.array([1e300])).verdict is FAIL
    assert measure(np.array([np.inf]), np.array([np.nan])).verdict is FAIL


@pytest.mark.parametrize("place", [0, 1, 12345, 99998, 99999])
def test_every_element_counts(place: int) -> None:
    b = noise(100, 1000)
    a = b.copy()
    a.reshape(-1)[place] += 0.01
    assert measure(a, b).verdict is FAIL


@pytest.mark.parametrize(
    "ours, theirs",
    [
        ((1, 64, 16, 16), (64, 16, 16)),
        ((1, 64, 1, 1), (64,)),
        ((3, 1), (1, 3)),
        ((), (1,)),
        ((2, 3), (3, 2)),
        ((1, 3, 3, 3), (1, 3, 4, 4)),
        ((0, 3), (3, 0)),
        ((1,), (5,)),
    ],
)
def test_shapes_are_never_broadcast(ours: Tuple[int, ...], theirs: Tuple[int, ...]) -> None:
    found = measure(np.ones(ours, "float32"), np.ones(theirs, "float32"))
    assert found.verdict is FAIL and str(ours) in found.reason and str(theirs) in found.reason
    assert (found.shape, found.reference_shape) == (ours, theirs)


def test_dimensions_of_one_are_named() -> None:
    assert "only dimensions of 1" in measure(np.ones((1, 64, 1, 1)), np.ones(64)).reason
    assert "only dimensions of 1" not in measure(np.ones((2, 32)), np.ones(64)).reason


def test_short_vectors_and_scalars_are_compared() -> None:
    assert measure(np.array([1.0, 2.0]), np.array([1.0, 2.5])).verdict is FAIL
    assert measure(np.float32(1), np.float32(2)).verdict is FAIL
    assert measure(np.float32(1), np.float32(1)).worst is None
    assert measure(np.array(3), np.array(4)).worst == ()


def test_integers_do_not_wrap() -> None:
    assert measure(np.array([0, 255], "uint8"), np.array([255, 0], "uint8")).max_abs == 255
    low, high = np.iinfo("int64").min, np.iinfo("int64").max
    found = measure(np.array([low, high]), np.array([high, low]))
    assert found.verdict is FAIL and found.max_abs == 2.0**64 and found.mean == 0
    assert measure(np.full(1000, high), np.full(1000, high - 1)).bad == 1000
    assert measure(np.array([2**53 + 1]), np.array([2**53])).max_abs == 1
    found = measure(np.array([2**64 - 1, 5], "uint64"), np.array([-1, 5], "int64"))
    assert found.bad == 1 and found.worst == (0,)


def test_integer_means_do_not_overflow() -> None:
    a = np.full(300, 2**62, "int64")
    found = measure(a, np.zeros(300, "int64"))
    assert found.mean == 2.0**62 and found.rel_l2 == math.inf
    assert measure(np.full(70000, 1, "int8"), np.full(70000, 2, "int8")).mean == -1


def test_pure_noise_passes_at_any_size() -> None:
    for size in (10, 1000, 1000000):
        b = noise(size)
        assert measure(b + noise(size, seed=1) * np.float32(1e-6), b).verdict is PASS


def test_two_empty_arrays_are_equal() -> None:
    found = measure(np.zeros((0, 3), "float32"), np.zeros((0, 3), "float32"))
    assert (found.verdict, found.reason, found.compared) == (PASS, "equal, 0 elements", 0)
    assert measure(np.zeros((0, 3)), np.zeros((0, 4))).verdict is FAIL


def test_another_dtype_is_a_note() -> None:
    found = measure(np.array([200, 3], "int32"), np.array([200, 3], "uint8"))
    assert found.verdict is PASS and not found.equal and found.notes == ("dtype int32 against uint8",)
    assert measure(np.array([200, 3], "int32"), np.array([201, 3], "uint8")).verdict is FAIL
    assert measure(np.array([1.5], "float32"), np.array([1.5], "float64")).verdict is PASS


# ---- what an array can be -----------------------------------------------------------------------


def test_layouts_byte_orders_and_read_only() -> None:
    b = noise(30, 40, 5)
    views: List[np.ndarray] = [
        np.asfortranarray(b),
        b.astype(">f4"),
        b.copy()[:, ::-1][:, ::-1],
        np.repeat(b, 2, axis=1)[:, ::2],
    ]
    for a in views:
        a.flags.writeable = False
        found = measure(a, b)
        assert found.verdict is PASS and found.max_abs == 0 and found.equal, a.strides
        bad = a.copy(order="K")
        bad[3, 17, 2] += 1
        assert measure(bad, b).worst == (3, 17, 2)
        assert measure(b, bad).worst == (3, 17, 2)


def test_overlapping_zero_strided_views() -> None:
    assert measure(np.broadcast_to(np.float32(2), (300, 400)), np.full((300, 400), 2, "float32")).verdict is PASS


@pytest.mark.parametrize(
    "a, b, verdict",
    [
        ([b"x", b"y"], ["x", "y"], PASS),
        ([b"x"], [b"z"], FAIL),
        (["a", "b"], ["a", "c"], FAIL),
        ([1.0], ["1.0"], FAIL),
        ([b"\xff"], [b"\xff"], PASS),
        ([True], ["True"], FAIL),
    ],
)
def test_strings(a: List[Any], b: List[Any], verdict: Verdict) -> None:
    assert measure(np.array(a), np.array(b)).verdict is verdict
    assert measure(np.array(a, object), np.array(b, object)).verdict is verdict


def test_objects_that_cannot_be_compared() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("no")

    odd = np.empty(2, object)
    odd[:] = [Odd(), np.ones(2)]
    assert measure(odd, odd.copy()).verdict is PASS
    other = np.empty(2, object)
    other[:] = [Odd(), np.zeros(2)]
    assert measure(odd, other).verdict is FAIL
    json.dumps(measure(odd, other).to_json())


def test_complex_numbers_are_pairs() -> None:
    b = np.array([1 + 2j, 3 - 4j], "complex64")
    assert measure(b, b.copy()).verdict is PASS
    found = measure(b + np.array([0, 1j]), b)
    assert found.verdict is FAIL and found.worst == (1, 1)
    assert measure(b, b.real).verdict is FAIL


def test_numbers_at_the_end_of_the_range() -> None:
    top = np.finfo("float32").max
    found = measure(np.array([top, 1], "float32"), np.array([-top, 1], "float32"))
    assert found.verdict is FAIL and found.max_abs == pytest.approx(2 * float(top)) and found.bad == 1
    assert found.rel_l2 == pytest.approx(2) and found.cosine == pytest.approx(-1)
    huge = np.array([1.7e308, -1e300])
    found = measure(huge, -huge)
    assert found.max_abs == np.finfo("float64").max and found.rel_l2 == pytest.approx(2)
    assert found.cosine == pytest.approx(-1) and found.worst == (0,)
    small = np.array([1e-300, 3e-310])
    assert measure(2 * small, small).rel_l2 == pytest.approx(1)
    assert measure(np.full(9, 1e300), np.full(9, 1e300)).cosine == 1
    mixed = np.array([1e300, 1e-300, 1.0])
    assert measure(mixed, mixed * (1 + 1e-15)).verdict is PASS


def test_zeros_of_both_signs_are_close_but_not_the_same_bits() -> None:
    found = measure(np.array([0.0, 1], "float32"), np.array([-0.0, 1], "float32"))
    assert found.verdict is PASS and found.ulp == 0 and found.max_abs == 0 and not found.equal


def test_ulps_are_of_the_reference_type() -> None:
    b = np.array([1.0, -1.0], "float32")
    a = np.nextafter(b, np.float32(9))
    assert measure(a, b).ulp == 1
    assert measure(a.astype("float64"), b).ulp == 1
    assert measure(np.array([1, 2]), np.array([1, 2])).ulp is None


@given(
    hnp.arrays(
        st.sampled_from(["int8", "uint8", "int32", "int64", "uint64", "bool"]), hnp.array_shapes(max_dims=2, max_side=4)
    ),
    st.data(),
)
@settings(max_examples=60, deadline=None)
def test_integers_are_compared_exactly(b: np.ndarray, data: Any) -> None:
    a = data.draw(hnp.arrays(data.draw(st.sampled_from(["int8", "int64", "uint64", str(b.dtype)])), b.shape))
    found = measure(a, b)
    differences = [int(x) - int(y) for x, y in zip(a.ravel().tolist(), b.ravel().tolist())]
    assert found.bad == sum(d != 0 for d in differences)
    assert found.max_abs == pytest.approx(max(map(abs, differences)))
    assert found.mean == pytest.approx(sum(differences) / len(differences), abs=1e-12 * max(map(abs, differences)))


def test_no_more_than_a_few_megabytes_are_taken() -> None:
    b = noise(2000, 1000)
    for a in (
        b.copy(),
        b + np.float32(1e-5) * noise(2000, 1000, seed=1),
        noise(2000, 1000, seed=2),
        np.full((2000, 1000), np.nan, "float32"),
    ):
        for ours, theirs in ((a, b), (a.T, b.T)):
            tracemalloc.start()
            measure(ours, theirs)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 3e6


# ---- Int8, JSON ---------------------------------------------------------------------------------------


def test_quantised_values_to_half_a_quantum() -> None:
    real = np.array([-1.0, 0.0, 0.013, 0.5], "float32")
    stored = np.round(real / 0.02).astype("int32") + 100
    blob = Blob("q", INT8, stored.astype("uint8"), scale=0.02, zero_point=100)
    assert compare_blobs(blob, Blob("q", TENSOR, real)).verdict is PASS
    off = Blob("q", INT8, (stored + [0, 0, 0, 1]).astype("uint8"), scale=0.02, zero_point=100)
    assert compare_blobs(off, Blob("q", TENSOR, real)).bad == 1
    assert compare_blobs(off, blob).bad == 1
    assert compare_blobs(blob, blob).equal


def test_strings_against_a_tensor() -> None:
    text = Blob("y", STRING, np.array(["a"], object))
    assert compare_blobs(text, text).verdict is PASS
    assert compare_blobs(text, Blob("y", TENSOR, np.ones(1))).verdict is FAIL


@pytest.mark.parametrize(
    "a, b",
    [
        (noise(5), noise(5)),
        (np.array([np.nan, 1.0]), np.array([np.inf, 1.0])),
        (np.ones(2), np.zeros(2)),
        (np.ones((1, 2)), np.ones(2)),
        (np.zeros(0), np.zeros(0)),
        (np.array(["a"]), np.array(["b"])),
        (np.array([3]), np.array([4])),
        (np.array([True]), np.array([False])),
        (np.array([b"\xff"]), np.array([b"a"])),
    ],
)
def test_json_and_back(a: np.ndarray, b: np.ndarray) -> None:
    found = measure(a, b)
    text = json.dumps(found.to_json(), allow_nan=False)
    again = Comparison.from_json(json.loads(text))
    assert json.dumps(again.to_json()) == text
    assert repr(again) == repr(found)
    assert found.line().startswith(str(found.verdict))
