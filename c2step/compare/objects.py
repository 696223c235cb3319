"""Arrays of strings and other objects, compared element by element."""

import warnings
from typing import Any, Dict, List

import numpy as np

from .comparison import Comparison
from .verdict import Verdict

__all__ = ["compare_objects"]


def compare_objects(actual: np.ndarray, reference: np.ndarray, base: Dict[str, Any]) -> Comparison:
    """Compare arrays of one shape of which at least one holds no numbers; `base` has shapes and dtypes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns where == makes no sense
        places = [place for place, (a, b) in enumerate(zip(actual.flat, reference.flat)) if not _same(a, b)]
    if not places:
        return Comparison(Verdict.PASS, compared=actual.size, equal=True, **base)
    worst = tuple(int(i) for i in np.unravel_index(places[0], actual.shape))
    a, b = _shown(actual[worst]), _shown(reference[worst])
    reason = "%d of %d elements differ, first at %s: %r against %r" % (len(places), actual.size, worst, a, b)
    return Comparison(
        Verdict.FAIL,
        reason,
        compared=actual.size,
        bad=len(places),
        worst=worst,
        worst_actual=a,
        worst_reference=b,
        **base,
    )


def _same(a: Any, b: Any) -> bool:
    """Equality that takes bytes and text alike, NaN as equal to NaN, and survives what cannot be compared."""
    a, b = _text(a), _text(b)
    try:
        return bool(a == b) or bool(a != a and b != b)
    except Exception:  # an element may be anything, its == too: nested arrays, foreign objects
        return a is b


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _shown(value: Any) -> Any:
    """A value that JSON can hold."""
    parts: List[type] = [str, int, float, bool]
    value = value.item() if isinstance(value, np.generic) else _text(value)
    return value if isinstance(value, tuple(parts)) else repr(value)
