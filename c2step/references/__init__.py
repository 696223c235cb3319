"""Where golden values come from: onnxruntime, PyTorch modules, captures, files.

Everything here runs on the near side and imports numpy alone; `engines` runs in the interpreter that
has the libraries.
"""

from .engine import Engine
from .exposing import Exposed, expose
from .making import Maker, make_onnxruntime, make_torch, onnxruntime_ahead
from .matching import Match, match_modules
from .meanwhile import Making, begin_onnxruntime
from .reference import Reference, open_capture, open_folder, open_npz, open_onnx_values
from .sources import Elsewhere, load, maker, open_files
from .truth import NodeTruth, Truth

__all__ = [
    "Elsewhere",
    "Engine",
    "Exposed",
    "Maker",
    "Making",
    "Match",
    "NodeTruth",
    "Reference",
    "Truth",
    "begin_onnxruntime",
    "expose",
    "load",
    "maker",
    "make_onnxruntime",
    "make_torch",
    "match_modules",
    "onnxruntime_ahead",
    "open_capture",
    "open_files",
    "open_folder",
    "open_npz",
    "open_onnx_values",
]
