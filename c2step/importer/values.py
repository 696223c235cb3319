"""What is known about each ONNX value before anything runs: dtype, shape, and constant value.

Worker only.  Shapes come from ONNX's own inference, once over the whole model and again node by node
with the constants at hand, so that a Reshape by a computed shape is known too.  Constants are
evaluated on demand with ONNX's reference implementation, from initializers, Constant nodes and the
shapes of values whose shape is known.
"""

from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import numpy as np
import onnx
from onnx import numpy_helper

from .light import inferable
from .onnxfile import dense, shape_of
from .weights import array_of

__all__ = ["Shape", "Values", "dtype_name"]

Shape = Tuple[Optional[int], ...]

_NOT_EVALUATED = {
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Multinomial",
    "Bernoulli",
    "If",
    "Loop",
    "Scan",
    "SequenceMap",
    "Dropout",
    "Optional",
    "SequenceEmpty",
    "SequenceConstruct",
}
_DATA_LIMIT = 256  # elements of an input that node-wise shape inference may read
_FED_LIMIT = 1024  # elements of a fed input that may be taken for a parameter
_VALUE_LIMIT = 1 << 24  # elements of a value that is worth evaluating beforehand
_NAMES = {onnx.TensorProto.FLOAT: "float32", onnx.TensorProto.DOUBLE: "float64"}
_CODES = {name: code for code, name in _NAMES.items()}
_CODES["object"] = onnx.TensorProto.STRING


def dtype_name(code: int) -> str:
    """numpy's name for an ONNX element type, ONNX's own in lower case where numpy has none."""
    return _NAMES.get(code) or (onnx.TensorProto.DataType.Name(code).lower() if code else "")


class Values:
    """Types, shapes and constants of the values of one graph; grows as nodes are added."""

    def __init__(
        self,
        inferred: Any,
        opset: int,
        initializers: Iterable[Any] = (),
        sparse: Iterable[Any] = (),
        fed: Optional[Dict[str, np.ndarray]] = None,
    ) -> None:
        self._fed = {name: value for name, value in (fed or {}).items() if value.size <= _FED_LIMIT}
        self._assumptions: Dict[str, Tuple[Optional[np.ndarray], Set[str]]] = {}
        self.used_fed: Set[str] = set()
        self.opset = opset
        self._imports = list(inferred.opset_import)
        self._types: Dict[str, Any] = {}
        self._tensors = {tensor.name: tensor for tensor in initializers}
        self._constants: Dict[str, Optional[np.ndarray]] = {s.values.name: dense(s) for s in sparse}
        self._makers: Dict[str, Tuple[Any, int]] = {}
        graph = inferred.graph
        for group in (graph.value_info, graph.output, graph.input):
            for value in group:
                if value.type.WhichOneof("value"):
                    self._types[value.name] = value.type

    # --- types ------------------------------------------------------------------------------------

    def kind(self, name: str) -> str:
        """tensor_type, sequence_type, optional_type..., or empty where nothing is known."""
        return (self._types[name].WhichOneof("value") or "") if name in self._types else ""

    def dtype(self, name: str) -> str:
        """numpy's name of the element type, or an empty string."""
        return dtype_name(self._types[name].tensor_type.elem_type) if self.kind(name) == "tensor_type" else ""

    def shape(self, name: str) -> Optional[Shape]:
        """The shape with None for each unknown dimension; None where the rank is unknown."""
        if self.kind(name) != "tensor_type":
            return None
        dims = shape_of(self._types[name])
        return None if dims is None else tuple(d if isinstance(d, int) else None for d in dims)

    def type_bytes(self, name: str) -> bytes:
        """The TypeProto of a value, serialized; of an unknown one or no name, an empty one."""
        return bytes(self._types[name].SerializeToString()) if name in self._types else b""

    def value_infos(self, names: Iterable[str]) -> List[Any]:
        """ValueInfoProtos for those of `names` whose shape is known."""
        return [
            onnx.helper.make_value_info(name, self._types[name])
            for name in dict.fromkeys(names)
            if self.shape(name) is not None and self.dtype(name)
        ]

    def declare(self, name: str, dtype: str, shape: Optional[Sequence[Optional[int]]]) -> None:
        """Say what `name` is."""
        code = _CODES.get(dtype) or (onnx.TensorProto.DataType.Value(dtype.upper()) if dtype else 0)
        self._types[name] = onnx.helper.make_tensor_type_proto(code, shape)

    def learn(self, name: str, dtype: str, shape: Optional[Sequence[Optional[int]]]) -> None:
        """Say what an operator gives as `name`; of what is known already, only open dimensions are filled in."""
        old = self.shape(name)
        if not self.kind(name):
            self.declare(name, dtype, shape)
        elif old is not None and shape is not None and len(shape) == len(old):
            self.declare(name, self.dtype(name), [new if d is None else d for d, new in zip(old, shape)])

    # --- nodes ------------------------------------------------------------------------------------

    def add_node(self, node: Any, opset: int) -> None:
        """Infer the outputs of `node`, and remember it as the maker of their constants."""
        for name in node.output:
            if name:
                self._makers[name] = (node, opset)
        for name, inferred in self._infer(node, opset).items():
            if inferred.WhichOneof("value") and self._better(name, inferred):
                self._types[name] = inferred

    def _better(self, name: str, inferred: Any) -> bool:
        if inferred.WhichOneof("value") != "tensor_type" or self.kind(name) != "tensor_type":
            return True
        old, new = self.shape(name), shape_of(inferred)
        return old is None or (new is not None and sum(isinstance(d, int) for d in new) >= len(old) - old.count(None))

    def _infer(self, node: Any, opset: int) -> Dict[str, Any]:
        if not inferable(node, {name: len(self.shape(name) or ()) for name in node.input}):
            return {}
        imports = [onnx.helper.make_opsetid("", opset)] + [i for i in self._imports if i.domain not in ("", "ai.onnx")]
        try:
            if not all(name in self._types for name in node.input):
                return self._infer_alone(node, imports)
            schema = onnx.defs.get_schema(node.op_type, opset, "" if node.domain == "ai.onnx" else node.domain)
            types = {name: self._types[name] for name in node.input}
            found = onnx.shape_inference.infer_node_outputs(
                schema, node, types, input_data=self._small_data(node), opset_imports=imports
            )
        except Exception:  # unknown operator or input: what the model declares stays
            return {}
        return dict(found)

    def _infer_alone(self, node: Any, imports: List[Any]) -> Dict[str, Any]:
        """As a model of one node: infer_node_outputs wants a type for every name, that of an input left out too."""
        known = [onnx.helper.make_value_info(n, self._types[n]) for n in dict.fromkeys(node.input) if n in self._types]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "one", known, outputs, list(self._small_data(node).values()))
        model = onnx.helper.make_model(graph, opset_imports=imports)
        return {value.name: value.type for value in onnx.shape_inference.infer_shapes(model).graph.output}

    def _small_data(self, node: Any) -> Dict[str, Any]:
        data = {}
        for name in node.input:
            if name and self._looks_small(name):
                value = self.constant(name)
                if value is None and self.dtype(name) in ("int32", "int64"):
                    value = self.assumed(name)
                if value is not None and value.dtype.kind in "iuf":
                    data[name] = numpy_helper.from_array(value, name)
        return data

    def _looks_small(self, name: str) -> bool:
        shape = self.shape(name)
        if shape is None or len(shape) > 1 or None in shape:
            return False
        return _elements(shape) <= _DATA_LIMIT

    # --- constants --------------------------------------------------------------------------------

    def set_constant(self, name: str, value: np.ndarray) -> None:
        """Say that `name` always has this value."""
        self._constants[name] = value
        self.declare(name, value.dtype.name, value.shape)

    def is_initializer(self, name: str) -> bool:
        """Whether `name` comes with the model."""
        return name in self._tensors

    def constant(self, name: str) -> Optional[np.ndarray]:
        """The value of `name` if it is the same in every run, else None."""
        if not name:
            return None
        if name not in self._constants:
            self._constants[name] = None  # a cycle ends here
            self._constants[name] = self._read(name)
        return self._constants[name]

    def assumed(self, name: str) -> Optional[np.ndarray]:
        """The value of `name` in runs where the small inputs are as they were fed; `used_fed` collects which."""
        value, used = self._assume(name)
        if value is not None:
            self.used_fed |= used
        return value

    def _assume(self, name: str) -> Tuple[Optional[np.ndarray], Set[str]]:
        if not self._fed or not name:
            return self.constant(name), set()
        if name not in self._assumptions:
            self._assumptions[name] = None, set()
            self._assumptions[name] = self._assume_anew(name)
        return self._assumptions[name]

    def _assume_anew(self, name: str) -> Tuple[Optional[np.ndarray], Set[str]]:
        if name in self._fed:
            return self._fed[name], {name}
        value = self.constant(name)
        if value is not None or name not in self._makers:
            return value, set()
        node, opset = self._makers[name]
        if node.op_type in _NOT_EVALUATED or node.domain not in ("", "ai.onnx"):
            return None, set()
        inputs, used = {}, set()
        for source in filter(None, node.input):
            given, through = self._assume(source)
            if given is None or given.size > _FED_LIMIT:
                return None, set()
            inputs[source] = given
            used |= through
        try:
            found: Dict[str, Optional[np.ndarray]] = dict(zip(node.output, _reference(node, opset, inputs)))
            return found.get(name), used
        except Exception:  # whatever the reference implementation cannot do stays unknown
            return None, set()

    def _read(self, name: str) -> Optional[np.ndarray]:
        if name in self._tensors:
            return _array(self._tensors[name])
        if name not in self._makers:
            return None
        node, opset = self._makers[name]
        if node.op_type in ("Shape", "Size") and node.input:
            return self._shape_value(node)
        if node.op_type in _NOT_EVALUATED or node.domain not in ("", "ai.onnx"):
            return None
        shape = self.shape(name)
        if shape is not None and None not in shape and _elements(shape) > _VALUE_LIMIT:
            return None
        return self._evaluate(node, opset, name)

    def _shape_value(self, node: Any) -> Optional[np.ndarray]:
        shape = self.shape(node.input[0])
        if shape is None or None in shape:
            return None
        if node.op_type == "Size":
            return np.array(_elements(shape), np.int64)
        attrs = {a.name: a.i for a in node.attribute}
        return np.array(shape[attrs.get("start", 0) : attrs.get("end", len(shape))], np.int64)

    def _evaluate(self, node: Any, opset: int, name: str) -> Optional[np.ndarray]:
        inputs = {}
        for source in node.input:
            if source:
                value = self.constant(source)
                if value is None:
                    return None
                inputs[source] = value
        try:
            results = _reference(node, opset, inputs)
        except Exception:  # whatever the reference implementation cannot do stays unknown
            return None
        for output, value in zip(node.output, results):
            if output and isinstance(value, np.ndarray):
                self._constants[output] = value
        return self._constants.get(name)


def _elements(shape: Sequence[Any]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _array(tensor: Any) -> Optional[np.ndarray]:
    if tensor.data_type == onnx.TensorProto.STRING:
        return np.array(list(tensor.string_data), dtype=object).reshape(tuple(tensor.dims))
    try:
        return array_of(tensor)
    except Exception:  # a stub without data, or a type without numpy counterpart
        return None


def _reference(node: Any, opset: int, inputs: Dict[str, np.ndarray]) -> List[Optional[np.ndarray]]:
    from onnx.reference import ReferenceEvaluator

    names: Set[str] = set(inputs)
    graph = onnx.helper.make_graph(
        [node],
        "one",
        [
            onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(inputs[n].dtype), None)
            for n in sorted(names)
        ],
        [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in node.output if n],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    found = dict(zip([n for n in node.output if n], ReferenceEvaluator(model).run(None, inputs)))
    return [np.asarray(found[n]) if n and not isinstance(found[n], (list, tuple)) else None for n in node.output]
