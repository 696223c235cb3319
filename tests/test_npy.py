"""Arrays come back from .npy files as numpy.load gives them, and whatever is no such file is refused as numpy does."""

import numpy as np
import pytest

from c2step import npy
from c2step.npy import read_npy

ARRAYS = [
    np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    np.float64(3.5) * np.ones(()),
    np.array([True, False]),
    np.arange(5, dtype=">i4"),
    np.zeros((0, 3), np.float32),
    np.array([b"ab", b"c"]),
    np.array(["\u00e4", "bc"]),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array(["2020-01-01"], "datetime64[D]"),
    np.zeros(2, [("a", "<f4"), ("b", "<i2")]),
    np.arange(70000, dtype=np.uint8).reshape(7, -1),
    np.float16([1.5, np.nan, np.inf]),
]


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: "%s%s" % (array.dtype, array.shape))
def test_as_numpy_reads_it(tmp_path, array, mapped):
    path = str(tmp_path / "a.npy")
    np.save(path, array)
    found, wanted = read_npy(path, mapped), np.load(path)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.tobytes() == wanted.tobytes()
    assert mapped or found.flags.writeable and found.flags.aligned


@pytest.mark.parametrize("size", [10, 100000])
def test_a_mapped_array_cannot_be_written(tmp_path, size):
    path = str(tmp_path / "a.npy")
    np.save(path, np.zeros(size))
    with pytest.raises(ValueError):
        read_npy(path, True)[0] = 1
    read_npy(path)[0] = 1
    private = read_npy(path, True, True)
    private[0] = 1
    assert private[0] == 1
    assert not np.load(path).any()


@pytest.mark.parametrize("size", [10, 100000])
def test_a_file_that_is_cut_short_or_is_another_is_refused(tmp_path, size):
    path = tmp_path / "a.npy"
    np.save(str(path), np.zeros(size))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError):
        read_npy(str(path))
    path.write_bytes(b"no array")
    with pytest.raises(ValueError):
        read_npy(str(path))
    np.savez(str(tmp_path / "b.npz"), a=np.zeros(size))
    with pytest.raises(ValueError, match="archive"):
        read_npy(str(tmp_path / "b.npz"))


def test_usual_files_do_not_go_through_numpys_own_reader(tmp_path, monkeypatch):
    path = str(tmp_path / "a.npy")
    np.save(path, np.zeros((1, 8, 8, 8), np.float32))
    monkeypatch.setattr(npy, "_by_numpy", None)
    assert read_npy(path).shape == (1, 8, 8, 8)
