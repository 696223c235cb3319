"""ONNX to Caffe2 nets through onnx-caffe2, the importer of the first deployments (worker only).

The package `onnx_caffe2` (1.0.0 was its last) is what caffe2.python.onnx was before it came with Caffe2.  It is asked
one node at a time, and what it cannot do on an onnx and a Caffe2 that are newer than it is done around it; every
such bridge is a line in `notes`:

1. `consumed_inputs` of opset 1 to 5 become operators in place, by a table: onnx no longer has the
   OpSchema.consumed that it asks;
2. initializers are fed as its own prepare() feeds them, whether the graph lists them as inputs or not, and
   inputs are not filled with ones, as its conversion to files does;
3. names that Caffe2 takes for those of convolutions are cleared, as with today's importer.
"""

import importlib.util
import sys
import warnings
from dataclasses import replace
from typing import Any, Dict, Iterable, List, Tuple

import onnx

from ..errors import ConversionError, RuntimeMissing
from .backend import Converted, OnNode, Refused, clear_names, model_opset, onnx_nodes
from .onnx_caffe2_lint import lint
from .onnxfile import initializers, widened
from .opset6 import LAST, beyond
from .rewriter import Finding
from .stock import caffe2_pb2, onnx_version, reason

__all__ = ["convert", "require", "version"]

_SAYS_IT_KNOWS = 2
_SHOWN = 8
# The output that an input is overwritten by, where a node says that it is: what OpSchema.consumed answered.
_CONSUMED = {("BatchNormalization", 3): 1, ("BatchNormalization", 4): 2}


def version() -> str:
    """The version of the package, empty where it is not installed."""
    if importlib.util.find_spec("onnx_caffe2") is None:
        return ""
    import onnx_caffe2

    return str(onnx_caffe2.__version__)


def require() -> None:
    """RuntimeMissing where the package is not installed beside this Caffe2."""
    if not version():
        raise RuntimeMissing(
            "%s has no onnx_caffe2, the importer that --backend asks for" % sys.executable,
            "scripts/make-runtime 1.0.1 makes a runtime with it (--runtime 1.0.1), scripts/docker-build 1.0.1 an image "
            "(--runtime docker:1.0.1)",
        )


def convert(model: Any, on_node: OnNode, strict: bool = True) -> Converted:
    """Convert `model`; ConversionError lists every refused node, unless not `strict`.

    `on_node` is called before each node, so that a conversion that ends the process can be named.
    """
    require()
    result = Converted(caffe2_pb2.NetDef(), nodes=onnx_nodes(model), opset=model_opset(model), model=model)
    graph = _bare_graph(model)
    _overwrite_consumed(graph, result)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package uses what Python and numpy have given up since
        _, result.predict = _backend(result, on_node).onnx_graph_to_caffe2_net(graph, opset_version=result.opset)
    _finish(model, result)
    refused = {each.index for each in result.refused}
    result.findings = _refusals(result)
    result.findings += [found for found in lint(model.graph.node, result.opset) if found.index not in refused]
    if strict and result.refused:
        raise _refusal(result)
    return result


def _refusals(result: Converted) -> List[Finding]:
    return [Finding("onnx-caffe2", r.label, r.op_type, "refuse", "", r.reason, r.index) for r in result.refused]


def _refusal(result: Converted) -> ConversionError:
    opset = "; the model is of opset %d, and opset %d was the last for it" % (result.opset, LAST)
    return ConversionError(
        "onnx_caffe2 %s refuses %d of %d nodes%s:\n  %s"
        % (
            version(),
            len(result.refused),
            len(result.nodes),
            opset if result.opset > LAST else "",
            "\n  ".join(map(str, result.refused)),
        ),
        "--backend caffe2, the default, is the importer that came after it; --partial leaves these nodes out",
        nodes=map(str, result.refused),
    )


def _backend(result: Converted, on_node: OnNode) -> Any:
    """The package's backend, which tells `result` what each node became."""
    from onnx_caffe2.backend import Caffe2Backend

    class Bridged(Caffe2Backend):  # type: ignore[misc,unused-ignore]
        """The nodes come in order, so the next one is as many as were converted or refused before."""

        count = 0

        @classmethod
        def _onnx_node_to_caffe2_op(cls, node: Any, opset: int) -> List[Any]:
            index, cls.count = cls.count, cls.count + 1
            on_node(index, result.nodes[index])
            try:
                changed = beyond(node, opset)
                if changed:
                    raise ValueError(changed)
                operators = list(super(Bridged, cls)._onnx_node_to_caffe2_op(node, opset))
            except Exception as error:  # whatever its Python raised
                label = result.nodes[index].label
                result.refused.append(
                    Refused(index, label, node.op_type, _why(error), len(result.node_of), tuple(node.output))
                )
                return []
            result.node_of.extend([index] * len(operators))
            return operators

        @classmethod
        def _inplace_rewrite(cls, graph_or_nodes: Any) -> None:
            """Done before, without OpSchema.consumed."""

    return Bridged


def _why(error: Exception) -> str:
    return str(error).strip().rstrip(".") if isinstance(error, ValueError) else reason(error)


def _bare_graph(model: Any) -> Any:
    """The graph with its nodes and outputs alone, as prepare() gives it to the conversion."""
    graph = onnx.GraphProto(name=model.graph.name)
    graph.node.extend(model.graph.node)
    graph.output.extend(model.graph.output)
    return graph


def _overwrite_consumed(graph: Any, result: Converted) -> None:
    """Let each output that overwrites an input have that input's name; the result's nodes remember both."""
    renamed: Dict[str, str] = {}
    for index, node in enumerate(graph.node):
        node.input[:] = [renamed.get(name, name) for name in node.input]
        taken = dict(_consumed(node))
        renamed.update((node.output[slot], name) for slot, name in taken.items())
        blobs = [taken.get(slot, renamed.get(name, name)) for slot, name in enumerate(node.output)]
        if blobs != list(node.output):
            result.nodes[index] = replace(result.nodes[index], blobs=tuple(blobs))
            node.output[:] = blobs
    for output in graph.output:
        output.name = renamed.get(output.name, output.name)


def _consumed(node: Any) -> Iterable[Tuple[int, str]]:
    flags = next((list(a.ints) for a in node.attribute if a.name == "consumed_inputs"), [])
    for slot, flag in enumerate(flags):
        out = _CONSUMED.get((node.op_type, slot), 0)
        if flag and out < len(node.output):
            yield out, node.input[slot]


def _finish(model: Any, result: Converted) -> None:
    given = [value.name for value in model.graph.input] + [name for name, _ in initializers(model)]
    result.predict.external_input[:] = list(dict.fromkeys(given))
    result.notes.append("converted by onnx-caffe2 %s, on onnx %s" % (version(), onnx_version()))
    result.notes += _about_opset(model, result) + _about_blobs(model, result) + widened(model)
    result.notes += clear_names(result.predict.op)


def _about_opset(model: Any, result: Converted) -> List[str]:
    notes = []
    if result.opset > _SAYS_IT_KNOWS:
        notes.append(
            "the model is of opset %d; onnx-caffe2 knows opset %d by its own account, and tries what is newer"
            % (result.opset, _SAYS_IT_KNOWS)
        )
    for entry in model.opset_import:
        if entry.domain not in ("", "ai.onnx"):
            notes.append(
                "operator set %s is not known to onnx-caffe2, its nodes are taken as standard operators" % entry.domain
            )
    return notes


def _about_blobs(model: Any, result: Converted) -> List[str]:
    notes = []
    if len(model.graph.initializer):
        notes.append("initializers are fed as onnx-caffe2's prepare() does, and inputs are not filled with ones")
    pairs = [(value, blob) for node in result.nodes if node.blobs for value, blob in zip(node.outputs, node.blobs)]
    over = ["%s over %s" % pair for pair in pairs if pair[0] != pair[1]]
    if over:
        notes.append(
            "outputs are written over inputs as consumed_inputs says, by a table in place of OpSchema.consumed, which "
            "onnx %s does not have: %s%s"
            % (
                onnx_version(),
                ", ".join(over[:_SHOWN]),
                ", and %d more" % (len(over) - _SHOWN) if over[_SHOWN:] else "",
            )
        )
    return notes
