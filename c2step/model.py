"""An opened model as the front sees it: both nets, what it takes and gives, and what was changed."""

import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from .digests import Digests
from .errors import InputError
from .net import Net

__all__ = ["BACKENDS", "Declared", "Model"]

# The importers of ONNX models: Caffe2's own, the default, and the package that it came from.
BACKENDS = ("caffe2", "onnx_caffe2")


@dataclass(frozen=True)
class Declared:
    """An input or output; a dimension is a number or a symbolic name, `dtype` and `shape` None if unknown."""

    name: str
    dtype: Optional[str] = None
    shape: Optional[Tuple[Any, ...]] = None

    def __str__(self) -> str:
        shape = "" if self.shape is None else " [%s]" % ", ".join(str(d) for d in self.shape)
        return "%s%s%s" % (self.name, " " + self.dtype if self.dtype else "", shape)


@dataclass(frozen=True)
class Model:
    """Nets and declarations.

    `refused` lists nodes that a partial import left out, `fixed` has the inputs whose value became part of the nets.
    """

    kind: str
    files: Dict[str, str]
    digests: Digests
    init_net: Net
    predict_net: Net
    inputs: Tuple[Declared, ...]
    outputs: Tuple[Declared, ...]
    notes: Tuple[str, ...]
    findings: Tuple[Dict[str, Any], ...] = field(default=())
    refused: Tuple[Dict[str, Any], ...] = field(default=())
    fixed: Dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The file to name it by."""
        return self.files.get("onnx") or self.files.get("predict_net") or ""

    @property
    def name(self) -> str:
        """The file's name, with its folder where that says more."""
        folder, file = os.path.split(self.path)
        return os.path.join(os.path.basename(folder), file)

    @property
    def sha256(self) -> Dict[str, str]:
        """The SHA-256 of each file, by file name."""
        return self.digests.all()

    def output_names(self) -> List[str]:
        """The blobs that the model gives."""
        return [declared.name for declared in self.outputs]

    def check_fixed(self, name: str, array: np.ndarray) -> None:
        """InputError where the nets were made for another value of this input."""
        if name in self.fixed and np.asarray(array).tolist() != self.fixed[name]:
            raise InputError(
                "input %s was taken as %s for good, since a repair depends on it" % (name, self.fixed[name]),
                "open the model anew with --input %s=FILE" % name,
            )

    @classmethod
    def from_json(cls, data: Dict[str, Any]) -> "Model":
        """The model that a workspace's `open` describes; its files are hashed from now on."""
        return cls(
            data["kind"],
            data["files"],
            Digests([*data["files"].values(), *data.get("weights", ())]),
            Net.from_json(data["init_net"]),
            Net.from_json(data["predict_net"]),
            _declared(data["inputs"]),
            _declared(data["outputs"]),
            tuple(data["notes"]),
            tuple(data["findings"]),
            tuple(data["refused"]),
            data.get("fixed", {}),
        )


def _declared(rows: List[List[Any]]) -> Tuple[Declared, ...]:
    return tuple(Declared(name, dtype, None if shape is None else tuple(shape)) for name, dtype, shape in rows)
