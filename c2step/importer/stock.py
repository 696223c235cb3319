"""Caffe2's own ONNX backend, imported from whichever wheel is there and asked one node at a time.

Worker only.  The backends before 1.10 import `onnx.optimizer` when they are imported themselves, and
onnx has had no such module since 1.9: an empty one stands in while the import runs.
"""

import contextlib
import io
import re
import sys
import types
import warnings
from typing import Any, Dict, Iterator, List, Tuple

import onnx

from .rewriter import CAFFE2

__all__ = ["NodeConverter", "caffe2_pb2", "cpu", "onnx_version", "reason"]


@contextlib.contextmanager
def _optimizer_stands_in() -> Iterator[None]:
    name = "onnx.optimizer"
    try:
        __import__(name)
    except ImportError:
        sys.modules[name] = types.ModuleType(name)
        try:
            yield
        finally:
            del sys.modules[name]
    else:
        yield


with _optimizer_stands_in(), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import caffe2.python._import_c_extension as C
    from caffe2.proto import caffe2_pb2
    from caffe2.python.onnx.backend import Caffe2Backend, Caffe2Ops


class NodeConverter:
    """Converts the nodes of one graph with the stock backend, its value infos indexed once.

    `graph_model` has the nodes and the inferred shapes, `init_model` the initializers and no nodes.
    """

    def __init__(self, init_model: Any, graph_model: Any, opset: int) -> None:
        self._init = init_model
        self._graph = graph_model
        self._opset = opset
        self._infos = _value_infos(graph_model.graph)
        Caffe2Backend._dummy_name.reset(
            Caffe2Backend._all_names_in_graph(init_model.graph) | Caffe2Backend._all_names_in_graph(graph_model.graph)
        )
        self._native = C.Caffe2Backend(Caffe2Backend._dummy_name)

    def convert(self, node: Any) -> Tuple[Any, List[str]]:
        """The Caffe2Ops (ops, init_ops, interface_blobs) for one node, and what the backend printed."""
        if node.domain == CAFFE2:
            return Caffe2Ops([_operator(node)], [], []), []
        if self._native.support_onnx_import(node.op_type):
            infos = [info for name in node.input for info in self._infos.get(name, ())]
            init, ops = self._native.convert_node(node.SerializeToString(), infos, self._opset)
            return Caffe2Ops([_parse(s) for s in ops], [_parse(s) for s in init], []), []
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of numpy names that this Caffe2 still uses
            ops = Caffe2Backend._onnx_node_to_caffe2_op(self._init, self._graph, node, self._opset)
        return ops, printed.getvalue().splitlines()


def _value_infos(graph: Any) -> Dict[str, List[bytes]]:
    infos: Dict[str, List[bytes]] = {}
    for group in (graph.input, graph.output, graph.value_info):
        for info in group:
            infos.setdefault(info.name, []).append(info.SerializeToString())
    return infos


def _operator(node: Any) -> Any:
    """A node that a repair wrote as a Caffe2 operator: attributes are arguments."""
    op = caffe2_pb2.OperatorDef(type=node.op_type)
    op.input.extend(node.input)
    op.output.extend(node.output)
    for attribute in node.attribute:
        arg = op.arg.add()
        arg.name = attribute.name
        if attribute.type == onnx.AttributeProto.FLOAT:
            arg.f = attribute.f
        elif attribute.type == onnx.AttributeProto.INT:
            arg.i = attribute.i
        elif attribute.type == onnx.AttributeProto.STRING:
            arg.s = attribute.s
        else:
            arg.ints.extend(attribute.ints)
            arg.floats.extend(attribute.floats)
            arg.strings.extend(attribute.strings)
    return op


def _parse(data: bytes) -> Any:
    op = caffe2_pb2.OperatorDef()
    op.ParseFromString(data)
    return op


def cpu() -> Any:
    """The device_option that the backend writes into both nets."""
    return caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CPU, device_id=0)


def reason(error: BaseException) -> str:
    """The one line of an exception that says why, without Caffe2's file, line and C++ stack."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = re.sub(r"^\[enforce fail at [^\]]*\] ?(\. )?", "", lines[0])
    text = re.sub(r"\s*Exception raised from .*", "", text).strip().rstrip(".")
    if isinstance(error, (RuntimeError, AssertionError)):
        return text
    return "%s: %s" % (type(error).__name__, text)


def onnx_version() -> str:
    """The version of the onnx package that the worker uses."""
    return str(onnx.__version__)
