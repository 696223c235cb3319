"""Values between nodes: their types in onnxruntime's words, and their files in a capture."""

import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import onnx
from onnx import helper

from c2step.blob import OTHER, STRING, TENSOR, Blob, summarize
from c2step.capture import file_name, read_blob, write_blob
from c2step.npy import read_npy

__all__ = ["NUMPY_TYPES", "WIDER", "Value", "Values", "type_of", "type_proto"]

NUMPY_TYPES: Dict[str, int] = {"tensor(%s)" % name.lower(): code for name, code in onnx.TensorProto.DataType.items()}
"""ONNX's number of each tensor type."""

WIDER: Dict[str, str] = {name: "tensor(float)" for name in NUMPY_TYPES if "float8" in name or "bfloat16" in name}
"""Types that numpy has not, and the type that holds all their values."""
WIDER.update({name: "tensor(int32)" for name in NUMPY_TYPES if name in ("tensor(int4)", "tensor(uint4)")})


def type_of(array: np.ndarray) -> str:
    """onnxruntime's type text of an array."""
    if array.dtype.kind in "OSU":
        return "tensor(string)"
    code = helper.np_dtype_to_tensor_dtype(array.dtype)
    return "tensor(%s)" % onnx.TensorProto.DataType.Name(code).lower()


def type_proto(text: str, shape: Optional[Tuple[Any, ...]] = None) -> Any:
    """The TypeProto for a text such as `seq(tensor(float))`."""
    kind, _, inner = text.partition("(")
    inner = inner[:-1]
    if kind == "seq":
        return helper.make_sequence_type_proto(type_proto(inner))
    if kind == "optional":
        return helper.make_optional_type_proto(type_proto(inner))
    if kind == "map":
        key, _, value = inner.partition(",")
        return helper.make_map_type_proto(NUMPY_TYPES["tensor(%s)" % key.strip()], type_proto(value.strip()))
    return helper.make_tensor_type_proto(NUMPY_TYPES[text], shape)


class Value(NamedTuple):
    """A value made by a node or fed: its type, and where it is."""

    type: str
    files: Tuple[str, ...]
    kind: str = TENSOR
    held: Any = None


class Values:
    """Values by name, kept as files; what numpy cannot store is held in memory."""

    def __init__(self, folder: str, stored: Dict[str, Dict[str, Any]]) -> None:
        """Take up the values in `folder`: for each name an output of a journal row."""
        self.folder = folder
        self._values: Dict[str, Value] = {}
        self._writes: Dict[str, int] = {}
        for name, out in stored.items():
            files = tuple(out.get("parts") or ([out["file"]] if out.get("file") else []))
            self._writes[name] = out["version"]
            if files:
                self._values[name] = Value(out["type"], files, out["kind"])

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def type(self, name: str) -> str:
        """The type text of a value."""
        return self._values[name].type

    def version(self, name: str) -> int:
        """How often a value was written, 0 for one that was fed."""
        return self._writes.get(name, 0)

    def load(self, name: str) -> Any:
        """A value as onnxruntime takes it: an array, a list of arrays, or what was held."""
        value = self._values[name]
        if not value.files:
            return value.held
        arrays = [self._read(name, value.kind, file) for file in value.files]
        return arrays if value.type.startswith("seq") else arrays[0]

    def _read(self, name: str, kind: str, file: str) -> np.ndarray:
        path = os.path.join(self.folder, file)
        if kind == STRING:
            array = read_blob(path, name, STRING).array
            assert array is not None
            words = [word.decode() for word in array.reshape(-1)]
            return np.array(words, dtype=object).reshape(array.shape)
        return read_npy(path, mapped=True, private=True)

    def lose(self, name: str) -> int:
        """Count a write that gave no value, and return its version."""
        self._writes[name] = self._writes.get(name, 0) + 1
        self._values.pop(name, None)
        return self._writes[name]

    def keep(self, tick: int, slot: int, name: str, value: Any, kind: str) -> Dict[str, Any]:
        """Store one output and return what the journal says about it."""
        version = self.lose(name)
        if isinstance(value, np.ndarray):
            out, files = self._store(tick, "o%d" % slot, name, value)
        else:
            out, files = self._store_other(tick, slot, name, value, kind)
        self._values[name] = Value(kind, tuple(files), out["kind"], None if files else value)
        return dict(out, version=version, type=kind)

    def _store(self, tick: int, slot: str, name: str, array: np.ndarray) -> Tuple[Dict[str, Any], List[str]]:
        kind = STRING if array.dtype.kind in "OSU" else TENSOR
        blob = Blob(name, kind, _as_bytes(array) if kind == STRING else array)
        file = file_name(tick, slot, name, kind)
        write_blob(os.path.join(self.folder, file), blob)
        summary = summarize(blob)
        return {
            "name": name,
            "kind": kind,
            "dtype": summary.dtype,
            "shape": list(summary.shape),
            "file": file,
            "summary": summary.to_json(),
        }, [file]

    def _store_other(self, tick: int, slot: int, name: str, value: Any, kind: str) -> Tuple[Dict[str, Any], List[str]]:
        parts = []
        if isinstance(value, list) and all(isinstance(v, np.ndarray) for v in value):
            for i, part in enumerate(value):
                parts += self._store(tick, "o%d.%d" % (slot, i), name, part)[1]
        many = " of %d values" % len(value) if hasattr(value, "__len__") else ""
        text = "no tensor but %s%s" % (kind, many)
        return {
            "name": name,
            "kind": OTHER,
            "dtype": "",
            "shape": [],
            "file": None,
            "parts": parts,
            "summary": {"kind": OTHER, "text": text},
        }, parts


def _as_bytes(array: np.ndarray) -> np.ndarray:
    words = [word if isinstance(word, bytes) else str(word).encode() for word in array.reshape(-1).tolist()]
    made = np.empty(len(words), dtype=object)
    made[:] = words
    return made.reshape(array.shape)
