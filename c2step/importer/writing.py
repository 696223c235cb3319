"""Write init_net and predict_net so that stock Caffe2 in a bare script runs them.  Worker side only."""

import os
from typing import Any, List

from caffe2.proto import caffe2_pb2
from google.protobuf import text_format

from ..capture import disk_error
from ..errors import ModelError
from .opening import Opened

__all__ = ["list_inputs", "write_net", "write_nets"]

_LIMIT = (1 << 31) - 1  # bytes that one protobuf message can hold


def write_nets(opened: Opened, directory: str, text: bool = False) -> List[str]:
    """Write init_net.pb and predict_net.pb (and .pbtxt with `text`) into `directory`; returns the paths."""
    init, predict = _complete_init(opened), _predict(opened)
    paths = []
    try:
        os.makedirs(directory, exist_ok=True)
        for name, net in (("init_net", init), ("predict_net", predict)):
            paths.append(_write(os.path.join(directory, name + ".pb"), net.SerializeToString()))
            if text:
                paths.append(
                    _write(os.path.join(directory, name + ".pbtxt"), text_format.MessageToString(net).encode("utf-8"))
                )
    except OSError as error:
        raise disk_error(error, directory) from error
    return paths


def write_net(opened: Opened, path: str) -> None:
    """Write predict_net to a file, as text where its name ends in .pbtxt."""
    net = _predict(opened)
    text = path.endswith(".pbtxt")
    try:
        _write(path, text_format.MessageToString(net).encode("utf-8") if text else net.SerializeToString())
    except OSError as error:
        raise disk_error(error, path) from error


def _predict(opened: Opened) -> Any:
    predict = caffe2_pb2.NetDef()
    predict.CopyFrom(opened.predict_net)
    predict.name = predict.name or "predict"
    list_inputs(predict)
    return predict


def _complete_init(opened: Opened) -> Any:
    init = caffe2_pb2.NetDef(name=opened.init_net.name or "init")
    if opened.init_net.HasField("device_option"):
        init.device_option.CopyFrom(opened.init_net.device_option)
    if opened.files.onnx:
        from .backend import fill_ops

        for name, array in opened.initializers():
            made = fill_ops(name, array)
            init.op.extend(made if isinstance(made, (list, tuple)) else [made])
    init.op.extend(opened.init_net.op)
    init.external_output.extend(dict.fromkeys(name for op in init.op for name in op.output))
    if init.ByteSize() > _LIMIT:
        raise ModelError("init_net would be larger than the 2 GiB that one protobuf file can hold")
    return init


def list_inputs(net: Any) -> None:
    """Let external_input name every blob that CreateNet wants to know of, each once."""
    listed = list(dict.fromkeys(net.external_input))
    written = set(listed)
    for op in net.op:
        listed += [name for name in dict.fromkeys(op.input) if name not in written]
        written.update(op.input)
        written.update(op.output)
    del net.external_input[:]
    net.external_input.extend(listed)


def _write(path: str, data: bytes) -> str:
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.replace(path + ".new", path)
    return path
