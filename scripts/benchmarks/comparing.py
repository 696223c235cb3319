"""Comparing: blame over a whole net, and the metrics of two large arrays."""

import os
import subprocess
import sys
from typing import List

import numpy as np

from c2step.compare.blame import blame as blamed
from c2step.compare.loading import begin_reference, engine_ahead
from c2step.compare.metrics import measure
from c2step.launch import default_keep, make_workspace, open_on

from .peer import Peer
from .setting import Setting
from .stepping import name_of
from .table import Row
from .timing import alternate, quotient, timed

__all__ = ["blame", "metrics"]

_ELEMENTS = 25 * 1000 * 1000  # float32, 100 MB


def blame(setting: Setting) -> List[Row]:
    """Both errors of every operator, golden values made anew, against a run on either side with every value exposed.

    Both sides begin with the ONNX file for onnxruntime and with a net that is open for Caffe2, and have imported
    everything beforehand: the other one is a process that runs, and so are our worker and the engine of the reference.
    In the rows of the whole command both sides begin with nothing, and each opens the model with Caffe2, too.
    """
    names = ("resnet50", "mobilenet_v2")
    return [_blame(setting, name) for name in names] + [_whole(setting, name) for name in names]


def _blame(setting: Setting, name: str) -> Row:
    model = setting.model(name)
    workspace = make_workspace(yielding=True)  # as `c2step blame` makes it
    with open_on(workspace, model.path, model.arrays(), keep=default_keep()) as session:
        loaded = setting.load(model, session)

        def ours() -> float:
            session.restart(default_keep())
            engine = engine_ahead("onnxruntime")
            assert engine
            engine.greet()
            with setting.temporary() as folder:
                return timed(lambda: blamed(session, begin_reference(session, "onnxruntime", folder, spare=engine)))()

        def theirs() -> float:
            return setting.bare.seconds("both", name=loaded, path=model.path, inputs=model.inputs)

        seconds = alternate({"ours": ours, "theirs": theirs}, setting.rounds(9), 1)
    what = "blame of %s against onnxruntime, both errors for every operator" % name_of(name)
    against = "`RunNet`, and onnxruntime with every value exposed"
    return Row("blame", what, against, "x", 2.5, quotient(seconds["ours"], seconds["theirs"]))


def _whole(setting: Setting, name: str) -> Row:
    model = setting.model(name)
    words = [sys.executable, "-m", "c2step", "blame", model.path, "--input", model.inputs, "--against", "onnxruntime"]
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "whole_script.py")
    sides = {
        "ours": timed(lambda: _run(words)),
        "theirs": timed(lambda: _run([sys.executable, "-W", "ignore", script, model.path, model.inputs])),
    }
    seconds = alternate(sides, setting.rounds(9), 1)
    what = "`c2step blame` of %s against onnxruntime, the whole command" % name_of(name)
    against = "a script: Caffe2's own backend, `RunNet`, onnxruntime with every value exposed"
    return Row("blame", what, against, "x", 2.5, quotient(seconds["ours"], seconds["theirs"]))


def _run(command: List[str]) -> None:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    subprocess.run(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def metrics(setting: Setting) -> List[Row]:
    """Every metric of two arrays of 100 MB against np.allclose, and Polygraphy's comparator against that."""
    random = np.random.RandomState(0)
    reference = random.standard_normal(_ELEMENTS).astype(np.float32)
    actual = reference + np.float32(1e-6) * random.standard_normal(_ELEMENTS).astype(np.float32)
    sides = {"ours": timed(lambda: measure(actual, reference)), "theirs": timed(lambda: np.allclose(actual, reference))}
    seconds = alternate(sides, setting.rounds(9), 1)
    found = quotient(seconds["ours"], seconds["theirs"])
    row = Row("metrics", "all metrics of two arrays of 100 MB", "`np.allclose` alone", "x", 1.5, found)
    return [row, _polygraphy(setting, actual, reference)]


def _polygraphy(setting: Setting, actual: np.ndarray, reference: np.ndarray) -> Row:
    what, against = "all metrics of two arrays of 100 MB", "Polygraphy's comparator"
    if not setting.polygraphy:
        return Row("metrics", what, against, "faster", 5.0, None, "it could not be installed", True)
    with setting.temporary() as folder:
        paths = [os.path.join(folder, name) for name in ("actual.npy", "reference.npy")]
        for path, array in zip(paths, (actual, reference)):
            np.save(path, array)
        peer = Peer(setting.polygraphy, "polygraphy_comparator")
        try:
            peer.ask("load", actual=paths[0], reference=paths[1])
            sides = {"ours": timed(lambda: measure(actual, reference)), "theirs": lambda: peer.seconds("compare")}
            seconds = alternate(sides, setting.rounds(5), 1)
        finally:
            peer.close()
    return Row("metrics", what, against, "faster", 5.0, quotient(seconds["theirs"], seconds["ours"]))
