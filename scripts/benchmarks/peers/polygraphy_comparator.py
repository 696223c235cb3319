"""Polygraphy's comparator on two arrays, as `polygraphy run --validate` and its like use it."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from polygraphy.comparator import CompareFunc, IterationResult
from serving import clock, serve

RESULTS = []


def load(actual, reference):
    """Read both arrays into memory."""
    RESULTS[:] = [IterationResult({"blob": np.load(path)}) for path in (actual, reference)]


def compare():
    """Compare them; the seconds that it took."""
    return clock(lambda: CompareFunc.simple()(*RESULTS))[0]


if __name__ == "__main__":
    serve({f.__name__: f for f in (load, compare)})
