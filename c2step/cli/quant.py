"""Compare a quantised run with a float one, blob by blob: SNR, saturation, scale and zero point.

c2step quant float/ int8/
c2step quant model.onnx model_int8.onnx --input all.npz

Each side is a capture (of a Caffe2 Int8 net too: c2step dump makes one), an .npz or a folder of .npy, or an ONNX
model that onnxruntime runs.  What is on one side only, or has another shape there, is counted with the reason.
"""

import argparse
import json
import math
import os
import shutil
import zipfile
from typing import Any, Dict, List

import numpy as np

from ..analyses.quant import LeftOut, Quantised, left_out, quant
from ..errors import ExitStatus, InputError, UsageError
from ..launch import input_words
from ..leftovers import scratch_folder
from ..npy import why_unreadable
from ..references import Reference, load, make_onnxruntime
from ..references.sources import Elsewhere
from ..render import number, quote, table
from ..workspace.runtime import find_runtime
from .options import say, show_output

__all__ = ["add_arguments", "read_inputs", "run"]


_DUMP = "c2step dump MODEL --input FILE -o DIR makes a capture of a Caffe2 net"
_SHOWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `c2step quant`."""
    parser.add_argument("real", metavar="A", help="the float side")
    parser.add_argument("quantised", metavar="B", help="the quantised side")
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE.npy|FILE.npz", help="for ONNX models"
    )
    parser.add_argument("--names", metavar="FILE.json", help="for blobs of A their names in B, as one JSON object")
    parser.add_argument("--json", action="store_true", help="one JSON object with histograms instead of a table")
    parser.add_argument("--runtime", "--engine-runtime", metavar="python:PATH", help="an interpreter with onnxruntime")


def run(options: argparse.Namespace) -> int:
    """Compare and print, the worst SNR named last."""
    folder = scratch_folder("quant")
    try:
        inputs = read_inputs(input_words(options.input))
        sides = [_side(path, inputs, os.path.join(folder, str(i)), options.runtime)
                 for i, path in enumerate((options.real, options.quantised))]  # fmt: skip
        names = _names(options.names)
        found = quant(sides[0], sides[1], names)
        if not found:
            raise UsageError("no blob is on both sides with one shape", "--names FILE.json says which are the same")
        left = left_out(sides[0], sides[1], names)
        print(json.dumps(_json(found, left, sides), indent=1) if options.json else "\n".join(_lines(found, left)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return ExitStatus.OK


def read_inputs(words: List[str]) -> Dict[str, np.ndarray]:
    """Arrays by name, from NAME=FILE.npy and FILE.npz."""
    found: Dict[str, np.ndarray] = {}
    for word in words:
        name, _, path = word.rpartition("=")
        try:
            loaded = np.load(path, allow_pickle=False)
            found.update({name: loaded} if isinstance(loaded, np.ndarray) else dict(loaded))
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise InputError("cannot read %s: %s" % (quote(path), why_unreadable(path, error))) from error
    return found


def _side(path: str, inputs: Dict[str, np.ndarray], folder: str, runtime: str) -> Reference:
    python = find_runtime(runtime).python
    if path.endswith(".onnx"):
        reference = make_onnxruntime(path, inputs, folder, python, None, show_output)
        for name, reason in reference.missing.items():
            say("note: no value for %s: %s" % (name, reason))
        for note in reference.notes:
            say("note: %s: %s" % (path, note))
        return reference
    if path.endswith((".pb", ".pbtxt")):
        raise UsageError("%s is a net, which has no values before it runs" % path, _DUMP)
    found = load(path, None, inputs, folder, python)
    if isinstance(found, Elsewhere):
        raise UsageError("%s is no capture, file or ONNX model" % path, _DUMP)
    return found


def _names(path: str) -> Dict[str, str]:
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            return {str(key): str(value) for key, value in json.load(file).items()}
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError("cannot read the names in %s: %s" % (path, error), 'write {"conv1": "conv1_int8"}') from error


def _json(found: List[Quantised], left: LeftOut, sides: List[Reference]) -> Dict[str, Any]:
    return {"blobs": [blob.to_json() for blob in found], "not_compared": left.reasons, "only_in_b": left.others,
            "notes": [note for side in sides for note in side.notes]}  # fmt: skip


def _left(left: LeftOut) -> List[str]:
    """What was not compared, each reason once."""
    reasons: Dict[str, List[str]] = {}
    for name, reason in left.reasons.items():
        reasons.setdefault(reason, []).append(name)
    lines = ["not compared, %s: %s" % (reason, _few(names)) for reason, names in reasons.items()]
    return lines + (["only the quantised side has: %s" % _few(left.others)] if left.others else [])


def _few(names: List[str]) -> str:
    more = ", ... %d in all" % len(names) if len(names) > _SHOWN else ""
    return ", ".join(map(quote, names[:_SHOWN])) + more


def _lines(found: List[Quantised], left: LeftOut) -> List[str]:
    rows = [["blob", "dtype", "SNR dB", "max|d|", "min", "max", "scale", "zero point", "saturated"]]
    for blob in found:
        rows.append([quote(blob.blob), blob.dtype, "%.1f" % blob.snr, number(blob.max_abs), number(blob.low),
                     number(blob.high), number(blob.scale), number(blob.zero_point),
                     "-" if blob.saturated is None else "%.2f%%" % (100 * blob.saturated)])  # fmt: skip
    worst = min(found, key=lambda blob: blob.snr)
    last = "nothing differs" if worst.snr == math.inf else "worst: %s, %.1f dB" % (quote(worst.blob), worst.snr)
    return table(rows, right=range(2, 9)) + ["", "%d compared; %s" % (len(found), last), *_left(left)]
