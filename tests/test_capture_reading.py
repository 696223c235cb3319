"""Arrays of a capture as views of their files: ours by a short way, those of others by numpy's own."""

import numpy as np
import pytest

from c2step.blob import STRING, TENSOR, Blob
from c2step.capture import read_blob, write_blob
from c2step.errors import CaptureError

ARRAYS = [
    np.float32(3.5),
    np.zeros((2, 0, 3), np.float32),
    np.arange(24, dtype=np.int64).reshape(2, 3, 4),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array([True, False]),
    np.arange(4, dtype=">f4"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: "%s%s" % (np.asarray(a).dtype.str, np.shape(a)))
@pytest.mark.parametrize("mapped", [False, True])
def test_numpys_files_and_ours_are_read_alike(array, mapped, tmp_path):
    numpys, ours = str(tmp_path / "numpy.npy"), str(tmp_path / "ours.npy")
    np.save(numpys, array)
    write_blob(ours, Blob("b", TENSOR, np.asarray(array)))
    for path in (numpys, ours):
        found = read_blob(path, "b", mapped=mapped).array
        assert found.dtype == array.dtype and found.shape == array.shape and np.array_equal(found, array)


def test_a_view_needs_the_whole_file_and_no_pickle(tmp_path):
    cut, pickled = str(tmp_path / "cut.npy"), str(tmp_path / "pickled.npy")
    np.save(cut, np.arange(100.0))
    with open(cut, "rb+") as file:
        file.truncate(400)
    np.save(pickled, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    for path in (cut, pickled):
        with pytest.raises(CaptureError):
            read_blob(path, "b", mapped=True)


def test_words_are_kept_as_utf_8_whatever_holds_them(tmp_path):
    words = np.array(["bü", "日本".encode(), b"\xff"], dtype=object)
    write_blob(str(tmp_path / "words"), Blob("words", STRING, words))
    read = read_blob(str(tmp_path / "words"), "words", STRING).array
    assert read.tolist() == ["bü".encode(), "日本".encode(), b"\xff"]
