"""The inputs of a sweep: what `--inputs` names, in an order, each with an id and the digest of what it is made of."""

import hashlib
import os
import re
import zipfile
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from ..errors import InputError
from ..importer.inputs import IMAGES, load_npy
from ..model import Declared
from ..npy import why_unreadable

__all__ = ["Inputs", "Item", "Items", "digest_of", "find_items"]

Inputs = Union[str, Sequence[Any]]
_TENSORS = (".pb", ".pbtensor")
_FILES = (".npy", ".npz") + _TENSORS + IMAGES


class Item(NamedTuple):
    """One input: `id` is what reports call it, `key` what a folder of references does.

    It is given by `words`, as --input takes them, or by `arrays`.
    """

    id: str
    key: str
    words: Tuple[str, ...] = ()
    arrays: Optional[Dict[str, np.ndarray]] = None

    def digest(self) -> str:
        """The SHA-256 of what it is made of; what cannot be read counts as empty."""
        total = hashlib.sha256()
        for name, array in (self.arrays or {}).items():
            total.update(("%s %s %s\n" % (name, array.dtype, array.shape)).encode())
            total.update(repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes())
        for word in self.words:
            name, path = _split(word)
            total.update(("%s %s\n" % (name, digest_of(path))).encode())
        return total.hexdigest()


def _split(word: str) -> Tuple[str, str]:
    """Name and path of a word of --input; a path with an equals sign in it is one where it exists."""
    name, equals, path = word.partition("=")
    return (name, path) if equals and not os.path.exists(word) else ("", word)


def digest_of(path: str) -> str:
    """The SHA-256 of a file, or of all files of a folder with their names; of nothing where it cannot be read."""
    total = hashlib.sha256()
    if os.path.isdir(path):
        for parent, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                full = os.path.join(parent, name)
                total.update(("%s %s\n" % (os.path.relpath(full, path), digest_of(full))).encode())
        return total.hexdigest()
    try:
        with open(path, "rb") as file:
            for part in iter(lambda: file.read(1 << 20), b""):
                total.update(part)
    except OSError:
        return ""
    return total.hexdigest()


class Items:
    """Inputs in an order, by position; `note` is what should be said of how they were found."""

    def __init__(self, count: int, get: Callable[[int], Item], note: str = "") -> None:
        self._count, self._get, self.note = count, get, note

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: int) -> Item:
        return self._get(position)

    def __iter__(self) -> Iterator[Item]:
        return map(self._get, range(self._count))


def find_items(inputs: Inputs, declared: Sequence[Declared], batch: Optional[int] = None, folder: str = "") -> Items:
    """The inputs that a path names, or a sequence of paths, arrays or dicts of arrays.

    A path is a folder, a file with a path on each line, or one .npy or .npz with many inputs along its first
    axis, of which `batch` make an input; without it what the model declares must leave no doubt.  What must be
    unpacked for that goes into `folder`.  InputError says what does not fit.
    """
    if isinstance(inputs, dict):
        raise InputError("inputs are one dict of arrays", "[{...}] is one input, [{...}, {...}] are two")
    if not isinstance(inputs, str):
        return _given(inputs, declared)
    if os.path.isdir(inputs):
        return _listed(list(_of_folder(inputs, declared)), "%s holds no inputs" % inputs)
    ending = os.path.splitext(inputs)[1].lower()
    if ending in (".npy", ".npz"):
        return _sliced(inputs, declared, batch, folder)
    if ending in _FILES:
        return _listed([_item(os.path.basename(inputs), inputs, declared)], "")
    return _listed(list(_of_list(inputs, declared)), "%s lists no inputs" % inputs)


def _listed(items: List[Item], empty: str) -> Items:
    if not items:
        raise InputError(empty, "files such as %s, or folders with a file for each input" % ", ".join(_FILES[:6]))
    seen: Dict[str, int] = {}
    for place, item in enumerate(items):
        seen[item.id] = seen.get(item.id, 0) + 1
        if seen[item.id] > 1:
            items[place] = item._replace(id="%s#%d" % (item.id, seen[item.id]))
    return Items(len(items), items.__getitem__)


def _natural(name: str) -> List[Any]:
    """For sorting: 9.npy before 10.npy."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


def _of_folder(folder: str, declared: Sequence[Declared], below: str = "") -> Iterator[Item]:
    """A file is an input, and so is a folder whose files are named as the model's inputs; others are looked into."""
    for name in sorted(os.listdir(os.path.join(folder, below)), key=_natural):
        inner = os.path.join(below, name)
        path = os.path.join(folder, inner)
        if name.startswith("."):
            continue
        if os.path.isdir(path):
            words = _words_of(path, declared)
            if words:
                yield Item(inner, inner, words)
            else:
                yield from _of_folder(folder, declared, inner)
        elif os.path.splitext(name)[1].lower() in _FILES:
            yield _item(inner, path, declared)


def _words_of(folder: str, declared: Sequence[Declared]) -> Tuple[str, ...]:
    """The files of a folder that are named as inputs, if all of them are."""
    names = {d.name for d in declared}
    files = [name for name in sorted(os.listdir(folder)) if os.path.splitext(name)[1].lower() in _FILES]
    stems = [os.path.splitext(name)[0] for name in files]
    if not files or not set(stems) <= names:
        return ()
    return tuple("%s=%s" % (stem, os.path.abspath(os.path.join(folder, file))) for stem, file in zip(stems, files))


def _item(id: str, path: str, declared: Sequence[Declared]) -> Item:
    """One file as an input: an .npz by names, anything else for the only one that the model takes."""
    full, stem = os.path.abspath(path), os.path.splitext(id)[0]
    if len(declared) == 1:
        return Item(id, stem, ("%s=%s" % (declared[0].name, full),))
    if path.lower().endswith(".npz"):
        return Item(id, stem, (full,))
    takes = ", ".join(map(str, declared)) or "nothing that it declares"
    raise InputError("%s: which input is it for? The model takes %s" % (path, takes),
                     "an .npz with an array for each, or a folder with NAME.npy for each")  # fmt: skip


def _of_list(path: str, declared: Sequence[Declared]) -> Iterator[Item]:
    """The lines of a file: a path each, or words as --input takes them."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("cannot read %s as a list of paths: %s" % (path, error), "a path on each line") from error
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            yield _of_line(text, "%s line %d" % (path, number), os.path.dirname(path), declared)


def _of_line(text: str, where: str, folder: str, declared: Sequence[Declared]) -> Item:
    found = _found(text, folder)
    if found:
        words = _words_of(found, declared) if os.path.isdir(found) else ()
        if os.path.isdir(found) and not words:
            raise InputError("%s: the files of %s are not named as the model's inputs" % (where, text),
                             "they are: %s" % ", ".join(d.name for d in declared))  # fmt: skip
        return Item(text, os.path.splitext(os.path.basename(text))[0], words) if words else _item(
            text, found, declared)._replace(key=os.path.splitext(os.path.basename(text))[0])  # fmt: skip
    words = tuple(_word(word, where, folder) for word in text.split())
    return Item(text, os.path.splitext(os.path.basename(text))[0], words)


def _found(text: str, folder: str) -> str:
    """The path that a line means: beside the list, or from the working directory."""
    return next((os.path.abspath(path) for path in (os.path.join(folder, text), text) if os.path.exists(path)), "")


def _word(word: str, where: str, folder: str) -> str:
    name, equals, path = word.partition("=")
    found = _found(path if equals else word, folder)
    if not found:
        raise InputError("%s: there is no file %s" % (where, path if equals else word),
                         "a path on each line, beside the list or from here, or NAME=FILE for each input")  # fmt: skip
    return "%s=%s" % (name, found) if equals else found


# -- many inputs along one axis ------------------------------------------------------------------


def _sliced(path: str, declared: Sequence[Declared], batch: Optional[int], folder: str) -> Items:
    """One file with many inputs along the first axis of its arrays."""
    arrays = _arrays(path, declared, folder)
    by_name = {d.name: d for d in declared}
    sizes = {name: _entries(path, name, array, by_name[name], batch) for name, array in arrays.items()}
    counts = {name: len(arrays[name]) // (size or 1) for name, size in sizes.items()}
    if len(set(counts.values())) != 1:
        said = ", ".join("%s %s" % (name, array.shape) for name, array in arrays.items())
        raise InputError("%s: its arrays are not as many inputs each: %s" % (path, said),
                         "a folder of .npz files, one for each input")  # fmt: skip
    count, base = next(iter(counts.values())), os.path.basename(path)

    def get(position: int) -> Item:
        parts = {name: _part(arrays[name], size, position) for name, size in sizes.items()}
        return Item("%s[%d]" % (base, position), str(position), (), parts)

    shapes = ", ".join("%s %s" % (name, array.shape) for name, array in (get(0).arrays or {}).items())
    return Items(count, get, "%s: %d inputs along the first axis, each %s" % (path, count, shapes))


def _part(array: np.ndarray, size: int, position: int) -> np.ndarray:
    """The entry at a position, or `size` of them where the model's inputs have that axis too."""
    return np.array(array[position * size : (position + 1) * size] if size else array[position])


def _entries(path: str, name: str, array: np.ndarray, declared: Declared, batch: Optional[int]) -> int:
    """How many entries of the first axis are one input, 0 where an input has no such axis."""
    if array.ndim == 0 or not len(array):
        raise InputError("%s: %s has shape %s, in which there are no inputs" % (path, name, array.shape))
    if batch is not None:
        size = batch
    elif declared.shape is None:
        raise InputError("%s: the model does not say what shape %s has, so it may be one input or many" % (path, name),
                         "say how many entries of the first axis are one input: --batch 1")  # fmt: skip
    elif array.ndim == len(declared.shape) + 1:
        return 0
    else:
        first = declared.shape[0] if declared.shape else None
        size = first if isinstance(first, int) and first > 0 else 1
    if len(array) % size:
        raise InputError(
            "%s: the first axis of %s has %d entries, which are no whole number of inputs of %d"
            % (path, name, len(array), size), "the model declares %s" % declared,
        )  # fmt: skip
    return size


def _arrays(path: str, declared: Sequence[Declared], folder: str) -> Dict[str, np.ndarray]:
    """The arrays of a file by the names of inputs, mapped where that is possible."""
    if path.lower().endswith(".npy"):
        found = {"": _mapped(path)}
    else:
        found = {name: _mapped(_unpacked(path, member, folder)) for name, member in _members(path).items()}
    names = [d.name for d in declared]
    if len(found) == 1 and len(names) == 1:
        return {names[0]: next(iter(found.values()))}
    if not found or not set(found) <= set(names):
        raise InputError("%s holds %s, the model takes %s" % (path, ", ".join(found) or "nothing", ", ".join(names)),
                         "an array for each input, by its name")  # fmt: skip
    return found


def _mapped(path: str) -> np.ndarray:
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except ValueError:  # strings and what is empty cannot be mapped; what cannot be read is said
        return load_npy(path, os.path.basename(path))


def _members(path: str) -> Dict[str, str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return {name[:-4]: name for name in archive.namelist() if name.endswith(".npy")}
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(
            "cannot read %s: %s" % (path, why_unreadable(path, error)), ".npz with one array for each input is wanted"
        ) from error


def _unpacked(path: str, member: str, folder: str) -> str:
    """A member of an .npz as a file of its own, so that it need not be held in memory."""
    target = os.path.join(folder, "%d.npy" % len(os.listdir(folder)))
    with zipfile.ZipFile(path) as archive, archive.open(member) as source, open(target, "wb") as file:
        for part in iter(lambda: source.read(1 << 20), b""):
            file.write(part)
    return target


# -- inputs of a script --------------------------------------------------------------------------


def _given(inputs: Sequence[Any], declared: Sequence[Declared]) -> Items:
    """Paths, arrays, or dicts of arrays by input name."""
    if isinstance(inputs, np.ndarray):
        raise InputError("an array may be one input or many", "give a list of arrays, one for each input")
    if not len(inputs):
        raise InputError("there are no inputs")
    if all(isinstance(value, (str, os.PathLike)) for value in inputs):
        return _listed([_item(str(value), str(value), declared) if not os.path.isdir(str(value)) else
                        _of_line(str(value), "inputs", "", declared) for value in inputs], "")  # fmt: skip
    return Items(len(inputs), lambda position: _value(inputs[position], position, declared))


def _value(value: Any, position: int, declared: Sequence[Declared]) -> Item:
    if not isinstance(value, Mapping):
        if len(declared) != 1:
            raise InputError("input %d is one array, the model takes %s" % (
                position, ", ".join(map(str, declared))), "give a dict of arrays by name")  # fmt: skip
        value = {declared[0].name: value}
    return Item(str(position), str(position), (), {name: np.asarray(array) for name, array in value.items()})
