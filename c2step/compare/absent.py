"""Values that no operator gives, since a partial import left out the nodes that would: the backend refuses them.

What reads them is not to blame.  On golden inputs they are fed with their golden values, and in the run too where it
may go on with golden values; elsewhere the operator that misses one is said to miss it, and the node is named.
"""

from typing import Any, Dict, List

from ..blob import INT8
from ..model import Model
from ..net import Operator
from ..stepper import Session
from .golden import Golden

__all__ = ["Absent"]


class Absent:
    """The nodes of a model that were left out, and the names that they leave without a value."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.names: Dict[str, str] = {}
        made = set(model.predict_net.blobs()) if model.refused else set()
        for row in model.refused:
            words = "node %s %s was left out" % (row["op_type"], row["label"])
            written = {name: words for name in row.get("outputs", ()) if name}
            self.names.update({n: w for n, w in written.items() if n in made or n in model.output_names()})

    def feed(self, session: Session, golden: Golden) -> Dict[str, str]:
        """Feed them golden values; returns those that the reference does not have, with what to say of each."""
        left, open_names = {}, session.unfed()
        for name, words in self.names.items():
            blob = golden.value(name) if name in golden.reference else None
            if blob is None or blob.array is None or blob.kind == INT8:
                left[name] = words + ", and the reference has no value for it"
            elif name in open_names:
                session.feed(name, blob.array)
        return left

    def why(self, op: Operator) -> str:
        """Why an operator has an input without a value, empty where that is not for a node that was left out."""
        found = next((name for name in op.inputs if name in self.names), None)
        return "" if found is None else "its input %s has no value: %s" % (found, self.names[found])

    def rows(self) -> List[Dict[str, Any]]:
        """Each such node as JSON: where it stood, why it was refused, and what lint says of it."""
        return [
            {
                "node": row["label"],
                "type": row["op_type"],
                "before": row["position"],
                "reason": row["reason"],
                "hints": _hints(self._model, row["index"]),
            }
            for row in self._model.refused
        ]


def _hints(model: Model, index: int) -> List[str]:
    found = [f for f in model.findings if f["index"] == index and f["effect"] != "note"]
    repairs = ["; --import repaired: %s" % f["repair"] if f["repair"] else "" for f in found]
    return ["lint %s: %s%s" % (f["code"], f["message"], repair) for f, repair in zip(found, repairs)]
