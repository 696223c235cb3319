"""ONNX files as they are on disk: load them, list what they declare, read their initializers.

Worker only (imports onnx).  Weights in external files are looked for beside the model, whatever
the working directory is.
"""

import os
from typing import Any, Iterator, List, Optional, Sequence, Set, Tuple, Union

import numpy as np
import onnx
from onnx import external_data_helper, numpy_helper

from ..errors import ConversionError, ModelError
from .tensors import check_tensor
from .weights import array_of, is_stored, parse, store

__all__ = ["Dim", "dense", "declared", "describe_node", "initializers", "load", "model_opset", "shape_of", "tensors_in"]

Dim = Union[int, str, None]

_STANDARD = ("", "ai.onnx")
_NOT_ONNX = "give an ONNX model, or --init-net and --predict-net for Caffe2's own files"


def load(path: str, everything: bool = True, weights: Optional[Set[str]] = None) -> Any:
    """The ModelProto in `path` with its external weights, whose files are added to `weights`.

    Without `everything` large weights stay in their files, for `weights.array_of` to read.  ModelError says what
    is wrong with it.
    """
    model = _parsed(path, everything)
    _check(model, path, os.path.getsize(path))
    _load_external(model, path, everything, set() if weights is None else weights)
    for tensor in tensors_in(model):
        check_tensor(tensor, "of %s" % path)
    return model


def _parsed(path: str, everything: bool) -> Any:
    try:
        if not everything:
            return parse(path)
        with open(path, "rb") as stream:
            return onnx.ModelProto.FromString(stream.read())
    except OSError as error:
        raise ModelError("cannot read %s: %s" % (path, error.strerror)) from error
    except Exception as error:
        raise ModelError(
            "%s is not a whole ONNX model (%d bytes): it is cut off or of another kind" % (path, os.path.getsize(path)),
            _NOT_ONNX,
        ) from error


def _check(model: Any, path: str, size: int) -> None:
    if not model.ir_version and not model.opset_import:
        raise ModelError("%s is no ONNX model: it has no ir_version and no opset_import" % path, _NOT_ONNX)
    if not model.graph.node and not model.graph.output:
        raise ModelError(
            "%s holds an ONNX header without a graph (%d bytes): it is cut off or empty" % (path, size),
            "copy or export the file again",
        )


def _load_external(model: Any, path: str, everything: bool, found: Set[str]) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    for tensor in () if everything else model.graph.initializer:
        if external_data_helper.uses_external_data(tensor) and not is_stored(tensor):
            place = _weights_file(tensor, path, folder)
            found.add(place[0])
            store(tensor, *place)
    for tensor in tensors_in(model):
        if not external_data_helper.uses_external_data(tensor) or is_stored(tensor):
            continue
        weights, _, _ = _weights_file(tensor, path, folder)
        found.add(weights)
        try:
            external_data_helper.load_external_data_for_tensor(tensor, folder)
        except Exception as error:  # onnx, protobuf and the operating system each raise their own
            raise ModelError("cannot read tensor %s of %s from %s: %s" % (tensor.name, path, weights, error)) from error
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _weights_file(tensor: Any, path: str, folder: str) -> Tuple[str, int, int]:
    """The file with an external tensor's bytes, which must lie beside the model or below it; where, and how many."""
    try:
        info = external_data_helper.ExternalDataInfo(tensor)
        start, length = int(info.offset or 0), int(info.length or 0)
        if start < 0 or length < 0:
            raise ValueError("offset %d, length %d" % (start, length))
    except (ValueError, TypeError, AttributeError) as error:
        raise ModelError("tensor %s of %s: its place in a weights file is damaged: %s" % (tensor.name, path, error),
                         "export the model again") from error  # fmt: skip
    if not info.location or os.path.isabs(info.location) or os.path.normpath(info.location).startswith(".."):
        raise ModelError(
            "tensor %s of %s is stored in %r, which is not beside the model" % (tensor.name, path, info.location),
            "put the weights file beside the model and export it with a plain file name",
        )
    weights = os.path.join(folder, info.location)
    if not os.path.isfile(weights):
        raise ModelError(
            "weights file %s, which tensor %s of %s needs, is not there" % (weights, tensor.name, path),
            "put it beside the model: its place is stored as %s" % info.location,
        )
    if os.path.getsize(weights) < start + length:
        raise ModelError(
            "weights file %s is too short for tensor %s of %s: %d bytes, %d needed"
            % (weights, tensor.name, path, os.path.getsize(weights), start + length),
            "copy the file again",
        )
    return weights, start, length


def tensors_in(model: Any) -> Iterator[Any]:
    """Every TensorProto of the model: initializers and node attributes, subgraphs included."""
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        for tensor in graph.initializer:
            yield tensor
        for sparse in graph.sparse_initializer:
            yield sparse.values
            yield sparse.indices
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                for tensor in attribute.tensors:
                    yield tensor
                graphs.extend(attribute.graphs)
                if attribute.HasField("g"):
                    graphs.append(attribute.g)


def model_opset(model: Any) -> int:
    """The version of the standard operator set that the model was written for."""
    for entry in model.opset_import:
        if entry.domain in _STANDARD:
            return int(entry.version)
    if model.ir_version >= 3:
        raise ConversionError(
            "the model does not say which ONNX operator set it uses (no opset_import)",
            "export it again, or add opset_import",
        )
    return 1


def shape_of(kind: Any) -> Optional[Tuple[Dim, ...]]:
    """The dimensions of a tensor TypeProto: ints, symbolic names, or None; None where it has no shape."""
    kind = kind.tensor_type
    if not kind.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in kind.shape.dim)


def declared(model: Any) -> Tuple[List[Tuple[str, str, Any]], List[Tuple[str, str, Any]]]:
    """The true inputs (no initializers) and the outputs, each as (name, dtype, shape)."""
    fixed = _initialized(model)
    inputs = [_declared(value) for value in model.graph.input if value.name not in fixed]
    return inputs, [_declared(value) for value in model.graph.output]


def _initialized(model: Any) -> Set[str]:
    names = {tensor.name for tensor in model.graph.initializer}
    return names | {tensor.values.name for tensor in model.graph.sparse_initializer}


def _declared(value: Any) -> Tuple[str, str, Any]:
    if not value.type.HasField("tensor_type"):
        return value.name, value.type.WhichOneof("value") or "", None
    code = value.type.tensor_type.elem_type
    dtype = onnx.TensorProto.DataType.Name(code).lower() if code else ""
    return value.name, {"float": "float32", "double": "float64"}.get(dtype, dtype), shape_of(value.type)


def initializers(model: Any) -> Iterator[Tuple[str, np.ndarray]]:
    """Each initializer as an array that FeedBlob takes; other dtypes are widened or left out as `widened` says.

    An array is for use at once, see `weights.array_of`.
    """
    for tensor in model.graph.initializer:
        array, _ = _feedable(tensor)
        if array is not None:
            yield tensor.name, array
    for sparse in model.graph.sparse_initializer:
        yield sparse.values.name, dense(sparse)


def widened(model: Any) -> List[str]:
    """One line for each initializer that Caffe2 cannot hold as it is, with what becomes of it."""
    lines = []
    for tensor in model.graph.initializer:
        if tensor.data_type in _WIDENED or tensor.data_type not in _HELD:
            lines.append("initializer %s: %s" % (tensor.name, _feedable(tensor)[1]))
    return lines


_TYPES = onnx.TensorProto
_HELD = {
    _TYPES.FLOAT,
    _TYPES.DOUBLE,
    _TYPES.FLOAT16,
    _TYPES.INT8,
    _TYPES.INT16,
    _TYPES.INT32,
    _TYPES.INT64,
    _TYPES.UINT8,
    _TYPES.UINT16,
    _TYPES.BOOL,
    _TYPES.STRING,
}
_WIDENED = {_TYPES.BFLOAT16: "float32", _TYPES.UINT32: "int64", _TYPES.UINT64: "int64"}


def _feedable(tensor: Any) -> Tuple[Optional[np.ndarray], str]:
    name = onnx.TensorProto.DataType.Name(tensor.data_type).lower()
    if tensor.data_type == _TYPES.STRING:
        return np.array(list(tensor.string_data), dtype=object).reshape(tuple(tensor.dims)), ""
    if tensor.data_type in _HELD:
        return array_of(tensor, mapped=True), ""
    if tensor.data_type not in _WIDENED:
        return None, "Caffe2 has no tensors of %s, it is not fed" % name
    array = array_of(tensor)
    wide = array.astype(_WIDENED[tensor.data_type])
    if array.dtype.kind == "u" and (wide < 0).any():
        return None, "values above 2**63 fit no Caffe2 type, it is not fed"
    return wide, "Caffe2 has no tensors of %s, it is fed as %s" % (name, wide.dtype)


def dense(sparse: Any) -> np.ndarray:
    """The array that a SparseTensorProto stands for."""
    values = numpy_helper.to_array(sparse.values)
    places = numpy_helper.to_array(sparse.indices)
    result = np.zeros(tuple(sparse.dims), values.dtype)
    if places.ndim == 1:
        result.reshape(-1)[places] = values
    else:
        result[tuple(places.T)] = values
    return result


def describe_node(model: Any, index: int) -> str:
    """The text of one ONNX node as onnx prints it, with its name and domain."""
    nodes: Sequence[Any] = model.graph.node
    if not 0 <= index < len(nodes):
        return ""
    node = nodes[index]
    domain = "" if node.domain in _STANDARD else ", domain %s" % node.domain
    return "node %d%s%s\n%s" % (index, " " + node.name if node.name else "", domain, onnx.helper.printable_node(node))
