"""Inputs and outputs that a node leaves out at its end by empty names, which Caffe2 takes for blobs of that name.

For ONNX a name that is empty at the end is the same as none; exporters write both.
"""

from typing import Any, Optional, Tuple

import onnx

__all__ = ["left_out", "shortened"]

_COUNTED = ("MaxPool", "BatchNormalization")  # whose further outputs are optional, and counted by Caffe2's schema
_RECURRENT = ("LSTM", "GRU", "RNN")


def shortened(proto: Any) -> Optional[Any]:
    """The node without the empty names at its end, None where it has none."""
    inputs = _count(proto.input)
    outputs = _count(proto.output) if proto.op_type in _COUNTED else len(proto.output)
    if (inputs, outputs) == (len(proto.input), len(proto.output)):
        return None
    result = onnx.NodeProto()
    result.CopyFrom(proto)
    del result.input[inputs:], result.output[outputs:]
    return result


def left_out(proto: Any) -> Tuple[str, str, str]:
    """What stock Caffe2 does with a node that can be shortened: code, effect and words."""
    if proto.op_type in _RECURRENT:
        return "empty-name", "refuse", "Caffe2's backend counts the inputs of %s, empty names too" % proto.op_type
    words = "Caffe2 takes the empty name of what %s leaves out at its end for a blob" % proto.op_type
    return "empty-name", "fail", words


def _count(names: Any) -> int:
    count = len(names)
    while count and not names[count - 1]:
        count -= 1
    return count
