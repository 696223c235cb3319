"""Arrays come back from .npy files as numpy.load gives them, and whatever is no such file is refused as numpy does."""

import numpy as np
import pytest

from c2step import npy
from c2step.capture import read_blob
from c2step.cli import quant
from c2step.errors import CaptureError, InputError
from c2step.importer.inputs import load_npy, read_inputs
from c2step.npy import read_npy
from c2step.references.reference import open_folder, open_npz
from c2step.repl.arrays import read_value

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


JUNK = {
    "four bytes": (b"junk", "it is no .npy file"),
    "text": (b"0.5, 0.25\n" * 9, "it is no .npy file"),
    "nothing": (b"", "it is empty"),
}


@pytest.mark.parametrize("what", sorted(JUNK))
def test_what_is_no_array_is_said_without_pickles(tmp_path, what):
    """Every reader of people's own files has the same words, and names the file."""
    content, words = JUNK[what]
    path = str(tmp_path / "a.npy")
    (tmp_path / "a.npy").write_bytes(content)
    reading = {
        "an input": lambda: load_npy(path, "x"),
        "a blob": lambda: read_blob(path, "x"),
        "a value at the prompt": lambda: read_value(None, path, "x"),
        "a folder of golden values": lambda: open_folder(str(tmp_path)).blob("a"),
        "quant": lambda: quant.read_inputs(["x=" + path]),
    }
    for how, read in reading.items():
        with pytest.raises((CaptureError, InputError)) as error:
            read()
        assert words in str(error.value) and "a.npy" in str(error.value) and "pickle" not in str(error.value), how


def test_what_is_no_archive_of_arrays_is_said_without_pickles(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(b"junk")
    for read in (lambda: open_npz(str(path)), lambda: read_inputs([str(path)], [], None)):
        with pytest.raises((CaptureError, InputError), match="no .npz file") as error:
            read()
        assert "pickle" not in str(error.value)


def test_an_array_of_objects_is_said_to_be_one(tmp_path):
    path = str(tmp_path / "a.npy")
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="it holds Python objects, no numbers"):
        load_npy(path, "x")
