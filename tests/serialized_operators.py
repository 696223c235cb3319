"""Caffe2's own serialized operator tests, shipped inside its wheel: one net of them all, with inputs and true outputs.

Each is a zip file with an OperatorDef, the inputs it was run on and the outputs that it gave when Caffe2's authors
recorded it.  The net has one operator for each, its blobs renamed so that none meets another's.
"""

import io
import os
import zipfile
from typing import Any, Dict, List, NamedTuple

import numpy as np


class Recorded(NamedTuple):
    """One operator as it was recorded; `operator` has the blob names that it has in the net of them all."""

    name: str
    operator: Any
    inputs: Dict[str, np.ndarray]
    outputs: List[np.ndarray]


def folder() -> str:
    """Where the wheel of this interpreter has them."""
    import caffe2.python

    return os.path.join(os.path.dirname(caffe2.python.__file__), "serialized_test", "data", "operator_test")


def read_all(path: str) -> List[Recorded]:
    """Every recorded operator, in the order of the files' names."""
    return [_read(os.path.join(path, name)) for name in sorted(os.listdir(path)) if name.endswith(".zip")]


def _read(path: str) -> Recorded:
    from caffe2.proto import caffe2_pb2

    with zipfile.ZipFile(path) as archive:
        operator = caffe2_pb2.OperatorDef.FromString(archive.read("op.pb"))
        values = np.load(io.BytesIO(archive.read("inout.npz")), encoding="bytes", allow_pickle=True)
    name = os.path.basename(path)[: -len(".zip")]
    if not any(argument.HasField("n") for argument in operator.arg):  # a step net goes by its blobs' names
        for field in (operator.input, operator.output):
            field[:] = [name + "/" + blob for blob in field]
    # some were recorded with more inputs than the operator takes: those belong to the reference in Python
    inputs = dict(zip(operator.input, (np.asarray(value) for value in values["inputs"])))
    return Recorded(name, operator, inputs, [np.asarray(value) for value in values["outputs"]])


def net_of(recorded: List[Recorded]) -> bytes:
    """A predict_net with one operator for each, serialized."""
    from caffe2.proto import caffe2_pb2

    net = caffe2_pb2.NetDef(name="serialized")
    net.op.extend(one.operator for one in recorded)
    net.external_input.extend(name for one in recorded for name in one.inputs)
    net.external_output.extend(name for one in recorded for name in one.operator.output)
    return net.SerializeToString()


def inputs_of(recorded: List[Recorded]) -> Dict[str, np.ndarray]:
    """What the net of them all is fed."""
    return {name: array for one in recorded for name, array in one.inputs.items()}
