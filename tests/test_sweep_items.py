"""What --inputs names: folders, lists and batches become inputs in an order, or it is said why not."""

import os

import numpy as np
import pytest

from c2step.errors import InputError
from c2step.model import Declared
from c2step.sweeping.items import find_items

X = [Declared("x", "float32", ("N", 3))]
XY = [Declared("x", "float32", ("N", 3)), Declared("y", "int64", (2,))]


def save(path, *shape):
    os.makedirs(os.path.dirname(str(path)), exist_ok=True)
    np.save(str(path), np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape))
    return str(path)


def ids(items):
    return [item.id for item in items]


def test_a_folder_of_files_for_a_model_with_one_input(tmp_path):
    for name in ("10", "9", "b/2", "b/1"):
        save(tmp_path / ("%s.npy" % name), 1, 3)
    save(tmp_path / "named" / "x.npy", 1, 3)
    (tmp_path / "README.txt").write_text("no input")
    (tmp_path / ".hidden.npy").write_text("no input")
    items = find_items(str(tmp_path), X)
    assert ids(items) == ["9.npy", "10.npy", "b/1.npy", "b/2.npy", "named"]
    assert [item.key for item in items] == ["9", "10", "b/1", "b/2", "named"]
    assert items[0].words == ("x=%s" % (tmp_path / "9.npy"),)
    assert items[4].words == ("x=%s" % (tmp_path / "named" / "x.npy"),)


def test_folders_and_archives_for_a_model_with_two_inputs(tmp_path):
    save(tmp_path / "one" / "x.npy", 1, 3)
    save(tmp_path / "one" / "y.npy", 2)
    np.savez(str(tmp_path / "two.npz"), x=np.zeros((1, 3)), y=np.zeros(2))
    items = find_items(str(tmp_path), XY)
    assert ids(items) == ["one", "two.npz"]
    assert items[0].words == tuple("%s=%s" % (n, tmp_path / "one" / (n + ".npy")) for n in "xy")
    assert items[1].words == (str(tmp_path / "two.npz"),)
    save(tmp_path / "three.npy", 1, 3)
    with pytest.raises(InputError, match=r"three.npy: which input is it for\? The model takes x float32 \[N, 3\], y"):
        find_items(str(tmp_path), XY)


def test_a_list_of_paths(tmp_path, monkeypatch):
    for name in ("a", "b c", "d"):
        save(tmp_path / "data" / ("%s.npy" % name), 1, 3)
    monkeypatch.chdir(tmp_path)
    lines = ["# chosen", "", "a.npy", "b c.npy", "data/d.npy", "a.npy", "x=a.npy"]
    (tmp_path / "data" / "list.txt").write_text("\n".join(lines) + "\n")
    items = find_items("data/list.txt", X)
    assert ids(items) == ["a.npy", "b c.npy", "data/d.npy", "a.npy#2", "x=a.npy"]
    assert {item.words[0] for item in items} == {
        "x=%s" % (tmp_path / "data" / n) for n in ("a.npy", "b c.npy", "d.npy")
    }
    assert items[0].digest() == items[3].digest() != items[2].digest() or items[0].digest() == items[2].digest()
    (tmp_path / "words.txt").write_text("x=data/a.npy y=data/d.npy\n")
    (two,) = find_items("words.txt", XY)
    assert two.words == tuple("%s=%s" % (n, tmp_path / "data" / f) for n, f in (("x", "a.npy"), ("y", "d.npy")))
    (tmp_path / "list.txt").write_text("data/a.npy\ngone.npy\n")
    with pytest.raises(InputError, match="list.txt line 2: there is no file gone.npy"):
        find_items("list.txt", X)


@pytest.mark.parametrize(
    "declared, shape, batch, count, each",
    [
        (("N", 3), (5, 3), None, 5, (1, 3)),
        (("N", 3), (5, 2, 3), None, 5, (2, 3)),
        ((1, 3), (5, 3), None, 5, (1, 3)),
        ((2, 3), (6, 3), None, 3, (2, 3)),
        (("N", 3), (6, 3), 3, 2, (3, 3)),
        (None, (5, 3), 1, 5, (1, 3)),
        ((), (4,), None, 4, ()),
    ],
)
@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_many_inputs_along_the_first_axis(tmp_path, declared, shape, batch, count, each, ending):
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    path = str(tmp_path / ("batch." + ending))
    np.save(path, array) if ending == "npy" else np.savez_compressed(path, x=array)
    items = find_items(path, [Declared("x", "float32", declared)], batch, str(tmp_path))
    assert len(items) == count and ids(items)[-1] == "batch.%s[%d]" % (ending, count - 1)
    assert {item.arrays["x"].shape for item in items} == {each} and str(each) in items.note
    joined = np.concatenate([item.arrays["x"].reshape(-1) for item in items])
    assert np.array_equal(joined, array.reshape(-1))
    assert len({item.digest() for item in items}) == count


@pytest.mark.parametrize(
    "declared, arrays, said",
    [
        ([Declared("x", None, None)], {"x": (5, 3)}, "one input or many"),
        ([Declared("x", "float32", (2, 3))], {"x": (5, 3)}, "no whole number of inputs of 2"),
        (XY, {"x": (4, 3), "y": (3, 2)}, "not as many inputs each"),
        (XY, {"x": (4, 3), "z": (4, 2)}, "holds x, z, the model takes x, y"),
        (X, {"x": (0, 3)}, "there are no inputs"),
    ],
)
def test_a_batch_that_leaves_doubt_is_refused(tmp_path, declared, arrays, said):
    path = str(tmp_path / "batch.npz")
    np.savez(path, **{name: np.zeros(shape, np.float32) for name, shape in arrays.items()})
    with pytest.raises(InputError, match=said):
        find_items(path, declared, None, str(tmp_path))


def test_inputs_of_a_script(tmp_path):
    path = save(tmp_path / "a.npy", 1, 3)
    assert ids(find_items([path, path], X)) == [path, path + "#2"]
    items = find_items([np.zeros((1, 3)), {"x": np.ones((2, 3))}], X)
    assert [item.arrays["x"].shape for item in items] == [(1, 3), (2, 3)] and ids(items) == ["0", "1"]
    for wrong in ([np.zeros(2)], []):
        with pytest.raises(InputError):
            list(find_items(wrong, XY))
    with pytest.raises(InputError, match="a list of arrays"):
        find_items(np.zeros((4, 3)), X)


def test_one_dict_is_not_taken_for_paths():
    with pytest.raises(InputError, match="one dict of arrays"):
        find_items({"x": np.zeros(3)}, [Declared("x")])


@pytest.mark.parametrize("made", ["empty", "no text"])
def test_what_holds_no_inputs_is_said(tmp_path, made):
    path = tmp_path / "data"
    if made == "empty":
        path.mkdir()
    if made == "no text":
        path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError):
        find_items(str(path), X)


def test_a_changed_file_has_another_digest(tmp_path):
    path = save(tmp_path / "a.npy", 1, 3)
    (before,) = find_items([path], X)
    digest = before.digest()
    np.save(path, np.ones((1, 3), np.float32))
    assert before.digest() != digest
