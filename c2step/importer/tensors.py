"""Read an ONNX TensorProto file.  Worker side only."""

from typing import Tuple

import numpy as np
import onnx
from onnx import numpy_helper

from ..blob import STRING, TENSOR, Blob
from ..errors import InputError

__all__ = ["read_tensor"]


def read_tensor(path: str) -> Tuple[str, Blob]:
    """The tensor's name and value; InputError where the file holds no TensorProto."""
    tensor = onnx.TensorProto()
    try:
        with open(path, "rb") as file:
            tensor.ParseFromString(file.read())
        array = np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:  # protobuf, numpy and onnx each raise their own
        raise InputError("%s is no ONNX TensorProto: %s" % (path, str(error).split("\n")[0])) from error
    kind = STRING if array.dtype.kind in "OSU" else TENSOR
    return tensor.name, Blob(tensor.name, kind, array)
