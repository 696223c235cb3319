"""Input values: from files, from images, or at random; checked against what the model declares.

Front side: numpy only (Pillow for images).  Everything is said before the first step, with the names
that would fit.
"""

import os
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..blob import Blob
from ..errors import InputError, near
from ..model import Declared
from ..npy import why_unreadable

__all__ = [
    "IMAGES",
    "Fed",
    "Preprocess",
    "check_dims",
    "check_inputs",
    "load_npy",
    "parse_dims",
    "random_inputs",
    "read_inputs",
]

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
ReadTensor = Callable[[str], Blob]


class Fed(NamedTuple):
    """Input arrays by name, what was said about them, and how images were prepared."""

    arrays: Dict[str, np.ndarray]
    notes: List[str]
    preprocessing: Dict[str, str]


class Preprocess(NamedTuple):
    """How an image becomes a tensor: resize, crop, channel order, layout, scale, mean, std, in this order."""

    size: Optional[Tuple[int, int]] = None
    crop: Optional[Tuple[int, int]] = None
    order: str = "RGB"
    layout: str = "NCHW"
    scale: float = 1.0
    mean: Tuple[float, ...] = ()
    std: Tuple[float, ...] = ()
    dtype: str = "float32"

    @classmethod
    def parse(cls, text: str) -> "Preprocess":
        """From `size=256,crop=224,BGR,NCHW,scale=1/255,mean=0.485:0.456:0.406,std=...`."""
        found: Dict[str, Any] = {}
        for word in filter(None, (part.strip() for part in text.split(","))):
            key, equals, value = word.partition("=")
            if not equals:
                found.update(_flag(word))
            elif key in _PARSERS:
                try:
                    found[key] = _PARSERS[key](value)
                except (ValueError, ZeroDivisionError):
                    raise InputError("--preprocess: %s=%s is no value for %s" % (key, value, key), _USAGE) from None
            else:
                raise InputError("--preprocess knows no %s" % word, near(key, _PARSERS) or _USAGE)
        return cls(**found)

    def apply(self, path: str) -> np.ndarray:
        """Read an image file and prepare it; the result has a batch dimension of 1."""
        pixels = _read_image(path, self.size, self.crop, self.order)
        values = pixels.astype(np.float64) * self.scale
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if numbers and len(numbers) not in (1, pixels.shape[2]):
                raise InputError(
                    "--preprocess: %s has %d values, the image has %d channels" % (name, len(numbers), pixels.shape[2])
                )
        if self.mean:
            values = values - np.array(self.mean)
        if self.std:
            values = values / np.array(self.std)
        array = values.astype(self.dtype)[None]
        return np.ascontiguousarray(array.transpose(0, 3, 1, 2) if self.layout == "NCHW" else array)

    def describe(self) -> str:
        """The same text that `parse` reads."""
        words = [
            "size=%dx%d" % self.size if self.size else "",
            "crop=%dx%d" % self.crop if self.crop else "",
            self.order,
            self.layout,
            "scale=%r" % self.scale if self.scale != 1.0 else "",
            "mean=" + ":".join(map(repr, self.mean)) if self.mean else "",
            "std=" + ":".join(map(repr, self.std)) if self.std else "",
            "" if self.dtype == "float32" else self.dtype,
        ]
        return ",".join(word for word in words if word)


_USAGE = "for example --preprocess size=256,crop=224,RGB,NCHW,scale=1/255,mean=0.485:0.456:0.406,std=0.229:0.224:0.225"


def _flag(word: str) -> Dict[str, str]:
    if word.upper() in ("RGB", "BGR", "GRAY"):
        return {"order": word.upper()}
    if word.upper() in ("NCHW", "NHWC"):
        return {"layout": word.upper()}
    if word in ("float32", "float64", "uint8"):
        return {"dtype": word}
    raise InputError("--preprocess knows no %s" % word, _USAGE)


def _pair(text: str) -> Tuple[int, int]:
    """HEIGHTxWIDTH, or one number for both."""
    parts = [int(part) for part in text.split("x")]
    if len(parts) > 2 or min(parts) < 1:
        raise ValueError(text)
    return parts[0], parts[-1]


def _number(text: str) -> float:
    top, slash, bottom = text.partition("/")
    return float(top) / float(bottom) if slash else float(top)


def _numbers(text: str) -> Tuple[float, ...]:
    return tuple(_number(part) for part in text.split(":"))


_PARSERS: Dict[str, Callable[[str], Any]] = {
    "size": _pair,
    "crop": _pair,
    "scale": _number,
    "mean": _numbers,
    "std": _numbers,
}


def _read_image(path: str, size: Optional[Tuple[int, int]], crop: Optional[Tuple[int, int]], order: str) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError:
        raise InputError(
            "reading the image %s needs Pillow" % path, "pip install pillow, or give a .npy file"
        ) from None
    try:
        with Image.open(path) as image:
            picture = image.convert("L" if order == "GRAY" else "RGB")
    except OSError as error:
        raise InputError("cannot read the image %s: %s" % (path, error)) from error
    if size:
        picture = picture.resize((size[1], size[0]), Image.BILINEAR)
    if crop:
        left, top = (picture.width - crop[1]) // 2, (picture.height - crop[0]) // 2
        if left < 0 or top < 0:
            raise InputError(
                "--preprocess: crop %dx%d is larger than the image, %dx%d" % (crop + (picture.height, picture.width))
            )
        picture = picture.crop((left, top, left + crop[1], top + crop[0]))
    pixels = np.asarray(picture)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    return pixels[:, :, ::-1] if order == "BGR" else pixels


def read_inputs(
    words: Sequence[str], declared: Sequence[Declared], read_tensor: ReadTensor, preprocess: Optional[Preprocess] = None
) -> Fed:
    """Read `NAME=FILE` and `FILE.npz` words into arrays by input name."""
    fed = Fed({}, [], {})
    for word in words:
        name, equals, path = word.partition("=")
        if equals and not os.path.exists(word):
            fed.arrays[name] = _read_one(path, name, read_tensor, preprocess, fed)
        elif word.endswith(".npz"):
            fed.arrays.update(_load_npz(word))
        else:
            only = _only_input(word, declared, fed)
            fed.arrays[only] = _read_one(word, only, read_tensor, preprocess, fed)
    return fed


def _only_input(path: str, declared: Sequence[Declared], fed: Fed) -> str:
    left = [d.name for d in declared if d.name not in fed.arrays]
    if len(left) == 1:
        return left[0]
    raise InputError(
        "%s: which input is it for?" % path,
        "write NAME=%s, the inputs are: %s" % (path, ", ".join(d.name for d in declared) or "none"),
    )


def _read_one(path: str, name: str, read_tensor: ReadTensor, preprocess: Optional[Preprocess], fed: Fed) -> np.ndarray:
    if not os.path.exists(path):
        raise InputError("input %s: there is no file %s" % (name, path))
    ending = os.path.splitext(path)[1].lower()
    if ending in IMAGES:
        how = preprocess or Preprocess()
        fed.preprocessing[name] = how.describe()
        return how.apply(path)
    if ending == ".npz":
        return _one_of(_load_npz(path), path, name)
    if ending in (".pb", ".onnx", ".pbtensor"):
        blob = read_tensor(path)
        assert blob.array is not None
        return blob.array
    return load_npy(path, name)


def _one_of(arrays: Dict[str, np.ndarray], path: str, name: str) -> np.ndarray:
    if name in arrays:
        return arrays[name]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    raise InputError("input %s: %s holds %s" % (name, path, ", ".join(arrays)), near(name, arrays))


def load_npy(path: str, name: str) -> np.ndarray:
    """One .npy file, without pickles; InputError says what is wrong with it."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            "%s: cannot read %s: %s" % (name, path, why_unreadable(path, error)),
            ".npy, .npz, an ONNX TensorProto .pb or an image is wanted",
        ) from error
    if not isinstance(found, np.ndarray):  # an archive, whatever its name is
        found.close()
        raise InputError("%s: %s is a zip archive, no .npy file" % (name, path), "name it .npz if np.savez wrote it")
    return found


def _load_npz(path: str) -> Dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except Exception as error:  # zipfile, numpy and the operating system each raise their own
        raise InputError(
            "cannot read %s: %s" % (path, why_unreadable(path, error)), ".npz with one array for each input is wanted"
        ) from error
    for key, array in arrays.items():
        if not isinstance(array, np.ndarray):  # numpy gives the bytes of a file that is no .npy
            raise InputError("%s is no .npz: it holds %s, which is no array" % (path, key), "np.savez writes one")
    return arrays


def check_inputs(
    fed: Fed, declared: Sequence[Declared], known: Sequence[str], as_float32: bool = False, declares: bool = True
) -> Fed:
    """Compare what is fed with what is declared; `known` are blobs that may be fed besides.

    Casts float64 to float32 where that is declared or asked for, and puts bytes in native order,
    each with a note.  Raises InputError for a wrong name, shape or dtype.
    """
    by_name = {d.name: d for d in declared}
    arrays, notes = {}, list(fed.notes)
    for name, array in fed.arrays.items():
        if name not in by_name and name not in known:
            raise InputError("the model has no input %s" % name, _fitting(name, array, declared))
        arrays[name] = _checked(name, array, by_name.get(name), as_float32, declared, notes)
    return Fed(arrays, notes, fed.preprocessing)


def _fitting(name: str, array: np.ndarray, declared: Sequence[Declared]) -> str:
    fitting = [d.name for d in declared if _shape_fits(array.shape, d.shape)]
    words = near(name, [d.name for d in declared])
    return words or "inputs that would fit: %s" % (
        ", ".join(str(d) for d in declared if d.name in fitting) or ", ".join(map(str, declared)) or "none"
    )


def _shape_fits(shape: Tuple[int, ...], wanted: Optional[Tuple[Any, ...]]) -> bool:
    if wanted is None:
        return True
    return len(shape) == len(wanted) and all(not isinstance(w, int) or w < 0 or w == s for s, w in zip(shape, wanted))


def _checked(
    name: str,
    array: np.ndarray,
    wanted: Optional[Declared],
    as_float32: bool,
    declared: Sequence[Declared],
    notes: List[str],
) -> np.ndarray:
    if not array.dtype.isnative:
        notes.append(
            "input %s: %s was put in this machine's byte order; Caffe2 would misread it" % (name, array.dtype.str)
        )
        array = array.astype(array.dtype.newbyteorder("="))
    if wanted is not None and not _shape_fits(array.shape, wanted.shape):
        others = [
            d.name for d in declared if d.name != name and d.shape is not None and _shape_fits(array.shape, d.shape)
        ]
        hint = "it would fit %s" % ", ".join(others) if others else _layout_hint(array.shape, wanted.shape)
        raise InputError("input %s has shape %s, declared is %s" % (name, list(array.shape), _list(wanted.shape)), hint)
    return _cast(name, array, wanted, as_float32, notes)


def _list(shape: Optional[Sequence[Any]]) -> str:
    return "[%s]" % ", ".join(str(d) for d in shape or ())


def _layout_hint(shape: Tuple[int, ...], wanted: Optional[Tuple[Any, ...]]) -> str:
    if wanted is None:
        return ""
    if len(shape) == 4 and _shape_fits((shape[0], shape[3], shape[1], shape[2]), wanted):
        return "it fits as NHWC: transpose it to NCHW with array.transpose(0, 3, 1, 2)"
    if len(shape) + 1 == len(wanted) and _shape_fits((1,) + shape, wanted):
        return "the batch dimension is missing: array[None]"
    if len(shape) != len(wanted):
        return "it has %d dimensions, %d are declared" % (len(shape), len(wanted))
    if len(wanted) == 4 and all(isinstance(d, int) and d > 0 for d in wanted[2:]):
        return "for an image: --preprocess size=%dx%d" % tuple(wanted[2:])
    return ""


def _cast(name: str, array: np.ndarray, wanted: Optional[Declared], as_float32: bool, notes: List[str]) -> np.ndarray:
    declared = wanted.dtype if wanted else None
    if array.dtype == np.float64 and (as_float32 or declared == "float32"):
        notes.append(
            "input %s: float64 was cast to float32, %s" % (name, "as declared" if declared == "float32" else "as asked")
        )
        return array.astype(np.float32)
    if declared and str(array.dtype) != declared and not (declared == "string" and array.dtype.kind in "OSU"):
        raise InputError(
            "input %s has dtype %s, declared is %s" % (name, array.dtype, declared),
            "convert it, for example array.astype(%r)" % declared,
        )
    if array.dtype == np.float64 and not declared:
        notes.append("input %s is float64; most Caffe2 operators take float32 only (--as-float32 casts)" % name)
    return array


def parse_dims(words: Sequence[str]) -> Dict[str, int]:
    """`NAME=N` words as numbers by symbolic dimension."""
    dims = {}
    for word in words:
        match = re.match(r"^(.+)=(\d+)$", word)
        if not match:
            raise InputError("--dim %s: NAME=N is wanted" % word)
        dims[match.group(1)] = int(match.group(2))
    return dims


def check_dims(dims: Dict[str, int], declared: Sequence[Declared]) -> None:
    """InputError for a dimension that no input declares by that name."""
    symbols = {str(d) for wanted in declared for d in wanted.shape or () if isinstance(d, str)}
    for name in dims:
        if name not in symbols:
            known = ", ".join(sorted(symbols)) or "none with a name"
            raise InputError(
                "--dim %s: no input has this symbolic dimension" % name, near(name, symbols) or "there are: " + known
            )


def random_inputs(
    seed: int, declared: Sequence[Declared], dims: Dict[str, int], have: Sequence[str]
) -> Dict[str, np.ndarray]:
    """Values for the inputs that are not fed, from their declared shapes; the same for the same seed and name."""
    made = {}
    for wanted in declared:
        if wanted.name in have:
            continue
        if wanted.shape is None:
            raise InputError(
                "input %s declares no shape to fill at random" % wanted.name,
                "feed it: --input %s=FILE.npy" % wanted.name,
            )
        shape: List[Any] = [dims.get(d, d) if isinstance(d, str) else d for d in wanted.shape]
        open_dims = [d for d in shape if not isinstance(d, int) or d < 0]
        if open_dims:
            feed = "feed it: --input %s=FILE.npy" % wanted.name
            raise InputError(
                "input %s has open dimensions: %s" % (wanted.name, _list(wanted.shape)),
                feed if None in open_dims else " ".join("--dim %s=1" % d for d in open_dims),
            )
        made[wanted.name] = _draw(seed, wanted.name, shape, wanted.dtype or "float32")
    return made


def _draw(seed: int, name: str, shape: Sequence[int], dtype: str) -> np.ndarray:
    import zlib

    _check_drawable(name, shape, dtype)
    generator = np.random.RandomState([seed & 0xFFFFFFFF, zlib.crc32(name.encode("utf-8"))])
    if dtype == "string":
        return np.full(shape, b"text", dtype=object)
    if np.dtype(dtype).kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    if dtype == "bool":
        return generator.randint(0, 2, shape).astype(bool)
    return generator.randint(0, 4, shape).astype(dtype)


_DRAWN = ("string", "bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64",
          "uint8", "uint16", "uint32", "uint64")  # fmt: skip


def _check_drawable(name: str, shape: Sequence[int], dtype: str) -> None:
    if dtype not in _DRAWN:
        raise InputError(
            "input %s is declared %s, which is not drawn at random" % (name, dtype),
            "feed it: --input %s=FILE.npy" % name,
        )
    count = 1
    for dim in shape:
        count *= dim
    if 8 * count > _memory():  # numbers are drawn with eight bytes each
        raise InputError("input %s is too large to draw at random: its declared shape is %s" % (name, _list(shape)),
                         "feed a smaller one: --input %s=FILE.npy" % name)  # fmt: skip


def _memory() -> int:
    """The bytes of this machine's memory, or 16 GiB where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 16 << 30
