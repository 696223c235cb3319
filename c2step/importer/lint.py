"""What Caffe2 will refuse, fail at, die of or get wrong in a model, found before anything runs.

Worker only (imports onnx).  Every rule of the repairs says what stock Caffe2 does with the nodes it matches;
lint is what they say.  A finding's `repair` is what --import repaired would put in the node's place, empty where
Caffe2 has no operators for it.
"""

from typing import Any, Dict, List, Optional

import numpy as np

from ..errors import ConversionError
from .light import Shapes
from .onnxfile import declared, model_opset
from .repairs import repair
from .rewriter import Finding

__all__ = ["Finding", "lint"]


def lint(
    model: Any,
    input_shapes: Optional[Shapes] = None,
    input_values: Optional[Dict[str, np.ndarray]] = None,
    opset: Optional[int] = None,
) -> List[Finding]:
    """Everything that is known about `model` beforehand, inputs first, then node by node."""
    findings = _inputs(model)
    try:
        opset = opset or model_opset(model)
    except ConversionError as error:
        return findings + [Finding("no-opset", "", "", "refuse", "", error.message)]
    return findings + repair(model, input_shapes, opset, input_values).findings


_FEEDABLE = {"float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool", "string"}


def _inputs(model: Any) -> List[Finding]:
    findings = []
    for name, dtype, _ in declared(model)[0]:
        if dtype not in _FEEDABLE and dtype:
            findings.append(
                Finding(
                    "input-type",
                    name,
                    "",
                    "fail",
                    "",
                    "Caffe2 cannot hold input %s: it has no %s"
                    % (name, dtype.replace("_type", "s") if dtype.endswith("_type") else "tensors of " + dtype),
                )
            )
    return findings
