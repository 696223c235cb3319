"""A copy of an ONNX file in which inner values are outputs too, for any other runtime.

The values of the outputs that were there stay the same and stay first; what follows are the chosen
values in the order in which they are made, each once, with its type where shape inference finds one.
"""

import os
import re
from typing import Any, Dict, Iterator, List, Optional, Set

import onnx
from onnx import external_data_helper

from c2step.errors import ReferenceFailed, UsageError, near

from .graph import Graph
from .values import type_proto

__all__ = ["expose"]


def expose(request: Dict[str, Any]) -> Dict[str, Any]:
    """Write `out`; the answer lists the exposed names, and those whose type or rank nothing states."""
    graph = Graph(request["model"])
    model = graph.model
    had = [value.name for value in model.graph.output]
    names = list(_chosen(graph, request.get("types"), request.get("match"), set(had)))
    if not names:
        raise UsageError("no value of %s fits" % graph.path, _hint(graph, request.get("types")))
    types = _types(graph, names)
    for name in names:
        model.graph.output.append(types.get(name, onnx.ValueInfoProto(name=name)))
    _write(graph, os.path.abspath(request["out"]))
    untyped = [name for name in names if not (name in types and _is_whole(types[name]))]
    return {"names": names, "untyped": untyped, "outputs": had}


def _chosen(graph: Graph, types: Optional[List[str]], match: Optional[str], had: Set[str]) -> Iterator[str]:
    seen = set(had)
    for _, node in graph.nodes:
        if types and node.op_type not in types:
            continue
        for name in node.output:
            if name and name not in seen and (match is None or re.search(match, name)):
                seen.add(name)
                yield name


def _hint(graph: Graph, types: Optional[List[str]]) -> str:
    known = sorted({node.op_type for _, node in graph.nodes})
    wrong = [name for name in types or () if name not in known]
    return near(wrong[0], known) or "its types are %s" % ", ".join(known) if wrong else "choose other types or names"


def _types(graph: Graph, names: List[str]) -> Dict[str, Any]:
    """The types that the file states or that inference finds, without loading large weights."""
    skeleton = _without_weights(graph.model)
    del skeleton.graph.node[:]
    skeleton.graph.node.extend(node for _, node in graph.nodes)
    try:
        inferred = onnx.shape_inference.infer_shapes(skeleton, data_prop=True)
    except Exception:  # a model that it cannot follow: what the file itself states remains
        inferred = skeleton
    types = {
        value.name: value
        for value in inferred.graph.value_info
        if value.type.WhichOneof("value")
        and (not value.type.HasField("tensor_type") or value.type.tensor_type.elem_type)
    }
    unknown = [name for name in names if not (name in types and _is_whole(types[name]))]
    if unknown:
        types.update(_as_onnxruntime_sees(skeleton, unknown))
    return types


def _as_onnxruntime_sees(skeleton: Any, names: List[str]) -> Dict[str, Any]:
    """What onnxruntime, where it is there and takes the model, knows of values that onnx does not."""
    skeleton.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(skeleton.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception:  # then they stay without a type
        return {}
    found = {out.name: out for out in session.get_outputs() if out.name in names}
    # it gives [] for a scalar and for an unknown rank alike
    return {
        name: onnx.helper.make_value_info(name, type_proto(out.type, tuple(out.shape)))
        for name, out in found.items()
        if out.shape
    }


def _is_whole(value: Any) -> bool:
    kind = value.type
    return not kind.HasField("tensor_type") or bool(kind.tensor_type.HasField("shape"))


def _without_weights(model: Any) -> Any:
    small = onnx.ModelProto()
    small.CopyFrom(model)
    inputs = {value.name for value in small.graph.input}
    kept = [tensor for tensor in small.graph.initializer if _is_small(tensor)]
    for tensor in small.graph.initializer:
        if not _is_small(tensor) and tensor.name not in inputs:
            small.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    del small.graph.initializer[:]
    small.graph.initializer.extend(kept)
    return small


def _is_small(tensor: Any) -> bool:
    count = 1
    for dim in tensor.dims:
        count *= dim
    return count <= 1024 and not external_data_helper.uses_external_data(tensor)


def _write(graph: Graph, out: str) -> None:
    if os.path.exists(out) and os.path.samefile(out, graph.path):
        raise UsageError("%s is the model itself" % out, "name another file with -o")
    model = graph.model
    external = [t for t in model.graph.initializer if external_data_helper.uses_external_data(t)]
    if external and os.path.dirname(out) == graph.folder:
        external = []  # beside the model the files that are there serve both
    try:
        if not external:
            onnx.save_model(model, out)
            return
        external_data_helper.load_external_data_for_model(model, graph.folder)
        onnx.save_model(
            model, out, save_as_external_data=True, location=os.path.basename(out) + ".data", size_threshold=1024
        )
    except OSError as error:
        raise ReferenceFailed("cannot write %s: %s" % (out, error.strerror or error)) from error
