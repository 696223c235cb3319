"""Outputs that by nature have no golden value, so that nothing is missing where they are not compared.

Caffe2 makes several operators of one ONNX node; what they hand to one another is no value of the ONNX model, and no
reference can have it.  Dropout does not compute its mask in test mode; where nothing reads the mask, it is no value.
"""

from typing import Container, Dict, Set, Tuple

from ..net import Net, Operator

__all__ = ["Aside"]

INSIDE = "inside an ONNX node, between its operators"
MASK = "Dropout's mask, which is not computed in test mode and not read"


class Aside:
    """Says of an operator's output slot why it stands aside, or an empty text where it is a value to compare."""

    def __init__(self, net: Net, outputs: Container[str]) -> None:
        """`outputs` are the names that the model declares as its outputs."""
        self._outputs = outputs
        self._read: Set[str] = {name for op in net.operators for name in op.inputs}
        self._last: Dict[Tuple[int, str], Tuple[int, int]] = {}
        for op in net.operators:
            for slot, name in enumerate(op.outputs):
                if op.node is not None:
                    self._last[op.node.index, name] = (op.index, slot)

    def reason(self, op: Operator, slot: int) -> str:
        """Why this output has no golden value by nature; empty where it should have one."""
        if self.unwritten(op, slot):
            return MASK
        if op.node is None:
            return ""
        name = op.outputs[slot]
        last = self._last[op.node.index, name] == (op.index, slot)
        return "" if name in op.node.outputs and last else INSIDE

    def unwritten(self, op: Operator, slot: int) -> bool:
        """Whether Caffe2 never writes this output, and nobody needs it: the mask of Dropout in test mode."""
        if op.type != "Dropout" or slot != 1 or not op.argument("is_test", 0):
            return False
        name = op.outputs[slot]
        return op.node is None or not (name in self._read or name in self._outputs and name in op.node.outputs)
