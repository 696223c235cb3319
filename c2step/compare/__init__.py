"""Comparing blobs: the metrics, the tolerance, the verdict, and hints at what would explain a difference."""

from .comparison import Comparison
from .metrics import compare_blobs, measure
from .tolerance import Tolerance, Tolerances
from .verdict import Tally, Verdict

__all__ = ["Comparison", "Tally", "Tolerance", "Tolerances", "Verdict", "compare_blobs", "measure"]
