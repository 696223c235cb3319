"""Files of arrays: the same bytes as numpy's, written whole however few the system takes at a time."""

import os

import numpy as np
import pytest

from c2step.npy import read_npy, write_new, write_npy

ARRAYS = [
    np.asarray(np.float32(3.5)),
    np.zeros((2, 0, 3), np.float32),
    np.arange(24, dtype=np.int64).reshape(2, 3, 4),
    np.arange(20, dtype=np.float16)[::2],
    np.arange(6.0).reshape(2, 3).T,
    np.array([True, False]),
    np.arange(4, dtype=">f4"),
    np.zeros((1,) * 30, np.uint8),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: "%s%s" % (a.dtype.str, a.shape))
def test_the_bytes_are_numpys(array, tmp_path):
    numpys, ours = str(tmp_path / "numpy.npy"), str(tmp_path / "ours.npy")
    np.save(numpys, array.copy(order="C"))
    size = write_npy(ours, array)
    with open(numpys, "rb") as expected, open(ours, "rb") as found:
        assert found.read() == expected.read()
    assert os.path.getsize(ours) == size


def test_a_file_is_whole_where_the_system_takes_few_bytes_at_a_time(tmp_path, monkeypatch):
    path, taken = str(tmp_path / "a.npy"), os.writev
    monkeypatch.setattr("os.writev", lambda file, parts: taken(file, [bytes(parts[0])[:37]]))
    write_npy(path, np.arange(50.0))
    monkeypatch.undo()
    assert np.array_equal(np.load(path), np.arange(50.0))
    assert write_new(path, b"", b"ab", b"", b"c") == 3 and (tmp_path / "a.npy").read_bytes() == b"abc"


def test_whoever_has_the_older_file_mapped_keeps_it(tmp_path):
    path = str(tmp_path / "a.npy")
    write_npy(path, np.full(1 << 16, 1.0))
    older = read_npy(path, mapped=True)
    write_npy(path, np.full(1 << 16, 2.0))
    assert older.min() == older.max() == 1.0 and read_npy(path)[5] == 2.0


def test_the_error_of_the_system_comes_through(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_npy(str(tmp_path / "none" / "a.npy"), np.arange(3))
