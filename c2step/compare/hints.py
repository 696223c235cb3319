"""What would explain a mismatch.

Hints are for people: they never change a verdict.  Each is first looked for in a few hundred elements and
told only after all elements have confirmed it, with the tolerance that the comparison used; what is told
without that says "nearly" and its R^2.
"""

from typing import Any, List, Optional

import numpy as np

from .comparison import Comparison
from .layouts import layout_hints, order_hints
from .matching import Matcher
from .metrics import measure
from .places import place_hints
from .rearranged import rearranged_hints
from .tolerance import Tolerance, Tolerances
from .values import value_hints

__all__ = ["explain"]


def explain(actual: Any, reference: Any, tolerance: Optional[Tolerance] = None) -> List[str]:
    """What would explain that two arrays do not match; empty where they do, or where nothing is found."""
    a, b = np.asarray(actual), np.asarray(reference)
    if a.ndim == b.ndim == 0:
        a, b = a.reshape(1), b.reshape(1)
    if not all(side.dtype.kind in "biuf" and side.size for side in (a, b)):
        return []
    a, b = (side.view(np.uint8) if side.dtype.kind == "b" else side for side in (a, b))
    tolerance = tolerance or Tolerances().find(dtypes=(a.dtype, b.dtype))
    found = measure(a, b, tolerance)
    if found.passed:
        return []
    with np.errstate(all="ignore"):
        return _explain(Matcher(tolerance), found, a, b)


def _explain(match: Matcher, found: Comparison, a: np.ndarray, b: np.ndarray) -> List[str]:
    hints = layout_hints(match, a, b)
    if a.shape != b.shape:
        return hints or rearranged_hints(match, a, b)
    hints = hints or order_hints(match, a, b)
    if hints:
        return hints
    return (value_hints(match, a, b) or rearranged_hints(match, a, b)) + place_hints(found, a, b)
