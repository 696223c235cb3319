"""Opening: read an ONNX file, convert it, initialise it; against Caffe2's own backend and RunNetOnce(init_net)."""

from typing import List

from c2step.launch import open_on
from c2step.workspace.process import ProcessWorkspace
from c2step.workspace.runtime import Runtime, find_runtime
from c2step.workspace.spawning import Spare

from .setting import NOTHING_SAVED, Model, Setting
from .stepping import name_of
from .table import Row
from .timing import alternate, quotient, timed

__all__ = ["opening"]


def opening(setting: Setting) -> List[Row]:
    """ResNet-50 and VGG-16 opened, converted and initialised; both sides have imported everything beforehand."""
    return [_opening(setting, name) for name in ("resnet50", "vgg16")]


def _opening(setting: Setting, name: str) -> Row:
    model = setting.model(name)
    sides = {"ours": lambda: _opened(model), "theirs": lambda: setting.bare.seconds("stock_open", path=model.path)}
    seconds = alternate(sides, setting.rounds(9), 1)
    what = "opening, converting and initialising %s" % name_of(name)
    against = "`onnx_graph_to_caffe2_net` and `RunNetOnce(init_net)`"
    return Row("open", what, against, "faster", 8.0, quotient(seconds["theirs"], seconds["ours"]))


def _opened(model: Model) -> float:
    """The seconds from a worker that has Caffe2 and onnx loaded to a session before its first operator."""
    inputs, runtime = model.arrays(), find_runtime(None)
    assert isinstance(runtime, Runtime)
    workspace = ProcessWorkspace(runtime, spare=Spare(runtime, onnx=True))  # as the command line starts it
    try:
        workspace.versions()
        return timed(lambda: open_on(workspace, model.path, inputs, keep=NOTHING_SAVED))()
    finally:
        workspace.close()
